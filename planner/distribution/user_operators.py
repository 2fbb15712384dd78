"""The alternatives of a user's operator: all its rows on one channel, or each stream's rows on the channels of its
registration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, assert_never

from .. import ir
from .alternatives import Alternative, Alternatives, Movement, Placement

_CODE: Final = 200.0
"""Nanoseconds of user code for a row: a guess."""


def user_ways(relation: ir.User, below: Sequence[Alternatives], movement: Movement) -> Iterator[Alternative]:
    """The alternatives of a user's operator. User code may see its channel, so it never runs in every channel over the
    same rows.
    """
    yield _together(relation, Placement.ONE, [each.one for each in below], sum(each.estimate.rows for each in below))
    if relation.dealing is not None:
        pairs = list(zip(below, relation.dealing, strict=True))
        ways = [_dealt(each, dealing, movement) for each, dealing in pairs]
        share = sum(
            each.estimate.rows / (1 if dealing.routing is ir.Routing.BROADCAST else movement.channels)
            for each, dealing in pairs
        )
        yield _together(relation, Placement.SHARES, ways, share)


def _dealt(ways: Alternatives, dealing: ir.Dealing, movement: Movement) -> Alternative:
    match dealing.routing:
        case ir.Routing.HASH:
            return movement.hashed(ways, dealing.keys)
        case ir.Routing.BROADCAST:
            return ways.whole
        case ir.Routing.ROUND_ROBIN:
            return movement.dealt(ways)
        case ir.Routing.GATHER | ir.Routing.FORWARD | ir.Routing.FUNCTION:
            raise ValueError(f"a stream of a plan's operator is not dealt by {dealing.routing.value}")
        case _:
            assert_never(dealing.routing)


def _together(relation: ir.User, placement: Placement, ways: Sequence[Alternative], rows: float) -> Alternative:
    made = replace(relation, inputs=tuple(way.relation for way in ways))
    return Alternative(placement=placement, cost=sum(way.cost for way in ways) + _CODE * rows, relation=made)
