"""Inputs of an operator under test: streams that note the calls made to them, and ways to cut a table into batches."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import pyarrow as pa

from ...proto.arrow.without_rows import no_rows

Cut: TypeAlias = Callable[[pa.Table], Sequence[pa.RecordBatch]]


class Boom(Exception):
    """The exception of a broken input.

    >>> from tidegate.testing import Boom, WatchedStream
    >>> broken = WatchedStream(numbers.schema, numbers.to_batches(), breaks_after=0)
    >>> try:
    ...     rows = list(RunningTotal(numbers.schema).run([broken]))
    ... except Boom:
    ...     print("the input's error came through")
    the input's error came through
    """


class WatchedStream:
    """An input that notes the calls made to it, and breaks after `breaks_after` batches.

    >>> from tidegate.testing import WatchedStream
    >>> stream = WatchedStream(numbers.schema, numbers.to_batches())
    >>> rows = list(RunningTotal(numbers.schema).run([stream]))
    >>> stream.pulled, stream.closed
    (1, True)
    """

    def __init__(self, schema: pa.Schema, batches: Sequence[pa.RecordBatch], breaks_after: int | None = None) -> None:
        self.schema = schema
        self.watermark: int | None = None
        self.pulled = 0
        self.closed = False
        self.broke = False
        self.read_when_closed = False
        self._batches = batches
        self._breaks_after = breaks_after

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self.closed:
            self.read_when_closed = True
            raise StopIteration
        if self._breaks_after is not None and self.pulled >= self._breaks_after:
            self.broke = True
            raise Boom("the input broke")
        if self.pulled >= len(self._batches):
            raise StopIteration
        self.pulled += 1
        return self._batches[self.pulled - 1]

    def close(self) -> None:
        """Note that the operator has closed the input."""
        self.closed = True


def whole(table: pa.Table) -> list[pa.RecordBatch]:
    """The table as one batch, or none where there are no rows."""
    return list(table.combine_chunks().to_batches())


def one_row_each(table: pa.Table) -> list[pa.RecordBatch]:
    return list(table.combine_chunks().to_batches(max_chunksize=1))


def with_empty_batches(table: pa.Table) -> list[pa.RecordBatch]:
    """The table with an empty batch before, between and after the others."""
    empty = no_rows(table.schema)
    cut: list[pa.RecordBatch] = [empty]
    for batch in table.combine_chunks().to_batches(max_chunksize=3):
        cut += [batch, empty]
    return cut


def at_random(seed: int) -> Cut:
    def cut(table: pa.Table) -> list[pa.RecordBatch]:
        return _random_parts(table, random.Random(seed))  # noqa: S311 - cuts, no secrets

    cut.__name__ = f"at_random({seed})"
    return cut


def with_gaps(seed: int) -> Cut:
    """A random cut with runs of empty batches in between: for an operator that reads several inputs in turns, the other
    inputs come first.
    """

    def cut(table: pa.Table) -> list[pa.RecordBatch]:
        chooser = random.Random(seed)  # noqa: S311 - cuts, no secrets
        empty = no_rows(table.schema)
        batches = [empty] * chooser.randint(0, 4)
        for batch in _random_parts(table, chooser):
            batches += [batch, *[empty] * chooser.choice((0, 0, 1, 5))]
        return batches

    cut.__name__ = f"with_gaps({seed})"
    return cut


CUTS: Final[tuple[Cut, ...]] = (one_row_each, with_empty_batches, at_random(1), at_random(2), at_random(3))


def name_of(cut: Cut) -> str:
    return str(getattr(cut, "__name__", cut))


def _random_parts(table: pa.Table, chooser: random.Random) -> list[pa.RecordBatch]:
    table = table.combine_chunks()
    batches: list[pa.RecordBatch] = []
    at = 0
    while at < table.num_rows:
        rows = chooser.randint(1, max(1, table.num_rows // 2))
        batches += table.slice(at, rows).to_batches()
        at += rows
    return batches
