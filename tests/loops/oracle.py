"""The meaning of a plan with loops, in plain Python: `X(0) = nothing, X(k+1) = input + body(X(k))`, taken literally.

Every round evaluates the whole body anew over all rows, row at a time. Nothing here is clever, and nothing is shared
with what it is the oracle for. It is for the small rows of tests: relations and functions that no test of loops needs
are refused by name.
"""

from __future__ import annotations

import functools
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tidegate.planner import ir

from ..planner.relations import naive
from ..planner.relations.naive import Row

ENDLESS: Final = 1_000
"""Rounds after which a loop of a test is taken to have no end."""


class LoopLimit(Exception):
    """A loop would still change after its last round."""


class TooManyRows(Exception):
    """A relation has more rows than the test cares to look at."""


@dataclass(frozen=True)
class Evaluation:
    """`tables` are the sources' rows, columns in the order of `names`; `came_back` what each loop around has; `around`
    the rows of the queries around, the innermost last.
    """

    tables: Mapping[str, tuple[Sequence[str], Sequence[Row]]]
    shared: Sequence[ir.Relation] = ()
    came_back: Mapping[int, Sequence[Row]] = field(default_factory=dict)
    around: tuple[Row, ...] = ()
    most_rows: int | None = None

    def rows(self, relation: ir.Relation) -> list[Row]:
        table = self._rows(relation)
        if self.most_rows is not None and len(table) > self.most_rows:
            raise TooManyRows(type(relation).__name__)
        return table

    def _rows(self, relation: ir.Relation) -> list[Row]:  # noqa: C901 (a line per relation)
        match relation:
            case ir.Read():
                names, rows = self.tables[relation.source]
                return [tuple(row[names.index(name)] for name in relation.names) for row in rows]
            case ir.Values():
                return [tuple(self.value(expression, ()) for expression in row) for row in relation.rows]
            case ir.Reference():
                return list(self.came_back[relation.loop])
            case ir.Shared():
                return replace(self, came_back={}).rows(self.shared[relation.ordinal])
            case ir.Iterate():
                return canonical(self.fixpoint(relation).elements())
            case ir.Filter():
                return [row for row in self.rows(relation.input) if self.value(relation.condition, row)]
            case ir.Project():
                return [
                    tuple(self.value(expression, row) for expression in relation.expressions)
                    for row in self.rows(relation.input)
                ]
            case ir.Join() | ir.Cross():
                return self._joined(relation)
            case ir.Set():
                combined = naive.combine(relation.operation, list(map(self.rows, relation.inputs)))
                return _numbers(combined.elements())
            case ir.Aggregate():
                return self._aggregated(relation)
            case ir.Sort():
                return self._ordered(relation.keys, self.rows(relation.input))
            case ir.Fetch():
                start, stop = self._part(relation)
                return self.rows(relation.input)[start:stop]
            case ir.TopN():
                return self._first(relation)
            case ir.Window():
                return self._windowed(relation)
            case _:
                raise NotImplementedError(type(relation).__name__)

    def fixpoint(self, loop: ir.Iterate) -> Counter[Row]:
        """The X that no longer changes, or that of the last round there may be."""
        entering = naive.same(self.rows(loop.input) if loop.input is not None else ())
        limit = ENDLESS if loop.max_rounds is None else loop.max_rounds
        current: Counter[Row] = Counter()
        for _ in range(limit):
            following = entering + self._body(loop, current)
            if following == current:
                return current
            current = following
        if loop.max_rounds is not None and loop.at_limit is ir.AtLimit.RETURN:
            return current
        if entering + self._body(loop, current) != current:
            raise LoopLimit(loop.name)
        return current

    def _body(self, loop: ir.Iterate, current: Counter[Row]) -> Counter[Row]:
        inside = replace(self, came_back={**self.came_back, loop.loop: _numbers(current.elements())})
        return naive.same(inside.rows(loop.body))

    def _joined(self, relation: ir.Join | ir.Cross) -> list[Row]:
        widths = len(relation.left.schema), len(relation.right.schema)
        type_ = relation.type if isinstance(relation, ir.Join) else ir.JoinType.INNER
        condition = relation.condition if isinstance(relation, ir.Join) else None

        def matches(left: Row, right: Row) -> bool | None:
            return True if condition is None else self.value(condition, (*left, *right))

        return naive.join(self.rows(relation.left), self.rows(relation.right), type_, matches, widths)

    def _aggregated(self, relation: ir.Aggregate) -> list[Row]:
        assert len(relation.grouping_sets) == 1, "one grouping set is enough for the tests of loops"
        below = self.rows(relation.input)
        width = len(relation.keys)
        keyed = [(*(self.value(key, row) for key in relation.keys), *row) for row in below]
        groups = naive.groups(keyed, range(width))
        return [
            (
                *rows[0][:width],
                *(self._measured(measure, [row[width:] for row in rows]) for measure in relation.measures),
            )
            if rows
            else tuple(self._measured(measure, ()) for measure in relation.measures)
            for rows in groups.values()
        ]

    def _measured(self, measure: ir.Measure, rows: Sequence[Row]) -> Any:
        """Over the rows of a group."""
        if not measure.arguments:
            return len(rows)
        values = [value for row in rows if (value := self.value(measure.arguments[0], row)) is not None]
        return _MEASURES[measure.function.name](list(dict.fromkeys(values)) if measure.distinct else values)

    def _ordered(self, keys: Sequence[ir.SortKey], rows: Sequence[Row]) -> list[Row]:
        """Ties in canonical order: no test has to know in which order rows came."""
        width = len(keys)
        keyed = [(*(self.value(key.expression, row) for key in keys), *row) for row in canonical(rows)]
        ordered = naive.ordered(keyed, [(at, key.direction) for at, key in enumerate(keys)])
        return [row[width:] for row in ordered]

    def _part(self, relation: ir.Fetch | ir.TopN) -> tuple[int, int | None]:
        skipped = 0 if relation.offset is None else self.value(relation.offset, ())
        wanted = None if relation.count is None else self.value(relation.count, ())
        return skipped, None if wanted is None else skipped + wanted

    def _first(self, relation: ir.TopN) -> list[Row]:
        rows = self._ordered(relation.keys, self.rows(relation.input))
        start, stop = self._part(relation)
        kept = rows[start:stop]
        if relation.ties and kept and stop is not None:
            last = [self.value(key.expression, kept[-1]) for key in relation.keys]
            kept += [row for row in rows[stop:] if [self.value(key.expression, row) for key in relation.keys] == last]
        return kept

    def _windowed(self, relation: ir.Window) -> list[Row]:
        rows = canonical(self.rows(relation.input))
        columns = [self._over_partitions(call, rows) for call in relation.calls]
        return [(*row, *answers) for row, *answers in zip(rows, *columns, strict=True)]

    def _over_partitions(self, call: ir.WindowCall, rows: Sequence[Row]) -> list[object]:
        """What a function is for each row. Rows that are the same stand side by side in their partition."""
        answers: list[object] = [None] * len(rows)
        keyed = [(*(self.value(expression, row) for expression in call.partitions), at) for at, row in enumerate(rows)]
        for partition in naive.groups(keyed, range(len(call.partitions))).values():
            numbers = [at for (*_, at) in partition]
            width = len(call.sorts)
            sorted_by = [(*(self.value(key.expression, rows[at]) for key in call.sorts), at) for at in numbers]
            ordered = naive.ordered(sorted_by, [(at, key.direction) for at, key in enumerate(call.sorts)])
            keys = [row[:width] for row in ordered]
            values = [self.value(argument, rows[at]) for argument in call.arguments for at in numbers]
            for number, (*_, at) in enumerate(ordered):
                answers[at] = _WINDOWED[call.function.name](
                    number, keys, [value for value in values if value is not None]
                )
        return answers

    def value(self, expression: ir.Expression | str, row: Row) -> Any:
        match expression:
            case ir.Field(steps=()):
                return (row if not expression.outer else self.around[-expression.outer])[expression.index]
            case ir.Literal():
                return expression.value
            case ir.Cast():
                return self.value(expression.operand, row)
            case ir.Call():
                return _FUNCTIONS[expression.function.name](
                    *(self.value(argument, row) for argument in expression.arguments)
                )
            case ir.IfThen():
                branches = (then for condition, then in expression.clauses if self.value(condition, row))
                then = next(branches, expression.otherwise)
                return None if then is None else self.value(then, row)
            case ir.Subquery():
                return self._of_subquery(expression, row)
            case _:
                raise NotImplementedError(type(expression).__name__)

    def _of_subquery(self, subquery: ir.Subquery, row: Row) -> Any:
        rows = replace(self, around=(*self.around, row)).rows(subquery.relation)
        match subquery.kind:
            case ir.SubqueryKind.EXISTS:
                return bool(rows)
            case ir.SubqueryKind.IN:
                needles = [self.value(needle, row) for needle in subquery.needles]
                return _or(
                    False, *(_and(*map(naive.equal, needles, row)) for row in rows)
                )  # no row, none that is equal
            case ir.SubqueryKind.SCALAR:
                assert len(rows) <= 1, "a scalar subquery of a test has one row"
                return rows[0][0] if rows else None
            case _:
                raise NotImplementedError(subquery.kind.value)


