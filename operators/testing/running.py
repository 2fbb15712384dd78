"""Runs of an operator under test, and comparison of its rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Self, TypeAlias

import pyarrow as pa

from ..arrays.digest import digest
from ..core.operator import Operator, Part, Stream
from .check_inputs import Boom, Cut, WatchedStream, whole

Epoch: TypeAlias = Sequence[pa.Table]
Reordered: TypeAlias = Callable[[Epoch, random.Random], Epoch]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A case: an operator and its inputs. `make` returns a new operator; `before` is called before each of its runs (to
    assign pieces, for example). Each epoch has one table per input. Where `ordered` is False the rows of an epoch may
    come in any order. `expected` has the right answer of each epoch. `reordered` returns an epoch's rows in another
    order, which changes at most the answer's order.

    >>> from tidegate.testing import CHECKS, Case
    >>> case = Case(make=lambda: RunningTotal(numbers.schema), epochs=[[numbers]])
    >>> for check in CHECKS:
    ...     check(case)
    """

    make: Callable[[], Operator]
    epochs: Sequence[Epoch]
    before: Callable[[Operator], None] = lambda operator: None  # noqa: ARG005 - nothing to do
    ordered: bool = True
    expected: Sequence[pa.Table] | None = None
    reordered: Reordered | None = None

    def __post_init__(self) -> None:
        if not self.epochs:
            raise ValueError("a case needs at least one epoch")
        if len({len(epoch) for epoch in self.epochs}) != 1:
            raise ValueError(f"every epoch has a table for each input: {[len(epoch) for epoch in self.epochs]} differ")
        if self.expected is not None and len(self.expected) != len(self.epochs):
            raise ValueError(f"{len(self.expected)} expected answers for {len(self.epochs)} epochs")


class MemoryState:
    """A checkpoint in memory. Each state is written once."""

    def __init__(self) -> None:
        self.tables: dict[str, tuple[int, Sequence[pa.Table]]] = {}

    def write(self, name: str, version: int, table: pa.Table) -> None:
        self.write_parts(name, version, (table,), lambda whole: whole)

    def write_parts(self, name: str, version: int, parts: Sequence[Part], table: Callable[[Part], pa.Table]) -> None:
        require(name not in self.tables, f"the state {name!r} was written twice in one checkpoint")
        self.tables[name] = (version, [table(part) for part in parts])

    def read(self, name: str) -> tuple[int, pa.Table]:
        version, parts = self.read_parts(name)
        return version, pa.concat_tables(parts)

    def read_parts(self, name: str) -> tuple[int, Sequence[pa.Table]]:
        return self.tables[name]


@dataclass(frozen=True)
class Answer:
    """The rows of one epoch. Two answers are equal if their rows are the same, bit for bit, in the same order where
    that counts.
    """

    key: str
    table: pa.Table = field(compare=False)

    @property
    def rows(self) -> list[str]:
        """Each row as text."""
        if not self.table.num_columns:
            return ["()"] * self.table.num_rows
        return [repr(row) for row in zip(*(column.to_pylist() for column in self.table.columns), strict=True)]


@dataclass
class Running:
    """A run of one operator, which is closed at the end."""

    case: Case
    operator: Operator = field(init=False)

    def __enter__(self) -> Self:
        self.operator = self.case.make()
        return self

    def __exit__(self, *exception: object) -> None:
        self.operator.close()

    def start(self, streams: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        self.case.before(self.operator)
        return self.operator.run(streams)

    def answer(self, epoch: Epoch, *cuts: Cut) -> Answer:
        return answer_of(self.case, self.operator.schema, list(self.start(streams_of(epoch, *cuts))))

    def breaks(self, streams: Sequence[Stream]) -> None:
        """Run the operator on inputs of which some break."""
        with suppress(Boom):
            for _ in self.start(streams):
                pass

    def saved(self) -> MemoryState:
        state = MemoryState()
        self.operator.save(state)
        return state


def all_epochs(case: Case, *cuts: Cut) -> list[Answer]:
    """The answers of a new operator to each epoch, with its inputs cut so: each by its own cut, or all by one."""
    with Running(case) as running:
        return [running.answer(epoch, *cuts) for epoch in case.epochs]


def answer_of(case: Case, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> Answer:
    answer = Answer(digest(schema, batches), pa.Table.from_batches(batches, schema))
    return answer if case.ordered else replace(answer, key=repr(sorted(answer.rows)))


def streams_of(epoch: Epoch, *cuts: Cut) -> list[WatchedStream]:
    cuts_of_inputs = cuts if len(cuts) > 1 else (cuts or (whole,)) * len(epoch)
    return [WatchedStream(table.schema, cut(table)) for table, cut in zip(epoch, cuts_of_inputs, strict=True)]


def require(holds: bool, message: str) -> None:
    """Raise `AssertionError` unless `holds`, also where Python leaves assertions out."""
    if not holds:
        raise AssertionError(message)


def require_equal(answers: Sequence[Answer], expected: Sequence[Answer], what: str) -> None:
    """Require the same answers in each epoch. The error names the epoch, the row and the fault."""
    for number, (one, other) in enumerate(zip(answers, expected, strict=True), start=1):
        if one != other:  # to say how they differ is dearer than to compare them
            raise AssertionError(f"{what}: in epoch {number}, {_difference(one, other)}")


def _difference(answer: Answer, expected: Answer) -> str:
    ours, theirs = answer.rows, expected.rows
    extra, missing = Counter(ours) - Counter(theirs), Counter(theirs) - Counter(ours)
    if extra or missing:
        return " and ".join(_counted(rows, word) for rows, word in ((missing, "missing"), (extra, "too many")) if rows)
    for at, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if one != other:
            return f"the rows come in another order: row {at} is {one} instead of {other}"
    return "the rows look the same, but their bits differ"


def _counted(rows: Counter[str], word: str) -> str:
    number = rows.total()
    return f"there {'is 1 row' if number == 1 else f'are {number} rows'} {word}, such as {next(iter(rows))}"
