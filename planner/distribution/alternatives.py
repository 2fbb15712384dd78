"""The alternatives to have a relation's rows, and their costs."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Final, NamedTuple

from .. import ir
from .estimates import Estimate

SEND: Final = 40.0
"""Nanoseconds to hand a row to an exchange; taking the row out costs as much again. Each column adds to both."""

COLUMN: Final = 5.0
PIPELINE: Final = 3e6
"""Nanoseconds of one more pipeline, whatever it moves."""

_MOST: Final = 6
"""The most alternatives in shares that are pursued, the cheapest of each distribution."""


class Placement(enum.Enum):
    """The placement of rows. WHOLE: all rows in every channel. SHARES: each row in one channel. ONE: all rows on a
    single channel.
    """

    WHOLE = "whole"
    SHARES = "shares"
    ONE = "one"


class Reading(enum.Enum):
    """The extent to which sources are read.

    | Value | Meaning |
    |---|---|
    | ALL | Sources are read to their end, or it makes no difference. |
    | ASKED | Sorted sources are read as far as rows are asked for, so closing the rows stops them. |
    | AHEAD | Sorted sources are read further than asked, because an exchange is between. |
    """

    ALL = "all"
    ASKED = "asked"
    AHEAD = "ahead"


class Ranged(NamedTuple):
    """Rows cut by ranges of `column`: the ranges of number `ranges`."""

    column: int
    ranges: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One way to run a relation on channels. `relation` gives the rows so placed, at `cost` nanoseconds of the busiest
    channel.

    `hashed` are the columns by whose hash rows are on their channel, None if they are not; `ranged` is the column by
    whose value they are, and the number of its ranges. `order` is the order of every channel's rows, if the relation's
    order means something: merged by `order`, they are the rows of one channel. `in_turn` says that the channels' rows,
    one channel after the other, are in that order too. `reading` is how far the alternative reads sorted sources.
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
    """The alternatives of a relation worth pursuing. One of them has the relation whole."""

    estimate: Estimate
    ways: tuple[Alternative, ...]

    def best(self, *placements: Placement) -> Alternative:
        return min((way for way in self.ways if way.placement in placements), key=lambda way: way.cost)

    @property
    def whole(self) -> Alternative:
        return self.best(Placement.WHOLE)

    @property
    def one(self) -> Alternative:
        """The best alternative on one channel: rows that are whole in every channel are whole in one channel."""
        return replace(self.best(Placement.ONE, Placement.WHOLE), placement=Placement.ONE)

    @property
    def shares(self) -> tuple[Alternative, ...]:
        return tuple(way for way in self.ways if way.placement is Placement.SHARES)

    @property
    def as_asked(self) -> Alternatives:
        """The alternatives that read sources no further than asked."""
        return replace(self, ways=tuple(way for way in self.ways if way.reading is not Reading.AHEAD))

    @property
    def wholly_read(self) -> Alternatives:
        """The same alternatives for a reader that needs all rows in any case."""
        return replace(self, ways=tuple(replace(way, reading=Reading.ALL) for way in self.ways))


class Movement:
    """Moves rows between channels, with an exchange if that is needed."""

    def __init__(self, channels: int) -> None:
        self.channels = channels

    def closed(self, estimate: Estimate, found: Iterable[Alternative]) -> Alternatives:
        """The cheapest of these alternatives, and the alternatives that an exchange makes of them."""
        ways = list(found)
        shares = [way for way in ways if way.placement is Placement.SHARES]
        gathered = [self.gathered(way, estimate) for way in shares]
        # Broadcast from several channels, rows would lose the order that they have in each channel.
        sent = [way for way in ways if way.placement is Placement.ONE] + [way for way in shares if not way.order]
        broadcast = [self._broadcast(way, estimate) for way in sent]
        return Alternatives(estimate=estimate, ways=tuple(_cheapest([*ways, *gathered, *broadcast])))

    def gathered(self, way: Alternative, estimate: Estimate) -> Alternative:
        """The rows on one channel, in their order."""
        each = self._row(way)
        cost = each * estimate.rows / self.channels + each * estimate.rows
        relation = self._exchange(way, ir.Routing.GATHER, estimate, in_order=bool(way.order))
        cost += way.cost + PIPELINE
        return Alternative(placement=Placement.ONE, cost=cost, relation=relation, order=way.order, reading=_beyond(way))

    def hashed(self, ways: Alternatives, keys: tuple[int, ...]) -> Alternative:
        """The rows in shares by the hash of these columns, the columns in this order."""
        found = [self._rehashed(way, ways.estimate, keys) for way in ways.ways]
        return min(found, key=lambda way: way.cost)

    def hashed_in_order(self, ways: Alternatives, keys: tuple[int, ...]) -> Alternative | None:
        """Sorted rows in shares by hash: every channel's rows are in the order that they have on one channel. None if
        the exchange would read sources further than asked.
        """
        sorted_ = [way for way in ways.ways if way.placement is not Placement.SHARES or way.order]
        found = [self._rehashed(way, ways.estimate, keys, in_order=True) for way in sorted_]
        asked = (way for way in found if way.reading is not Reading.AHEAD)
        return min(asked, key=lambda way: way.cost, default=None)

    def dealt(self, ways: Alternatives) -> Alternative:
        """The rows in any shares."""
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
        cost += way.cost + 2 * PIPELINE  # never better than a gather if that is enough
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
        """An exchange over an alternative's rows. If the rows come out of an unsorted exchange, that exchange's input
        goes to the new exchange directly. Rows that several channels send in order are merged.
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
            plan_path=below.plan_path,
        )


def _beyond(way: Alternative) -> Reading:
    """The reading of an alternative's sources behind an exchange."""
    return Reading.ALL if way.reading is Reading.ALL else Reading.AHEAD


def _cheapest(ways: Iterable[Alternative]) -> Iterator[Alternative]:
    """The cheapest alternative of each kind."""
    found: dict[tuple[object, ...], Alternative] = {}
    for way in ways:
        kind = (way.placement, way.hashed, way.ranged, bool(way.order), way.in_turn, way.reading)
        if kind not in found or way.cost < found[kind].cost:
            found[kind] = way
    shares = sorted((way for way in found.values() if way.placement is Placement.SHARES), key=lambda way: way.cost)
    yield from (way for way in found.values() if way.placement is not Placement.SHARES)
    yield from shares[:_MOST]
