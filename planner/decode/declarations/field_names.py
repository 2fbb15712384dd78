"""Substrait's names: one list for a row and everything nested in it, depth first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir import types as t
from ...ir.types import Type


def count_names(types: Sequence[Type]) -> int:
    """The number of names of a row of these types: one per column and one per nested struct field."""
    return len(types) + sum(_nested(type_) for type_ in types)


def _nested(type_: Type) -> int:
    match type_:
        case t.Struct(fields=fields):
            return count_names(fields)
        case t.List(element=element):
            return _nested(element)
        case t.Map(key=key, value=value):
            return _nested(key) + _nested(value)
        case _:
            return 0


def name_fields(types: Sequence[Type], names: Sequence[str]) -> tuple[tuple[str, ...], tuple[Type, ...]]:
    """The columns' own names, and the types with the names of their struct fields. `names` has `count_names(types)`
    names.
    """
    rest = iter(names)
    return _named_row(types, rest)


def _named_row(types: Sequence[Type], names: Iterator[str]) -> tuple[tuple[str, ...], tuple[Type, ...]]:
    pairs = [(next(names), _named(type_, names)) for type_ in types]
    return tuple(name for name, _ in pairs), tuple(type_ for _, type_ in pairs)


def _named(type_: Type, names: Iterator[str]) -> Type:
    match type_:
        case t.Struct(fields=fields, nullable=nullable):
            own, named = _named_row(fields, names)
            return t.Struct(fields=named, names=own, nullable=nullable)
        case t.List(element=element, nullable=nullable):
            return t.List(element=_named(element, names), nullable=nullable)
        case t.Map(key=key, value=value, nullable=nullable):
            return t.Map(key=_named(key, names), value=_named(value, names), nullable=nullable)
        case _:
            return type_
