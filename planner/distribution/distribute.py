"""Chooses the alternatives of every relation, from the leaves up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, assert_never

from ...proto.errors import InternalError
from .. import ir
from ..analysis.facts import FactTable
from ..analysis.recursions import steady, with_fixed
from ..ir import tree
from ..ir.visit import beneath, is_column, parts, relations, subqueries, transform_relations, with_subqueries
from ..ir.walk import unroll
from .aggregates import aggregate_alternatives
from .alternatives import Alternative, Alternatives, Movement, Placement, Ranged, Reading
from .column_positions import moved_columns, moved_order, moved_range, output_positions
from .estimates import Estimate, filtered, grouped, joined
from .joins import WHOLE_RIGHT, join_alternatives, join_estimate
from .orders import fetch_alternatives, sort_alternatives, top_n_alternatives
from .origins import Key
from .sorted_inputs import merge_join_alternatives, streaming_aggregate_alternatives
from .user_operators import user_alternatives

_READ, _COMPUTE, _HASHED = 6.0, 4.0, 60.0
_OPEN: Final = 3e6
"""Nanoseconds to plan a statement's read of a source, and to read the footers of the source's files."""

_MATCH: Final = 100.0
"""Nanoseconds to search a text for a pattern, reading the text included."""

_MATCHING: Final = frozenset({"like", "contains", "regexp_match_substring", "regexp_replace", "strpos"})
_CUT: Final = 1.1
_GROWTH: Final = 4.0
"""Rows that come out of a loop for each row that it reads: a guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spreading:
    """The basis of the choices: the plan, its sources' rows, the options.

    `kept` are relations computed once for the task; every channel reads them. `keys` are the columns by which
    sources may be cut, with the number of their ranges; a source is cut if `clustered` has the column, and a source
    with a declared order only if `rising` has it. Several channels have to save `least_saved` nanoseconds by the
    estimates.
    """

    channels: int
    rows: Mapping[str, int]
    facts: FactTable
    shared: Sequence[ir.Relation]
    kept: Mapping[ir.Relation, str] = field(default_factory=dict)
    broadcast: Collection[str] = ()
    least_saved: float = 0.0
    keys: Mapping[Key, int] = field(default_factory=dict)
    clustered: Mapping[str, Collection[str]] = field(default_factory=dict)
    rising: Mapping[str, Collection[str]] = field(default_factory=dict)


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
    other. A single channel has all rows unless several channels save enough.
    """
    alone = _Finding(root, replace(spreading, channels=1))
    one = unroll(alone.step, root).one
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
    channels = spreading.channels if best.placement is Placement.SHARES else 1
    return Spread(best.relation, channels, finding.shared(), saved)


class _Named(Enum):
    """The part of a relation's sources that the option `broadcast` names. Two relations together have the greater
    value.
    """

    NOTHING = 0
    """The relation reads no source."""
    ALL = 1
    NOT_ALL = 2


class _Finding:
    def __init__(self, root: ir.Relation, spreading: Spreading) -> None:
        self._spreading = spreading
        self._movement = Movement(spreading.channels)
        self._known: dict[ir.Relation, Alternatives] = {}
        self._shared: dict[int, ir.Relation] = {}
        self._named: dict[ir.Relation, _Named] = {}
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
        return tuple(self._shared.get(at, relation) for at, relation in enumerate(self._spreading.shared))

    def step(self, relation: ir.Relation) -> Generator[ir.Relation, Alternatives, Alternatives]:
        known = self._known.get(relation)
        if known is None:
            known = self._known[relation] = yield from self._alternatives_of(relation)
        return known

    def _alternatives_of(self, relation: ir.Relation) -> Generator[ir.Relation, Alternatives, Alternatives]:
        if relation in self._spreading.kept:
            rows = self._rows_below(relation)
            whole = Alternative(placement=Placement.WHOLE, cost=_READ * rows, relation=relation)
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
        for expression in tree.expressions(relation):
            for subquery in subqueries(expression):
                if self._spreading.facts.of(subquery.relation).references.rows:
                    inner[subquery.relation] = _in_place(subquery.relation)
                    cost += _READ * self._rows_below(subquery.relation)
                else:
                    whole = (yield subquery.relation).whole
                    inner[subquery.relation] = whole.relation
                    cost += whole.cost
        if inner:
            relation = with_subqueries(relation, inner)
        estimate = self._estimate(relation, below)
        alternatives = Alternatives(estimate=estimate, choices=tuple(self._of(relation, below, estimate)))
        if relation.traits.takes != "asked":
            alternatives = alternatives.wholly_read
        return self._movement.closed(
            estimate, [replace(alternative, cost=alternative.cost + cost) for alternative in alternatives.choices]
        )

    def _of_loop(self, relation: ir.Recursion | ir.Rounds) -> Generator[ir.Relation, Alternatives, Alternatives]:
        """The alternatives of a loop: all of it in one place, from which its sorted rows may be dealt out."""
        below: dict[ir.Relation, Alternatives] = {}
        for child in relation.inputs if isinstance(relation, ir.Rounds) else steady(relation):
            below[child] = yield child
        rows = _GROWTH * sum(alternatives.estimate.rows for alternatives in below.values())
        estimate = Estimate(rows, rows)

        def together(placement: Placement, alternatives: Mapping[ir.Relation, Alternative]) -> Alternative:
            inputs = {number: alternative.relation for number, alternative in alternatives.items()}
            rebuilt = _with_inputs(relation, inputs)
            cost = sum(alternative.cost for alternative in alternatives.values()) + _HASHED * rows
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
                yield from self._in_one_place(relation, below, _HASHED)
                return
            case "never":
                raise TypeError(f"{relation.plan_path}: a {relation.traits.name} is not spread by itself")
            case "own":
                pass
            case distribution:
                assert_never(distribution)
        match relation:
            case ir.Read() | ir.LocalFiles():
                yield from self._of_read(relation, estimate)
            case ir.Values():
                yield Alternative(placement=Placement.WHOLE, cost=_READ * estimate.rows, relation=relation)
            case ir.Sort():
                yield from sort_alternatives(relation, below[0], movement)
            case ir.TopN():
                yield from top_n_alternatives(relation, below[0], movement)
            case ir.Fetch():
                yield from fetch_alternatives(relation, below[0], movement)
            case ir.Aggregate():
                yield from aggregate_alternatives(relation, below[0], estimate, movement)
            case ir.Window():
                yield from self._of_window(relation, below[0])
            case ir.Join() | ir.Cross():
                named = self._is_named(relation.left), self._is_named(relation.right)
                yield from join_alternatives(relation, below[0], below[1], movement, named)
            case ir.MergeJoin():
                named = self._is_named(relation.left), self._is_named(relation.right)
                yield from merge_join_alternatives(relation, below[0], below[1], movement, named)
            case ir.StreamingAggregate():
                yield from streaming_aggregate_alternatives(relation, below[0], movement)
            case ir.LateralJoin():
                yield from self._of_lateral(relation, below[0])
            case ir.Set():
                yield from self._of_set(relation, below)
            case ir.User():
                yield from user_alternatives(relation, below, movement)
            case _:
                raise InternalError(f"{relation.plan_path}: the channels of a {relation.traits.name} are not known")

    def _of_read(self, relation: ir.Read | ir.LocalFiles, estimate: Estimate) -> Iterator[Alternative]:
        cost = _READ * estimate.rows * len(relation.names)
        reading = Reading.ASKED if relation.order else Reading.ALL
        whole = replace(relation, whole=True)
        yield Alternative(placement=Placement.WHOLE, cost=_OPEN + cost, relation=whole, reading=reading)
        if not relation.order:
            yield Alternative(
                placement=Placement.SHARES, cost=_OPEN + cost / self._spreading.channels, relation=relation
            )
        for at, name in enumerate(relation.names):
            ranges = self._spreading.keys.get((relation.source, name))
            if ranges is not None and name in self._clusters(relation):
                yield Alternative(
                    placement=Placement.SHARES,
                    cost=_OPEN + cost / self._spreading.channels * _CUT,
                    relation=replace(relation, cut=(name, ranges)),
                    ranged=Ranged(at, ranges),
                    order=relation.order,
                    in_turn=bool(relation.order),
                    reading=reading,
                )

    def _clusters(self, relation: ir.Read | ir.LocalFiles) -> Collection[str]:
        """The columns by which the relation may be cut. A declared order is checked from one row to the next over all
        rows, so channels with ranges of the first column can check it only if the pieces' ranges rise.
        """
        if not relation.order:
            return self._spreading.clustered.get(relation.source, ())
        first = relation.order[0]
        name = relation.names[first.column]
        rises = not first.direction.descending and name in self._spreading.rising.get(relation.source, ())
        return (name,) if rises else ()

    def _row_by_row(self, relation: ir.Relation, below: Alternatives) -> Iterator[Alternative]:
        computed = [expression for expression in tree.expressions(relation) if not isinstance(expression, ir.Field)]
        work = _COMPUTE * (1 + len(computed)) + _MATCH * sum(map(_matches, computed))
        for alternative in below.choices:
            moved = output_positions(relation)
            order = moved_order(alternative.order, moved)
            if order is None and alternative.placement is Placement.SHARES:
                continue  # the channels' rows could no longer be merged
            share = self._spreading.channels if alternative.placement is Placement.SHARES else 1
            yield replace(
                alternative,
                cost=alternative.cost + work * below.estimate.rows / share,
                relation=tree.with_inputs(relation, (alternative.relation, *tree.inputs(relation)[1:])),
                hashed=moved_columns(alternative.hashed, moved),
                ranged=moved_range(alternative.ranged, moved),
                order=order or (),
            )

    def _of_window(self, relation: ir.Window, below: Alternatives) -> Iterator[Alternative]:
        keys = _partition_columns(relation)
        alternatives = [below.whole, below.one]
        alternatives.extend(
            alternative for alternative in below.shares if alternative.hashed and set(alternative.hashed) <= set(keys)
        )
        alternatives.extend(
            alternative for alternative in below.shares if alternative.ranged and alternative.ranged.column in keys
        )
        if keys:
            alternatives.append(self._movement.hashed(below, keys))
        for alternative in alternatives:
            share = self._spreading.channels if alternative.placement is Placement.SHARES else 1
            yield replace(
                alternative,
                cost=alternative.cost + _HASHED * 2 * below.estimate.rows / share,
                relation=replace(relation, input=alternative.relation),
                order=(),
            )

    def _of_lateral(self, relation: ir.LateralJoin, left: Alternatives) -> Iterator[Alternative]:
        right = _in_place(relation.right)
        cost = _READ * self._rows_below(relation.right) + _HASHED * left.estimate.rows
        for alternative in left.choices:
            if alternative.placement is not Placement.SHARES or relation.type is not ir.JoinType.OUTER:
                rebuilt = replace(relation, left=alternative.relation, right=right)
                hashed = alternative.hashed if relation.type in WHOLE_RIGHT else None
                ranged = alternative.ranged if relation.type in WHOLE_RIGHT else None
                yield replace(
                    alternative, cost=alternative.cost + cost, relation=rebuilt, hashed=hashed, ranged=ranged, order=()
                )

    def _of_set(self, relation: ir.Set, below: Sequence[Alternatives]) -> Iterator[Alternative]:
        rows = sum(alternatives.estimate.rows for alternatives in below)
        work = 0.0 if relation.operation is ir.SetOperation.UNION_ALL else _HASHED

        yield from self._in_one_place(relation, below, work)
        share = work * rows / self._spreading.channels
        if relation.operation is ir.SetOperation.UNION_ALL:
            dealt = [self._movement.dealt(alternatives) for alternatives in below]
            yield _together(relation, Placement.SHARES, dealt, share)
        else:
            columns = tuple(range(len(relation.schema)))
            hashed = [self._movement.hashed(alternatives, columns) for alternatives in below]
            yield _together(relation, Placement.SHARES, hashed, share, columns)

    def _in_one_place(self, relation: ir.Relation, below: Sequence[Alternatives], work: float) -> Iterator[Alternative]:
        """The relation over all rows: in every channel, or in one."""
        cost = work * sum(alternatives.estimate.rows for alternatives in below)
        yield _together(relation, Placement.WHOLE, [alternatives.whole for alternatives in below], cost)
        yield _together(relation, Placement.ONE, [alternatives.one for alternatives in below], cost)

    # ------------------------------------------------------------------------------------------------- sizes

    def _estimate(self, relation: ir.Relation, below: Sequence[Alternatives]) -> Estimate:
        match relation.traits.rows:
            case "input":
                return below[0].estimate
            case "own":
                return self._own_estimate(relation, [alternatives.estimate for alternatives in below])
            case "never":
                raise InternalError(f"{relation.plan_path}: a {relation.traits.name} has no estimate of its own")
            case rows:
                assert_never(rows)

    def _own_estimate(self, relation: ir.Relation, below: Sequence[Estimate]) -> Estimate:
        match relation:
            case ir.Read() | ir.LocalFiles():
                rows = float(self._spreading.rows[relation.source])
                return Estimate(rows, rows)
            case ir.Values():
                return Estimate(len(relation.rows), len(relation.rows))
            case ir.Filter():
                return filtered(below[0], relation.condition)
            case ir.Aggregate() | ir.StreamingAggregate():
                return grouped(below[0], len(relation.keys))
            case ir.Join() | ir.Cross():
                return join_estimate(relation, below[0], below[1])
            case ir.MergeJoin():
                return joined(relation.type, below[0], below[1], equal=True)
            case ir.Set():
                return Estimate(sum(part.rows for part in below), max(part.base for part in below))
            case ir.Expand():
                return replace(below[0], rows=below[0].rows * len(relation.alternatives))
            case ir.TopN(count=ir.Literal(value=int(count))) | ir.Fetch(count=ir.Literal(value=int(count))):
                return replace(below[0], rows=min(below[0].rows, float(count)))
            case ir.TopN() | ir.Fetch():
                return below[0]
            case _:
                raise InternalError(f"{relation.plan_path}: the rows of a {relation.traits.name} are not estimated")

    def _rows_below(self, relation: ir.Relation) -> float:
        """The number of rows of all sources below."""
        reads = (visited for visited in relations(relation) if isinstance(visited, ir.Read | ir.LocalFiles))
        return float(sum(self._spreading.rows[read.source] for read in reads))

    def _is_named(self, side: ir.Relation) -> bool:
        """Tests whether the option `broadcast` names every source that a side reads."""
        return bool(self._spreading.broadcast) and unroll(self._named_step, side) is _Named.ALL

    def _named_step(self, relation: ir.Relation) -> Generator[ir.Relation, _Named, _Named]:
        known = self._named.get(relation)
        if known is not None:
            return known
        answer = _Named.NOTHING
        if isinstance(relation, ir.Read | ir.LocalFiles):
            answer = _Named.ALL if relation.source in self._spreading.broadcast else _Named.NOT_ALL
        for child in beneath(relation):
            answer = max(answer, (yield child), key=lambda named: named.value)
        self._named[relation] = answer
        return answer


def _together(
    relation: ir.Relation,
    placement: Placement,
    inputs: Sequence[Alternative],
    cost: float,
    hashed: tuple[int, ...] | None = None,
) -> Alternative:
    """The relation over these alternatives of its inputs."""
    rebuilt = tree.with_inputs(relation, [alternative.relation for alternative in inputs])
    cost += sum(alternative.cost for alternative in inputs)
    return Alternative(placement=placement, cost=cost, relation=rebuilt, hashed=hashed)


def _with_inputs(relation: ir.Recursion | ir.Rounds, inputs: Mapping[ir.Relation, ir.Relation]) -> ir.Relation:
    """The loop over other relations in place of those that it reads. `inputs` is by the old relation."""
    if isinstance(relation, ir.Recursion):
        return with_fixed(relation, inputs)
    return tree.with_inputs(relation, [inputs[child] for child in relation.inputs])


def _in_place(relation: ir.Relation) -> ir.Relation:
    """A relation that every channel computes, because it reads an enclosing row: all its reads are whole."""

    def change(part: ir.Relation) -> ir.Relation:
        return replace(part, whole=True) if isinstance(part, ir.Read | ir.LocalFiles) else part

    return transform_relations(relation, change)


def _matches(expression: ir.Expression) -> int:
    return sum(isinstance(part, ir.Call) and part.function.name in _MATCHING for part in parts(expression))


def _partition_columns(relation: ir.Window) -> tuple[int, ...]:
    """The columns by which all calls partition."""
    common: list[int] | None = None
    for call in relation.calls:
        columns = [partition.index for partition in call.partitions if is_column(partition)]
        common = columns if common is None else [column for column in common if column in columns]
    return tuple(dict.fromkeys(common or ()))
