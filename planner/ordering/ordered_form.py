"""Relations whose rows carry their positions through every join, and are sorted by their positions where order matters.

A row's *position* is some columns that no other row of its relation has: the row's number in an input of the fragment,
the positions of both sides in a join (only the kept side's if a join keeps one), the keys in an aggregate, all columns
in a set operation, the branch and the position in the branch in a union. Positions are columns behind a relation's own
columns.

Joins hand positions on; so do filters and projections. A relation that depends on the order of its rows (a root, a
window, a limit, an aggregate of floats) has the rows sorted by their positions right below it: one sort for a whole
stack of joins. A sort takes the positions as its last keys, so that nothing ties. An aggregate that is the same in any
order needs no sort.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Generator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

from ...proto.errors import PlanError, Problem
from .. import ir
from ..analysis.exact import Grouping, is_exact, is_one_value, number_of_keys
from ..functions.added_calls import window_call
from ..ir import tree
from ..ir import types as t
from ..ir.building import project
from ..ir.visit import Positions, RelationT, moved, subqueries_of
from ..ir.walk import unroll
from .joins import is_full, joined, kept_sides
from .looseness import Looseness, joins_rows
from .row_positions import Placed, bare, by_positions, marked, rearranged, sorted_by_positions
from .unions import union_all

_ROW: Final = t.Integer(bits=64, nullable=False)


class Demand(enum.Enum):
    """The demand on a relation: its rows in order; its rows with their positions; its rows and nothing else."""

    ORDER = "order"
    POSITIONS = "positions"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class _Visit:
    relation: ir.Relation
    outer: tuple[Positions, ...]
    demand: Demand


_Walk: TypeAlias = Generator[_Visit, Placed, Placed]


def ordered(root: ir.Relation, ends: Container[ir.Relation]) -> ir.Relation:
    """The same rows as `root`'s, in an order that depends only on the rows that `root` reads: from sources, from common
    subtrees, and from the relations in `ends`. Raises `PlanError` if DuckDB leaves no room for a sort.
    """
    return unroll(_Ordering(root, ends).step, _Visit(root, (), Demand.ORDER)).relation


class _Ordering:
    def __init__(self, root: ir.Relation, ends: Container[ir.Relation]) -> None:
        self._root = root
        self._ends = ends
        self._loose = Looseness(root, ends)
        self._row_number = window_call("row_number")

    def step(self, visit: _Visit) -> _Walk:
        relation, demand = visit.relation, visit.demand
        if relation is not self._root and relation in self._ends:
            return self._leaf(relation, demand)
        loose = self._loose.of(relation)
        if demand is Demand.POSITIONS and not loose and isinstance(relation, ir.Filter | ir.Project):
            placed = yield from self._relation(relation, visit.outer, Demand.ORDER)
            return self._leaf(placed.relation, demand)
        asked = Demand.POSITIONS if loose and demand is Demand.ORDER else demand
        placed = yield from self._relation(relation, visit.outer, asked)
        match demand:
            case Demand.POSITIONS:
                return placed
            case Demand.ORDER:
                return bare(sorted_by_positions(placed) if loose else placed)
            case Demand.ROWS:
                return bare(placed)
            case _:
                assert_never(demand)

    def _relation(self, relation: ir.Relation, outer: tuple[Positions, ...], demand: Demand) -> _Walk:
        match relation:
            case ir.Read() | ir.LocalFiles() | ir.Shared():
                return self._leaf(relation, demand)
            case ir.Values():
                return (yield from self._values(relation, outer, demand))
            case ir.Filter() | ir.Project() | ir.Expand():
                return (yield from self._passing(relation, outer, demand))
            case ir.Fetch():
                return (yield from self._fetch(relation, outer, demand))
            case ir.Sort() | ir.TopN():
                return (yield from self._sort(relation, outer, demand))
            case ir.Window():
                return (yield from self._window(relation, outer, demand))
            case _ if isinstance(relation, Grouping):
                return (yield from self._aggregate(relation, outer, demand))
            case ir.Set():
                return (yield from self._set(relation, outer, demand))
            case ir.Join() | ir.LateralJoin() | ir.Cross():
                return (yield from self._join(relation, outer, demand))
            case ir.Recursion():
                return (yield from self._recursion(relation, demand))
            case ir.Reference():
                return Placed(relation, len(relation.schema))
            case _:
                raise PlanError(_without_form(relation))

    # ---------------------------------------------------------------------------------------------------- leaves

    def _leaf(self, relation: ir.Relation, demand: Demand) -> Placed:
        """A leaf's rows in order: a row's position is its number. Filters stay below the number: DuckDB pushes no
        filter through a row number, and would read whole files.
        """
        if demand is not Demand.POSITIONS:
            return Placed(relation, len(relation.schema))
        number = replace(self._row_number, type=_ROW, plan_path=relation.plan_path)
        schema = (*relation.schema, _ROW)
        window = ir.Window(input=relation, calls=(number,), schema=schema, plan_path=relation.plan_path)
        return Placed(window, len(relation.schema))

    def _values(self, relation: ir.Values, outer: tuple[Positions, ...], demand: Demand) -> _Walk:
        moving = yield from self._moved(relation, ({}, *outer))
        if demand is not Demand.POSITIONS:
            return Placed(moving, len(relation.schema))
        rows = tuple((*row, ir.Literal(value=at, type=_ROW)) for at, row in enumerate(moving.rows))
        return Placed(replace(moving, rows=rows, schema=(*relation.schema, _ROW)), len(relation.schema))

    # --------------------------------------------------------------------------------------- one row in, some out

    def _passing(
        self, relation: ir.Filter | ir.Project | ir.Expand, outer: tuple[Positions, ...], demand: Demand
    ) -> _Walk:
        below = yield _Visit(relation.input, outer, demand)
        moving = yield from self._moved(relation, (below.own, *outer))
        width = len(relation.schema)
        match moving:
            case ir.Filter():
                return Placed(replace(moving, input=below.relation, schema=below.relation.schema), width)
            case ir.Project():
                expressions = (*moving.expressions, *below.positions)
                return Placed(project(below.relation, expressions, moving.plan_path), width)
            case ir.Expand():
                positions = below.positions
                alternatives = tuple((*alternative, *positions) for alternative in moving.alternatives)
                types = tuple(position.type for position in positions)
                schema = (*moving.schema[:-1], *types, moving.schema[-1])
                rebuilt = replace(moving, input=below.relation, alternatives=alternatives, schema=schema)
                number = len(schema) - 1
                order = (*range(width - 1), number, *range(width - 1, number), *((number,) if positions else ()))
                return Placed(rearranged(rebuilt, order) if positions else rebuilt, width)
            case _:
                assert_never(moving)

    # ------------------------------------------------------------------------------------------- rows in an order

    def _fetch(self, relation: ir.Fetch, outer: tuple[Positions, ...], demand: Demand) -> _Walk:
        """A fetch. Over a loose input it is a top-n by the input's positions, which DuckDB can also compute for each
        row of an enclosing query.
        """
        if joins_rows(relation):
            raise PlanError(_refused(relation))
        loose = self._loose.of(relation.input)
        if not loose and not self._loose.is_closed(relation):
            raise PlanError(_refused(relation))
        below = yield _Visit(relation.input, outer, Demand.POSITIONS if loose else demand)
        over, schema, keys = below.relation, below.relation.schema, by_positions(below)
        if not loose or not keys:
            return Placed(replace(relation, input=over, schema=schema), below.width)
        first = ir.TopN(
            input=over,
            keys=keys,
            offset=relation.offset,
            count=relation.count,
            ties=False,
            schema=schema,
            plan_path=relation.plan_path,
        )
        return Placed(first, below.width)

    def _sort(self, relation: ir.Sort | ir.TopN, outer: tuple[Positions, ...], demand: Demand) -> _Walk:
        """A sort. Without positions to break its ties, DuckDB's sort repeats itself as long as its input does."""
        ties = isinstance(relation, ir.TopN) and relation.ties
        if ties:
            self._stands_alone(relation)
            below = yield from self._in_order(relation.input, outer, demand)
        else:
            loose = self._loose.of(relation.input) or joins_rows(relation)
            below = yield _Visit(relation.input, outer, Demand.POSITIONS if loose else demand)
        moving = yield from self._moved(relation, (below.own, *outer))
        keys = moving.keys if ties else (*moving.keys, *by_positions(below))
        return Placed(replace(moving, input=below.relation, keys=keys, schema=below.relation.schema), below.width)

    def _window(self, relation: ir.Window, outer: tuple[Positions, ...], demand: Demand) -> _Walk:
        self._stands_alone(relation)
        below = yield from self._in_order(relation.input, outer, demand)
        moving = yield from self._moved(relation, (below.own, *outer))
        inside, calls = len(below.relation.schema), len(relation.calls)
        schema = (*below.relation.schema, *(call.type for call in moving.calls))
        rebuilt = replace(moving, input=below.relation, schema=schema)
        if not below.positions:
            return Placed(rebuilt, len(relation.schema))
        order = (*range(below.width), *range(inside, inside + calls), *range(below.width, inside))
        return Placed(rearranged(rebuilt, order), len(relation.schema))

    def _in_order(self, relation: ir.Relation, outer: tuple[Positions, ...], demand: Demand) -> _Walk:
        """The rows sorted, with positions if the demand asks for positions."""
        if demand is not Demand.POSITIONS:
            return (yield _Visit(relation, outer, Demand.ORDER))
        placed = yield _Visit(relation, outer, Demand.POSITIONS)
        return sorted_by_positions(placed) if self._loose.of(relation) else placed

    def _stands_alone(self, relation: ir.Relation) -> None:
        """Refuses a relation that reads an enclosing row: DuckDB computes it for all enclosing rows at once, by joins
        that may stand between a sort of ours and the relation.
        """
        if joins_rows(relation) or not self._loose.is_closed(relation):
            raise PlanError(_refused(relation))

    # --------------------------------------------------------------------------------------------- many rows in one

    def _aggregate(self, relation: Grouping, outer: tuple[Positions, ...], demand: Demand) -> _Walk:
        exact = is_exact(relation)
        if not exact and joins_rows(relation):
            raise PlanError(_refused(relation))
        below = yield _Visit(relation.input, outer, Demand.ROWS if exact else Demand.ORDER)
        moving = yield from self._moved(relation, (below.own, *outer))
        placed = Placed(replace(moving, input=below.relation), len(relation.schema))
        if demand is not Demand.POSITIONS:
            return placed
        keys = [*range(number_of_keys(relation))]
        if isinstance(relation, ir.Aggregate) and len(relation.grouping_sets) > 1:
            keys.append(len(relation.schema) - 1)
        return Placed(rearranged(placed.relation, (*range(placed.width), *keys)), placed.width)

    def _set(self, relation: ir.Set, outer: tuple[Positions, ...], demand: Demand) -> _Walk:
        if relation.operation is ir.SetOperation.UNION_ALL:
            branches = []
            for child in relation.inputs:
                branches.append((yield _Visit(child, outer, demand)))  # noqa: PERF401
            return union_all(relation, branches, placed=demand is Demand.POSITIONS)
        exact = all(map(is_one_value, relation.schema))
        inputs = []
        for child in relation.inputs:
            inputs.append((yield _Visit(child, outer, Demand.ROWS if exact else Demand.ORDER)).relation)  # noqa: PERF401
        rebuilt = replace(relation, inputs=tuple(inputs))
        width = len(relation.schema)
        return Placed(
            rearranged(rebuilt, (*range(width), *range(width))) if demand is Demand.POSITIONS else rebuilt, width
        )

    def _recursion(self, relation: ir.Recursion, demand: Demand) -> _Walk:
        """A recursion. It sorts its rows itself, in whatever order they are found, so only relations inside of its
        unrepeated parts ask for rows in an order.
        """
        inputs = []
        for child in tree.inputs(relation):
            inputs.append((yield _Visit(child, (), Demand.ROWS)).relation)  # noqa: PERF401
        return self._leaf(tree.with_inputs(relation, inputs), demand)

    # -------------------------------------------------------------------------------------------------------- joins

    def _join(
        self, relation: ir.Join | ir.LateralJoin | ir.Cross, outer: tuple[Positions, ...], demand: Demand
    ) -> _Walk:
        kept = kept_sides(relation)
        asked = [demand if side in kept else Demand.ROWS for side in (relation.left, relation.right)]
        left = yield _Visit(relation.left, outer, asked[0])
        rows = (left.own, *outer) if isinstance(relation, ir.LateralJoin) else outer
        right = yield _Visit(relation.right, rows, asked[1])
        if demand is Demand.POSITIONS and is_full(relation):
            left, right = marked(left), marked(right)
        start = len(left.relation.schema)
        row = {**left.own, **{left.width + at: start + at for at in range(right.width)}}
        moving = yield from self._moved(relation, (row, *outer))
        return joined(relation, moving, left, right)

    # ------------------------------------------------------------------------------------------------- expressions

    def _moved(self, relation: RelationT, rows: tuple[Positions, ...]) -> Generator[_Visit, Placed, RelationT]:
        inner: dict[ir.Relation, ir.Relation] = {}
        for subquery in subqueries_of(relation):
            inner[subquery.relation] = (yield _Visit(subquery.relation, rows, Demand.ROWS)).relation
        return moved(relation, rows, inner)


def _without_form(relation: ir.Relation) -> Problem:
    return Problem(
        place=relation.plan_path,
        reason="ORDER_NOT_REPEATABLE",
        message=f"a {relation.traits.name} has no form whose rows are repeatable if its joins are larger than memory: "
        'give the task more memory, or determinism="relaxed"',
    )


def _refused(relation: ir.Relation) -> Problem:
    return Problem(
        place=relation.plan_path,
        reason="ORDER_NOT_REPEATABLE",
        message="this part of the plan depends on the order of its rows, and reads a subquery or the row of an "
        "enclosing query, so its rows are not repeatable if its joins are larger than memory: give the task "
        'more memory, or determinism="relaxed"',
    )
