"""Function names that build a nested value, or step into one, as an expression of their own does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from ...proto.errors import PlanError, Problem
from .. import ir
from ..ir import types as t
from ..ir.types import Type
from .argument_types import common_type, convert, describe, expressions
from .result_types import fits_family

_Arguments: TypeAlias = Sequence[ir.Expression | str]
Constructor: TypeAlias = Callable[[_Arguments, Type | None, str], ir.Expression]


def _list(arguments: _Arguments, output: Type | None, plan_path: str) -> ir.Expression:
    common = output.element if isinstance(output, t.List) else common_type(arguments)
    if common is None:
        shown = ", ".join(describe(argument) for argument in arguments)
        raise PlanError(
            Problem(place=plan_path, reason="NO_COMMON_TYPE", message=f"a list of ({shown}) has no common type")
        )
    for value in _values(arguments):
        _check_declared(value.type, common, plan_path)
    element = t.nullable(common) if any(value.type.nullable for value in _values(arguments)) else common
    items = expressions(convert(v, replace(element, nullable=v.type.nullable)) for v in _values(arguments))
    type_: Type = output if isinstance(output, t.List) else t.List(element=element, nullable=False)
    for value in _values(arguments):
        type_ = t.named_like(type_, t.List(element=value.type, nullable=False))
    return ir.Nested(construct=ir.Construct.LIST, items=_values(items), type=type_)


def _check_declared(actual: Type, declared: Type, plan_path: str) -> None:
    """Refuses a value inside that the plan declares to be of another kind."""
    if not fits_family(actual, declared):
        message = f"the value inside is {actual}, but the plan declares {declared}"
        raise PlanError(Problem(place=plan_path, reason="WRONG_RESULT_TYPE", message=message))


def _values(arguments: _Arguments) -> tuple[ir.Expression, ...]:
    return tuple(argument for argument in arguments if not isinstance(argument, str))


def _struct(arguments: _Arguments, output: Type | None, plan_path: str) -> ir.Expression:
    return _built(_values(arguments), (), output, plan_path)


def _named_struct(arguments: _Arguments, output: Type | None, plan_path: str) -> ir.Expression:
    """The struct of names and values by turns."""
    names = tuple(_word(argument) for argument in arguments[::2])
    if len(arguments) % 2 or any(name is None for name in names):
        message = "named_struct takes constant names and values by turns"
        raise PlanError(Problem(place=plan_path, reason="NO_MATCHING_FUNCTION", message=message))
    return _built(_values(arguments[1::2]), tuple(name or "" for name in names), output, plan_path)


def _built(
    items: tuple[ir.Expression, ...], names: tuple[str, ...], output: Type | None, plan_path: str
) -> ir.Expression:
    type_ = t.Struct(fields=tuple(item.type for item in items), names=names, nullable=False)
    if not isinstance(output, t.Struct):
        return ir.Nested(construct=ir.Construct.STRUCT, items=items, type=type_)
    if len(output.fields) != len(items):
        message = f"the struct has {len(items)} values, but the plan declares {output}"
        raise PlanError(Problem(place=plan_path, reason="WRONG_RESULT_TYPE", message=message))
    for item, declared in zip(items, output.fields, strict=True):
        _check_declared(item.type, declared, plan_path)
    return ir.Nested(construct=ir.Construct.STRUCT, items=items, type=output)


def _word(argument: ir.Expression | str) -> str | None:
    value = argument.value if isinstance(argument, ir.Literal) else None
    return value if isinstance(value, str) else None


def _is_key(word: ir.Literal, key: Type) -> bool:
    return word.value is not None and t.required(word.type) == t.required(key)


def _get_field(arguments: _Arguments, _: Type | None, plan_path: str) -> ir.Expression:
    """The field of a struct by its name, the value of a map by its key, and so on into what these give."""
    value, *words = arguments
    if isinstance(value, str) or not words:
        message = "get_field needs a value, and then the names or keys that lead to a part of this value"
        raise PlanError(Problem(place=plan_path, reason="NO_MATCHING_FUNCTION", message=message))
    type_: Type = value.type
    steps: list[int | ir.ListElement | ir.MapKey] = []
    for word in words:
        name = _word(word)
        match type_:
            case t.Struct(fields=fields, names=names) if name in names:
                position = names.index(name)
                steps.append(position)
                type_ = t.nullable(fields[position]) if type_.nullable else fields[position]
            case t.Map(key=key, value=inner) if isinstance(word, ir.Literal) and _is_key(word, key):
                steps.append(ir.MapKey(key=word))
                type_ = t.nullable(inner)
            case _:
                message = f"{type_} has no field named by {describe(word)} {name or ''}".rstrip()
                raise PlanError(Problem(place=plan_path, reason="BAD_REFERENCE", message=message))
    return ir.NestedField(operand=value, steps=tuple(steps), type=type_)


CONSTRUCTORS: Final[Mapping[str, Constructor]] = {
    "make_array": _list,
    "list_value": _list,
    "list_pack": _list,
    "struct": _struct,
    "row": _struct,
    "named_struct": _named_struct,
    "get_field": _get_field,
}
"""Builders by the function's name."""
