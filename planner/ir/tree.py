"""The parts of every relation and expression, in one place, so that passes need not know them.

`inputs` and `expressions` take a relation apart; `with_inputs` and `with_expressions` put the relation together again
from as many parts in the same order. `operands` and `with_operands` do the same for an expression; the relation inside
a `Subquery` is not an operand. Nothing here walks: passes walk with `planner.ir.walk`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, Final, assert_never, get_args

from ...proto.errors import InternalError
from .. import ir
from .building import columns, project

LEAVES: Final = frozenset({ir.Literal, ir.Field, ir.Parameter, ir.ContextVariable})
"""The kinds of expressions without operands. Most parts of a large expression are leaves: walks may pass them over."""

_WHOLE: Final = frozenset(get_args(ir.Expression))


def inputs(relation: ir.Relation) -> tuple[ir.Relation, ...]:
    """The relations that `relation` reads, left to right."""
    try:
        return relation.found_inputs
    except AttributeError:
        return relation.keep("found_inputs", _inputs(relation))


def _inputs(relation: ir.Relation) -> tuple[ir.Relation, ...]:
    relations: list[ir.Relation] = []
    for name in relation.parts.inputs:
        part = getattr(relation, name)
        if isinstance(part, tuple):
            relations.extend(part)
        elif part is not None:
            relations.append(part)
    return tuple(relations)


def with_inputs(relation: ir.Relation, new: Iterable[ir.Relation]) -> ir.Relation:
    """The same relation over other inputs, which must have the old inputs' schemas. The relation itself if the inputs
    are the old ones.
    """
    new = tuple(new)
    if all(one is other for one, other in zip(new, inputs(relation), strict=True)):
        return relation
    take = iter(new)
    changes: dict[str, Any] = {}
    for name in relation.parts.inputs:
        part = getattr(relation, name)
        if isinstance(part, tuple):
            changes[name] = tuple(next(take) for _ in part)
        elif part is not None:
            changes[name] = next(take)
    return replace(relation, **changes)


def all_of(relation: ir.Relation) -> ir.Project:
    """A relation that reads all of another relation. A pipeline never computes only another pipeline's result."""
    return project(relation, columns(relation.schema))


def expressions(relation: ir.Relation) -> tuple[ir.Expression, ...]:
    """The relation's own expressions, those of keys, measures and calls included."""
    try:
        return relation.found_expressions
    except AttributeError:
        own: list[ir.Expression] = []
        for name in (*relation.parts.columns, *relation.parts.expressions):
            _collect(getattr(relation, name), own)
        return relation.keep("found_expressions", tuple(own))


def with_expressions(relation: ir.Relation, new: Iterable[ir.Expression]) -> ir.Relation:
    """The same relation with other expressions of the same types. The relation itself if the expressions are the old
    ones.
    """
    new = tuple(new)
    if all(one is other for one, other in zip(new, expressions(relation), strict=True)):
        return relation
    take = iter(new)
    columns = map(_column, take)
    changes = {name: _rebuilt(getattr(relation, name), columns) for name in relation.parts.columns}
    changes |= {name: _rebuilt(getattr(relation, name), take) for name in relation.parts.expressions}
    return replace(relation, **changes)


def _collect(part: Any, into: list[ir.Expression]) -> None:
    """Add the expressions of a field's value, in order."""
    match part:
        case tuple():
            for item in part:
                if type(item) in _WHOLE:
                    into.append(item)
                else:
                    _collect(item, into)
        case None | str():
            pass
        case ir.SortKey():
            into.append(part.expression)
        case ir.Measure():
            into.extend(measured(part))
        case ir.WindowCall():
            into.extend(_of_call(part))
        case _:
            into.append(part)


def _rebuilt(part: Any, take: Iterator[ir.Expression]) -> Any:
    """A field's value over as many other expressions, in the order of `_collect`."""
    match part:
        case tuple():
            return tuple(_rebuilt(item, take) for item in part)
        case None | str():
            return part
        case ir.SortKey():
            return replace(part, expression=next(take))
        case ir.Measure():
            return _rebuilt_measure(part, take)
        case ir.WindowCall():
            return _rebuilt_call(part, take)
        case _:
            return next(take)


def operands(expression: ir.Expression) -> tuple[ir.Expression, ...]:
    """The operands of an expression, in order of evaluation if there is one."""
    match expression:
        case ir.Call():  # first, as most are calls
            return _values(expression.arguments)
        case ir.Literal() | ir.Field() | ir.Parameter() | ir.ContextVariable():
            return ()
        case ir.NestedField() | ir.Cast():
            return (expression.operand,)
        case ir.IfThen():
            return (*(part for clause in expression.clauses for part in clause), *_present(expression.otherwise))
        case ir.Switch():
            results = (result for _, result in expression.clauses)
            return (expression.match, *results, *_present(expression.otherwise))
        case ir.OneOf():
            return (*expression.value, *chain.from_iterable(expression.options))
        case ir.Nested():
            return expression.items
        case ir.Lambda():
            return (expression.body,)
        case ir.Subquery():
            return expression.needles
        case _:
            assert_never(expression)


