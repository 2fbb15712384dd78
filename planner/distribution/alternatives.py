"""The ways to have a relation's rows, and what they cost."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Final, NamedTuple

from .. import ir
from .estimates import Estimate

SEND: Final = 40.0
"""Nanoseconds to hand a row to an exchange; as much again takes it out. Each column adds to both."""

COLUMN: Final = 5.0
PIPELINE: Final = 3e6
"""Of one more pipeline, whatever it moves."""

_MOST: Final = 6
"""Alternatives in shares that are looked at further, the cheapest of each distribution."""


class Placement(enum.Enum):
    """WHOLE: all rows in every channel. SHARES: each row in one of them. ONE: all rows on a single channel."""

    WHOLE = "whole"
    SHARES = "shares"
    ONE = "one"


class Reading(enum.Enum):
    """How far sources are read. ALL: to their end, or it makes no difference. ASKED: those that are sorted as far as
    rows are asked for, so that who closes the rows stops them. AHEAD: further, because an exchange is between.
    """

    ALL = "all"
    ASKED = "asked"
    AHEAD = "ahead"


class Ranged(NamedTuple):
    column: int
    ranges: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """`relation` gives the rows so placed, at `cost` nanoseconds of the busiest channel.

    `hashed` are the columns by whose hash rows are at their channel, None where it is not so; `ranged` is the column
    by whose value they are, and which ranges those are. `order` is what every channel's rows are sorted by, where the
    relation's order says something: merged by it, they are the rows of one channel. `in_turn` says that one channel's
    after the other's are so too. `reading` is how far it reads what is sorted.
    """

    placement: Placement
    cost: float
    relation: ir.Relation
    hashed: tuple[int, ...] | None = None
    ranged: Ranged | None = None
    order: tuple[ir.ColumnOrder, ...] = ()
    in_turn: bool = False
    reading: Reading = Reading.ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternatives:
    """The ways of a relation worth looking at. One of them has it whole."""

    estimate: Estimate
    ways: tuple[Alternative, ...]

    def best(self, *placements: Placement) -> Alternative:
        return min((way for way in self.ways if way.placement in placements), key=lambda way: way.cost)

    @property
    def whole(self) -> Alternative:
        return self.best(Placement.WHOLE)

    @property
    def one(self) -> Alternative:
        """On one channel: what is whole in every channel is so in one."""
        return replace(self.best(Placement.ONE, Placement.WHOLE), placement=Placement.ONE)

    @property
    def shares(self) -> tuple[Alternative, ...]:
        return tuple(way for way in self.ways if way.placement is Placement.SHARES)

    @property
    def as_asked(self) -> Alternatives:
        """Those that read sources no further than is asked."""
        return replace(self, ways=tuple(way for way in self.ways if way.reading is not Reading.AHEAD))

    @property
    def wholly_read(self) -> Alternatives:
        """The same, for who needs all rows in any case."""
        return replace(self, ways=tuple(replace(way, reading=Reading.ALL) for way in self.ways))


class Movement:
    """Moves rows between channels, with an exchange where that is needed."""

    def __init__(self, channels: int) -> None:
        self.channels = channels

    def closed(self, estimate: Estimate, found: Iterable[Alternative]) -> Alternatives:
        """The cheapest of these ways, and those that an exchange makes of them."""
        ways = list(found)
        shares = [way for way in ways if way.placement is Placement.SHARES]
        gathered = [self.gathered(way, estimate) for way in shares]
        # Broadcast from several channels, rows would lose the order that they have in each.
        sent = [way for way in ways if way.placement is Placement.ONE] + [way for way in shares if not way.order]
        broadcast = [self._broadcast(way, estimate) for way in sent]
        return Alternatives(estimate=estimate, ways=tuple(_cheapest([*ways, *gathered, *broadcast])))

    def gathered(self, way: Alternative, estimate: Estimate) -> Alternative:
        """On one channel, in the order that it has."""
        each = self._row(way)
        cost = each * estimate.rows / self.channels + each * estimate.rows
        relation = self._exchange(way, ir.Routing.GATHER, estimate, in_order=bool(way.order))
        cost += way.cost + PIPELINE
        return Alternative(placement=Placement.ONE, cost=cost, relation=relation, order=way.order, reading=_beyond(way))

    def hashed(self, ways: Alternatives, keys: tuple[int, ...]) -> Alternative:
        """In shares by the hash of these columns, in this order."""
        found = [self._rehashed(way, ways.estimate, keys) for way in ways.ways]
        return min(found, key=lambda way: way.cost)

    def hashed_in_order(self, ways: Alternatives, keys: tuple[int, ...]) -> Alternative | None:
        """The same of rows that are sorted: every channel's are in the order that they have on one. None where that
        would read sources further than is asked.
        """
        sorted_ = [way for way in ways.ways if way.placement is not Placement.SHARES or way.order]
        found = [self._rehashed(way, ways.estimate, keys, in_order=True) for way in sorted_]
        asked = (way for way in found if way.reading is not Reading.AHEAD)
        return min(asked, key=lambda way: way.cost, default=None)

    def dealt(self, ways: Alternatives) -> Alternative:
        """In shares, however."""
        shares = ways.shares
        if shares:
            return min(shares, key=lambda way: way.cost)
        one = ways.one
        each = self._row(one) * ways.estimate.rows
        relation = self._exchange(one, ir.Routing.ROUND_ROBIN, ways.estimate)
        cost = one.cost + each + each / self.channels + PIPELINE
        return Alternative(placement=Placement.SHARES, cost=cost, relation=relation)

    def _rehashed(
        self, way: Alternative, estimate: Estimate, keys: tuple[int, ...], *, in_order: bool = False
    ) -> Alternative:
        if way.placement is Placement.SHARES and way.hashed == keys:
            return way
        sent = estimate.rows / (self.channels if way.placement is Placement.SHARES else 1)
        cost = self._row(way) * (sent + estimate.rows / self.channels)
        relation = self._exchange(way, ir.Routing.HASH, estimate, keys=keys, in_order=in_order)
        cost += way.cost + PIPELINE
        return Alternative(placement=Placement.SHARES, cost=cost, relation=relation, hashed=keys, reading=_beyond(way))

    def _broadcast(self, way: Alternative, estimate: Estimate) -> Alternative:
        sent = estimate.rows / (self.channels if way.placement is Placement.SHARES else 1)
        cost = self._row(way) * (sent + estimate.rows)
        relation = self._exchange(way, ir.Routing.BROADCAST, estimate)
        cost += way.cost + 2 * PIPELINE  # never better than a gather where that is enough
        return Alternative(placement=Placement.WHOLE, cost=cost, relation=relation, reading=_beyond(way))

    def _row(self, way: Alternative) -> float:
        return SEND + COLUMN * len(way.relation.schema)

    def _exchange(
        self,
        way: Alternative,
        routing: ir.Routing,
        estimate: Estimate,
        *,
        keys: tuple[int, ...] = (),
        in_order: bool = False,
    ) -> ir.Exchange:
        """An exchange over the way's rows; where they come out of one unsorted, that one's rows go there directly. What
        several channels send in order is merged.
        """
        below: ir.Relation = way.relation
        producers = self.channels if way.placement is Placement.SHARES else 1
        if isinstance(below, ir.Exchange) and not below.order and not in_order:
            producers = below.producers
            below = below.input
        return ir.Exchange(
            input=below,
            routing=routing,
            producers=producers,
            rows=ceil(estimate.rows),
            keys=keys,
            order=way.order if in_order and producers > 1 else (),
            schema=below.schema,
            place=below.place,
        )


def _beyond(way: Alternative) -> Reading:
    """What an exchange makes of how far a way reads."""
    return Reading.ALL if way.reading is Reading.ALL else Reading.AHEAD


def _cheapest(ways: Iterable[Alternative]) -> Iterator[Alternative]:
    """The cheapest of each kind."""
    found: dict[tuple[object, ...], Alternative] = {}
    for way in ways:
        kind = (way.placement, way.hashed, way.ranged, bool(way.order), way.in_turn, way.reading)
        if kind not in found or way.cost < found[kind].cost:
            found[kind] = way
    shares = sorted((way for way in found.values() if way.placement is Placement.SHARES), key=lambda way: way.cost)
    yield from (way for way in found.values() if way.placement is not Placement.SHARES)
    yield from shares[:_MOST]