def evaluate(
    plan: ir.Plan, tables: Mapping[str, tuple[Sequence[str], Sequence[Row]]], *, most_rows: int | None = None
) -> list[Row]:
    """The plan's rows; those of a loop at its root in canonical order, others in any. Raises `TooManyRows` where any
    relation has more than `most_rows` on the way.
    """
    return Evaluation(tables, plan.shared, most_rows=most_rows).rows(plan.root)


def canonical(rows: Iterable[Row]) -> list[Row]:
    """All columns ascending from left to right, nulls last, NaN above all numbers."""

    def order(one: Row, other: Row) -> int:
        compared = (naive.compare(a, b, ir.Direction.ASC_NULLS_LAST) for a, b in zip(one, other, strict=True))
        return next((ordering for ordering in compared if ordering), 0)

    return sorted(_numbers(rows), key=functools.cmp_to_key(order))


def _numbers(rows: Iterable[Row]) -> list[Row]:
    """Of rows as a multiset the values: no text in a test is NaN's name."""
    return [tuple(math.nan if value == "NaN" else value for value in row) for row in rows]


# ------------------------------------------------------------------------------------------------- expressions


def _strict(function: Callable[..., object]) -> Callable[..., object]:
    """Null where an argument is null."""
    return lambda *arguments: None if None in arguments else function(*arguments)


