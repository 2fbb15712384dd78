"""Terms that answer for each first number from all its rows: aggregates, first rows, a window, a recomputation."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.operators.arrays.ordering import Order
from tidegate.operators.changes.change_operator import ChangeOperator
from tidegate.operators.changes.group import Count, Extreme, Group, GroupMeasure, Sum
from tidegate.operators.changes.network.network_graph import ByKey
from tidegate.operators.changes.recompute import Recompute
from tidegate.operators.changes.regroup import Regroup
from tidegate.operators.changes.top import Top
from tidegate.operators.changes.values.change import Change, Rounds
from tidegate.operators.core.operator import StateReader, StateWriter

Pair: TypeAlias = tuple[int, int]
Bag: TypeAlias = Counter[Pair]

PAIRS = pa.schema([("a", pa.int64()), ("b", pa.int64())])


@dataclass(frozen=True)
class Kind:
    """A function that makes the operator at a depth of rounds, and its result for all rows of a key, in order."""

    make: Callable[[int], ChangeOperator]
    naive: Callable[[Sequence[Pair]], Iterable[Pair]]
    key: tuple[int, ...] = (0,)

    @property
    def route(self) -> ByKey:
        return ByKey(self.key)

    def answer(self, rows: Bag) -> Bag:
        groups: dict[tuple[int, ...], list[Pair]] = {}
        for row in sorted(rows.elements()):
            groups.setdefault(tuple(row[at] for at in self.key), []).append(row)
        return Counter(row for members in groups.values() for row in self.naive(members))


class _Behind(ChangeOperator):
    """Another operator's rows without their key, which stands in front of them."""

    schema = PAIRS

    def __init__(self, operator: ChangeOperator) -> None:
        self._operator = operator

    def receive(self, port: int, change: Change) -> Iterable[Change]:
        return map(_behind, self._operator.receive(port, change))

    def due(self) -> Rounds | None:
        return self._operator.due()

    def decide(self, rounds: Rounds) -> Iterable[Change]:
        return map(_behind, self._operator.decide(rounds))

    def save(self, state: StateWriter) -> None:
        self._operator.save(state)

    def load(self, state: StateReader) -> None:
        self._operator.load(state)


def _behind(change: Change) -> Change:
    return change.with_rows(change.rows.select((1, 2)))


def _group(measure: GroupMeasure) -> Callable[[int], ChangeOperator]:
    return lambda depth: Group(PAIRS, [0], [measure], PAIRS, plan_path="group", depth=depth)


def _first(depth: int) -> ChangeOperator:
    return _Behind(Top(PAIRS, [0], [Order(column=1, descending=True)], offset=0, count=2, depth=depth))


def _window(depth: int) -> ChangeOperator:
    return Regroup(PAIRS, [0], PAIRS, _previous, plan_path="here", depth=depth)


def _previous(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Of each row the value of the one before it in its group, its own for the first."""
    _, values, number = (column.to_numpy() for column in rows.columns)
    before = np.concatenate([values[:1], values[:-1]])
    starts = np.concatenate([[True], number[1:] != number[:-1]])[: len(number)]
    return pa.record_batch({"b": np.where(starts, values, before), "number": number})


def _half(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The first half of all rows."""
    return rows.slice(0, (rows.num_rows + 1) // 2)


KINDS: Final[Mapping[str, Kind]] = {
    "least": Kind(_group(Extreme(1, greatest=False)), lambda rows: [rows[0]]),
    "greatest": Kind(_group(Extreme(1, greatest=True)), lambda rows: [rows[-1]]),
    "count": Kind(_group(Count()), lambda rows: [(rows[0][0], len(rows))]),
    "sum": Kind(_group(Sum(1)), lambda rows: [(rows[0][0], sum(b for _, b in rows))]),
    "first rows": Kind(_first, lambda rows: rows[-2:]),
    "window": Kind(_window, lambda rows: [rows[0], *((a, b) for (_, b), (a, _) in itertools.pairwise(rows))]),
    "recompute": Kind(
        lambda depth: Recompute([PAIRS], PAIRS, _half, plan_path="here", depth=depth),
        lambda rows: rows[: (len(rows) + 1) // 2],
        (),
    ),
}
GROWS: Final = ("count", "sum")
"""What may make numbers that were not there, so that a loop over it need not end."""
