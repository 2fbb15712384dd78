"""The sizes of nested types, which a plan of few relations can make of any size.

A struct of twice the same column has twice as many fields, and so has the struct of twice that one: 40 projections make
10**12 fields. The types share their parts, so they take no memory, but everything that walks a type would go on for
ever. So the sizes are counted without a walk: those of the parts are known when a type is made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...ir import types as t
from ...ir.types import Type
from ..encoding import limits

MOST_LEVELS_IN_PLANS: Final = 62
"""DuckDB hands out rows of 64 levels, of which the row and the innermost value are two. A map is a list of structs."""


class TypeSizes:
    """The sizes of the types of one plan."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Type, int, int]] = {}

    def excess(self, types: Sequence[Type]) -> str | None:
        """A sentence for a row of these types if it has too many fields inside of them, or too deep ones."""
        fields = depth = 0
        for type_ in types:
            if t.is_nested(type_):
                _, inside, deep = self._measured(type_)
                fields += inside
                depth = max(depth, deep)
        if depth > MOST_LEVELS_IN_PLANS:
            return f"its type nests deeper than {MOST_LEVELS_IN_PLANS} levels, of which a map counts as two"
        return limits.FIELDS.message(fields) if fields > limits.FIELDS.most else None

    def _measured(self, type_: Type) -> tuple[Type, int, int]:
        """The type, the number of types inside of it, and their levels. Recurses into parts that are not known yet."""
        known = self._known.get(id(type_))
        if known is None:
            fields, depth = 0, 0
            for part in t.types_inside(type_):
                _, inside, deep = self._measured(part) if t.is_nested(part) else (part, 0, 0)
                fields += 1 + inside
                depth = max(depth, deep)
            known = self._known[id(type_)] = type_, fields, depth + (2 if isinstance(type_, t.Map) else 1)
        return known
