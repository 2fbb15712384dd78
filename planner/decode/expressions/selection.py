"""Decodes `Expression.selection`: columns, lambdas' parameters, outer columns, and steps into any of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from ... import ir
from ...ir import types as t
from ...ir.types import Type
from .. import poison
from ..comparing import comparable
from ..declarations.declared_types import MAX_TYPE_DEPTH
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Malformed, Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope, column

Step: TypeAlias = "int | ir.ListElement | ir.MapKey"

_OF_SUBQUERY: Final = (
    "a subquery inside of a lambda cannot read the lambda's parameters: join the items of the list with what the "
    "subquery reads"
)


class _Row(NamedTuple):
    """A row whose columns a reference can name. The columns may be the part of a longer row from column `first` on. The
    parameters of a lambda may be packed into one struct.
    """

    schema: ir.Schema
    outer: int = 0
    first: int = 0
    is_lambda: bool = False
    is_packed: bool = False


def convert_selection(
    decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope
) -> ir.Expression | Steps[ir.Expression]:
    if message.WhichOneof("root_type") == "expression":
        return _into_expression(decoder, message, plan_path, scope)
    row = _row(decoder, message, plan_path, scope)
    if row is None:
        return poison.EXPRESSION
    return _column(decoder, message, row, plan_path, scope)


def _row(decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope) -> _Row | None:
    """The row that a reference means; None if the row is poison or, once reported, if there is no such row."""
    match message.WhichOneof("root_type"):
        case "outer_reference":
            return _outer_row(decoder, message.outer_reference, plan_path / "outer_reference", scope)
        case "lambda_parameter_reference":
            steps = message.lambda_parameter_reference.steps_out
            if steps < len(scope.parameters) - scope.unreadable:
                return _Row(scope.parameters[steps], steps, is_lambda=True, is_packed=scope.packed[steps])
            plan_path = plan_path / "lambda_parameter_reference"
            if scope.has_lambda_outside(steps):
                decoder.problems.add(plan_path, "UNSUPPORTED_REFERENCE", _OF_SUBQUERY)
                return None
            problem = (
                f"there is no lambda {steps} steps out; there are {len(scope.parameters)} lambdas around this "
                "expression"
            )
            decoder.problems.add(plan_path, "OUT_OF_RANGE", problem)
            return None
        case _:
            # producers leave the root out if it is the row itself
            return None if scope.schema is None else _Row(scope.schema)


def _outer_row(decoder: Decoder, reference: Message, plan_path: PlanPath, scope: Scope) -> _Row | None:
    if reference.WhichOneof("outer_reference_type") == "rel_reference":
        anchored = scope.anchored(reference.rel_reference)
        if anchored is None:
            problem = f"no enclosing relation has the anchor {reference.rel_reference}"
            decoder.problems.add(plan_path / "rel_reference", "UNKNOWN_ANCHOR", problem)
            return None
        outer, steps, columns = anchored
        return None if outer.schema is None else _Row(outer.schema[columns.start : columns.stop], steps, columns.start)
    steps = reference.steps_out
    enclosing = scope.enclosing(steps)
    if steps < 1 or enclosing is None:
        problem = f"there is no relation {steps} subqueries further out"
        decoder.problems.add(plan_path / "steps_out", "OUT_OF_RANGE", problem)
        return None
    return None if enclosing.schema is None else _Row(enclosing.schema, steps)


def _column(
    decoder: Decoder, message: Message, row: _Row, plan_path: PlanPath, scope: Scope | None = None
) -> ir.Expression:
    path = _path(decoder, message, plan_path)
    if not path:
        return poison.EXPRESSION
    first, *steps = path
    if not isinstance(first, int):
        decoder.problems.add(
            _step_path(plan_path, path), "BAD_REFERENCE", "a reference begins with a struct field: the row is a struct"
        )
        return poison.EXPRESSION
    type_ = column(row.schema, first)
    if type_ is None and decoder.habits.outer_references_lost:
        row = _around(decoder, row, first, scope, _step_path(plan_path, path))
        type_ = column(row.schema, first)
    if type_ is None:
        what = "parameters" if row.is_lambda else "columns"
        problem = f"there is no field {first}; there are {len(row.schema)} {what}, counted from 0"
        decoder.problems.add(_step_path(plan_path, path) / "field", "OUT_OF_RANGE", problem)
        return poison.EXPRESSION
    end = _follow(decoder, type_, path, plan_path, first=1)
    if end is None:
        return poison.EXPRESSION
    if not row.is_lambda:
        return ir.Field(index=row.first + first, type=end, steps=tuple(steps), outer=row.outer)
    if row.is_packed:
        struct = ir.Parameter(index=0, type=t.Struct(fields=row.schema, nullable=False), outer=row.outer)
        return ir.NestedField(operand=struct, steps=(first, *steps), type=end)
    parameter = ir.Parameter(index=first, type=type_, outer=row.outer)
    return ir.NestedField(operand=parameter, steps=tuple(steps), type=end) if steps else parameter


def _around(decoder: Decoder, row: _Row, index: int, scope: Scope | None, plan_path: PlanPath) -> _Row:
    """The row around a subquery if only that row has a column `index`, else `row` again."""
    outer = scope.outer if scope is not None and row.outer == 0 and not row.is_lambda else None
    if outer is None or outer.schema is None or column(outer.schema, index) is None:
        return row
    decoder.problems.warn(
        plan_path, f"there is no column {index} in the subquery; Tidegate reads the column of the enclosing row"
    )
    return _Row(outer.schema, 1)


def _into_expression(decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    operand = yield from decoder.expression(message.expression, plan_path / "expression", scope)
    path = _path(decoder, message, plan_path)
    if not path or is_unknown(operand.type):
        return poison.EXPRESSION
    end = _follow(decoder, operand.type, path, plan_path)
    if end is None:
        return poison.EXPRESSION
    return ir.NestedField(operand=operand, steps=tuple(path), type=end)


def convert_key(decoder: Decoder, message: Message, relation: ir.Relation, plan_path: PlanPath) -> ir.Expression:
    """A bare `FieldReference` to a column of `relation`, such as the key of a join; poison if it is no such
    reference.
    """
    if relation is poison.RELATION:
        return poison.EXPRESSION
    if message.WhichOneof("root_type") not in (None, "root_reference"):
        decoder.problems.add(plan_path, "BAD_REFERENCE", "a key must be a column of its input")
        return poison.EXPRESSION
    return _column(decoder, message, _Row(relation.schema), plan_path)


# ------------------------------------------------------------------------------------------------------- paths


def _path(decoder: Decoder, message: Message, plan_path: PlanPath) -> Sequence[Step]:
    """The steps of a reference. Empty, once reported, if the reference is broken."""
    if message.WhichOneof("reference_type") != "direct_reference":
        if message.WhichOneof("reference_type") == "masked_reference":
            problem = "masked references are supported in reads only; write a reference for each field"
            decoder.problems.add(plan_path / "masked_reference", "UNSUPPORTED_REFERENCE", problem)
        else:
            decoder.problems.add(plan_path, "MISSING", "a reference is missing here")
        return ()
    path: list[Step] = []
    number = message.direct_reference
    while number:
        if len(path) > MAX_TYPE_DEPTH:
            problem = f"a reference of more than {MAX_TYPE_DEPTH} steps"
            decoder.problems.add(_behind(plan_path, path), "TOO_DEEP", problem)
            return ()
        try:
            segment = decoder.nodes.take(number)
        except Malformed as error:
            decoder.problems.add(_behind(plan_path, path), "MALFORMED", str(error))
            return ()
        kind = segment.WhichOneof("reference_type")
        if kind is None:
            decoder.problems.add(_behind(plan_path, path), "MISSING", "a reference is missing here")
            return ()
        body = getattr(segment, kind)
        match kind:
            case "struct_field":
                path.append(body.field)
            case "list_element":
                path.append(ir.ListElement(offset=body.offset))
            case _:
                at = _behind(plan_path, path) / kind / "map_key"
                path.append(ir.MapKey(key=decoder.literals.convert(body.map_key, at)))
        number = body.child
    if not path:
        decoder.problems.add(plan_path / "direct_reference", "MISSING", "a reference is missing here")
    return path


def _behind(plan_path: PlanPath, path: Sequence[Step]) -> PlanPath:
    """The place of what comes behind these steps of a reference. Only a problem asks for places: most columns have
    none.
    """
    at = plan_path / "direct_reference"
    for step in path:
        at = at / _member(step) / "child"
    return at


def _step_path(plan_path: PlanPath, path: Sequence[Step], index: int = 0) -> PlanPath:
    """The path of a step of a reference in the plan."""
    return _behind(plan_path, path[:index]) / _member(path[index])


def _member(step: Step) -> str:
    match step:
        case int():
            return "struct_field"
        case ir.ListElement():
            return "list_element"
        case ir.MapKey():
            return "map_key"


def _follow(decoder: Decoder, type_: Type, path: Sequence[Step], plan_path: PlanPath, first: int = 0) -> Type | None:
    """The type at the end of `path`, from its step `first` on, into a value of `type_`: nullable if anything on the way
    is nullable.
    """
    may_be_null = type_.nullable
    for index in range(first, len(path)):
        step = path[index]
        inner = _inside(type_, step)
        if inner is None:
            if not is_unknown(type_) and not (isinstance(step, ir.MapKey) and is_unknown(step.key.type)):
                step_path = _step_path(plan_path, path, index)
                decoder.problems.add(step_path, "BAD_REFERENCE", f"{type_} has no {_name(step)}")
            return None
        # an element or a key may be absent
        may_be_null = may_be_null or inner.nullable or not isinstance(step, int)
        type_ = inner
    if is_unknown(type_):
        return None
    return t.nullable(type_) if may_be_null else type_


def _inside(type_: Type, step: Step) -> Type | None:
    match type_, step:
        case t.Struct(fields=fields), int():
            return column(fields, step)
        case t.List(element=element), ir.ListElement():
            return element
        case t.Map(key=key, value=value), ir.MapKey(key=literal) if comparable(key, literal.type):
            return value
        case _:
            return None


def _name(step: Step) -> str:
    match step:
        case int():
            return f"field {step}"
        case ir.ListElement():
            return "elements"
        case ir.MapKey(key=key):
            return f"keys of {key.type}"
