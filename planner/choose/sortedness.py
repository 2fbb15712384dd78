"""The known order of each relation's rows, found in one walk from the leaves up.

Orders come from a plan's declarations for its sources, from sorts and from top-n. They pass through relations that take
rows as they come. Relations whose rows DuckDB may reorder have no order: hash joins, sets, windows, aggregates, and
filters and projections with a subquery, because a subquery becomes a join.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from ...proto.errors import InternalError
from .. import ir
from ..analysis.row_wise import keeps_rows
from ..ir import tree
from ..ir.visit import is_column
from ..ir.walk import unroll


@dataclass(frozen=True, slots=True)
class SortedBy:
    """An order by any of these columns, which are equal in every row. CLUSTERED: equal values stand together."""

    columns: frozenset[int]
    direction: ir.Direction


@dataclass(frozen=True, slots=True)
class Sortedness:
    """The order of rows: by the first of `by`, among equal rows by the second, and so on. `why` is for people."""

    by: tuple[SortedBy, ...] = ()
    why: str = ""


UNSORTED: Final = Sortedness()


class SortednessTable:
    """Sortedness by relation. A use of a shared relation has none: a result that is computed once may come in any
    order.
    """

    def __init__(self) -> None:
        self._known: dict[ir.Relation, Sortedness] = {}

    def of(self, relation: ir.Relation) -> Sortedness:
        return unroll(self._step, relation)

    def _step(self, relation: ir.Relation) -> Generator[ir.Relation, Sortedness, Sortedness]:
        known = self._known.get(relation)
        if known is None:
            below: list[Sortedness] = []
            for child in tree.inputs(relation):
                below.append((yield child))  # noqa: PERF401 (a comprehension cannot yield)
            known = self._known[relation] = sortedness(relation, below)
        return known


def sortedness(relation: ir.Relation, below: Sequence[Sortedness]) -> Sortedness:
    """A relation's own sortedness, from that of its inputs."""
    match relation.traits.order:
        case "none":
            return UNSORTED
        case "kept":
            return UNSORTED if _joins(relation) else below[0]
        case "own":
            return _own_order(relation, below)
        case order:
            assert_never(order)


def _own_order(relation: ir.Relation, below: Sequence[Sortedness]) -> Sortedness:
    if not isinstance(relation, ir.OwnOrder):
        raise InternalError(f"{relation.plan_path}: the order of a {relation.traits.name} is not known")
    match relation:
        case ir.Read() | ir.LocalFiles():
            by = tuple(SortedBy(frozenset({key.column}), key.direction) for key in relation.order)
            return Sortedness(by, f"declared for {relation.source}") if by else UNSORTED
        case ir.Sort() | ir.TopN():
            by = tuple(_sorted(relation.keys))
            return Sortedness(by, f"sorted at {relation.plan_path}") if by else UNSORTED
        case ir.Recursion() | ir.Rounds():
            by = tuple(SortedBy(frozenset({at}), ir.Direction.ASC_NULLS_LAST) for at in range(len(relation.schema)))
            return Sortedness(by, f"sorted by the loop at {relation.plan_path}")
        case ir.Project():
            return UNSORTED if _joins(relation) else moved(below[0], relation.expressions)
        case ir.Unnest():
            return moved(below[0], relation.kept)
        case ir.StreamingAggregate():
            return moved(below[0], relation.keys)
        case ir.MergeJoin():
            return _merged(relation, below[0], below[1])
        case _:
            assert_never(relation)


def moved(sorted_: Sortedness, expressions: Sequence[ir.Expression]) -> Sortedness:
    """The same order in terms of columns made by `expressions`. The order ends at the first column that is gone."""
    positions: dict[int, set[int]] = {}
    for at, expression in enumerate(expressions):
        if is_column(expression):
            positions.setdefault(expression.index, set()).add(at)
    return _prefix(sorted_, positions)


def _prefix(sorted_: Sortedness, positions: Mapping[int, set[int]]) -> Sortedness:
    by: list[SortedBy] = []
    for sorted_by in sorted_.by:
        columns = frozenset(position for column in sorted_by.columns for position in positions.get(column, ()))
        if not columns:
            break
        by.append(SortedBy(columns, sorted_by.direction))
    return Sortedness(tuple(by), sorted_.why) if by else UNSORTED


def _sorted(keys: Sequence[ir.SortKey]) -> Generator[SortedBy]:
    """The keys down to the first computed key; a constant sorts nothing."""
    for key in keys:
        if is_column(key.expression):
            yield SortedBy(frozenset({key.expression.index}), key.direction)
        elif not isinstance(key.expression, ir.Literal):
            return


def _joins(relation: ir.Relation) -> bool:
    """Tests whether DuckDB makes a join of a relation that works row by row."""
    return relation.traits.row_wise and not keeps_rows(relation)


_LEFT_ROWS: Final = frozenset({ir.JoinType.LEFT, ir.JoinType.LEFT_SINGLE, ir.JoinType.LEFT_SEMI, ir.JoinType.LEFT_ANTI})
_RIGHT_ROWS: Final = frozenset({ir.JoinType.RIGHT_SEMI, ir.JoinType.RIGHT_ANTI})


def _merged(relation: ir.MergeJoin, left: Sortedness, right: Sortedness) -> Sortedness:
    """The sortedness of a merge join. Rows come in order of the keys; among equal keys mostly in the left rows' order.
    A column that is null in rows without a match is not sorted.
    """
    width = len(relation.left.schema)
    why = " and ".join(dict.fromkeys((left.why, right.why)))
    keys = len(relation.keys)
    match relation.type:
        case ir.JoinType.INNER:
            others = (_shifted(sorted_by, width) for sorted_by in right.by[:keys])
            both = (
                SortedBy(mine.columns | its.columns, mine.direction)
                for mine, its in zip(left.by[:keys], others, strict=True)
            )
            return Sortedness((*both, *left.by[keys:]), why)
        case type_ if type_ in _LEFT_ROWS:
            return Sortedness(left.by, left.why)
        case type_ if type_ in _RIGHT_ROWS:
            return Sortedness(right.by, right.why)
        case ir.JoinType.RIGHT_SINGLE:
            return Sortedness(tuple(_shifted(sorted_by, width) for sorted_by in right.by), right.why)
        case ir.JoinType.RIGHT:
            return Sortedness(tuple(_shifted(sorted_by, width) for sorted_by in right.by[:keys]), right.why)
        case _:
            return UNSORTED


def _shifted(sorted_by: SortedBy, width: int) -> SortedBy:
    return SortedBy(frozenset(width + column for column in sorted_by.columns), sorted_by.direction)
