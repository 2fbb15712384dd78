"""Join: the pairs of rows of two inputs with the same key, for as long as both rows exist.

Every pair is found once, when the later of its rows arrives, and counts from the later of the rows' rounds. Outer, semi
and anti joins consist of this operator and others (`planner/changes/joins.py`). Confluent. State: the rows of both
inputs, by their key. A pair whose condition raises an error waits until it is known whether the pair exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from ..core.sizes import rows_within
from .change_operator import ChangeOperator, Kept
from .event_time.floor import Floor
from .event_time.forgetting import Forgetting
from .event_time.window_closing import Closing, after_closing
from .kept.arrangement import Arrangement, Run
from .kept.pairs import PAIRS
from .postponed import Postponed
from .values.change import Change, Numbers, Rounds, all_one, later, take_weights
from .values.consolidate import Entries, added, group_starts, sum_groups
from .values.evaluator import RowsFailed
from .values.portions import TOGETHER
from .values.rows import Rows
from .values.value_columns import Index, Mask

_CROSSED: Final = 1 << 22
"""The pairs of rows that are made at a time, where every row meets every other one."""

PairCondition: TypeAlias = Callable[[Rows], Mask]
"""A condition: it takes pairs, left columns then right ones, and flags those that match."""


@dataclass(frozen=True, slots=True)
class JoinKey:
    """A key: a column of each side, of one type. With `nulls_match` a null equals another null, else nothing."""

    left: int
    right: int
    nulls_match: bool = False


class Join(ChangeOperator):
    """The operator. It gives pairs of `left` and `right` rows with the columns `output`, right columns counted after
    left ones. Without keys every row matches every other one. A side that is not `kept` is not stored: after its first
    row no row may come in on the other side. Rows of each side that are below its floor are let go. With `closing`, the
    watermark of pairs is behind that of the inputs.
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
        closing: Closing | None = None,
        floors: tuple[Floor, Floor] | None = None,
    ) -> None:
        fields = [*left, *right]
        self.schema = pa.schema([fields[at] for at in output])
        self._schemas = (left, right)
        self._keys = (tuple(key.left for key in keys), tuple(key.right for key in keys))
        self._strict = tuple(at for at, key in enumerate(keys) if not key.nulls_match)
        self._output = tuple(output)
        lefts, rights = ([at for at in dict.fromkeys(output) if (at < len(left)) is first] for first in (True, False))
        self._wanted = tuple(lefts), tuple(at - len(left) for at in rights)
        """The wanted columns of each side."""
        positions = {at: position for position, at in enumerate((*lefts, *rights))}
        self._order = tuple(positions[at] for at in output)
        self._condition = condition
        self._postponed = Postponed(pa.schema(fields), self._meeting)
        """Pairs whose condition raised an error."""
        self._kept = kept
        self._met = None if depth or bool(lefts) == bool(rights) else int(bool(rights))
        """The side whose columns alone are wanted. The rows that meet its rows are then counted, and not kept as
        pairs.
        """
        self._sides = tuple(
            Arrangement(schema.types, key, depth=depth) for schema, key in zip(self._schemas, self._keys, strict=True)
        )

        self._closing = closing
        if floors is not None:
            pairs = zip(self._sides, floors, strict=True)
            self.forgetting = tuple(Forgetting((side, floor.column), floor=floor) for side, floor in pairs)

    def receive(self, port: int, change: Change) -> Iterator[Change]:
        if self._met is not None and self._condition is not None:
            return self._counted(port, change)
        return self._pairs_of(port, change)

    def _pairs_of(self, port: int, change: Change, met: _Met | None = None) -> Iterator[Change]:
        whole = len(change)
        step = whole if self._keys[port] else max(1, _CROSSED // max(1, self._sides[1 - port].rows))
        return self._receive(port, change, met) if step >= whole else self._in_steps(port, change, met, step)

    def _counted(self, port: int, change: Change) -> Iterator[Change]:
        """Each row of the wanted side once, however many rows it meets. Empty changes come in between, so that the
        caller can stop the work.
        """
        met = _Met([at if self._met == 0 else at - len(self._schemas[0]) for at in self._output])
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
            step = _pairs_at_once(change, run)
            if len(mine) <= step:
                yield from self._pairs(port, change, mine, run, theirs, met)
                continue
            for start in range(0, len(mine), step):
                part = slice(start, start + step)
                yield from self._pairs(port, change, mine[part], run, theirs[part], met)

    def due(self) -> Rounds | None:
        return self._postponed.due()

    def decide(self, rounds: Rounds) -> Iterator[Change]:
        return self._postponed.decide(rounds)

    def watermark(self, watermark: int | None) -> int | None:
        return watermark if self._closing is None else after_closing(self._closing, watermark)

    def kept(self) -> Iterable[Kept]:
        return map(Kept, ("left", "right"), self._sides, self._schemas)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._postponed.nbytes

    def _pairs(
        self, port: int, change: Change, mine: Index, run: Run, theirs: Index, met: _Met | None
    ) -> Iterable[Change]:
        if self._condition is not None:
            both = _side_by_side(port, _picked(change, mine, None), run.pick(theirs))
            try:
                matches = np.flatnonzero(self._condition(both.rows))
            except RowsFailed:
                return self._postponed.evaluated(both)
            if met is None:
                return (self._given(both.take(matches)),) if len(matches) else ()
            mine, theirs = mine[matches], theirs[matches]
        if not len(mine):
            return ()
        if met is not None:
            weights = _products(take_weights(change.weights, mine), run.pick(theirs, ()).weights)
            return (met.add(change, mine, weights) if port == self._met else met.add(run, theirs, weights),)
        wanted = self._wanted
        both = _side_by_side(port, _picked(change, mine, wanted[port]), run.pick(theirs, wanted[1 - port]))
        return (Change(both.rows.select(self._order), both.weights, both.rounds),)

    def _meeting(self, pairs: Change) -> Change:
        """The pairs, whole rows side by side, that meet the condition."""
        assert self._condition is not None
        return self._given(pairs.take(np.flatnonzero(self._condition(pairs.rows))))

    def _given(self, pairs: Change) -> Change:
        """The wanted columns of pairs of whole rows."""
        return pairs.with_rows(pairs.rows.select(self._output))


class _Met:
    """Counts of how often rows of one side, with these wanted columns, have met rows of the other side."""

    def __init__(self, columns: Sequence[int]) -> None:
        self._columns = tuple(columns)
        self._sums: dict[int, tuple[Change | Run, Numbers]] = {}
        """The counts, by the identity of the change or run that has the rows."""

    def add(self, of: Change | Run, rows: Index, weights: Numbers) -> Change:
        """Count pairs, and return an empty change: nothing is given out yet."""
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

    def _wanted(self, of: Change | Run, rows: Index) -> Rows:
        picked = _picked(of, rows, self._columns) if isinstance(of, Change) else of.pick(rows, self._columns)
        return picked.rows


def _pairs_at_once(change: Change, run: Run) -> int:
    """The pairs that are made at a time: a row that is long may have many."""
    pair_bytes = change.rows.quick_long_bytes // len(change)
    if isinstance(run, Entries):
        pair_bytes += run.rows.quick_long_bytes // max(len(run), 1)
    return rows_within(TOGETHER, pair_bytes, PAIRS)


def _picked(change: Change, rows: Index, columns: Sequence[int] | None) -> Change:
    """Some rows of a change, with these columns, or with all."""
    picked = change.rows if columns is None else change.rows.select(columns)
    rounds = tuple(numbers.take(rows) for numbers in change.rounds)
    return Change(picked.take(rows), take_weights(change.weights, rows), rounds)


def _side_by_side(port: int, mine: Change, theirs: Change) -> Change:
    """Rows side by side: their weights multiplied, at the later of their rounds."""
    left, right = (theirs, mine) if port else (mine, theirs)
    rounds = left.rounds and later(left.rounds, right.rounds)
    return Change(left.rows.beside(right.rows), _products(left.weights, right.weights), rounds)


def _products(left: Numbers, right: Numbers) -> Numbers:
    """The weights of pairs. Raises OverflowError where one is no int64."""
    if all_one(right):
        return left
    products: Numbers = left * right
    if _largest(left) * _largest(right) >= 1 << 63:
        exact = left.astype(object) * right.astype(object)
        if (exact != products).any():
            raise OverflowError(f"a pair's weight is {max(exact, key=abs)}, which is beyond 64 bits")
    return products


def _largest(weights: Numbers) -> int:
    """The largest weight, without its sign."""
    return max(int(weights.max()), -int(weights.min()))
