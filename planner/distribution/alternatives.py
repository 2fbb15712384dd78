"""Alternatives: the ways to place a relation's rows on the channels, each with its cost."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, fsum
from typing import Final, NamedTuple

from ...operators.core.column import Slices
from .. import ir
from ..ir import tree
from ..ir.types import Type
from .estimates import Estimate

READ: Final = 6.0
"""Nanoseconds to read a value of a source."""

HASHED: Final = 60.0
"""Nanoseconds to put a row into a hash table, or to sort it into a partition."""

SEND: Final = 40.0
"""Nanoseconds to hand a row to an exchange; taking the row out costs as much again. Each column adds to both."""

COLUMN: Final = 5.0
BYTE: Final = 0.5
"""Nanoseconds to read or to move a byte of long values. The costs of rows and values include those of short ones."""

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
    """Rows cut by ranges of `column`: the ranges of number `ranges`. No slice of `slices` lies in two of them.

    If `type` is there, the column has the numbers of the slices, of a column of this type.
    """

    column: int
    ranges: int
    slices: Slices | None = None
    type: Type | None = None

    def meets(self, other: Ranged) -> bool:
        """Tests whether rows with equal values of both columns are on one channel."""
        return self.ranges == other.ranges and self.type is None and other.type is None


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
    choices: tuple[Alternative, ...]

    def best(self, *placements: Placement) -> Alternative:
        return min(
            (alternative for alternative in self.choices if alternative.placement in placements),
            key=lambda alternative: alternative.cost,
        )

    @property
    def whole(self) -> Alternative:
        return self.best(Placement.WHOLE)

    @property
    def one(self) -> Alternative:
        """The best alternative on one channel: rows that are whole in every channel are whole in one channel."""
        best = self.best(Placement.ONE, Placement.WHOLE)
        return best if best.placement is Placement.ONE else replace(best, placement=Placement.ONE)

    @property
    def shares(self) -> tuple[Alternative, ...]:
        return tuple(alternative for alternative in self.choices if alternative.placement is Placement.SHARES)

    @property
    def as_asked(self) -> Alternatives:
        """The alternatives that read sources no further than asked."""
        return replace(
            self, choices=tuple(alternative for alternative in self.choices if alternative.reading is not Reading.AHEAD)
        )

    @property
    def wholly_read(self) -> Alternatives:
        """The same alternatives for a reader that needs all rows in any case."""
        if all(alternative.reading is Reading.ALL for alternative in self.choices):
            return self
        return replace(self, choices=tuple(replace(alternative, reading=Reading.ALL) for alternative in self.choices))


def together(
    relation: ir.Relation,
    placement: Placement,
    inputs: Sequence[Alternative],
    cost: float,
    hashed: tuple[int, ...] | None = None,
) -> Alternative:
    """The relation over these alternatives of its inputs, whose costs come on top of `cost`."""
    rebuilt = tree.with_inputs(relation, [alternative.relation for alternative in inputs])
    cost += fsum(alternative.cost for alternative in inputs)
    return Alternative(placement=placement, cost=cost, relation=rebuilt, hashed=hashed)


def row_cost(columns: int, wide: float) -> float:
    """Nanoseconds to hand a row with so many columns to an exchange; taking it out costs as much again.

    `wide` are the bytes of its long values.
    """
    return SEND + COLUMN * columns + BYTE * wide


class Movement:
    """Moves rows between channels, with an exchange if that is needed."""

    def __init__(self, channels: int) -> None:
        self.channels = channels

    def closed(self, estimate: Estimate, offered: Iterable[Alternative]) -> Alternatives:
        """The cheapest of these alternatives, and the alternatives that an exchange makes of them."""
        alternatives = list(offered)
        # An exchange costs all alternatives alike that are placed alike, and forgets how their rows were in shares.
        moved = _cheapest_each(alternatives, lambda one: (one.placement, bool(one.order), _beyond(one))).values()
        gathered = [self.gathered(one, estimate) for one in moved if one.placement is Placement.SHARES]
        # Broadcast from several channels, rows would lose the order that they have in each channel.
        sent = [one for one in moved if one.placement is Placement.ONE] + [
            one for one in moved if one.placement is Placement.SHARES and not one.order
        ]
        broadcast = [self._broadcast(one, estimate) for one in sent]
        return Alternatives(estimate=estimate, choices=tuple(_cheapest([*alternatives, *gathered, *broadcast])))

    def gathered(self, alternative: Alternative, estimate: Estimate) -> Alternative:
        """The rows on one channel, in their order."""
        row = _row_cost(alternative, estimate)
        cost = row * estimate.rows / self.channels + row * estimate.rows
        relation = self._exchange(alternative, ir.Routing.GATHER, estimate, in_order=bool(alternative.order))
        cost += alternative.cost + PIPELINE
        return Alternative(
            placement=Placement.ONE, cost=cost, relation=relation, order=alternative.order, reading=_beyond(alternative)
        )

    def hashed(self, alternatives: Alternatives, keys: tuple[int, ...]) -> Alternative:
        """The rows in shares by the hash of these columns, the columns in this order."""
        rehashed = [self._rehashed(alternative, alternatives.estimate, keys) for alternative in alternatives.choices]
        return min(rehashed, key=lambda alternative: alternative.cost)

    def hashed_in_order(self, alternatives: Alternatives, keys: tuple[int, ...]) -> Alternative | None:
        """Sorted rows in shares by hash: every channel's rows are in the order that they have on one channel. None if
        the exchange would read sources further than asked.
        """
        sorted_ = [
            alternative
            for alternative in alternatives.choices
            if alternative.placement is not Placement.SHARES or alternative.order
        ]
        rehashed = [self._rehashed(alternative, alternatives.estimate, keys, in_order=True) for alternative in sorted_]
        asked = (alternative for alternative in rehashed if alternative.reading is not Reading.AHEAD)
        return min(asked, key=lambda alternative: alternative.cost, default=None)

    def dealt(self, alternatives: Alternatives) -> Alternative:
        """The rows in any shares."""
        shares = alternatives.shares
        if shares:
            return min(shares, key=lambda alternative: alternative.cost)
        one = alternatives.one
        sending = _row_cost(one, alternatives.estimate) * alternatives.estimate.rows
        relation = self._exchange(one, ir.Routing.ROUND_ROBIN, alternatives.estimate)
        cost = one.cost + sending + sending / self.channels + PIPELINE
        return Alternative(placement=Placement.SHARES, cost=cost, relation=relation)

    def _rehashed(
        self, alternative: Alternative, estimate: Estimate, keys: tuple[int, ...], *, in_order: bool = False
    ) -> Alternative:
        if alternative.placement is Placement.SHARES and alternative.hashed == keys:
            return alternative
        sent = estimate.rows / (self.channels if alternative.placement is Placement.SHARES else 1)
        cost = _row_cost(alternative, estimate) * (sent + estimate.rows / self.channels)
        relation = self._exchange(alternative, ir.Routing.HASH, estimate, keys=keys, in_order=in_order)
        cost += alternative.cost + PIPELINE
        return Alternative(
            placement=Placement.SHARES, cost=cost, relation=relation, hashed=keys, reading=_beyond(alternative)
        )

    def _broadcast(self, alternative: Alternative, estimate: Estimate) -> Alternative:
        sent = estimate.rows / (self.channels if alternative.placement is Placement.SHARES else 1)
        cost = _row_cost(alternative, estimate) * (sent + estimate.rows)
        relation = self._exchange(alternative, ir.Routing.BROADCAST, estimate)
        cost += alternative.cost + 2 * PIPELINE  # never better than a gather if that is enough
        return Alternative(placement=Placement.WHOLE, cost=cost, relation=relation, reading=_beyond(alternative))

    def _exchange(
        self,
        alternative: Alternative,
        routing: ir.Routing,
        estimate: Estimate,
        *,
        keys: tuple[int, ...] = (),
        in_order: bool = False,
    ) -> ir.Exchange:
        """An exchange over an alternative's rows. If the rows come out of an unsorted exchange, that exchange's input
        goes to the new exchange directly. Rows that several channels send in order are merged.
        """
        below: ir.Relation = alternative.relation
        producers = self.channels if alternative.placement is Placement.SHARES else 1
        if isinstance(below, ir.Exchange) and not below.order and not in_order:
            producers = below.producers
            below = below.input
        return ir.Exchange(
            input=below,
            routing=routing,
            producers=producers,
            rows=ceil(estimate.rows),
            wide=estimate.wide,
            keys=keys,
            order=alternative.order if in_order and producers > 1 else (),
            schema=below.schema,
            plan_path=below.plan_path,
        )


def _row_cost(alternative: Alternative, estimate: Estimate) -> float:
    return row_cost(len(alternative.relation.schema), estimate.wide)


def _beyond(alternative: Alternative) -> Reading:
    """The reading of an alternative's sources behind an exchange."""
    return Reading.ALL if alternative.reading is Reading.ALL else Reading.AHEAD


def _cheapest(alternatives: Iterable[Alternative]) -> Iterator[Alternative]:
    """The cheapest alternative of each kind."""
    cheapest = _cheapest_each(
        alternatives, lambda one: (one.placement, one.hashed, one.ranged, bool(one.order), one.in_turn, one.reading)
    )
    shares = sorted(
        (alternative for alternative in cheapest.values() if alternative.placement is Placement.SHARES),
        key=lambda alternative: alternative.cost,
    )
    yield from (alternative for alternative in cheapest.values() if alternative.placement is not Placement.SHARES)
    yield from shares[:_MOST]


def _cheapest_each(
    alternatives: Iterable[Alternative], kind_of: Callable[[Alternative], Hashable]
) -> dict[Hashable, Alternative]:
    """The cheapest alternative of each kind, by kind; of equal ones the first."""
    cheapest: dict[Hashable, Alternative] = {}
    for alternative in alternatives:
        kind = kind_of(alternative)
        if kind not in cheapest or alternative.cost < cheapest[kind].cost:
            cheapest[kind] = alternative
    return cheapest
