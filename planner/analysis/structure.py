"""Structural identity: finds equal parts of a plan, whatever their plan paths, and compares no tree twice.

Every node gets a number; two nodes have the same number exactly when they are equal but for their plan paths. A
node is visited once, with its children as numbers, so the whole is linear.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TypeAlias, cast, get_args

from .. import ir
from ..ir import tree
from ..ir.types import Type
from ..ir.walk import unroll

_Node: TypeAlias = ir.Relation | ir.Expression

_NODES = frozenset((*get_args(ir.Relation), *get_args(ir.Expression)))
_TYPES = frozenset(get_args(Type))


class Structure:
    """Numbers for nodes."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[_Node, int] = {}
        self._names: dict[type, tuple[str, ...]] = {}

    def number(self, node: _Node) -> int:
        """The number of a node, equal for every node of the same structure."""
        return unroll(self._step, node)

    def _step(self, node: _Node) -> Generator[_Node, int, int]:
        for child in _children(node) if node not in self._known else ():
            if type(child) in tree.LEAVES:
                self._numbered(child)
            elif child not in self._known:
                yield child
        return self._numbered(node)

    def _numbered(self, node: _Node) -> int:
        """The number of a node whose parts have theirs."""
        known = self._known.get(node)
        if known is None:
            content = (type(node), *self._content(node))
            known = self._known[node] = self._numbers.setdefault(content, len(self._numbers))
        return known

    def _frozen(self, value: object) -> Hashable:
        """A field's value in a hashable form. Values of literals go by their text: 1, True and 1.0 are not equal."""
        kind = type(value)
        if value is None or kind in _TYPES or isinstance(value, Enum):
            return value
        if isinstance(value, ir.Literal):  # some literals are parts of a node without being its operands
            return (repr(value.value), value.type)
        if kind in _NODES:
            return self._known[cast("_Node", value)]
        if isinstance(value, tuple):
            return tuple(self._frozen(element) for element in value)
        if isinstance(value, Mapping):
            return tuple(sorted(value.items()))
        if is_dataclass(value):
            return (type(value), *self._content(value))
        return (type(value), repr(value))

    def _content(self, value: object) -> Iterator[Hashable]:
        """The values of the fields that make a node what it is, without its place."""
        kind = type(value)
        names = self._names.get(kind)
        if names is None:
            names = tuple(field.name for field in fields(kind) if field.name != "plan_path" and field.compare)  # type: ignore[arg-type]
            self._names[kind] = names
        return (self._frozen(getattr(value, name)) for name in names)


def _children(node: _Node) -> tuple[_Node, ...]:
    """All parts of a node, the relations of its subqueries included."""
    match node:
        case ir.Subquery():
            return (*node.needles, node.relation)
        case (
            ir.Literal()
            | ir.Field()
            | ir.NestedField()
            | ir.Call()
            | ir.Cast()
            | ir.IfThen()
            | ir.Switch()
            | ir.OneOf()
            | ir.Nested()
            | ir.Lambda()
            | ir.Parameter()
            | ir.ContextVariable()
        ):
            return tree.operands(node)
        case _:
            return (*tree.inputs(node), *tree.expressions(node))
