"""Datasets that look rows up: by the hash of a key, by a key's place in an order."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate
from tidegate import Client, Hashed, KeyedDataset, Ranged, TaskGraph
from tidegate.executor.datasets import dataset_files as files
from tidegate.executor.datasets import write_dataset as writing

from ..searching import tries
from .executors import NUMBERS, SUMS, PassOn, SumByKey, fed, numbers, sums

KINDS = [Hashed(("k",)), Hashed(("k",), partitions=3), Ranged("k")]
FLOATS = pa.schema([("k", pa.float64()), ("v", pa.int64())])


@pytest.fixture
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few blocks are sorted in several runs."""
    monkeypatch.setattr(writing, "RUN_BLOCKS", 1)


def dataset_of(client: Client, table: pa.Table, keyed: Hashed | Ranged) -> KeyedDataset:
    dataset = client.dataset(table, keyed=keyed)
    assert isinstance(dataset, KeyedDataset)
    return dataset


@pytest.mark.parametrize("keyed", KINDS, ids=str)
@pytest.mark.parametrize("most_in_memory", [0, 8 << 20])
def test_a_graphs_rows_are_found_by_their_key(
    client: Client, keyed: Hashed | Ranged, most_in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_IN_MEMORY", most_in_memory)
    graph = TaskGraph()
    graph.blocking("rows", PassOn, fed(graph))
    dataset = client.run_graph(graph, {"numbers": numbers(5000)}, keyed=keyed)
    assert isinstance(dataset, KeyedDataset)
    for key in range(-1, 9):
        assert dataset.lookup(key) == numbers(5000).filter(pc.equal(numbers(5000)["k"], key))
    assert sorted(dataset.table()["v"].to_pylist()) == list(range(5000))


@pytest.mark.parametrize("keyed", KINDS, ids=str)
def test_no_more_is_put_together_than_fits_in_a_batch(
    client: Client, keyed: Hashed | Ranged, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, whole = numbers(300_000), dataset_of(client, numbers(300_000), keyed).table()
    together: list[int] = []

    def concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        together.append(sum(batch.nbytes for batch in batches))
        return pa.concat_batches(batches)

    monkeypatch.setattr(writing, "MOST_TOGETHER", 1 << 20)
    monkeypatch.setattr(writing, "concat_batches", concat)
    assert dataset_of(client, rows, keyed).table() == whole
    assert max(together) <= 1 << 20


@settings(max_examples=tries(30), deadline=None)
@given(st.lists(st.none() | st.floats(width=16) | st.sampled_from([0.0, -0.0, 1.0]), max_size=40))
def test_any_key_is_found_nulls_and_what_is_no_number_too(client: Client, keys: list[float | None]) -> None:
    table = pa.table({"k": pa.array(keys, pa.float64(), from_pandas=False), "v": range(len(keys))}, schema=FLOATS)
    datasets = [dataset_of(client, table, keyed) for keyed in KINDS]
    for key in (*keys, 2.5):
        same = [at for at, other in enumerate(keys) if other == key or (is_nan(other) and is_nan(key))]
        assert [dataset.lookup(key)["v"].to_pylist() for dataset in datasets] == [same] * len(KINDS)


def is_nan(value: float | None) -> bool:
    return value is not None and math.isnan(value)


@settings(max_examples=tries(40), deadline=None)
@given(
    st.lists(st.none() | st.integers(-20, 20), max_size=60),
    st.none() | st.integers(-25, 25),
    st.none() | st.integers(-25, 25),
)
def test_a_range_has_the_rows_between_in_order(
    client: Client, keys: list[int | None], low: int | None, high: int | None
) -> None:
    table = pa.table({"k": pa.array(keys, pa.int64()), "v": range(len(keys))}, schema=NUMBERS)
    between = dataset_of(client, table, Ranged("k")).range(low, high)
    inside = [(key, at) for at, key in enumerate(keys) if key is not None]
    inside = [(key, at) for key, at in inside if (low is None or key >= low) and (high is None or key < high)]
    assert [tuple(row.values()) for row in between.to_pylist()] == sorted(inside)


@pytest.mark.usefixtures("small_runs")
def test_more_rows_than_are_sorted_at_a_time_come_in_one_order(client: Client, tmp_path: Path) -> None:
    keys = np.arange(200_000) * 7919 % 100_003
    dataset = dataset_of(client, pa.table({"k": keys, "v": range(200_000)}, schema=NUMBERS), Ranged("k"))
    order = np.argsort(keys, kind="stable")
    ranged = dataset.table()
    assert np.array_equal(ranged["k"].to_numpy(), keys[order])
    assert np.array_equal(ranged["v"].to_numpy(), order)
    assert dataset.range(500, 503).num_rows == np.count_nonzero((keys >= 500) & (keys < 503))
    assert len({Path(split.path).name for split in dataset.splits()}) == len(
        list(Path(dataset.splits()[0].path).parent.glob("*.arrow"))
    )


def test_a_lookup_reads_only_the_files_its_key_may_be_in(client: Client) -> None:
    for keyed in (Hashed(("v",), partitions=8), Ranged("v")):
        dataset = dataset_of(client, numbers(300_000), keyed)
        wanted = [path for split in dataset.splits() if holds(path := Path(split.path), 123_456)]
        for split in dataset.splits():
            if Path(split.path) not in wanted:
                Path(split.path).unlink()
        assert dataset.lookup(123_456).num_rows == 1


def holds(path: Path, value: int) -> bool:
    with pa.ipc.open_file(str(path)) as reader:
        return value in reader.read_all()["v"].to_pylist()


@pytest.mark.parametrize(
    "values",
    [
        ["b", "a", "ä", None, "b"],
        [b"b", b"", None, b"b"],
        [Decimal("1.50"), Decimal("-2.25"), None],
        [dt.date(2024, 2, 29), None, dt.date(1969, 1, 1)],
        [dt.datetime(2024, 2, 29, 1, tzinfo=dt.UTC), None, dt.datetime(1969, 1, 1, tzinfo=dt.UTC)],
        [True, False, None, True],
    ],
    ids=lambda values: type(values[0]).__name__,
)
def test_keys_may_have_any_type_that_has_an_order(client: Client, values: list[object]) -> None:
    table = pa.table({"k": values, "v": list(range(len(values)))})
    for keyed in KINDS:
        dataset = dataset_of(client, table, keyed)
        for value in values:
            same = [at for at, other in enumerate(values) if other == value]
            assert dataset.lookup(value)["v"].to_pylist() == same


def test_a_key_may_have_several_columns(client: Client) -> None:
    dataset = dataset_of(client, numbers(1000), Hashed(("k", "v")))
    assert dataset.lookup(3, 10).to_pylist() == [{"k": 3, "v": 10}]
    assert dataset.lookup(3, 11).num_rows == 0


def test_a_key_of_one_column_may_be_its_name() -> None:
    assert Hashed("key") == Hashed(("key",))  # type: ignore[arg-type]


def test_a_keyed_dataset_is_an_input_as_any_other(client: Client) -> None:
    for keyed in KINDS:
        graph = TaskGraph()
        rows = graph.read_dataset(dataset_of(client, numbers(10_000), keyed))
        graph.blocking("sums", SumByKey, rows, channels=2, partition="k", schema=SUMS)
        assert client.run_graph(graph).table().sort_by("k") == sums(numbers(10_000))


def test_what_is_no_key_is_refused(client: Client) -> None:
    lists = pa.table({"k": [[1]], "v": [1]})
    for keyed, table in (
        (Hashed(()), None),
        (Hashed(("x",)), None),
        (Ranged("k"), lists),
        (Hashed(("k",), 0), None),
        (Hashed(("k",), 2.0), None),
    ):
        with pytest.raises(tidegate.InvalidRequest) as raised:
            client.dataset(table or numbers(3), keyed=keyed)
        assert raised.value.reason == "DATASET_KEY"
    with pytest.raises(tidegate.InvalidRequest, match=r"keyed must be tidegate.Hashed.*not \'k\'"):
        client.dataset(numbers(3), keyed="k")  # type: ignore[arg-type]
    graph = TaskGraph()
    graph.collect(fed(graph))
    with pytest.raises(tidegate.InvalidRequest, match="one column 'x' for the Dataset's key; there are: k, v"):
        client.run_graph(graph, keyed=Ranged("x"))


def test_what_cannot_be_looked_up_is_refused(client: Client) -> None:
    hashed, ranged = (dataset_of(client, numbers(3), keyed) for keyed in (Hashed(("k",)), Ranged("k")))
    for look in (lambda: hashed.lookup("a"), lambda: hashed.lookup(1, 2), hashed.range, lambda: ranged.range("a")):
        with pytest.raises(tidegate.InvalidRequest) as raised:
            look()
        assert raised.value.reason == "KEY_VALUE"
    ranged.close()
    with pytest.raises(tidegate.Refused, match="was closed"):
        ranged.lookup(1)


def test_a_partition_lies_in_blocks_that_are_read_as_they_are(client: Client) -> None:
    dataset = dataset_of(client, numbers(300_000), Hashed(("k",), partitions=2))
    one, two = dataset.partitions()
    assert [batch.num_rows for batch in one[:-1]] == [65_536] * (len(one) - 1)
    assert sum(batch.num_rows for batch in (*one, *two)) == 300_000
    addresses = Addresses()
    graph = TaskGraph()
    graph.blocking("rows", lambda: addresses, graph.read_dataset(dataset), partition="k", channels=2)
    client.run_graph(graph)
    lies = {batch["v"].buffers()[1].address for batch in (*one, *two)}
    assert set(addresses.seen) == lies


class Addresses(PassOn):
    """The addresses in memory of the rows that it gets."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
        self.seen += [batch["v"].buffers()[1].address for batch in batches]
