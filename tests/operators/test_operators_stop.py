"""Operators stop when they are interrupted, whatever they are doing: each runs without end here until it is.

A new operator is in no list here and fails until it is in one.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidegate.executor.runtime.meters import Meter, MeteredStream
from tidegate.operators.core.interrupts import Watch, looking
from tidegate.operators.core.key_rows import Holding
from tidegate.operators.core.operator import Operator, Stream
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.loop import Loop
from tidegate.operators.merging.pair_filter import PairCondition
from tidegate.operators.select import Select
from tidegate.operators.sources.scan import Scan
from tidegate.operators.user.batch_function import BatchFunctionOperator
from tidegate.operators.user.iterate import Iterate
from tidegate.operators.user.union import Union
from tidegate.operators.user.user import User, UserStream
from tidegate.operators.writing.modes import WriteMode
from tidegate.proto.errors import ExecutionError

from . import (
    test_adopting_write,
    test_as_of_merge_join,
    test_dense_slices,
    test_dense_windows,
    test_index_lookup_join,
    test_merge_join,
    test_pack_lists,
    test_sliding_windows,
    test_streaming_aggregate,
    test_unnest,
    test_write,
)
from .data import column, over_streams, pieces_of, write

X = pa.schema([("x", pa.int64())])
MANY = 200_000
WAIT = 120.0


@dataclass(frozen=True)
class Specimen:
    """An operator and its inputs, over which it works for hours, if it can without giving a row."""

    operator: Operator
    inputs: Sequence[tuple[pa.Schema, Iterator[pa.RecordBatch]]] = ()


Make = Callable[[Path, Instance], Specimen]


def endless(rows: pa.RecordBatch) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    return rows.schema, itertools.repeat(rows)


def one(rows: pa.RecordBatch) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """An input of one batch, so that its end never stops the work."""
    return rows.schema, iter([rows])


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=X)


def zeros(schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch([np.zeros(MANY, np.int64) for _ in schema], schema=schema)


def scan(folder: Path, _: Instance) -> Specimen:
    path = write(folder / "f.parquet", pa.table({"x": np.arange(MANY)}))
    operator = Scan("t", [column("x", pa.int64())])
    operator.assign("t", pieces_of(path, folder) * 10_000)
    return Specimen(operator)


def written(folder: Path, _: Instance) -> Specimen:
    operator = test_write.write(folder, mode=WriteMode.INSERT)
    operator.begin(1)
    return Specimen(operator, [endless(test_write.rows(*range(1_000)).to_batches()[0])])


def adopted(folder: Path, _: Instance) -> Specimen:
    operator = test_adopting_write.adopting(folder)
    operator.begin(1)
    return Specimen(operator, [endless(test_write.rows(*range(1_000)).to_batches()[0])])


class Without:
    """The statements of a loop that has none."""

    plans = 0

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


class Round:
    """Rounds that never end."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check

    def run(self, _: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        while True:
            self._check()
        yield


class Gives:
    """An executor that gives batches without rows and without end."""

    def execute(self, *_: object) -> Iterator[pa.RecordBatch]:
        return itertools.repeat(numbers())

    def done(self, _: int) -> None: ...


def joined(folder: Path, instance: Instance) -> Specimen:
    """Very many pairs of one key, of which none meets the condition."""
    holding = Holding(memory_limit=64 << 20, folder=folder / "held")
    keys = pa.schema([("k", pa.int64())])
    never = PairCondition(sql="c0 <> c1", reads=frozenset({0, 1}))
    operator = test_merge_join.join(keys, keys, holding, condition=never, instance=instance)
    return Specimen(operator, [one(zeros(keys)), one(zeros(keys))])


def aggregated(_: Path, instance: Instance) -> Specimen:
    operator = test_streaming_aggregate.aggregate(instance, test_streaming_aggregate.SUM)
    return Specimen(operator, [endless(zeros(test_streaming_aggregate.INPUT))])


def slid(_: Path, instance: Instance) -> Specimen:
    schema = pa.schema([("n", pa.int64()), ("s", pa.int64())])
    return Specimen(test_sliding_windows.sliding(instance, schema, ["count"]), [endless(zeros(schema))])


def unnested(*_: object) -> Specimen:
    lists = pa.ListArray.from_arrays([0, 20_000_000], pa.nulls(20_000_000, pa.int64()))
    rows = pa.record_batch([pa.array(["a"]), lists], schema=test_unnest.ONE)
    return Specimen(test_unnest.unnest(test_unnest.ONE, 1, rows=1), [one(rows)])


def packed(*_: object) -> Specimen:
    lists = pa.record_batch({"tokens": pa.array([[1, 2, 3], [4]])})
    return Specimen(test_pack_lists.packing(lists.schema, 4, 5), [endless(lists)])


def looked_up(*_: object) -> Specimen:
    """An index that never answers."""
    operator = test_index_lookup_join.squares(submit=test_index_lookup_join.ByHand())
    return Specimen(operator, [one(pa.record_batch(test_index_lookup_join.numbers(1).to_batches()[0]))])


def fragment(_: Path, instance: Instance) -> Specimen:
    sql = "SELECT count(*) FROM in0, range(in0.c0) AS r WHERE r.range % 7 = -1"
    return Specimen(over_streams(instance, sql, X, X.empty_table()), [one(numbers(10**14))])


def counted_in_slices(_: Path, instance: Instance) -> Specimen:
    return Specimen(test_dense_slices.dense(instance), [endless(test_dense_slices.ZEROS)])


def slid_in_arrays(_: Path, instance: Instance) -> Specimen:
    groups, windows = test_dense_windows.groups_of(conditional=False), test_dense_windows.windows_of(2, 1)
    operator = test_dense_windows.dense_windows_of(instance, groups, windows)
    rows = test_dense_windows.table([(0, 0, "a", 0, True)] * MANY).to_batches()[0]
    return Specimen(operator, [endless(rows)])


def joined_as_of(*_: object) -> Specimen:
    """Left rows without end that are all later than the only right row."""
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.int64())])
    return Specimen(test_as_of_merge_join.join(schema), [endless(zeros(schema)), one(zeros(schema).slice(0, 1))])


