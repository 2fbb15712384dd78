"""The columns of sources that joins equate or aggregates group by: sources may be cut together by these columns."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeAlias

from .. import ir
from ..analysis.join_terms import equal_columns
from ..ir import tree
from ..ir.visit import is_column, subqueries_of
from ..ir.walk import unroll
from ..rewrite.prune_columns import output_sides

Key: TypeAlias = tuple[str, str]
"""A source and its column."""

_Origins: TypeAlias = tuple[Key | None, ...]


def equated(roots: Sequence[ir.Relation], shared: Sequence[ir.Relation]) -> dict[Key, int]:
    """A number for every column that is a key of a join or a grouping. Columns that a join equates have the same
    number.
    """
    finding = _Finding(shared)
    for root in (*shared, *roots):
        unroll(finding.step, root)
    return finding.numbers()


class _Finding:
    def __init__(self, shared: Sequence[ir.Relation]) -> None:
        self._shared = shared
        self._known: dict[ir.Relation, _Origins] = {}
        self._parent: dict[Key, Key] = {}

    def numbers(self) -> dict[Key, int]:
        leaders: dict[Key, int] = {}
        return {key: leaders.setdefault(self._leader(key), len(leaders)) for key in self._parent}

    def step(self, relation: ir.Relation) -> Generator[ir.Relation, _Origins, _Origins]:
        known = self._known.get(relation)
        if known is None:
            known = self._known[relation] = yield from self._found(relation)
        return known

    def _found(self, relation: ir.Relation) -> Generator[ir.Relation, _Origins, _Origins]:
        if isinstance(relation, ir.Shared):
            return (yield self._shared[relation.ordinal])
        below: list[_Origins] = []
        for child in tree.inputs(relation):
            below.append((yield child))  # noqa: PERF401 (a comprehension cannot yield)
        for subquery in subqueries_of(relation):
            yield subquery.relation
        return self._origins(relation, below)

    def _origins(self, relation: ir.Relation, below: Sequence[_Origins]) -> _Origins:
        match relation:
            case ir.Read() | ir.LocalFiles():
                return tuple((relation.source, name) for name in relation.names)
            case ir.Project():
                return tuple(_origin(expression, below[0]) for expression in relation.expressions)
            case ir.Aggregate():
                keys = [_origin(key, below[0]) for key in relation.keys]
                for key in keys:
                    self._note(key)
                return (*keys, *(None for _ in range(len(relation.schema) - len(keys))))
            case ir.Join() | ir.Cross():
                if isinstance(relation, ir.Join):
                    for left, right in equal_columns(relation.condition, len(below[0])):
                        self._equate(below[0][left], below[1][right])
                kept = [below[0 if side is relation.left else 1] for side in output_sides(relation)]
                origins = tuple(origin for columns in kept for origin in columns)
                return (*origins, *(None for _ in range(len(relation.schema) - len(origins))))
            case _ if relation.traits.columns == "passed" and len(below) == 1:
                return (*below[0], *(None for _ in range(len(relation.schema) - len(below[0]))))
            case _:
                return tuple(None for _ in relation.schema)

    def _note(self, key: Key | None) -> None:
        if key is not None:
            self._parent.setdefault(key, key)

    def _equate(self, one: Key | None, other: Key | None) -> None:
        self._note(one)
        self._note(other)
        if one is not None and other is not None:
            self._parent[self._leader(one)] = self._leader(other)

    def _leader(self, key: Key) -> Key:
        while self._parent[key] != key:
            self._parent[key] = self._parent[self._parent[key]]
            key = self._parent[key]
        return key


def _origin(expression: ir.Expression, below: _Origins) -> Key | None:
    return below[expression.index] if is_column(expression) else None
