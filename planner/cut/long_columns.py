"""Finds the columns whose long values DuckDB need not see: the statement only passes them on, or compares them with
each other.

Such a column's long values stay outside of DuckDB where an operator of the statement holds its rows back: a sort, a
window, a grouping, a set operation or a join; and where they do not come out. Columns that are compared, or come out as
one, go together: where the statement looks at the values of one of them, it sees the values of all.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from ...operators.arrays.texts_inside import has_texts
from ...operators.duckdb.long_values import LEAST_LONG, LongColumn
from .. import ir
from ..ir import tree
from ..ir import types as t
from ..ir.visit import is_column, subqueries_of
from ..rewrite.prune_columns import output_sides
from ..sql.states import states_of

StreamColumns: TypeAlias = tuple[str, Sequence[tuple[int, pa.DataType]]]
"""The name of a statement's stream, and the positions and types of the columns that a relation takes from it."""

_EQUALITIES: Final = frozenset({"equal", "not_equal", "is_not_distinct_from", "is_distinct_from"})
_NULL_TESTS: Final = frozenset({"is_null", "is_not_null"})
_ORDERINGS: Final = frozenset({"lt", "lte", "gt", "gte", "between"})
_EXTREMES: Final = frozenset({"min", "max"})
_PASSING: Final = frozenset(
    {"lag", "lead", "first_value", "last_value", "last_not_null", "nth_value", "any_value", *_EXTREMES}
)
"""Aggregates and window functions whose result is a value of their first argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongColumns:
    """The columns of streams, by the stream's name and the position in it, and the positions in the result where their
    values come out.
    """

    streams: dict[str, dict[int, LongColumn]]
    result: tuple[int, ...]


def long_columns(
    root: ir.Relation,
    shared: Sequence[ir.Relation],
    ends: Container[ir.Relation],
    stream: Callable[[ir.Relation], StreamColumns | None],
    *,
    joins_hold: bool,
) -> LongColumns:
    """The columns of the statement `root`. `ends` are relations that are computed elsewhere. `stream` tells the
    columns of a leaf; None for a leaf that DuckDB reads itself. `joins_hold` says that joins hold their rows back.
    """
    finding = _Finding(shared, ends, stream, joins_hold=joins_hold)
    finding.walk(root)
    return finding.long_columns(root)


_Node: TypeAlias = Hashable
_Grouping: TypeAlias = ir.Aggregate | ir.PartialAggregate | ir.SlidingAggregate
_OverOne: TypeAlias = ir.Project | ir.Expand | _Grouping


class _Finding:
    """Columns in classes: those that are one column, or are compared, are in one class."""

    def __init__(
        self,
        shared: Sequence[ir.Relation],
        ends: Container[ir.Relation],
        stream: Callable[[ir.Relation], StreamColumns | None],
        *,
        joins_hold: bool,
    ) -> None:
        self._shared = shared
        self._ends = ends
        self._stream = stream
        self._joins_hold = joins_hold
        self._parent: dict[_Node, _Node] = {}
        self._leaves: dict[_Node, tuple[str, int]] = {}
        self._seen: set[_Node] = set()
        self._held: set[_Node] = set()
        self._compared: set[_Node] = set()
        self._ordered: set[_Node] = set()

    def long_columns(self, root: ir.Relation) -> LongColumns:
        seen, held, ordered = map(self._leaders, (self._seen, self._held, self._ordered))
        compared = self._leaders(self._compared) | ordered
        wanted = held - seen
        out = [self._leader((root, at)) for at in range(len(root.schema))]
        streams: dict[str, dict[int, LongColumn]] = {}
        outside: set[_Node] = set()
        for node, (name, at) in self._leaves.items():
            leader = self._leader(node)
            if leader in wanted or (leader not in seen and leader not in out):
                outside.add(leader)
                streams.setdefault(name, {})[at] = LongColumn(
                    compared=leader in compared, kept=leader in out, ordered=leader in ordered
                )
        return LongColumns(streams=streams, result=tuple(at for at, leader in enumerate(out) if leader in outside))

    def walk(self, root: ir.Relation) -> None:
        stack = [root]
        done: set[ir.Relation] = set()
        while stack:
            relation = stack.pop()
            if relation in done:
                continue
            done.add(relation)
            if isinstance(relation, ir.Read | ir.LocalFiles) or (relation is not root and relation in self._ends):
                self._leaf(relation)
                continue
            inner = [subquery.relation for subquery in subqueries_of(relation)]
            for child in (*inner, *tree.inputs(relation)) if inner else ():
                self._see_all(child)
            self._relation(relation)
            stack.extend((*self._below(relation), *inner))

    def _below(self, relation: ir.Relation) -> Sequence[ir.Relation]:
        return (self._shared[relation.ordinal],) if isinstance(relation, ir.Shared) else tree.inputs(relation)

    def _leaf(self, relation: ir.Relation) -> None:
        stream_columns = self._stream(relation)
        if stream_columns is None:
            self._see_all(relation)
            return
        name, columns = stream_columns
        for at, (position, type_) in enumerate(columns):
            leaf = (name, position)
            self._leaves[leaf] = leaf
            self._join((relation, at), leaf)
            if not has_texts(type_):
                self._seen.add(leaf)

    def _relation(self, relation: ir.Relation) -> None:
        match relation:
            case ir.Filter() | ir.Fetch() | ir.Sort() | ir.TopN():
                self._some_rows(relation)
            case ir.Project():
                self._compute(relation, relation.expressions)
            case ir.Expand():
                for alternative in relation.alternatives:
                    self._compute(relation, alternative)
            case ir.Aggregate() | ir.PartialAggregate() | ir.SlidingAggregate():
                self._group(relation)
            case ir.FinalAggregate() | ir.FinalSlidingAggregate():
                self._regroup(relation)
            case ir.Join() | ir.Cross():
                self._pair(relation)
            case ir.Set():
                self._unite(relation)
            case ir.Window():
                self._windows(relation)
            case ir.Shared():
                self._link(_columns(relation), _columns(self._shared[relation.ordinal]))
            case _:
                for known in (relation, *tree.inputs(relation)):
                    self._see_all(known)

    def _some_rows(self, relation: ir.Filter | ir.Fetch | ir.Sort | ir.TopN) -> None:
        below = _columns(relation.input)
        self._link(_columns(relation), below)
        if isinstance(relation, ir.Sort | ir.TopN):
            self._sort(relation.keys, below)
            self._held.update(below)
        else:
            self._look_at(tree.expressions(relation), below)

    def _pair(self, relation: ir.Join | ir.Cross) -> None:
        below = [*_columns(relation.left), *_columns(relation.right)]
        if isinstance(relation, ir.Join):
            self._held.update(below if self._joins_hold else ())
            self._look_at(tree.expressions(relation), below)
            below = [node for side in output_sides(relation) for node in _columns(side)]
        self._link(_columns(relation), below)

    def _unite(self, relation: ir.Set) -> None:
        for child in relation.inputs:
            self._link(_columns(relation), _columns(child))
        if relation.operation is not ir.SetOperation.UNION_ALL:
            self._compared.update(_columns(relation))
            self._held.update(_columns(relation))

    def _group(self, relation: _Grouping) -> None:
        below, columns, first = _columns(relation.input), _columns(relation), 0
        if isinstance(relation, ir.SlidingAggregate):  # its first column is the window's number
            self._look_at((relation.slice,), below)
            self._seen.add(columns[0])
            first = 1
        self._compute(relation, relation.keys, first)
        at = first + len(relation.keys)
        keys = columns[first:at]
        self._compared.update(keys)
        self._held.update(keys)
        for measure in relation.measures:
            width = len(states_of(measure) or ()) if isinstance(relation, ir.PartialAggregate) else 1
            passed = _passed(measure)
            if passed is None:
                self._call(measure, below)
            else:
                self._pass(measure, columns[at], below[passed.index])
            self._look_at((measure.condition,), below)
            self._sort(measure.sorts, below)
            at += width

    def _regroup(self, relation: ir.FinalAggregate | ir.FinalSlidingAggregate) -> None:
        below, columns = _columns(relation.input), _columns(relation)
        first = 1 if isinstance(relation, ir.FinalSlidingAggregate) else 0  # the slice's number, and the window's
        self._seen.update((*columns[:first], *below[:first]))
        state = first + relation.keys
        keys = columns[first:state]
        self._link(keys, below[first:])
        self._compared.update(keys)
        self._held.update(keys)
        for at, measure in enumerate(relation.measures, state):
            states = below[state : state + len(states_of(measure) or ())]
            if _passed(measure) is None:
                self._seen.update((columns[at], *states))
            else:
                self._pass(measure, columns[at], *states)
            state += len(states)

    def _pass(self, call: ir.Measure | ir.WindowCall, result: _Node, *values: _Node) -> None:
        """Note a call whose result is one of the values."""
        self._link([result] * len(values), values)
        self._held.add(result)
        self._ordered.update(values if call.function.name in _EXTREMES else ())

    def _sort(self, keys: Sequence[ir.SortKey], below: Sequence[_Node]) -> None:
        for key in keys:
            if is_column(key.expression):
                self._ordered.add(below[key.expression.index])
            else:
                self._look_at((key.expression,), below)

    def _windows(self, relation: ir.Window) -> None:
        below = _columns(relation.input)
        self._link(_columns(relation)[: len(below)], below)
        self._held.update(_columns(relation))
        for at, call in enumerate(relation.calls, len(below)):
            for partition in call.partitions:
                if is_column(partition):
                    self._compared.add(below[partition.index])
                else:
                    self._look_at((partition,), below)
            self._sort(call.sorts, below)
            passed = _passed(call)
            if passed is None:
                self._seen.add((relation, at))
                self._call(call, below)
            else:
                self._pass(call, (relation, at), below[passed.index])
                self._look_at(call.arguments[1:], below)

    def _call(self, call: ir.Measure | ir.WindowCall, below: Sequence[_Node]) -> None:
        """Note the arguments of a call. A count looks at no value."""
        for argument in call.arguments:
            if call.function.name == "count" and is_column(argument):
                self._compared.update([below[argument.index]] if call.distinct else ())
            else:
                self._look_at((argument,), below)

    def _compute(self, relation: _OverOne, expressions: Sequence[ir.Expression], first: int = 0) -> None:
        below = _columns(relation.input)
        for at, expression in enumerate(expressions, first):
            if is_column(expression):
                self._join((relation, at), below[expression.index])
            elif not _is_null(expression):
                self._seen.add((relation, at))
                self._look_at((expression,), below)

    def _look_at(self, expressions: Iterator[object] | Sequence[object], below: Sequence[_Node]) -> None:
        """Note the columns whose values the expressions look at."""
        stack = [expression for expression in expressions if expression is not None and not isinstance(expression, str)]
        while stack:
            part = stack.pop()
            if isinstance(part, ir.Call) and part.function.name in _NULL_TESTS and is_column(part.arguments[0]):
                continue
            if isinstance(part, ir.Call) and self._compare(part, below):
                continue
            if isinstance(part, ir.Field):
                self._seen.update([] if part.outer else [below[part.index]])
            operands = tree.operands(part)  # type: ignore[arg-type]  # a part of an expression
            stack.extend([operand for operand in operands if type(operand) is not ir.Literal])

    def _compare(self, call: ir.Call, below: Sequence[_Node]) -> bool:
        """Note a comparison of columns with each other, or with a short constant. False for any other call."""
        is_ordering = call.function.name in _ORDERINGS
        if not is_ordering and call.function.name not in _EQUALITIES:
            return False
        columns = [argument for argument in call.arguments if is_column(argument)]
        if len(columns) + sum(map(_is_short, call.arguments)) < len(call.arguments):
            return False
        if any(isinstance(column.type, t.FixedChar) for column in columns):
            return False  # compared without the blanks at their ends
        nodes = [below[column.index] for column in columns]
        for node in nodes:
            self._join(nodes[0], node)
        (self._ordered if is_ordering else self._compared).update(nodes)
        return True

    def _link(self, columns: Sequence[_Node], below: Sequence[_Node]) -> None:
        """Make columns one with those below, from left to right. Columns beyond those below are computed."""
        for one, other in zip(columns, below, strict=False):
            self._join(one, other)
        self._seen.update(columns[len(below) :])

    def _see_all(self, relation: ir.Relation) -> None:
        self._seen.update(_columns(relation))

    def _join(self, one: _Node, other: _Node) -> None:
        self._parent[self._leader(one)] = self._leader(other)

    def _leader(self, node: _Node) -> _Node:
        while (above := self._parent.get(node, node)) != node:
            self._parent[node] = self._parent.get(above, above)
            node = above
        return node

    def _leaders(self, nodes: set[_Node]) -> set[_Node]:
        return {self._leader(node) for node in nodes}


def _columns(relation: ir.Relation) -> list[_Node]:
    return [(relation, at) for at in range(len(relation.schema))]


def _passed(call: ir.Measure | ir.WindowCall) -> ir.Field | None:
    """The column of which a call's result is a value, if there is one."""
    first = call.arguments[0] if call.arguments else None
    passes = call.function.name in _PASSING and all(map(_is_short, call.arguments[2:]))  # the default of lag and lead
    return first if passes and is_column(first) else None


def _is_null(expression: ir.Expression) -> bool:
    """Tests for what stands in for a column, in a union or a grouping set: it has no long value."""
    return isinstance(expression, ir.Literal) and expression.value is None


def _is_short(argument: object) -> bool:
    if not isinstance(argument, ir.Literal):
        return False
    match argument.value:
        case str() as text:
            return len(text.encode()) <= LEAST_LONG
        case bytes() as data:
            return len(data) <= LEAST_LONG
        case tuple():
            return False  # it may have long values inside
        case _:
            return True
