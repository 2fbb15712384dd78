"""The parts of every relation and expression, in one place, so that passes need not know them.

`inputs` and `expressions` take a relation apart; `with_inputs` and `with_expressions` put the relation together again
from as many parts in the same order. `operands` and `with_operands` do the same for an expression; the relation inside
a `Subquery` is not an operand. Nothing here walks: passes walk with `planner.ir.walk`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import assert_never

from ...proto.errors import InternalError
from .. import ir


def inputs(relation: ir.Relation) -> tuple[ir.Relation, ...]:
    """The relations that `relation` reads, left to right."""
    match relation:
        case ir.Read() | ir.LocalFiles() | ir.Values() | ir.Shared() | ir.IndexTable():
            return ()
        case ir.Reference() | ir.LoopInput():
            return ()
        case ir.Filter() | ir.Project() | ir.Fetch() | ir.Sort() | ir.TopN():
            return (relation.input,)
        case ir.Aggregate() | ir.Window() | ir.Expand() | ir.Unnest() | ir.StreamingAggregate():
            return (relation.input,)
        case ir.PartialAggregate() | ir.FinalAggregate() | ir.Exchange():
            return (relation.input,)
        case ir.Join() | ir.LateralJoin() | ir.Cross() | ir.IndexLookup() | ir.MergeJoin():
            return (relation.left, relation.right)
        case ir.Set() | ir.Rounds() | ir.User():
            return relation.inputs
        case ir.Iterate():
            return (relation.body, *_given(relation.input))
        case ir.Recursion():
            return (*relation.base, *relation.steps, *_given(relation.input))
        case _:
            assert_never(relation)


def with_inputs(relation: ir.Relation, new: Iterable[ir.Relation]) -> ir.Relation:
    """The same relation over other inputs, which must have the old inputs' schemas. The relation itself if the inputs
    are the old ones.
    """
    new = tuple(new)
    if all(one is other for one, other in zip(new, inputs(relation), strict=True)):
        return relation
    match relation:
        case ir.Read() | ir.LocalFiles() | ir.Values() | ir.Shared() | ir.IndexTable():
            return relation
        case ir.Reference() | ir.LoopInput():
            return relation
        case ir.Filter() | ir.Project() | ir.Fetch() | ir.Sort() | ir.TopN():
            return replace(relation, input=new[0])
        case ir.Aggregate() | ir.Window() | ir.Expand() | ir.Unnest() | ir.StreamingAggregate():
            return replace(relation, input=new[0])
        case ir.PartialAggregate() | ir.FinalAggregate() | ir.Exchange():
            return replace(relation, input=new[0])
        case ir.Join() | ir.LateralJoin() | ir.Cross() | ir.IndexLookup() | ir.MergeJoin():
            return replace(relation, left=new[0], right=new[1])
        case ir.Set() | ir.Rounds() | ir.User():
            return replace(relation, inputs=new)
        case ir.Iterate():
            return replace(relation, body=new[0], input=new[1] if len(new) > 1 else None)
        case ir.Recursion():
            first, last = len(relation.base), len(relation.base) + len(relation.steps)
            entering = new[last] if len(new) > last else None
            return replace(relation, base=new[:first], steps=new[first:last], input=entering)
        case _:
            assert_never(relation)


def _given(relation: ir.Relation | None) -> tuple[ir.Relation, ...]:
    return () if relation is None else (relation,)


def all_of(relation: ir.Relation) -> ir.Project:
    """A relation that reads all of another relation. A pipeline never computes only another pipeline's result."""
    columns = tuple(ir.Field(index=at, type=type_) for at, type_ in enumerate(relation.schema))
    return ir.Project(input=relation, expressions=columns, schema=relation.schema, plan_path=relation.plan_path)


def expressions(  # noqa: C901 (a closed match, a line per case)
    relation: ir.Relation,
) -> tuple[ir.Expression, ...]:
    """The relation's own expressions, those of keys, measures and calls included."""
    match relation:
        case ir.Read() | ir.LocalFiles() | ir.Shared() | ir.IndexTable():
            return ()
        case ir.Cross() | ir.Set() | ir.FinalAggregate() | ir.Exchange() | ir.User():
            return ()
        case ir.Iterate() | ir.Reference() | ir.LoopInput() | ir.Recursion() | ir.Rounds():
            return ()
        case ir.Values():
            return tuple(value for row in relation.rows for value in row)
        case ir.Filter():
            return (relation.condition,)
        case ir.Project():
            return relation.expressions
        case ir.Fetch():
            return _present(relation.offset, relation.count)
        case ir.Sort():
            return tuple(key.expression for key in relation.keys)
        case ir.TopN():
            return (*(key.expression for key in relation.keys), *_present(relation.offset, relation.count))
        case ir.Aggregate() | ir.PartialAggregate() | ir.StreamingAggregate():
            return (*relation.keys, *(part for measure in relation.measures for part in _of_measure(measure)))
        case ir.Join() | ir.LateralJoin() | ir.MergeJoin():
            return _present(relation.condition)
        case ir.Window():
            return tuple(part for call in relation.calls for part in _of_call(call))
        case ir.Expand():
            return tuple(value for alternative in relation.alternatives for value in alternative)
        case ir.Unnest():
            return (*relation.kept, *relation.lists)
        case ir.IndexLookup():
            return tuple(key for pair in relation.keys for key in pair)
        case _:
            assert_never(relation)


