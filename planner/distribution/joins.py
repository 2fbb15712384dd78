"""The alternatives of a join: one side whole in every channel, or both sides by the hash of the columns that must be
equal.

A side is whole if the join drops the side's unmatched rows, and the other channels' copies of it are at most half as
many rows as the other side's source has, or the option `broadcast` names the side. Other joins hash both sides, unless
both sides are cut by the same ranges of a column that must be equal. Within that the cheapest alternative is taken,
which may be one channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from .. import ir
from ..analysis.join_terms import equal_columns, equal_moments
from ..rewrite.prune_columns import output_sides
from .alternatives import HASHED, READ, Alternative, Alternatives, Movement, Placement, Ranged
from .estimates import Estimate, joined

_BUILD, _PROBE = 35.0, 20.0
_NEAR: Final = 7.0
"""Nanoseconds to look a row up in a table of few rows, which stays in the processor's caches."""

_FEW: Final = 1 << 16

WHOLE_RIGHT: Final = frozenset(
    {
        ir.JoinType.INNER,
        ir.JoinType.LEFT,
        ir.JoinType.LEFT_SEMI,
        ir.JoinType.LEFT_ANTI,
        ir.JoinType.LEFT_SINGLE,
        ir.JoinType.LEFT_MARK,
    }
)
"""Joins that drop unmatched rows of the right side, so that every channel may have all of the right side."""

WHOLE_LEFT: Final = frozenset(
    {
        ir.JoinType.INNER,
        ir.JoinType.RIGHT,
        ir.JoinType.RIGHT_SEMI,
        ir.JoinType.RIGHT_ANTI,
        ir.JoinType.RIGHT_SINGLE,
        ir.JoinType.RIGHT_MARK,
    }
)
"""Joins that drop unmatched rows of the left side, so that every channel may have all of the left side.

A mark join runs on several channels in this way alone, never with both sides in shares: a mark is null if the other
side has a null anywhere, which a channel with a share of the other side cannot tell.
"""


@dataclass(frozen=True, slots=True)
class _Side:
    alternatives: Alternatives
    named: bool  # by the option `broadcast`

    @property
    def estimate(self) -> Estimate:
        return self.alternatives.estimate


def join_alternatives(
    relation: ir.Join | ir.Cross, left: Alternatives, right: Alternatives, movement: Movement, named: tuple[bool, bool]
) -> Iterator[Alternative]:
    """The alternatives of a join, each with the join over its inputs' alternatives. `named` says which sides the option
    `broadcast` names.
    """
    type_ = relation.type if isinstance(relation, ir.Join) else ir.JoinType.INNER
    condition = relation.condition if isinstance(relation, ir.Join) else None
    pairs = equal_columns(condition, len(relation.left.schema))
    joining = _Joining(relation, type_, movement, _Side(left, named[0]), _Side(right, named[1]))
    yield from joining.together()
    if joining.right.named and type_ in WHOLE_RIGHT:
        yield from joining.right_whole()
        return
    if joining.left.named and type_ in WHOLE_LEFT:
        yield from joining.left_whole()
        return
    if type_ in WHOLE_RIGHT and is_small(right.estimate, left.estimate, movement):
        yield from joining.right_whole()
    if type_ in WHOLE_LEFT and is_small(left.estimate, right.estimate, movement):
        yield from joining.left_whole()
    if not type_.marks:
        yield from joining.both_ranged(equal_moments(condition, len(relation.left.schema)))
    if pairs and not type_.marks:
        yield from joining.both_hashed(pairs)


def is_small(side: Estimate, other: Estimate, movement: Movement) -> bool:
    """Tests whether a side is small enough beside the other side to be whole in every channel. A row of many bytes
    counts as several.
    """
    return (movement.channels - 1) * side.rows * _counted(side) <= other.base * _counted(other) / 2


def _counted(estimate: Estimate) -> float:
    return 1 + estimate.wide / _ROW


_ROW: Final = 256
"""The bytes of long values that count as much as a row."""


def join_estimate(relation: ir.Join | ir.Cross, left: Estimate, right: Estimate) -> Estimate:
    if isinstance(relation, ir.Cross):
        return joined(ir.JoinType.INNER, left, right, equal=False)
    equal = bool(equal_columns(relation.condition, len(relation.left.schema)))
    return joined(relation.type, left, right, equal=equal)