SPECIMENS: dict[str, Make] = {
    "AdoptingWrite": adopted,
    "AsOfMergeJoin": joined_as_of,
    "BatchFunctionOperator": lambda *_: Specimen(
        BatchFunctionOperator("f", lambda rows: itertools.repeat(numbers()), schema=X, recut=False), [one(numbers(1))]
    ),
    "DenseSlices": counted_in_slices,
    "DenseWindows": slid_in_arrays,
    "Fragment": fragment,
    "IndexLookupJoin": looked_up,
    "Iterate": lambda *_: Specimen(Iterate("i", lambda: itertools.repeat(numbers()), schema=X)),
    "Loop": lambda *_: Specimen(Loop(X, Round, Without())),
    "MergeJoin": joined,
    "PackLists": packed,
    "Scan": scan,
    "Select": lambda *_: Specimen(Select(X, columns=[0], schema=X), [endless(numbers(1))]),
    "SlidingWindows": slid,
    "StreamingAggregate": aggregated,
    "Union": lambda *_: Specimen(Union(X), [endless(numbers(1)), one(numbers(1))]),
    "Unnest": unnested,
    "User": lambda *_: Specimen(
        User("u", [UserStream(name="s")], schema=X, make=Gives, recut=False), [one(numbers(1))]
    ),
    "Write": written,
}


def kinds(of: type = Operator) -> Iterator[str]:
    """The kinds of operators that the package has, whatever other tests have defined."""
    for kind in of.__subclasses__():
        if kind.__module__.startswith("tidegate."):
            yield kind.__name__
        yield from kinds(kind)


def test_every_operator_is_here() -> None:
    assert set(kinds()) == set(SPECIMENS)


@pytest.mark.parametrize("kind", SPECIMENS)
def test_an_operator_that_works_without_end_stops_when_it_is_interrupted(
    kind: str, root: Path, instance: Instance
) -> None:
    """Its streams look, as they do in a task, and it is interrupted again and again, as by an epoch's clock."""
    specimen = SPECIMENS[kind](root, instance)
    assert type(specimen.operator).__name__ == kind
    begun, stopped = threading.Event(), threading.Event()
    inputs = [BatchStream(schema, begins(batches, begun)) for schema, batches in specimen.inputs]
    if not inputs:
        begun.set()

    def look() -> None:
        if begun.is_set():
            raise ExecutionError("interrupted", reason="INTERRUPTED")

    def interrupt() -> None:
        begun.wait(WAIT)
        while not stopped.wait(0.01):
            specimen.operator.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with looking(Watch(look)), pytest.raises(ExecutionError) as caught:
            for _ in metered(specimen.operator, inputs):
                pass
    finally:
        stopped.set()
        thread.join()
        specimen.operator.close()
    assert caught.value.reason == "INTERRUPTED"


def begins(batches: Iterator[pa.RecordBatch], begun: threading.Event) -> Iterator[pa.RecordBatch]:
    """The batches; the first one sets the event when it is taken."""
    for batch in batches:
        begun.set()
        yield batch


def metered(operator: Operator, inputs: Sequence[Stream]) -> MeteredStream:
    """The operator's rows, and its inputs', as a task has them."""
    below = [MeteredStream(stream.schema, iter(stream), Meter("Input", ""), ()) for stream in inputs]
    return MeteredStream(operator.schema, iter(operator.run(below)), Meter(type(operator).__name__, ""), below)
