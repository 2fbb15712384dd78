"""Decodes `AggregateRel`. Its grouping expressions are beside the grouping sets or, before 0.88, in them."""

from __future__ import annotations

from collections.abc import Hashable

from ... import ir
from ...ir import types as t
from ...ir.types import Type
from .. import poison
from ..declarations.habits import SetIndex
from ..decoder import Decoder, Steps
from ..encoding import limits
from ..encoding.message_nodes import Message
from ..function_calls import bind, declared_function, read_arguments, read_options
from ..phases import is_distinct, is_whole
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope
from ..sorting import convert_sorts
from .grouping_sets import arranged, once, one_set

_SETS: tuple[tuple[int, ...], ...] = ((),)


def convert_aggregate(
    decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    below = yield from decoder.relation(message.input, plan_path / "input", outer)
    scope = decoder.scope([below], message, outer)
    if message.grouping_expressions or not any(grouping.grouping_expressions for grouping in message.groupings):
        keys = yield from decoder.expressions(message.grouping_expressions, plan_path, "grouping_expressions", scope)
        sets = _sets(decoder, message, len(keys), plan_path)
        _compare_forms(decoder, message, sets, plan_path)
        if decoder.habits.set_index is SetIndex.MASK:
            keys, sets = once(keys, sets, [*map(decoder.nodes.content, message.grouping_expressions)])
    else:
        keys, sets = yield from old_groupings(decoder, message, plan_path, scope)
    if len(keys) * len(sets) > limits.GROUPING.most:
        decoder.problems.add(plan_path, limits.REASON, limits.GROUPING.message(len(keys) * len(sets)))
        return poison.RELATION
    measures: list[ir.Measure | None] = []
    for index, measure in enumerate(message.measures):
        measures.append((yield from convert_measure(decoder, measure, plan_path.at("measures", index), scope)))
    if not message.measures and not message.groupings:
        decoder.problems.add(plan_path, "MISSING", "an aggregate must have a grouping or a measure")
    if below is poison.RELATION:
        return below
    aggregate = ir.Aggregate(
        input=below,
        keys=keys,
        grouping_sets=sets,
        measures=tuple(measure for measure in measures if measure is not None),
        schema=_schema(keys, sets, measures),
        plan_path=str(plan_path),
    )
    if len(sets) == 1:
        return one_set(decoder, message, aggregate)
    if message.common.WhichOneof("emit_kind") != "emit":
        decoder.bare_sets = decoder.bare_sets or str(plan_path)
    return arranged(aggregate, decoder.habits.set_index)


def _schema(
    keys: tuple[ir.Expression, ...], sets: tuple[tuple[int, ...], ...], measures: list[ir.Measure | None]
) -> ir.Schema:
    """The columns of an aggregate. A key that is not in every grouping set is nullable."""
    types: list[Type] = []
    members = [set(grouping_set) for grouping_set in sets]
    for index, key in enumerate(keys):
        everywhere = all(index in member for member in members)
        types.append(key.type if everywhere or is_unknown(key.type) else t.nullable(key.type))
    types += [poison.UNKNOWN if measure is None else measure.type for measure in measures]
    return (*types, t.Integer(bits=32, nullable=False)) if len(sets) > 1 else tuple(types)


def _sets(decoder: Decoder, message: Message, keys: int, plan_path: PlanPath) -> tuple[tuple[int, ...], ...]:
    sets: list[tuple[int, ...]] = []
    for index, grouping in enumerate(message.groupings):
        references = tuple(grouping.expression_references)
        for position, reference in enumerate(references):
            if reference >= keys:
                at = plan_path.at("groupings", index).at("expression_references", position)
                decoder.problems.add(
                    at,
                    "OUT_OF_RANGE",
                    f"there is no grouping expression {reference}; the number of grouping expressions is {keys}",
                )
        sets.append(tuple(dict.fromkeys(reference for reference in references if reference < keys)))
    unused = set(range(keys)).difference(*sets) if sets else set(range(keys))
    if unused:
        problem = f"the grouping expressions {sorted(unused)} are in no grouping set"
        decoder.problems.add(plan_path / "grouping_expressions", "UNUSED_GROUPING", problem)
    return tuple(sets) or _SETS


def _compare_forms(decoder: Decoder, message: Message, sets: tuple[tuple[int, ...], ...], plan_path: PlanPath) -> None:
    """Producers may fill both forms of a grouping. Neither goes before the other, so they must be the same."""
    if not any(grouping.grouping_expressions for grouping in message.groupings):
        return
    keys = [*map(decoder.nodes.content, message.grouping_expressions)]
    for index, (grouping, members) in enumerate(zip(message.groupings, sets, strict=True)):
        inside = dict.fromkeys(map(decoder.nodes.content, grouping.grouping_expressions))
        if inside and [*inside] != [*dict.fromkeys(keys[at] for at in members)]:
            decoder.problems.add(
                plan_path.at("groupings", index),
                "DIFFERENT_GROUPINGS",
                "the grouping has expressions of its own, and references to others: both forms must say the same",
            )


def old_groupings(
    decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope
) -> Steps[tuple[tuple[ir.Expression, ...], tuple[tuple[int, ...], ...]]]:
    """The keys and grouping sets of the old form. Expressions that are written alike are one key."""
    keys: list[ir.Expression] = []
    position: dict[Hashable, int] = {}
    sets: list[tuple[int, ...]] = []
    for index, grouping in enumerate(message.groupings):
        at = plan_path.at("groupings", index)
        members: list[int] = []
        for inner, number in enumerate(grouping.grouping_expressions):
            content = decoder.nodes.content(number)
            if content not in position:
                position[content] = len(keys)
                keys.append((yield from decoder.expression(number, at.at("grouping_expressions", inner), scope)))
            members.append(position[content])
        sets.append(tuple(dict.fromkeys(members)))
    return tuple(keys), tuple(sets)


def convert_measure(decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope) -> Steps[ir.Measure | None]:
    """A measure; None if it is poison."""
    function, at = message.measure, plan_path / "measure"
    declared = declared_function(decoder, function.function_reference, at)
    arguments = yield from read_arguments(decoder, function, at, scope)
    sorts = yield from convert_sorts(decoder, function.sorts, at, scope)
    options = read_options(decoder, function, at)
    output = decoder.types.optional(function.output_type, at / "output_type")
    condition = None
    if message.filter:
        condition = yield from decoder.condition(message.filter, plan_path / "filter", scope)
    if not is_whole(decoder, function, at) or declared is None:
        return None
    bound = bind(decoder, ir.FunctionKind.AGGREGATE, declared, arguments, at, options=options, output=output)
    if bound is None:
        return None
    return ir.Measure(
        function=bound.function,
        arguments=tuple(bound.arguments),
        type=bound.type,
        distinct=is_distinct(decoder, function, at),
        sorts=sorts if arguments else (),  # rows alone have no order
        condition=condition,
        options=bound.options,
        plan_path=str(at),
    )