def with_operands(expression: ir.Expression, new: Iterable[ir.Expression]) -> ir.Expression:
    """The same expression over other operands of the same types. The expression itself if the operands are the old
    ones.
    """
    new = tuple(new)
    if all(one is other for one, other in zip(new, operands(expression), strict=True)):
        return expression
    take = iter(new)
    match expression:
        case ir.Literal() | ir.Field() | ir.Parameter() | ir.ContextVariable():
            return expression
        case ir.NestedField() | ir.Cast():
            return replace(expression, operand=next(take))
        case ir.Call():
            return replace(expression, arguments=_arguments(expression.arguments, take))
        case ir.IfThen():
            clauses = tuple((next(take), next(take)) for _ in expression.clauses)
            return replace(expression, clauses=clauses, otherwise=_maybe(expression.otherwise, take))
        case ir.Switch():
            match_ = next(take)
            cases = tuple((literal, next(take)) for literal, _ in expression.clauses)
            return replace(expression, match=match_, clauses=cases, otherwise=_maybe(expression.otherwise, take))
        case ir.OneOf():
            value = tuple(next(take) for _ in expression.value)
            return replace(expression, value=value, options=_rows(expression.options, take))
        case ir.Nested():
            return replace(expression, items=new)
        case ir.Lambda():
            return replace(expression, body=next(take))
        case ir.Subquery():
            return replace(expression, needles=new)
        case _:
            assert_never(expression)


def _present(*values: ir.Expression | None) -> tuple[ir.Expression, ...]:
    return tuple(value for value in values if value is not None)


def _maybe(old: ir.Expression | None, take: Iterator[ir.Expression]) -> ir.Expression | None:
    return None if old is None else next(take)


def _column(operand: ir.Expression) -> ir.Field:
    if not isinstance(operand, ir.Field):
        raise InternalError("a column of an operator was replaced by something that is none")
    return operand


def _values(arguments: tuple[ir.Expression | str, ...]) -> tuple[ir.Expression, ...]:
    return tuple([argument for argument in arguments if not isinstance(argument, str)])


def _arguments(old: tuple[ir.Expression | str, ...], take: Iterator[ir.Expression]) -> tuple[ir.Expression | str, ...]:
    return tuple(argument if isinstance(argument, str) else next(take) for argument in old)


def _rows(
    old: tuple[tuple[ir.Expression, ...], ...], take: Iterator[ir.Expression]
) -> tuple[tuple[ir.Expression, ...], ...]:
    return tuple(tuple(next(take) for _ in row) for row in old)


def _keys(old: tuple[ir.SortKey, ...], take: Iterator[ir.Expression]) -> tuple[ir.SortKey, ...]:
    return tuple(replace(key, expression=next(take)) for key in old)


def measured(measure: ir.Measure) -> tuple[ir.Expression, ...]:
    """The expressions of a measure: its arguments, sort keys and condition."""
    keys = (key.expression for key in measure.sorts)
    return (*_values(measure.arguments), *keys, *_present(measure.condition))


def _rebuilt_measure(measure: ir.Measure, take: Iterator[ir.Expression]) -> ir.Measure:
    arguments = _arguments(measure.arguments, take)
    sorts = _keys(measure.sorts, take)
    return replace(measure, arguments=arguments, sorts=sorts, condition=_maybe(measure.condition, take))


def _of_call(call: ir.WindowCall) -> tuple[ir.Expression, ...]:
    keys = (key.expression for key in call.sorts)
    return (*_values(call.arguments), *call.partitions, *keys, *_of_bound(call.lower), *_of_bound(call.upper))


def _rebuilt_call(call: ir.WindowCall, take: Iterator[ir.Expression]) -> ir.WindowCall:
    arguments = _arguments(call.arguments, take)
    partitions = tuple(next(take) for _ in call.partitions)
    sorts = _keys(call.sorts, take)
    lower = _rebuilt_bound(call.lower, take)
    return replace(
        call,
        arguments=arguments,
        partitions=partitions,
        sorts=sorts,
        lower=lower,
        upper=_rebuilt_bound(call.upper, take),
    )


def _of_bound(bound: ir.Bound) -> tuple[ir.Expression, ...]:
    return () if bound.offset is None or isinstance(bound.offset, int) else (bound.offset,)


def _rebuilt_bound(bound: ir.Bound, take: Iterator[ir.Expression]) -> ir.Bound:
    return bound if bound.offset is None or isinstance(bound.offset, int) else ir.Bound(offset=next(take))


def read_by(relation: ir.Relation) -> tuple[ir.Relation, ...]:
    """The inputs of a relation, without a side in which the relation only looks rows up."""
    return (relation.left,) if isinstance(relation, ir.IndexLookup) else inputs(relation)