def with_expressions(  # noqa: C901 (a closed match, a line per case)
    relation: ir.Relation, new: Iterable[ir.Expression]
) -> ir.Relation:
    """The same relation with other expressions of the same types. The relation itself if the expressions are the old
    ones.
    """
    new = tuple(new)
    if all(one is other for one, other in zip(new, expressions(relation), strict=True)):
        return relation
    take = iter(new)
    match relation:
        case ir.Read() | ir.LocalFiles() | ir.Shared() | ir.IndexTable():
            return relation
        case ir.Cross() | ir.Set() | ir.FinalAggregate() | ir.Exchange() | ir.User():
            return relation
        case ir.Iterate() | ir.Reference() | ir.LoopInput() | ir.Recursion() | ir.Rounds():
            return relation
        case ir.Values():
            return replace(relation, rows=_rows(relation.rows, take))
        case ir.Filter():
            return replace(relation, condition=next(take))
        case ir.Project():
            return replace(relation, expressions=new)
        case ir.Fetch():
            return replace(relation, offset=_maybe(relation.offset, take), count=_maybe(relation.count, take))
        case ir.Sort():
            return replace(relation, keys=_keys(relation.keys, take))
        case ir.TopN():
            keys = _keys(relation.keys, take)
            return replace(
                relation, keys=keys, offset=_maybe(relation.offset, take), count=_maybe(relation.count, take)
            )
        case ir.Aggregate() | ir.PartialAggregate():
            group = tuple(next(take) for _ in relation.keys)
            return replace(
                relation, keys=group, measures=tuple(_rebuilt_measure(measure, take) for measure in relation.measures)
            )
        case ir.StreamingAggregate():
            columns = tuple(_field(take) for _ in relation.keys)
            measures = tuple(_rebuilt_measure(measure, take) for measure in relation.measures)
            return replace(relation, keys=columns, measures=measures)
        case ir.Join() | ir.LateralJoin() | ir.MergeJoin():
            return replace(relation, condition=next(take))
        case ir.Window():
            return replace(relation, calls=tuple(_rebuilt_call(call, take) for call in relation.calls))
        case ir.Expand():
            return replace(relation, alternatives=_rows(relation.alternatives, take))
        case ir.Unnest():
            kept = tuple(_field(take) for _ in relation.kept)
            return replace(relation, kept=kept, lists=tuple(_field(take) for _ in relation.lists))
        case ir.IndexLookup():
            return replace(relation, keys=tuple((_field(take), _field(take)) for _ in relation.keys))
        case _:
            assert_never(relation)


def operands(expression: ir.Expression) -> tuple[ir.Expression, ...]:
    """The operands of an expression, in order of evaluation if there is one."""
    match expression:
        case ir.Literal() | ir.Field() | ir.Parameter() | ir.ContextVariable():
            return ()
        case ir.NestedField() | ir.Cast():
            return (expression.operand,)
        case ir.Call():
            return _values(expression.arguments)
        case ir.IfThen():
            return (*(part for clause in expression.clauses for part in clause), *_present(expression.otherwise))
        case ir.Switch():
            results = (result for _, result in expression.clauses)
            return (expression.match, *results, *_present(expression.otherwise))
        case ir.OneOf():
            return (*expression.value, *(value for option in expression.options for value in option))
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


def _field(take: Iterator[ir.Expression]) -> ir.Field:
    operand = next(take)
    if not isinstance(operand, ir.Field):
        raise InternalError("a column of an operator was replaced by something that is none")
    return operand


def _values(arguments: tuple[ir.Expression | str, ...]) -> tuple[ir.Expression, ...]:
    return tuple(argument for argument in arguments if not isinstance(argument, str))


def _arguments(old: tuple[ir.Expression | str, ...], take: Iterator[ir.Expression]) -> tuple[ir.Expression | str, ...]:
    return tuple(argument if isinstance(argument, str) else next(take) for argument in old)


def _rows(
    old: tuple[tuple[ir.Expression, ...], ...], take: Iterator[ir.Expression]
) -> tuple[tuple[ir.Expression, ...], ...]:
    return tuple(tuple(next(take) for _ in row) for row in old)


def _keys(old: tuple[ir.SortKey, ...], take: Iterator[ir.Expression]) -> tuple[ir.SortKey, ...]:
    return tuple(replace(key, expression=next(take)) for key in old)


def _of_measure(measure: ir.Measure) -> tuple[ir.Expression, ...]:
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
