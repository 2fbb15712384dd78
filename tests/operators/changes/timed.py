"""The rule of every operator on changes: at every time, what it has given out up to then is its function
of what it was given up to then.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tidegate.operators.changes.change_operator import ChangeOperator
from tidegate.operators.changes.values.change import Change, Rounds
from tidegate.operators.changes.values.rows import Rows

Row: TypeAlias = tuple[Any, ...]
Bag: TypeAlias = Counter[Row]
Timed: TypeAlias = tuple[int, Row, int, Rounds]
"""Input, row, weight, time."""
Function: TypeAlias = Callable[[Sequence[Bag]], Bag]

MOST_ROUNDS = 3


def changes(schemas: Sequence[pa.Schema], entries: Sequence[Timed], depth: int) -> list[tuple[int, Change]]:
    """One change for each entry."""
    return [(port, change(schemas[port], [(row, weight, time)], depth)) for port, row, weight, time in entries]


def change(schema: pa.Schema, entries: Sequence[tuple[Row, int, Rounds]], depth: int) -> Change:
    arrays = [pa.array([row[at] for row, _, _ in entries], type=field.type) for at, field in enumerate(schema)]
    rounds = tuple(np.array([time[at] for _, _, time in entries], dtype=np.int64) for at in range(depth))
    weights = np.array([weight for _, weight, _ in entries], dtype=np.int64)
    return Change(Rows.of_arrays(arrays, len(entries)), weights, rounds)


def bag_of(schema: pa.Schema, change: Change) -> list[tuple[Row, int, Rounds]]:
    columns = [array.to_pylist() for array in change.rows.to_arrays(schema.types)]
    columns = [[tuple(value) if isinstance(value, list) else value for value in column] for column in columns]
    rows = list(zip(*columns, strict=True)) if columns else [()] * len(change)
    times = list(zip(*(numbers.tolist() for numbers in change.rounds), strict=True)) or [()] * len(change)
    return list(zip(rows, change.weights.tolist(), times, strict=True))


def run_epoch(operator: ChangeOperator, received: Sequence[tuple[int, Change]]) -> list[tuple[Row, int, Rounds]]:
    """Hand it the changes, let it decide all that is due, and settle."""
    changed: list[tuple[Row, int, Rounds]] = []
    for port, one in received:
        for out in operator.receive(port, one):
            changed += bag_of(operator.schema, out)
    last: Rounds = ()
    while (time := operator.due()) is not None:
        assert time >= last, "times are decided in order"
        last = time
        for out in operator.decide(time):
            changed += bag_of(operator.schema, out)
    operator.settle()
    return changed


def check_timed(
    operator: ChangeOperator,
    function: Function,
    schemas: Sequence[pa.Schema],
    epochs: Sequence[Sequence[Timed]],
    depth: int,
) -> None:
    """Run all epochs; after each, compare at every time that can be told apart."""
    received: list[Timed] = []
    emitted: list[tuple[Row, int, Rounds]] = []
    for epoch in epochs:
        received += epoch
        emitted += run_epoch(operator, changes(schemas, epoch, depth))
        for time in itertools.product(range(MOST_ROUNDS), repeat=depth):
            inputs = [
                _sum((r, w, t) for p, r, w, t in received if p == port and _before(t, time))
                for port in range(len(schemas))
            ]
            assert _sum((r, w, t) for r, w, t in emitted if _before(t, time)) == _nonzero(function(inputs)), time


def timed_epochs(rows: Sequence[st.SearchStrategy[Row]], depth: int) -> st.SearchStrategy[list[list[Timed]]]:
    """Epochs of changes whose totals are never below zero at any time: every deletion undoes an earlier row."""
    times = st.tuples(*[st.integers(0, MOST_ROUNDS - 1)] * depth)
    inserts = st.one_of(*[st.tuples(st.just(port), row, st.integers(1, 2), times) for port, row in enumerate(rows)])
    return st.lists(st.lists(st.tuples(inserts, st.booleans(), times), max_size=6), min_size=1, max_size=4).map(
        _with_deletions
    )


def _with_deletions(epochs: list[list[tuple[Timed, bool, Rounds]]]) -> list[list[Timed]]:
    """A flagged entry deletes the oldest one of its input that is still there, at a time that is no earlier."""
    there: list[Timed] = []
    history: list[list[Timed]] = []
    for epoch in epochs:
        history.append([])
        for entry, deletes, time in epoch:
            deleted = next((old for old in there if old[0] == entry[0]), None) if deletes else None
            if deleted is None:
                there.append(entry)
                history[-1].append(entry)
            else:
                there.remove(deleted)
                port, row, weight, at = deleted
                history[-1].append((port, row, -weight, tuple(map(max, at, time))))
    return history


def _before(time: Rounds, limit: Rounds) -> bool:
    return all(number <= most for number, most in zip(time, limit, strict=True))


def _sum(entries: Any) -> Bag:
    total: Bag = Counter()
    for row, weight, _ in entries:
        total[row] += weight
    return _nonzero(total)


def _nonzero(bag: Bag) -> Bag:
    return Counter({row: weight for row, weight in bag.items() if weight})