class _Joining:
    def __init__(
        self, relation: ir.Join | ir.Cross, type_: ir.JoinType, movement: Movement, left: _Side, right: _Side
    ) -> None:
        self._relation = relation
        self._type = type_
        self._movement = movement
        self._channels = movement.channels
        self.left = left
        self.right = right

    def together(self) -> Iterator[Alternative]:
        """The join with both sides in one place."""
        rows = self.left.estimate.rows, self.right.estimate.rows
        left, right = self.left.alternatives, self.right.alternatives
        yield self._alternative(Placement.WHOLE, left.whole, right.whole, *rows)
        yield self._alternative(Placement.ONE, left.one, right.one, *rows)

    def right_whole(self) -> Iterator[Alternative]:
        rows = self.left.estimate.rows / self._channels, self.right.estimate.rows
        for left in self.left.alternatives.shares:
            hashed = self._hashed(left.hashed, of_left=True)
            ranged = self._ranged(left, of_left=True)
            yield self._alternative(
                Placement.SHARES, left, self.right.alternatives.whole, *rows, hashed=hashed, ranged=ranged
            )

    def left_whole(self) -> Iterator[Alternative]:
        rows = self.left.estimate.rows, self.right.estimate.rows / self._channels
        for right in self.right.alternatives.shares:
            hashed = self._hashed(right.hashed, of_left=False)
            ranged = self._ranged(right, of_left=False)
            yield self._alternative(
                Placement.SHARES, self.left.alternatives.whole, right, *rows, hashed=hashed, ranged=ranged
            )

    def both_ranged(self, pairs: Sequence[tuple[int, int]]) -> Iterator[Alternative]:
        """The join with both sides cut by the same ranges of a column that must be equal."""
        rows = self.left.estimate.rows / self._channels, self.right.estimate.rows / self._channels
        for left, right in product(self.left.alternatives.shares, self.right.alternatives.shares):
            if left.ranged is None or right.ranged is None or not left.ranged.meets(right.ranged):
                continue
            if (left.ranged.column, right.ranged.column) in pairs:
                for of_left in self._keys_kept():
                    ranged = self._ranged(left if of_left else right, of_left=of_left)
                    yield self._alternative(Placement.SHARES, left, right, *rows, ranged=ranged)
                if self._type is ir.JoinType.OUTER:
                    yield self._alternative(Placement.SHARES, left, right, *rows)

    def both_hashed(self, pairs: Sequence[tuple[int, int]]) -> Iterator[Alternative]:
        rows = self.left.estimate.rows / self._channels, self.right.estimate.rows / self._channels
        for some in self._key_choices(pairs):
            left = self._movement.hashed(self.left.alternatives, tuple(one for one, _ in some))
            right = self._movement.hashed(self.right.alternatives, tuple(other for _, other in some))
            for of_left in self._keys_kept():
                hashed = self._hashed((left if of_left else right).hashed, of_left=of_left)
                yield self._alternative(Placement.SHARES, left, right, *rows, hashed=hashed)
            if self._type is ir.JoinType.OUTER:
                yield self._alternative(Placement.SHARES, left, right, *rows)

    def _keys_kept(self) -> Iterator[bool]:
        """The sides, left or not, whose keys still determine a row's channel: keys of unmatched rows are null."""
        if self._type in WHOLE_RIGHT:
            yield True
        if self._type in WHOLE_LEFT:
            yield False

    def _key_choices(self, pairs: Sequence[tuple[int, int]]) -> Iterator[Sequence[tuple[int, int]]]:
        """The choices of keys: all pairs; and the pairs by which one side is hashed already, if they are enough."""
        yield pairs
        of_left, of_right = dict(pairs), {right: left for left, right in pairs}
        for alternative in self.left.alternatives.shares:
            if alternative.hashed and all(column in of_left for column in alternative.hashed):
                yield [(column, of_left[column]) for column in alternative.hashed]
        for alternative in self.right.alternatives.shares:
            if alternative.hashed and all(column in of_right for column in alternative.hashed):
                yield [(of_right[column], column) for column in alternative.hashed]

    def _ranged(self, alternative: Alternative, *, of_left: bool) -> Ranged | None:
        moved = self._hashed((alternative.ranged.column,) if alternative.ranged else None, of_left=of_left)
        return alternative.ranged._replace(column=moved[0]) if alternative.ranged and moved else None

    def _hashed(self, columns: tuple[int, ...] | None, *, of_left: bool) -> tuple[int, ...] | None:
        """The positions of these columns of one side in the join's own rows."""
        if columns is None:
            return None
        both = len(output_sides(self._relation)) == 2
        if not both and of_left != (self._type in WHOLE_RIGHT):  # semi, anti and mark joins keep the side they probe
            return None
        first = len(self._relation.left.schema) if both and not of_left else 0
        return tuple(first + column for column in columns)

    def _alternative(
        self,
        placement: Placement,
        left: Alternative,
        right: Alternative,
        left_rows: float,
        right_rows: float,
        hashed: tuple[int, ...] | None = None,
        ranged: Ranged | None = None,
    ) -> Alternative:
        built, probed = sorted((left_rows, right_rows))
        work = _BUILD * built + (_NEAR if built <= _FEW else _PROBE) * probed
        relation = replace(self._relation, left=left.relation, right=right.relation)
        cost = left.cost + right.cost + work
        return Alternative(placement=placement, cost=cost, relation=relation, hashed=hashed, ranged=ranged)


def lateral_alternatives(
    relation: ir.LateralJoin, left: Alternatives, right: ir.Relation, right_rows: float
) -> Iterator[Alternative]:
    """The alternatives of a lateral join: wherever the left side is. Every channel reads all `right_rows` of the right
    side's sources.
    """
    cost = READ * right_rows + HASHED * left.estimate.rows
    for alternative in left.choices:
        if alternative.placement is not Placement.SHARES or relation.type is not ir.JoinType.OUTER:
            rebuilt = replace(relation, left=alternative.relation, right=right)
            hashed = alternative.hashed if relation.type in WHOLE_RIGHT else None
            ranged = alternative.ranged if relation.type in WHOLE_RIGHT else None
            yield replace(
                alternative, cost=alternative.cost + cost, relation=rebuilt, hashed=hashed, ranged=ranged, order=()
            )
