"""Asks each source only for the columns that the plan uses.

DuckDB prunes inside its own statement, but a source that arrives as Arrow, a fragment's edge and a MATERIALIZED common
table expression are boundaries that DuckDB does not see across; and an unused column that a file lacks must not be an
error. There are two passes, both linear: from the root down, the pass finds the columns of every relation that are
used; from the leaves up, it removes the others.

Columns that decide rows stay although nothing uses them (grouping keys, columns of a distinct set operation, measures
whose columns order the rows of windows of a number of rows). A relation may lose all its columns; its rows count all
the same.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Final, assert_never

from ...operators.changes.event_time.window_closing import CountClosing
from ...proto.errors import InternalError
from .. import ir
from ..ir import building, tree
from ..ir.visit import Positions, moved, parts, subqueries_of
from ..ir.walk import unroll

_NARROWED: Final = (ir.Filter, ir.Join, ir.LateralJoin, ir.Cross, ir.IntervalJoin)
_LEFT_ALONE: Final = frozenset({ir.JoinType.LEFT_SEMI, ir.JoinType.LEFT_ANTI, ir.JoinType.LEFT_MARK})
_RIGHT_ALONE: Final = frozenset({ir.JoinType.RIGHT_SEMI, ir.JoinType.RIGHT_ANTI, ir.JoinType.RIGHT_MARK})


def prune_columns(plan: ir.Plan, *, narrow: bool = False) -> ir.Plan:
    """The plan without unused columns. With `narrow`, joins and filters hand on only the columns that are used above
    them: an exchange carries all columns that it gets.
    """
    used = _Used()
    for root in (plan.root, *plan.shared):
        used.follow(root)
    pruning = _Pruning(used.columns, narrow=narrow)
    root, *shared = (unroll(pruning.step, _Visit(relation, ())).relation for relation in (plan.root, *plan.shared))
    return replace(plan, root=root, shared=tuple(shared))


# ----------------------------------------------------------------------------------------- from the root down


@dataclass(frozen=True, slots=True)
class _Row:
    """The row that an operator's expressions see: the columns of these relations, one after the other."""

    relations: tuple[ir.Relation, ...]


class _Used:
    """The columns of each relation that are used above it."""

    def __init__(self) -> None:
        self.columns: dict[ir.Relation, set[int]] = {}

    def follow(self, root: ir.Relation) -> None:
        """Marks the columns used below a root. A relation is visited after all its readers: subqueries come before the
        inputs whose rows they read.
        """
        self._all(root)
        stack: list[tuple[ir.Relation, tuple[_Row, ...]]] = [(root, ())]
        while stack:
            relation, outer = stack.pop()
            below = tree.inputs(relation)
            self._pass_down(relation)
            rows = (_Row(below), *outer)
            match relation:
                case ir.LateralJoin():
                    stack.append((relation.left, outer))
                    stack.append((relation.right, (_Row((relation.left,)), *outer)))
                case _:
                    stack.extend((child, outer) for child in below)
            for expression in self._expressions(relation):
                for part in parts(expression):
                    match part:
                        case ir.Field():
                            self._mark(rows[part.outer], part.index)
                        case ir.Subquery():
                            self._enter(part)
                            stack.append((part.relation, rows))
                        case _:
                            pass

    def of(self, relation: ir.Relation) -> set[int]:
        return self.columns.setdefault(relation, set())

    def _all(self, relation: ir.Relation) -> None:
        self.of(relation).update(range(len(relation.schema)))

    def _mark(self, row: _Row, index: int) -> None:
        for relation in row.relations:
            if index < len(relation.schema):
                self.of(relation).add(index)
                return
            index -= len(relation.schema)

    def _enter(self, subquery: ir.Subquery) -> None:
        if subquery.kind is ir.SubqueryKind.EXISTS:
            self.of(subquery.relation)
        else:
            self._all(subquery.relation)

    def _pass_down(self, relation: ir.Relation) -> None:
        """Marks the inputs' columns that go through this relation into its own used columns."""
        used = self.of(relation)
        match relation.traits.columns:
            case "computed":
                pass
            case "passed":
                for child in tree.inputs(relation):
                    self.of(child).update(index for index in used if index < len(child.schema))
            case "sides":
                for index in used:
                    self._mark_side(relation, index)
            case "all":
                for child in tree.inputs(relation):
                    self._all(child)
            case "never":
                raise InternalError(f"{relation.plan_path}: columns are pruned before any {relation.traits.name}")
            case columns:
                assert_never(columns)

    def _mark_side(self, relation: ir.Relation, index: int) -> None:
        if index < sum(len(side.schema) for side in output_sides(relation)):
            self._mark(_Row(output_sides(relation)), index)

    def _expressions(self, relation: ir.Relation) -> tuple[ir.Expression, ...]:
        """The expressions that are evaluated at all, given the relation's used columns."""
        return tree.expressions(_without(relation, self.of(relation)))


