"""The alternatives of a user operator: all its rows on one channel, or each stream's rows on the channels of its
registration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum
from typing import Final, assert_never

from .. import ir
from .alternatives import Alternative, Alternatives, Movement, Placement, together

_CODE: Final = 200.0
"""Nanoseconds of user code for a row: a guess."""


def user_alternatives(relation: ir.User, below: Sequence[Alternatives], movement: Movement) -> Iterator[Alternative]:
    """The alternatives of a user operator. User code may see its channel, so it never runs in every channel over the
    same rows.
    """
    yield together(
        relation,
        Placement.ONE,
        [alternatives.one for alternatives in below],
        _CODE * fsum(alternatives.estimate.rows for alternatives in below),
    )
    if relation.dealing is not None:
        pairs = list(zip(below, relation.dealing, strict=True))
        alternatives = [_dealt(child, dealing, movement) for child, dealing in pairs]
        share = fsum(
            child.estimate.rows / (1 if dealing.routing is ir.Routing.BROADCAST else movement.channels)
            for child, dealing in pairs
        )
        yield together(relation, Placement.SHARES, alternatives, _CODE * share)


def _dealt(alternatives: Alternatives, dealing: ir.Dealing, movement: Movement) -> Alternative:
    match dealing.routing:
        case ir.Routing.HASH:
            return movement.hashed(alternatives, dealing.keys)
        case ir.Routing.BROADCAST:
            return alternatives.whole
        case ir.Routing.ROUND_ROBIN:
            return movement.dealt(alternatives)
        case ir.Routing.GATHER | ir.Routing.FORWARD | ir.Routing.FUNCTION | ir.Routing.RANGE:
            raise ValueError(f"a stream of a plan's operator is not dealt by {dealing.routing.value}")
        case _:
            assert_never(dealing.routing)
