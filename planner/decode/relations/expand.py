"""Decodes `ExpandRel`."""

from __future__ import annotations

from functools import reduce

from ... import ir
from ...ir import types as t
from ...ir.building import INT64, project
from ...ir.building import columns as columns_of
from ...ir.types import Type
from .. import poison
from ..comparing import either_nullable, same_type
from ..declarations.habits import Expansion
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope


def convert_expand(decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None) -> Steps[ir.Relation]:
    """The expansion. A switching field with fewer duplicates than others gives null for the rest."""
    below = yield from decoder.relation(message.input, plan_path / "input", outer)
    scope = decoder.scope([below], message, outer)
    fields: list[tuple[ir.Expression, ...]] = []
    switching: list[bool] = []
    for index, field in enumerate(message.fields):
        at = plan_path.at("fields", index)
        kind = field.WhichOneof("field_type")
        switching.append(kind == "switching_field")
        if kind == "switching_field":
            numbers = field.switching_field.duplicates
            duplicates = yield from decoder.expressions(numbers, at / "switching_field", "duplicates", scope)
            fields.append(duplicates or (decoder.missing_expression(at / "switching_field"),))
        else:
            fields.append(((yield from decoder.expression(field.consistent_field, at / "consistent_field", scope)),))
    beyond = columns_of(below.schema)[len(fields) :] if below is not poison.RELATION else ()
    if beyond:
        decoder.has_short_expansion = True
        passes = decoder.habits.expansion is Expansion.COLUMNS
        what = "passes on" if passes else "leaves out"
        decoder.problems.warn(plan_path, f"the expansion {what} the input's columns from {len(fields)} on")
        fields += [(passed,) for passed in beyond] if passes else []
        switching += [False] * (len(fields) - len(switching))
    count = max((len(field) for field, switches in zip(fields, switching, strict=True) if switches), default=1)
    columns: list[tuple[Type, tuple[ir.Expression, ...]]] = []
    for index, (field, switches) in enumerate(zip(fields, switching, strict=True)):
        type_ = _one_type(decoder, field, plan_path.at("fields", index))
        filled = field * count if not switches else field
        missing = count - len(filled)
        if missing and not is_unknown(type_):
            type_ = t.nullable(type_)
        columns.append((type_, filled + (ir.Literal(value=None, type=type_),) * missing))
    if below is poison.RELATION:
        return below
    expanded = ir.Expand(
        input=below,
        alternatives=tuple(tuple(values[i] for _, values in columns) for i in range(count)),
        schema=(*(type_ for type_, _ in columns), INT64),
        plan_path=str(plan_path),
    )
    is_alone = decoder.habits.expansion is Expansion.ALONE
    return project(expanded, columns_of(expanded.schema)[:-1]) if is_alone else expanded


def _one_type(decoder: Decoder, field: tuple[ir.Expression, ...], plan_path: PlanPath) -> Type:
    types = [expression.type for expression in field]
    if any(map(is_unknown, types)):
        return poison.UNKNOWN
    odd = next((type_ for type_ in types if not same_type(types[0], type_)), None)
    if odd is not None:
        problem = f"all duplicates must have the same type, not {types[0]} and {odd}"
        decoder.problems.add(plan_path, "MIXED_TYPES", problem)
        return poison.UNKNOWN
    return reduce(either_nullable, types)