def output_sides(relation: ir.Relation) -> tuple[ir.Relation, ...]:
    """The sides whose columns come out of a join; a mark follows them."""
    sides = tree.inputs(relation)
    match relation:
        case ir.Join(type=type_) | ir.LateralJoin(type=type_) | ir.IntervalJoin(type=type_) if type_ in _LEFT_ALONE:
            return sides[:1]
        case ir.Join(type=type_) | ir.LateralJoin(type=type_) | ir.IntervalJoin(type=type_) if type_ in _RIGHT_ALONE:
            return sides[1:]
        case _:
            return sides


def _without(relation: ir.Relation, used: set[int]) -> ir.Relation:
    """The relation without its own computed columns that nothing uses; the rest stays, in order."""
    kept = _kept_of(relation, used)
    if len(kept) == len(relation.schema):
        return relation
    schema = tuple(relation.schema[index] for index in kept)
    match relation:
        case ir.Project():
            return replace(relation, expressions=tuple(relation.expressions[index] for index in kept), schema=schema)
        case ir.Values():
            return replace(relation, rows=tuple(tuple(row[i] for i in kept) for row in relation.rows), schema=schema)
        case ir.Read() | ir.LocalFiles():
            names = tuple(relation.names[index] for index in kept)
            positions = _positions(kept)
            order = tuple(replace(key, column=positions[key.column]) for key in relation.order)
            mark = relation.watermark
            watermark = None if mark is None else replace(mark, column=positions[mark.column])
            return replace(relation, names=names, schema=schema, order=order, watermark=watermark)
        case ir.IndexTable():
            return replace(relation, names=tuple(relation.names[index] for index in kept), schema=schema)
        case ir.Expand():
            fields = kept[:-1]
            alternatives = tuple(tuple(row[index] for index in fields) for row in relation.alternatives)
            return replace(relation, alternatives=alternatives, schema=schema)
        case ir.Aggregate():
            first, last = len(relation.keys), len(relation.keys) + len(relation.measures)
            measures = tuple(relation.measures[index - first] for index in kept if first <= index < last)
            return replace(relation, measures=measures, schema=schema)
        case ir.SlidingAggregate():
            first = 1 + len(relation.keys)
            measures = tuple(relation.measures[index - first] for index in kept if index >= first)
            return replace(relation, measures=measures, schema=schema)
        case ir.TimeWindows():
            first = width_of_groups(relation)
            measures = tuple(relation.measures[index - first] for index in kept if index >= first)
            return replace(relation, measures=measures, schema=schema)
        case ir.Window():
            first = len(relation.input.schema)
            calls = tuple(relation.calls[index - first] for index in kept if index >= first)
            return replace(relation, calls=calls, schema=schema)
        case ir.Unnest():
            columns = tuple(relation.kept[index] for index in kept if index < len(relation.kept))
            ordinality = relation.ordinality and kept[-1] == len(relation.schema) - 1
            return replace(relation, kept=columns, ordinality=ordinality, schema=schema)
        case _:
            return relation


def _kept_of(relation: ir.Relation, used: set[int]) -> tuple[int, ...]:
    """The columns of a relation that stay by its own decision, before its inputs drop any."""
    width = len(relation.schema)
    match relation:
        case ir.Project() | ir.Values() | ir.IndexTable():
            return tuple(sorted(used))
        case ir.Read() | ir.LocalFiles():
            checked = {key.column for key in relation.order}
            checked |= set() if relation.watermark is None else {relation.watermark.column}
            return tuple(sorted(used | checked))
        case ir.Expand():
            return (*sorted(used - {width - 1}), width - 1)
        case ir.Aggregate():
            first, last = len(relation.keys), len(relation.keys) + len(relation.measures)
            return tuple(index for index in range(width) if index in used or not first <= index < last)
        case ir.SlidingAggregate():
            first = 1 + len(relation.keys)
            return tuple(index for index in range(width) if index in used or index < first)
        case ir.TimeWindows() if not isinstance(relation.closing, CountClosing):
            first = width_of_groups(relation)
            return tuple(index for index in range(width) if index in used or index < first)
        case ir.Window():
            first = len(relation.input.schema)
            return tuple(index for index in range(width) if index in used or index < first)
        case ir.Unnest():
            first = len(relation.kept)
            items = range(first, first + len(relation.lists))
            return tuple(index for index in range(width) if index in used or index in items)
        case _:
            return tuple(range(width))


def width_of_groups(relation: ir.TimeWindows) -> int:
    """The columns before the measures."""
    return len(relation.schema) - len(relation.measures)


# ----------------------------------------------------------------------------------------- from the leaves up


@dataclass(frozen=True, slots=True)
class _Visit:
    relation: ir.Relation
    outer: tuple[Positions, ...]


