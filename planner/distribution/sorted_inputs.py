"""The alternatives of relations that rely on the order of their inputs: merge joins and streaming aggregates.

Such a relation runs with all rows together, whole in every channel or on one channel; or in shares in which each
channel has all rows of a key, in the order that they have on one channel. Shares are by the hash of keys, merged if
several channels send them, or cut by the same ranges of a key. The rows of a key are never on two channels, so the
output, merged by the keys, is the output of one channel. A side of a join that is small beside the other may be whole
in each of the other side's channels.

A merge join closes a side that can add nothing, and the side's scan stops. An exchange prevents that: its producers run
ahead. So a relation that reads sorted sources as asked gets no exchange below it either.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import fsum
from typing import Final, assert_never

from .. import ir
from .alternatives import Alternative, Alternatives, Movement, Placement, Reading
from .joins import WHOLE_LEFT, WHOLE_RIGHT, is_small

_PASS: Final = 20.0


def sorted_alternatives(
    relation: ir.MergeJoin | ir.AsOfMergeJoin | ir.StreamingAggregate,
    below: Sequence[Alternatives],
    movement: Movement,
    named: Sequence[bool],
) -> Iterator[Alternative]:
    """The alternatives over those of the inputs. `named` says which inputs the option `broadcast` names."""
    match relation:
        case ir.MergeJoin():
            yield from merge_join_alternatives(relation, below[0], below[1], movement, (named[0], named[1]))
        case ir.AsOfMergeJoin():
            yield from as_of_alternatives(relation, below[0], below[1], movement)
        case ir.StreamingAggregate():
            yield from streaming_aggregate_alternatives(relation, below[0], movement)
        case _:
            assert_never(relation)


def streaming_aggregate_alternatives(
    relation: ir.StreamingAggregate, below: Alternatives, movement: Movement
) -> Iterator[Alternative]:
    below = below.as_asked
    rows = below.estimate.rows
    for placement, alternative in ((Placement.WHOLE, below.whole), (Placement.ONE, below.one)):
        rebuilt = replace(relation, input=alternative.relation)
        yield Alternative(
            placement=placement, cost=alternative.cost + _PASS * rows, relation=rebuilt, reading=alternative.reading
        )
    positions = {key.index: at for at, key in reversed(list(enumerate(relation.keys)))}
    if {key.column for key in relation.order} != set(positions):
        return  # merely clustered: the channels' groups could not be merged
    keys = tuple(positions)
    order = tuple(replace(key, column=positions[key.column]) for key in relation.order)
    hashed = movement.hashed_in_order(below, keys)
    for alternative in (*_together(below, keys), *([hashed] if hashed else [])):
        yield Alternative(
            placement=Placement.SHARES,
            cost=alternative.cost + _PASS * rows / movement.channels,
            relation=replace(relation, input=alternative.relation),
            hashed=tuple(positions[column] for column in alternative.hashed) if alternative.hashed else None,
            ranged=alternative.ranged._replace(column=positions[alternative.ranged.column])
            if alternative.ranged
            else None,
            order=order,
            in_turn=alternative.in_turn,
            reading=alternative.reading,
        )


def _together(alternatives: Alternatives, keys: Sequence[int]) -> Iterator[Alternative]:
    """Sorted shares in which all rows with the same keys are on one channel."""
    for alternative in alternatives.shares:
        hashed = bool(alternative.hashed) and set(alternative.hashed or ()) <= set(keys)
        ranged = alternative.ranged is not None and alternative.ranged.column in keys
        if alternative.order and (hashed or ranged):
            yield replace(
                alternative,
                hashed=alternative.hashed if hashed else None,
                ranged=alternative.ranged if ranged else None,
            )


def merge_join_alternatives(
    relation: ir.MergeJoin, left: Alternatives, right: Alternatives, movement: Movement, named: tuple[bool, bool]
) -> Iterator[Alternative]:
    """The alternatives of a merge join. `named` says which sides the option `broadcast` names."""
    left, right = left.as_asked, right.as_asked
    sizes = left.estimate.rows, right.estimate.rows
    yield _joined(relation, Placement.WHOLE, left.whole, right.whole, fsum(sizes))
    yield _joined(relation, Placement.ONE, left.one, right.one, fsum(sizes))
    whole_right = relation.type in WHOLE_RIGHT and (named[1] or is_small(right.estimate, left.estimate, movement))
    whole_left = relation.type in WHOLE_LEFT and (named[0] or is_small(left.estimate, right.estimate, movement))
    shares = sizes[0] / movement.channels, sizes[1] / movement.channels
    if whole_right:
        for one in _together(left, [key.left for key in relation.keys]):
            alternative = _joined(relation, Placement.SHARES, one, right.whole, shares[0] + sizes[1])
            yield from _placed(relation, alternative, one, replace(right.whole, in_turn=True))
    if whole_left:
        for two in _together(right, [key.right for key in relation.keys]):
            alternative = _joined(relation, Placement.SHARES, left.whole, two, sizes[0] + shares[1])
            yield from _placed(relation, alternative, replace(left.whole, in_turn=True), two)
    if (whole_right and named[1]) or (whole_left and named[0]):
        return
    for one, two in (*_both_ranged(relation, left, right), *_both_hashed(relation, left, right, movement)):
        yield from _placed(relation, _joined(relation, Placement.SHARES, one, two, fsum(shares)), one, two)


def as_of_alternatives(
    relation: ir.AsOfMergeJoin, left: Alternatives, right: Alternatives, movement: Movement
) -> Iterator[Alternative]:
    """The alternatives of an as-of merge join. A left row needs all right rows of its keys on its channel."""
    sizes = left.estimate.rows, right.estimate.rows
    shares = sizes[0] / movement.channels
    for one, two, rows in ((left.whole, right.whole, sizes[0]), (left.one, right.one, sizes[0])):
        yield _as_of(relation, one, two, rows + sizes[1])
    if is_small(right.estimate, left.estimate, movement):
        for one in left.shares:
            if one.order:
                yield _as_of(relation, one, right.whole, shares + sizes[1])
    width = len(relation.left.schema)
    if relation.keys:
        one_by = movement.hashed_in_order(left, tuple(mine.index for mine, _ in relation.keys))
        two_by = movement.hashed_in_order(right, tuple(theirs.index - width for _, theirs in relation.keys))
        if one_by is not None and two_by is not None:
            yield replace(_as_of(relation, one_by, two_by, shares + sizes[1] / movement.channels), hashed=one_by.hashed)


def _as_of(relation: ir.AsOfMergeJoin, left: Alternative, right: Alternative, rows: float) -> Alternative:
    """The join of its sides as they are placed: where the left rows are. `rows` counts both sides' in a channel."""
    return Alternative(
        placement=left.placement,
        cost=left.cost + right.cost + _PASS * rows,
        relation=replace(relation, left=left.relation, right=right.relation),
    )