def _in_64_bits(function: Callable[..., Any]) -> Callable[..., object]:
    """An error where a whole number is none of 64 bits."""

    def checked(*arguments: object) -> object:
        result = function(*arguments)
        if isinstance(result, int) and not -(1 << 63) <= result < 1 << 63:
            raise OverflowError(f"{result} is beyond 64 bits")
        return result

    return checked


def _and(*arguments: bool | None) -> bool | None:
    return False if False in arguments else None if None in arguments else True


def _or(*arguments: bool | None) -> bool | None:
    return True if True in arguments else None if None in arguments else False


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "equal": naive.equal,
    "not_equal": _strict(lambda one, other: not naive.equal(one, other)),
    "is_not_distinct_from": lambda one, other: naive.key(one) == naive.key(other),
    "is_null": lambda one: one is None,
    "is_not_null": lambda one: one is not None,
    "gt": _strict(lambda one, other: naive.compare(one, other, ir.Direction.ASC_NULLS_LAST) > 0),
    "lt": _strict(lambda one, other: naive.compare(one, other, ir.Direction.ASC_NULLS_LAST) < 0),
    "gte": _strict(lambda one, other: naive.compare(one, other, ir.Direction.ASC_NULLS_LAST) >= 0),
    "lte": _strict(lambda one, other: naive.compare(one, other, ir.Direction.ASC_NULLS_LAST) <= 0),
    "add": _strict(_in_64_bits(operator.add)),
    "subtract": _strict(_in_64_bits(operator.sub)),
    "multiply": _strict(_in_64_bits(operator.mul)),
    "not": _strict(operator.not_),
    "and": _and,
    "or": _or,
    "coalesce": lambda *arguments: next((argument for argument in arguments if argument is not None), None),
}


_MEASURES: Final[Mapping[str, Callable[[list[Any]], Any]]] = {
    "count": len,
    "sum": lambda values: sum(values) if values else None,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
}

_WINDOWED: Final[Mapping[str, Callable[[int, Sequence[Row], Sequence[Any]], object]]] = {
    "row_number": lambda number, _keys, _values: number + 1,
    "rank": lambda number, keys, _values: next(at for at, key in enumerate(keys) if key == keys[number]) + 1,
    "max": lambda _number, _keys, values: max(values, default=None),
}
"""By a row's number in its partition, the partition's sort keys, and the argument's values in it: no smaller frame."""