@dataclass(frozen=True, slots=True)
class _Pruned:
    """A relation without its unused columns. `kept` has, for each column that is left, its position in the old
    relation.
    """

    relation: ir.Relation
    kept: tuple[int, ...]

    def as_exactly(self, columns: tuple[int, ...]) -> ir.Relation:
        """The relation with just these old columns."""
        if self.kept == columns:
            return self.relation
        fields = dict(zip(self.kept, building.columns(self.relation.schema), strict=True))
        return building.project(self.relation, [fields[old] for old in columns])


class _Pruning:
    def __init__(self, used: Mapping[ir.Relation, set[int]], *, narrow: bool) -> None:
        self._used = used
        self._narrow = narrow
        self._reads: dict[ir.Relation, _Pruned] = {}

    def step(self, visit: _Visit) -> Generator[_Visit, _Pruned, _Pruned]:
        """A read that the plan has twice stays one relation."""
        if not isinstance(visit.relation, ir.Read | ir.LocalFiles):
            return (yield from self._pruned(visit))
        if visit.relation not in self._reads:
            self._reads[visit.relation] = yield from self._pruned(visit)
        return self._reads[visit.relation]

    def _pruned(self, visit: _Visit) -> Generator[_Visit, _Pruned, _Pruned]:
        relation, outer = visit.relation, visit.outer
        used = self._used.get(relation, set())
        own = _without(relation, used)
        below: list[_Pruned] = []
        for child in tree.inputs(own):
            lateral = isinstance(own, ir.LateralJoin) and below
            below.append((yield _Visit(child, (_positions(below[0].kept), *outer) if lateral else outer)))
        rows = (_joined(tree.inputs(own), below), *outer)
        inner: dict[ir.Relation, ir.Relation] = {}
        for subquery in subqueries_of(own):
            pruned = yield _Visit(subquery.relation, rows)
            inner[subquery.relation] = self._result(subquery, pruned)
        is_whole = not outer and not inner and all(map(_is_whole, tree.inputs(own), below))
        over = own if is_whole else moved(own, rows, inner)
        if isinstance(own, ir.Iterate):
            inputs = [child.as_exactly(_all(own)) for child in below]
            return _Pruned(_over(over, inputs, _all(own)), _all(own))
        if isinstance(own, ir.Set):
            columns = tuple(sorted(used)) if own.operation is ir.SetOperation.UNION_ALL else _all(own)
            inputs = [child.as_exactly(columns) for child in below]
            return _Pruned(_over(over, inputs, columns), columns)
        kept = _kept_with(relation, used, below)
        pruned = _Pruned(_over(over, [child.relation for child in below], kept, relation.schema), kept)
        if self._narrow and used and isinstance(relation, _NARROWED):
            columns = tuple(sorted(used))
            return _Pruned(pruned.as_exactly(columns), columns)
        return pruned

    def _result(self, subquery: ir.Subquery, pruned: _Pruned) -> ir.Relation:
        if subquery.kind is ir.SubqueryKind.EXISTS:
            return pruned.relation
        return pruned.as_exactly(_all(subquery.relation))


def _all(relation: ir.Relation) -> tuple[int, ...]:
    return tuple(range(len(relation.schema)))


def _is_whole(relation: ir.Relation, pruned: _Pruned) -> bool:
    return pruned.kept == _all(relation)


def _positions(kept: tuple[int, ...]) -> Positions:
    return {old: new for new, old in enumerate(kept)}


def _joined(old: tuple[ir.Relation, ...], new: list[_Pruned]) -> Positions:
    """The new positions of the columns of several inputs, side by side."""
    positions: dict[int, int] = {}
    first = 0
    for relation, pruned in zip(old, new, strict=True):
        start = len(positions)
        positions.update({first + index: start + position for position, index in enumerate(pruned.kept)})
        first += len(relation.schema)
    return positions


def _kept_with(relation: ir.Relation, used: set[int], below: list[_Pruned]) -> tuple[int, ...]:
    """The old columns that come out after the inputs have dropped theirs."""
    sides = tree.inputs(relation)
    match relation.traits.columns:
        case "passed":
            return (*below[0].kept, *(index for index in sorted(used) if index >= len(sides[0].schema)))
        case "sides":
            kept: list[int] = []
            first = 0
            for side in output_sides(relation):
                pruned = below[0] if side is sides[0] else below[1]
                kept.extend(first + index for index in pruned.kept)
                first += len(side.schema)
            return (*kept, *range(first, len(relation.schema)))
        case _:
            return _kept_of(relation, used)


def _over(
    relation: ir.Relation, inputs: list[ir.Relation], kept: tuple[int, ...], schema: ir.Schema | None = None
) -> ir.Relation:
    """The relation over its new inputs, with the remaining schema."""
    old = relation.schema if schema is None else schema
    left = tuple(old[index] for index in kept)
    over = tree.with_inputs(relation, inputs)
    return over if over.schema == left else replace(over, schema=left)
