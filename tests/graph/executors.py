"""Executors that tests make graphs of, and the rows that they are fed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tidegate import Executor, TaskGraph
from tidegate.graph import Stream

NUMBERS = pa.schema([("k", pa.int64()), ("v", pa.int64())])
SUMS = pa.schema([("k", pa.int64()), ("total", pa.int64())])


def numbers(rows: int, keys: int = 7, start: int = 0) -> pa.Table:
    """`rows` rows: v counts from `start`, k is v modulo `keys`."""
    values = range(start, start + rows)
    return pa.table({"k": [value % keys for value in values], "v": list(values)}, schema=NUMBERS)


class PassOn:
    """Hands its rows on."""

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Sequence[pa.RecordBatch]:
        return batches

    def done(self, channel: int) -> None:
        return None


class SumByKey:
    """The sum of v for each k, by k."""

    def __init__(self) -> None:
        self.totals: dict[int, int] = {}

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
        for batch in batches:
            for key, value in zip(batch["k"].to_pylist(), batch["v"].to_pylist(), strict=True):
                self.totals[key] = self.totals.get(key, 0) + value

    def done(self, channel: int) -> pa.RecordBatch:
        keys = sorted(self.totals)
        return pa.record_batch([pa.array(keys, pa.int64()), pa.array([self.totals[key] for key in keys])], schema=SUMS)


class HashJoin:
    """Inner join of "probe" (k, v) with "build" (k, v) by k, which is whole before the first row of "probe"."""

    schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("w", pa.int64())])

    def __init__(self) -> None:
        self.built: dict[int, list[int]] = {}

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = zip(batch["k"].to_pylist(), batch["v"].to_pylist(), strict=True)
            if stream == "build":
                for key, value in rows:
                    self.built.setdefault(key, []).append(value)
                continue
            joined = [(key, value, other) for key, value in rows for other in self.built.get(key, ())]
            if joined:
                yield pa.record_batch(
                    [pa.array(column, pa.int64()) for column in zip(*joined, strict=True)], schema=self.schema
                )

    def done(self, channel: int) -> None:
        return None


class First:
    """The first `count` rows, after which it wants no more."""

    def __init__(self, count: int = 3) -> None:
        self.left = count

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.slice(0, self.left)
            self.left -= min(self.left, batch.num_rows)

    def finished(self, stream: str, channel: int) -> bool:
        return not self.left

    def done(self, channel: int) -> None:
        return None


CALLS = pa.schema([("call", pa.string()), ("rows", pa.int64()), ("channel", pa.int64()), ("first", pa.int64())])


class Calls:
    """A record of its calls: a row a call, in order."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, int, int | None]] = []

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
        for batch in batches:
            self.rows.append((stream, batch.num_rows, channel, batch["v"][0].as_py()))

    def done(self, channel: int) -> pa.RecordBatch:
        self.rows.append(("done", 0, channel, None))
        return pa.record_batch(list(map(list, zip(*self.rows, strict=True))), schema=CALLS)


def fed(graph: TaskGraph, name: str = "numbers") -> Stream:
    return graph.source(name, NUMBERS)


def sums(table: pa.Table) -> pa.Table:
    """What `SumByKey` is to give, as Arrow computes it."""
    totals = table.group_by("k").aggregate([("v", "sum")]).sort_by("k")
    return pa.table({"k": totals["k"], "total": totals["v_sum"]}, schema=SUMS)


__all__ = ["CALLS", "NUMBERS", "SUMS", "Calls", "Executor", "First", "HashJoin", "PassOn", "SumByKey", "fed", "numbers"]
