"""The vocabulary of a plan: the forms of its relations and expressions, without their values.

Two calls of one function over columns of the same types are one word. The statements of a plan are made of its words,
so a plan all of whose words DuckDB has taken in other statements need not be tried again.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from operator import attrgetter
from typing import Any, Final, cast, get_args

from .. import ir
from ..ir import tree
from ..ir.types import Type, nullable
from ..ir.visit import parts, relations

_EXPRESSIONS: Final = frozenset(get_args(ir.Expression))
_SKIPPED: Final = frozenset({"plan_path", "relation", "schema", "names", "source"})
_NAMES: Final[dict[type, tuple[str, ...]]] = {}
_TYPES: Final = frozenset(get_args(Type))
_TYPE: Final = attrgetter("type")


def vocabulary(plan: ir.Plan) -> frozenset[int]:
    """The hashes of the plan's words."""
    words: set[Hashable] = set()
    for root in (plan.root, *plan.shared):
        for relation in relations(root):
            words.update(_of_relation(relation))
            for expression in tree.expressions(relation):
                words.update(_word(part) for part in parts(expression) if type(part) not in tree.LEAVES)
    return frozenset(map(hash, words))


def _of_relation(relation: ir.Relation) -> Iterator[Hashable]:
    """A word for the relation, and one for each of its keys, measures and calls."""
    kind = type(relation)
    own = (*relation.parts.columns, *relation.parts.expressions)
    choices = (getattr(relation, name) for name in _names(kind) if name not in own)
    types = frozenset(map(nullable, relation.schema)) if relation.parts.inputs and not own else None
    yield (kind, types, *(choice for choice in choices if isinstance(choice, enum.Enum | bool)))
    for name in own:
        value = getattr(relation, name)
        for item in dict.fromkeys(map(_part, value)) if isinstance(value, tuple) else (_part(value),):
            yield kind, name, item


def _word(node: object) -> Hashable:
    """The form of an expression, measure or call over parts of which only kinds and types count."""
    if isinstance(node, ir.OneOf):
        return ir.OneOf, frozenset(map(_kinds, _different((node.value, *node.options))))
    if isinstance(node, ir.Call) and node.function.urn.endswith("comparison"):
        return node.function, _kinds(tuple(item for item in node.arguments if not isinstance(item, str)))
    return (type(node), *(_part(getattr(node, name)) for name in _names(type(node))))


def _different(rows: Sequence[tuple[ir.Expression, ...]]) -> Iterable[tuple[ir.Expression, ...]]:
    """Rows of one width without most of those that differ in values alone: literals of one list share their type."""
    items = [*chain.from_iterable(rows)]
    kinds = zip(map(type, items), map(id, map(_TYPE, items)), strict=True)
    return dict(zip(zip(*[kinds] * len(rows[0]), strict=True), rows, strict=True)).values()


def _kinds(row: tuple[ir.Expression, ...]) -> Hashable:
    return tuple((type(item), nullable(item.type)) for item in row)


def _part(value: object) -> Hashable:
    kind = type(value)
    if kind is not ir.Literal and kind in _EXPRESSIONS:
        return kind, nullable(value.type)  # type: ignore[attr-defined]  # every expression has a type
    if kind in _TYPES:
        return nullable(cast("Type", value))
    match value:
        case ir.Literal(value=str() | bytes() as text):
            # DuckDB looks at some texts when it plans: formats and patterns.
            return ir.Literal, nullable(value.type), text
        case ir.Literal():
            return ir.Literal, nullable(value.type), value.value is None
        case tuple():
            return tuple(map(_part, value))
        case ir.SortKey() | ir.Measure() | ir.WindowCall() | ir.Bound():
            return _word(value)
        case Mapping():
            return tuple(sorted(value.items()))
        case Hashable():
            return value
        case _:
            return type(value)


def _names(kind: type[Any]) -> tuple[str, ...]:
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(field.name for field in fields(kind) if field.name not in _SKIPPED)
    return names
