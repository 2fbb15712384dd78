"""Chooses the alternatives of every relation, from the leaves up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Final, assert_never

from ...proto.errors import InternalError
from .. import ir
from ..analysis.recursions import steady, with_fixed
from ..analysis.selective_tests import SEARCHING
from ..ir import tree
from ..ir.visit import parts, rebuilt, relations, subqueries_of, with_subqueries
from ..ir.walk import unroll
from .aggregates import aggregate_alternatives
from .alternatives import BYTE, HASHED, READ, Alternative, Alternatives, Movement, Placement
from .column_positions import moved_columns, moved_order, moved_range, output_positions
from .estimates import Estimate, with_bytes, with_width_of
from .joins import join_alternatives, lateral_alternatives
from .orders import fetch_alternatives, sort_alternatives, top_n_alternatives
from .range_partitions import ranged
from .relation_estimates import own_estimate
from .sets import in_one_place, set_alternatives
from .sorted_inputs import sorted_alternatives
from .source_reads import read_alternatives
from .spreading import Broadcasts, Spreading
from .user_operators import user_alternatives
from .windows import sliding_alternatives, window_alternatives

_COMPUTE: Final = 4.0
_MATCH: Final = 100.0
"""Nanoseconds to search a text for a pattern, reading the text included."""

_GROWTH: Final = 4.0
"""Rows that come out of a loop for each row that it reads: a guess."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A distributed plan: `root` on `channels` channels, with exchanges below. `shared` are the shared relations as
    `root` uses them. `saved` estimates the nanoseconds that several channels save, whether or not they are used.
    """

    root: ir.Relation
    channels: int
    shared: tuple[ir.Relation, ...]
    saved: float


def spread(root: ir.Relation, spreading: Spreading) -> Spread:
    """The cheapest alternative for the root's rows, whose order is that of the channels' rows, one channel after the
    other. A single channel has all rows unless several channels save enough. Sources without rows, for which every task
    is planned first, leave them nothing to save.
    """
    alone = _Finding(root, replace(spreading, channels=1))
    one = unroll(alone.step, root).one
    if one.cost < spreading.least_saved and not any(spreading.rows.values()):
        return Spread(one.relation, 1, alone.shared(), 0.0)
    finding = _Finding(root, spreading)
    alternatives = unroll(finding.step, root)
    best = min(
        (
            *(alternative for alternative in alternatives.shares if not alternative.order or alternative.in_turn),
            alternatives.one,
        ),
        key=lambda alternative: alternative.cost,
    )
    saved = one.cost - best.cost
    if saved < spreading.least_saved:
        return Spread(one.relation, 1, alone.shared(), saved)
    if best.placement is Placement.SHARES:
        return Spread(best.relation, spreading.channels, finding.shared(), saved)
    cut = ranged(best.relation, spreading.channels, spreading.least_saved) if spreading.ranges else None
    if cut is not None:
        return Spread(cut, spreading.channels, finding.shared(), saved)
    return Spread(best.relation, 1, finding.shared(), saved)


class _Finding:
    def __init__(self, root: ir.Relation, spreading: Spreading) -> None:
        self._spreading = spreading
        self._movement = Movement(spreading.channels)
        self._known: dict[ir.Relation, Alternatives] = {}
        self._shared: dict[int, ir.Relation] = {}
        self._broadcasts = Broadcasts(spreading.broadcast)
        self._uses = Counter(
            relation.ordinal
            for start in (root, *spreading.shared)
            for relation in relations(start)
            if isinstance(relation, ir.Shared)
        )

    def shared(self) -> tuple[ir.Relation, ...]:
        """The shared relations as their uses read them. A use that is computed in place reads all of the shared
        relation.
        """
        return tuple(
            self._shared[at] if at in self._shared else self._in_place(relation)
            for at, relation in enumerate(self._spreading.shared)
        )

    def step(self, relation: ir.Relation) -> Generator[ir.Relation, Alternatives, Alternatives]:
        known = self._known.get(relation)
        if known is None:
            known = self._known[relation] = yield from self._alternatives_of(relation)
        return known

    def _alternatives_of(self, relation: ir.Relation) -> Generator[ir.Relation, Alternatives, Alternatives]:
        if relation in self._spreading.kept:
            rows = self._spreading.rows_below(relation)
            whole = Alternative(placement=Placement.WHOLE, cost=READ * rows, relation=relation)
            return self._movement.closed(Estimate(rows, rows), [whole])
        if isinstance(relation, ir.Shared):
            return (yield from self._of_shared(relation))
        if isinstance(relation, ir.Recursion | ir.Rounds):
            return (yield from self._of_loop(relation))
        below: list[Alternatives] = []
        for child in tree.read_by(relation):
            below.append((yield child))  # noqa: PERF401 (a comprehension cannot yield)
        inner: dict[ir.Relation, ir.Relation] = {}
        cost = 0.0
        for subquery in subqueries_of(relation):
            if self._spreading.facts.of(subquery.relation).references.rows:
                inner[subquery.relation] = self._in_place(subquery.relation)
                cost += READ * self._spreading.rows_below(subquery.relation)
            else:
                whole = (yield subquery.relation).whole
                inner[subquery.relation] = whole.relation
                cost += whole.cost
        if inner:
            relation = with_subqueries(relation, inner)
        estimate = self._with_bytes(relation, self._estimate(relation, below), below)
        alternatives = Alternatives(estimate=estimate, choices=tuple(self._of(relation, below, estimate)))
        if relation.traits.takes != "asked":
            alternatives = alternatives.wholly_read
        choices = alternatives.choices
        if cost:
            choices = tuple(replace(alternative, cost=alternative.cost + cost) for alternative in choices)
        return self._movement.closed(estimate, choices)

    def _of_loop(self, relation: ir.Recursion | ir.Rounds) -> Generator[ir.Relation, Alternatives, Alternatives]:
        """The alternatives of a loop: all of it in one place, from which its sorted rows may be dealt out."""
        below: dict[ir.Relation, Alternatives] = {}
        for child in relation.inputs if isinstance(relation, ir.Rounds) else steady(relation):
            below[child] = yield child
        rows = _GROWTH * fsum(alternatives.estimate.rows for alternatives in below.values())
        read = [alternatives.estimate for alternatives in below.values()]
        estimate = with_width_of(Estimate(rows, rows), relation.schema, read)

        def together(placement: Placement, alternatives: Mapping[ir.Relation, Alternative]) -> Alternative:
            inputs = {number: alternative.relation for number, alternative in alternatives.items()}
            rebuilt = _with_inputs(relation, inputs)
            cost = fsum(alternative.cost for alternative in alternatives.values()) + HASHED * rows
            return Alternative(placement=placement, cost=cost, relation=rebuilt)

        whole = together(Placement.WHOLE, {number: alternatives.whole for number, alternatives in below.items()})
        one = together(Placement.ONE, {number: alternatives.one for number, alternatives in below.items()})
        order = tuple(
            ir.ColumnOrder(column=at, direction=ir.Direction.ASC_NULLS_LAST) for at in range(len(relation.schema))
        )
        dealt = replace(self._movement.dealt(Alternatives(estimate=estimate, choices=(one,))), order=order)
        return self._movement.closed(estimate, [whole, one, dealt])

    def _of_shared(self, relation: ir.Shared) -> Generator[ir.Relation, Alternatives, Alternatives]:
        """The alternatives of a shared relation: computed whole in every channel that uses it, once for all its uses
        there; or computed once and sent.
        """
        definition = (yield self._spreading.shared[relation.ordinal]).wholly_read
        self._shared[relation.ordinal] = definition.whole.relation
        uses = self._uses[relation.ordinal]
        whole = replace(definition.whole, relation=relation, cost=definition.whole.cost / uses)
        source = min((*definition.shares, definition.one), key=lambda alternative: alternative.cost)
        source = replace(source, cost=source.cost / uses)
        sent = self._movement.closed(definition.estimate, [source])
        exchanged = (alternative for alternative in sent.choices if isinstance(alternative.relation, ir.Exchange))
        return self._movement.closed(definition.estimate, [whole, *definition.shares, *exchanged])

    def _of(  # noqa: C901 (a line per relation)
        self, relation: ir.Relation, below: Sequence[Alternatives], estimate: Estimate
    ) -> Iterator[Alternative]:
        movement = self._movement
        match relation.traits.distribution:
            case "row by row":
                yield from self._row_by_row(relation, below[0])
                return
            case "one place":
                yield from in_one_place(relation, below, HASHED)
                return
            case "own" | "never":
                pass
            case distribution:
                assert_never(distribution)
        if not isinstance(relation, ir.OwnDistribution):
            raise InternalError(f"{relation.plan_path}: the channels of a {relation.traits.name} are not known")
        match relation:
            case ir.Read() | ir.LocalFiles():
                yield from read_alternatives(relation, estimate, self._spreading)
            case ir.Values():
                yield Alternative(placement=Placement.WHOLE, cost=READ * estimate.rows, relation=relation)
            case ir.Sort():
                yield from sort_alternatives(relation, below[0], movement)
            case ir.TopN():
                yield from top_n_alternatives(relation, below[0], movement)
            case ir.Fetch():
                yield from fetch_alternatives(relation, below[0], movement)
            case ir.Aggregate():
                yield from aggregate_alternatives(relation, below[0], estimate, movement)
            case ir.Window():
                yield from window_alternatives(relation, below[0], movement)
            case ir.SlidingAggregate():
                yield from sliding_alternatives(relation, below[0], estimate, movement)
            case ir.Join() | ir.Cross():
                named = self._broadcasts(relation.left), self._broadcasts(relation.right)
                yield from join_alternatives(relation, below[0], below[1], movement, named)
            case ir.MergeJoin() | ir.AsOfMergeJoin() | ir.StreamingAggregate():
                inputs = [self._broadcasts(child) for child in tree.inputs(relation)]
                yield from sorted_alternatives(relation, below, movement, inputs)
            case ir.LateralJoin():
                right = self._in_place(relation.right)
                rows = self._spreading.rows_below(relation.right)
                yield from lateral_alternatives(relation, below[0], right, rows)
            case ir.Set():
                yield from set_alternatives(relation, below, movement)
            case ir.User():
                yield from user_alternatives(relation, below, movement)
            case _:
                assert_never(relation)

    def _row_by_row(self, relation: ir.Relation, below: Alternatives) -> Iterator[Alternative]:
        computed = [expression for expression in tree.expressions(relation) if not isinstance(expression, ir.Field)]
        work = _COMPUTE * (1 + len(computed)) + _MATCH * sum(map(_matches, computed))
        work += BYTE * below.estimate.wide if computed else 0.0
        moved = output_positions(relation)
        for alternative in below.choices:
            order = moved_order(alternative.order, moved)
            if order is None and alternative.placement is Placement.SHARES:
                continue  # the channels' rows could no longer be merged
            share = self._spreading.channels if alternative.placement is Placement.SHARES else 1
            yield replace(
                alternative,
                cost=alternative.cost + work * below.estimate.rows / share,
                relation=tree.with_inputs(relation, (alternative.relation, *tree.inputs(relation)[1:])),
                hashed=moved_columns(alternative.hashed, moved),
                ranged=moved_range(alternative.ranged, moved, relation),
                order=order or (),
            )

    def _in_place(self, relation: ir.Relation) -> ir.Relation:
        """A relation that every channel computes, because it reads an enclosing row: all its reads are whole."""

        def step(visited: ir.Relation) -> Generator[ir.Relation, ir.Relation, ir.Relation]:
            if visited in self._spreading.kept:  # every channel reads all of its rows
                return visited
            part = yield from rebuilt(visited)
            return replace(part, whole=True) if isinstance(part, ir.Read | ir.LocalFiles) else part

        return unroll(step, relation)

    # ------------------------------------------------------------------------------------------------- sizes

    def _with_bytes(self, relation: ir.Relation, estimate: Estimate, below: Sequence[Alternatives]) -> Estimate:
        if isinstance(relation, ir.Read | ir.LocalFiles):
            return with_bytes(estimate, relation.schema, self._spreading.bytes.get(relation.source, 0))
        return with_width_of(estimate, relation.schema, [alternatives.estimate for alternatives in below])

    def _estimate(self, relation: ir.Relation, below: Sequence[Alternatives]) -> Estimate:
        match relation.traits.rows:
            case "input":
                return below[0].estimate
            case "own":
                return own_estimate(relation, [alternatives.estimate for alternatives in below], self._spreading.rows)
            case "never":
                raise InternalError(f"{relation.plan_path}: a {relation.traits.name} has no estimate of its own")
            case rows:
                assert_never(rows)


def _with_inputs(relation: ir.Recursion | ir.Rounds, inputs: Mapping[ir.Relation, ir.Relation]) -> ir.Relation:
    """The loop over other relations in place of those that it reads. `inputs` is by the old relation."""
    if isinstance(relation, ir.Recursion):
        return with_fixed(relation, inputs)
    return tree.with_inputs(relation, [inputs[child] for child in relation.inputs])


def _matches(expression: ir.Expression) -> int:
    return sum(isinstance(part, ir.Call) and part.function.name in SEARCHING for part in parts(expression))
