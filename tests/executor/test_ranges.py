"""Sorted rows that are cut into ranges: one range after the other, they are the rows that one channel would merge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.executor.runtime.batch_store import Quota, SpillFiles, SpillSpace
from tidegate.executor.spark.worker.inbox import Inbox
from tidegate.executor.spark.worker.outbox import Outbox
from tidegate.executor.spark.worker.parcels import Kind, Parcel, batch_of, parcels_in
from tidegate.executor.spark.worker.ranges import SAMPLED, Sample, cut
from tidegate.executor.spark.worker.stage import Received
from tidegate.operators.arrays.ordering import Order, Ordering
from tidegate.operators.arrays.sorted_merge import merged
from tidegate.operators.core.streams import BatchStream
from tidegate.planner.ir import Routing
from tidegate.planner.physical.pipelines import Exchange
from tidegate.proto.errors import ExecutionError, TidegateError

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string()), ("row", pa.int64())])
ORDER = (Order(column=1, descending=True, nulls_first=True), Order(column=0))


def exchange(consumers: int, order: Sequence[Order] = ORDER, schema: pa.Schema = SCHEMA) -> Exchange:
    return Exchange(number=3, routing=Routing.RANGE, schema=schema, consumers=consumers, order=tuple(order))


def sorted_rows(rows: Sequence[tuple[int | None, str | None]], producer: int) -> list[pa.RecordBatch]:
    """Of one producer, in the order, in batches."""
    ordered = sorted(rows, key=lambda row: (row[0] is None, row[0] or 0))
    ordered.sort(key=lambda row: (row[1] is None, row[1] or ""), reverse=True)
    columns = [[n for n, _ in ordered], [s for _, s in ordered], [producer * 1000 + at for at in range(len(ordered))]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA).to_batches(max_chunksize=3)


def sent(by_producer: Sequence[Iterator[pa.RecordBatch]], planned: Exchange) -> list[Parcel]:
    parcels: list[Parcel] = []
    for producer, rows in enumerate(by_producer):
        outbox = Outbox([planned], producer, len(by_producer), [], Path("unused"))
        parcels += [parcel for of_block in outbox.parcels(rows) for parcel in of_block]
        parcels += outbox.messages(f"report {producer}".encode())
    return parcels


def of_task(parcels: Sequence[Parcel], task: int) -> list[pa.RecordBatch]:
    """As Spark hands them to a task."""
    mine = [parcel for parcel in parcels if parcel.channel == task]
    assert mine
    return [
        batch_of([parcel])
        for parcel in sorted(mine, key=lambda parcel: (parcel.exchange, parcel.first, parcel.second, parcel.kind))
    ]


def ranges(
    by_producer: Sequence[Iterator[pa.RecordBatch]], planned: Exchange, folder: Path
) -> tuple[list[pa.Table], list[bytes]]:
    """The rows of each consumer, and all reports."""
    producers = len(by_producer)
    parcels = sent(by_producer, planned)
    outgoing = [
        parcel for task in range(producers) for parcel in parcels_in(cut(planned, iter(of_task(parcels, task))))
    ]
    tables, reports = [], []
    for consumer in range(planned.consumers):
        inbox = Inbox(
            parcels_in(of_task(outgoing, consumer)),
            [Received(exchange=planned, producers=producers)],
            epoch=1,
            memory_limit=1 << 20,
            space=SpillSpace(SpillFiles(folder), Quota(1 << 20)),
        )
        tables.append(pa.Table.from_batches(list(inbox.receive(planned.number)), schema=planned.schema))
        inbox.drain()
        reports += inbox.reports
    return tables, reports


rows = st.lists(st.tuples(st.none() | st.integers(-3, 3), st.none() | st.sampled_from("abc")), max_size=60)


@given(by_producer=st.lists(rows, min_size=1, max_size=4), consumers=st.integers(2, 5))
def test_the_ranges_in_turn_are_the_merged_rows(
    by_producer: list[list[tuple[int | None, str | None]]], consumers: int
) -> None:
    batches = [sorted_rows(mine, producer) for producer, mine in enumerate(by_producer)]
    planned = exchange(consumers)
    tables, reports = ranges([iter(mine) for mine in batches], planned, Path("unused"))
    one = list(merged([BatchStream(SCHEMA, iter(mine)) for mine in batches], Ordering(ORDER)))
    assert pa.concat_tables(tables).to_pylist() == pa.Table.from_batches(one, schema=SCHEMA).to_pylist()
    keys = [set(zip(table["n"].to_pylist(), table["s"].to_pylist(), strict=True)) for table in tables]
    assert sum(map(len, keys)) == len(set().union(*keys))
    assert sorted(reports) == [f"report {producer}".encode() for producer in range(len(batches))]


def test_ranges_have_about_as_many_rows_each(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.float64())])
    planned = exchange(8, [Order(column=0)], schema)
    random = np.random.default_rng(1)
    values = [np.sort(random.lognormal(size=size)) for size in (40_000, 10_000, 1, 0)]
    producers = [iter(pa.table([mine], schema=schema).to_batches(max_chunksize=7_000)) for mine in values]
    tables, _ = ranges(producers, planned, tmp_path)
    assert sum(table.num_rows for table in tables) == 50_001
    assert max(table.num_rows for table in tables) < 1.25 * 50_001 / 8


@pytest.mark.parametrize("count", [0, 15, 16, 5_000, 100_003])
def test_a_sample_is_small_and_even_whatever_the_batches(count: int) -> None:
    samples = []
    for size in (999, 65_536):
        sample = Sample(exchange(2, [Order(column=0)], pa.schema([("n", pa.int64())])))
        for batch in pa.table({"n": range(count)}).to_batches(max_chunksize=size):
            sample.add(batch)
        samples.append(sample.batch().to_pydict())
    assert samples[0] == samples[1]
    kept, weights = samples[0]["k0"], samples[0]["rows"]
    assert len(kept) <= 2 * SAMPLED
    assert kept == [weight * (at + 1) - 1 for at, weight in enumerate(weights)]
    assert count - sum(weights) < max([16, *weights])


def test_an_error_comes_to_all_consumers_after_the_rows_before_it(tmp_path: Path) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from sorted_rows([(1, "a"), (2, "a")], 1)
        raise ExecutionError("a bad row", reason="BAD")

    planned = exchange(2)
    parcels = sent([iter(sorted_rows([(1, "a")], 0)), broken()], planned)
    outgoing = [parcel for task in range(2) for parcel in parcels_in(cut(planned, iter(of_task(parcels, task))))]
    errors = [parcel for parcel in outgoing if parcel.kind is Kind.ERROR]
    assert [parcel.channel for parcel in errors] == [0, 1]
    inbox = Inbox(
        parcels_in(of_task(outgoing, 0)),
        [Received(exchange=planned, producers=2)],
        epoch=1,
        memory_limit=1 << 20,
        space=SpillSpace(SpillFiles(tmp_path), Quota(1 << 20)),
    )
    with pytest.raises(TidegateError, match="a bad row"):
        list(inbox.receive(3))
