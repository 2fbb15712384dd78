"""The columns of sources that joins equate or aggregates group by: sources may be cut together by these columns.

An aggregate may also group by slices of a column. Then sources may be cut by the column between two slices, and joins
equate the moments at which slices begin.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple, TypeAlias

from ...operators.core.column import Slices
from .. import ir
from ..analysis.join_terms import equal_moments
from ..analysis.sliced_columns import slice_beginning, sliced_column
from ..ir import tree
from ..ir.types import Type, required
from ..ir.visit import is_column, subqueries_of
from ..ir.walk import unroll
from ..rewrite.prune_columns import output_sides


class Key(NamedTuple):
    """A column of a source, or the beginnings of these slices of it."""

    source: str
    column: str
    slices: Slices | None = None


class _Numbers(NamedTuple):
    """The numbers of a column's slices. The column has this type."""

    key: Key
    type: Type


_Origin: TypeAlias = Key | _Numbers | None
_Origins: TypeAlias = tuple[_Origin, ...]


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
                return tuple(Key(relation.source, name) for name in relation.names)
            case ir.Project():
                return tuple(_origin(expression, below[0]) for expression in relation.expressions)
            case ir.Aggregate():
                keys = [_origin(key, below[0]) for key in relation.keys]
                for key in keys:
                    self._note(key.key if isinstance(key, _Numbers) else key)
                return (*keys, *(None for _ in range(len(relation.schema) - len(keys))))
            case ir.Join() | ir.Cross():
                if isinstance(relation, ir.Join):
                    for left, right in equal_moments(relation.condition, len(below[0])):
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

    def _equate(self, one: _Origin, other: _Origin) -> None:
        """Note that a join equates the two. Sources that are cut alike have the same slices."""
        keys = [key for key in (one, other) if isinstance(key, Key)]
        for key in keys:
            self._note(key)
        if len(keys) > 1 and keys[0].slices == keys[1].slices:
            self._parent[self._leader(keys[0])] = self._leader(keys[1])

    def _leader(self, key: Key) -> Key:
        while self._parent[key] != key:
            self._parent[key] = self._parent[self._parent[key]]
            key = self._parent[key]
        return key


def _origin(expression: ir.Expression, below: _Origins) -> _Origin:
    """The origin of a column; of the numbers of a column's slices; of the moments at which numbered slices begin."""
    if is_column(expression):
        return below[expression.index]
    sliced = sliced_column(expression)
    if sliced is not None:
        origin = below[sliced.column.index]
        if not isinstance(origin, Key) or origin.slices is not None:
            return None
        return _Numbers(origin._replace(slices=sliced.slices), required(sliced.column.type))
    beginning = slice_beginning(expression)
    if beginning is None or not is_column(beginning.number):
        return None
    numbers = below[beginning.number.index]
    if not isinstance(numbers, _Numbers) or numbers.type != required(expression.type):
        return None
    return numbers.key if numbers.key.slices == beginning.slices else None