def _joined(
    relation: ir.MergeJoin, placement: Placement, left: Alternative, right: Alternative, rows: float
) -> Alternative:
    """The join of its sides as they are placed. `rows` counts both sides' rows in a channel."""
    readings = {left.reading, right.reading}
    return Alternative(
        placement=placement,
        cost=left.cost + right.cost + _PASS * rows,
        relation=replace(relation, left=left.relation, right=right.relation),
        reading=Reading.ASKED if Reading.ASKED in readings else Reading.ALL,
    )


def _both_ranged(
    relation: ir.MergeJoin, left: Alternatives, right: Alternatives
) -> Iterator[tuple[Alternative, Alternative]]:
    pairs = {(key.left, key.right) for key in relation.keys}
    for one, two in product(left.shares, right.shares):
        if not (one.order and two.order and one.ranged and two.ranged):
            continue
        if one.ranged.meets(two.ranged) and (one.ranged.column, two.ranged.column) in pairs:
            yield replace(one, hashed=None), replace(two, hashed=None)


def _both_hashed(
    relation: ir.MergeJoin, left: Alternatives, right: Alternatives, movement: Movement
) -> Iterator[tuple[Alternative, Alternative]]:
    """Both sides hashed by all keys, or by the keys by which a side is hashed already."""
    of_left = {key.left: key.right for key in relation.keys}
    of_right = {key.right: key.left for key in relation.keys}
    choices = [
        (tuple(key.left for key in relation.keys), tuple(key.right for key in relation.keys)),
        *((keys, tuple(of_left[column] for column in keys)) for keys in _hashes(left, of_left)),
        *((tuple(of_right[column] for column in keys), keys) for keys in _hashes(right, of_right)),
    ]
    for one, two in dict.fromkeys(choices):
        by_left, by_right = movement.hashed_in_order(left, one), movement.hashed_in_order(right, two)
        if by_left is not None and by_right is not None:
            yield replace(by_left, ranged=None), replace(by_right, ranged=None)


def _hashes(alternatives: Alternatives, keys: Container[int]) -> list[tuple[int, ...]]:
    """The hashes of sorted shares, if these hashes use only columns in `keys`."""
    hashes = [alternative.hashed for alternative in alternatives.shares if alternative.order and alternative.hashed]
    return [hashed for hashed in hashes if all(column in keys for column in hashed)]


def _placed(
    relation: ir.MergeJoin, alternative: Alternative, left: Alternative, right: Alternative
) -> Iterator[Alternative]:
    """The join with the placement of its rows, by each side whose keys still determine it: keys of unmatched rows are
    null.
    """
    both = len(relation.schema) == len(relation.left.schema) + len(relation.right.schema)
    sides = [(left, 0, [key.left for key in relation.keys])] if relation.type in WHOLE_RIGHT else []
    if relation.type in WHOLE_LEFT:
        first = len(relation.left.schema) if both else 0
        sides.append((right, first, [key.right for key in relation.keys]))
    for side, first, keys in sides:
        yield replace(
            alternative,
            hashed=tuple(first + column for column in side.hashed) if side.hashed else None,
            ranged=side.ranged._replace(column=first + side.ranged.column) if side.ranged else None,
            order=tuple(
                ir.ColumnOrder(column=first + column, direction=key.direction)
                for column, key in zip(keys, relation.keys, strict=True)
            ),
            in_turn=left.in_turn and right.in_turn,
        )
    if not sides:
        yield alternative
