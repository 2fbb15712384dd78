"""Join: the pairs of rows of two inputs with the same key, for as long as both are there.

Every pair is found once, by whichever of its rows comes last, and counts from the later of their rounds. Outer, semi
and anti joins are made of this one and of `Weigh`. Confluent. State: the rows of both inputs, by their key.
A pair whose condition fails waits until it is known whether it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from ..operator import StateReader, StateWriter
from .arrangement import PAIRS, Arrangement, Run
from .change import Change, Numbers, Rounds, all_one, later, take_weights
from .columns import Index, Mask
from .consolidate import added, group_starts, sum_groups
from .evaluator import RowsFailed
from .operator import ChangeOperator
from .postponed import Postponed
from .rows import Rows
from .state import load_arrangement, save_arrangement

_CROSSED: Final = 1 << 22
"""Pairs of rows that are looked for at a time, where every row meets every other one."""

PairCondition: TypeAlias = Callable[[Rows], Mask]
"""Of pairs, left columns then right ones, those that match."""


@dataclass(frozen=True, slots=True)
class JoinKey:
    """A column of each side, of one type. With `nulls_match` a null is equal to another one, else to nothing."""

    left: int
    right: int
    nulls_match: bool = False


class Join(ChangeOperator):
    """Pairs of `left` and `right` rows, of which the columns `output` are wanted, right ones counted after left ones.
    Without keys every row matches every other one. A side that is not `kept` is not stored: nothing may come in on the
    other one after the first of its rows.
    """

    def __init__(
        self,
        left: pa.Schema,
        right: pa.Schema,
        keys: Sequence[JoinKey],
        output: Sequence[int],
        *,
        condition: PairCondition | None = None,
        kept: tuple[bool, bool] = (True, True),
        depth: int = 0,
    ) -> None:
        fields = [*left, *right]
        self.schema = pa.schema([fields[at] for at in output])
        self._schemas = (left, right)
        self._keys = (tuple(key.left for key in keys), tuple(key.right for key in keys))
        self._strict = tuple(at for at, key in enumerate(keys) if not key.nulls_match)
        self._output = tuple((at < len(left), at if at < len(left) else at - len(left)) for at in output)
        self._condition = condition
        self._postponed = Postponed(pa.schema(fields), self._meeting)
        """Pairs of which it could not be said whether they meet the condition."""
        self._kept = kept
        self._met = None if depth else _one_side(self._output)
        """The side whose columns alone are wanted: what meets a row is counted then, and not kept as pairs."""
        self._sides = tuple(
            Arrangement(schema.types, key, depth=depth, filled=True)
            for schema, key in zip(self._schemas, self._keys, strict=True)
        )

    def receive(self, port: int, change: Change) -> Iterator[Change]:
        if self._met is not None and self._condition is not None:
            return self._counted(port, change)
        return self._pairs_of(port, change)

    def _pairs_of(self, port: int, change: Change, met: _Met | None = None) -> Iterator[Change]:
        whole = len(change)
        step = whole if self._keys[port] else max(1, _CROSSED // max(1, self._sides[1 - port].rows))
        return self._receive(port, change, met) if step >= whole else self._in_steps(port, change, met, step)

    def _counted(self, port: int, change: Change) -> Iterator[Change]:
        """Each row of the side that is wanted once, however many it meets. In between comes nothing, for the caller to
        be asked whether to go on.
        """
        met = _Met(self._output)
        yield from self._pairs_of(port, change, met)
        yield from met.changes()

    def _in_steps(self, port: int, change: Change, met: _Met | None, step: int) -> Iterator[Change]:
        for start in range(0, len(change), step):
            yield from self._receive(port, change.take(np.arange(start, min(start + step, len(change)))), met)

    def _receive(self, port: int, change: Change, met: _Met | None = None) -> Iterator[Change]:
        keys = change.rows.select(self._keys[port])
        kept = keys.select(self._strict).without_nulls() if self._strict else None
        if kept is not None:
            which = np.flatnonzero(kept)
            change, keys = change.take(which), keys.take(which)
        if not len(change):
            return
        if self._kept[port]:
            self._sides[port].insert(change, keys)
        for run, mine, theirs in self._sides[1 - port].matches(keys):
            if len(mine) <= PAIRS:
                yield from self._pairs(port, change, mine, run, theirs, met)
                continue
            for start in range(0, len(mine), PAIRS):
                part = slice(start, start + PAIRS)
                yield from self._pairs(port, change, mine[part], run, theirs[part], met)

    def due(self) -> Rounds | None:
        return self._postponed.due()

    def decide(self, rounds: Rounds) -> Iterator[Change]:
        return self._postponed.decide(rounds)

    def save(self, state: StateWriter) -> None:
        for name, side, schema in zip(("left", "right"), self._sides, self._schemas, strict=True):
            save_arrangement(state, name, side, schema)

    def load(self, state: StateReader) -> None:
        for name, side, schema in zip(("left", "right"), self._sides, self._schemas, strict=True):
            load_arrangement(state, name, side, schema)

    @property
    def touched(self) -> int:
        return sum(side.touched for side in self._sides)

    @property
    def nbytes(self) -> int:
        return sum(side.nbytes for side in self._sides) + self._postponed.nbytes

    def _pairs(
        self, port: int, change: Change, mine: Index, run: Run, theirs: Index, met: _Met | None
    ) -> Iterable[Change]:
        if self._condition is not None:
            both = _beside(port, change.rows.take(mine), run.rows.take(theirs))
            try:
                matches = np.flatnonzero(self._condition(both))
            except RowsFailed:
                return self._postponed.evaluated(_weighed(both, change, mine, run, theirs))
            mine, theirs = mine[matches], theirs[matches]
        if not len(mine):
            return ()
        if met is not None:
            weights = _products(take_weights(change.weights, mine), take_weights(run.weights, theirs))
            return (met.add(*((change, mine) if port == self._met else (run, theirs)), weights),)
        left, at_left, right, at_right = (
            (change.rows, mine, run.rows, theirs) if port == 0 else (run.rows, theirs, change.rows, mine)
        )
        columns = [
            left.columns[at].take(at_left) if is_left else right.columns[at].take(at_right)
            for is_left, at in self._output
        ]
        return (_weighed(Rows(columns, len(mine)), change, mine, run, theirs),)

    def _meeting(self, pairs: Change) -> Change:
        """Those of the pairs, whole rows side by side, that meet the condition."""
        assert self._condition is not None
        met = pairs.take(np.flatnonzero(self._condition(pairs.rows)))
        width = len(self._schemas[0])
        return met.with_rows(met.rows.select(at if is_left else width + at for is_left, at in self._output))


def _one_side(output: Sequence[tuple[bool, int]]) -> int | None:
    sides = {is_left for is_left, _ in output}
    return None if len(sides) != 1 else 1 - sides.pop()


class _Met:
    """How often rows of one side, of which the columns `output` are wanted, have met rows of the other."""

    def __init__(self, output: Sequence[tuple[bool, int]]) -> None:
        self._columns = [at for _, at in output]
        self._sums: dict[int, tuple[Run, Numbers]] = {}
        """By the identity of what has the rows."""

    def add(self, of: Run, rows: Index, weights: Numbers) -> Change:
        """Count pairs; nothing is given out yet."""
        sums = self._sums.setdefault(id(of), (of, np.zeros(len(of), dtype=np.int64)))[1]
        order = rows.argsort(kind="stable")
        rows, weights = rows.take(order), weights.take(order)
        starts = group_starts(rows[1:] != rows[:-1])
        which = rows.take(starts)
        sums[which] = added(sums.take(which), sum_groups(weights, starts))
        return Change(self._wanted(of, which[:0]), weights[:0])

    def changes(self) -> Iterator[Change]:
        for of, sums in self._sums.values():
            which = sums.nonzero()[0]
            yield Change(self._wanted(of, which), sums.take(which))

    def _wanted(self, of: Run, rows: Index) -> Rows:
        return of.rows.select(self._columns).take(rows)


def _beside(port: int, mine: Rows, theirs: Rows) -> Rows:
    return theirs.beside(mine) if port else mine.beside(theirs)


def _weighed(pairs: Rows, change: Change, mine: Index, run: Run, theirs: Index) -> Change:
    """Pairs of these rows, as often as both are there, from the later of their rounds on."""
    weights = _products(take_weights(change.weights, mine), take_weights(run.weights, theirs))
    rounds = change.rounds and later(
        tuple(numbers.take(mine) for numbers in change.rounds),
        tuple(numbers.take(theirs) for numbers in run.rounds),
    )
    return Change(pairs, weights, rounds)


def _products(left: Numbers, right: Numbers) -> Numbers:
    """The weights of pairs; OverflowError where one is no int64."""
    if all_one(right):
        return left
    products: Numbers = left * right
    if _largest(left) * _largest(right) >= 1 << 63:
        exact = left.astype(object) * right.astype(object)
        if (exact != products).any():
            raise OverflowError(f"a pair's weight is {max(exact, key=abs)}, which is beyond 64 bits")
    return products


def _largest(weights: Numbers) -> int:
    """Whatever its sign."""
    return max(int(weights.max()), -int(weights.min()))
