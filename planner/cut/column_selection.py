"""Finds relations that only select columns of a source, an operator or an exchange: they need no statement."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from .. import ir
from ..ir.arrow_types import has_struct
from ..ir.types import Type, required
from ..ir.visit import is_column


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """The columns of `input` at these positions."""

    input: ir.Read | ir.LocalFiles | ir.Operated | ir.Recursion | ir.Exchange
    columns: tuple[int, ...]


def selection(root: ir.Relation, ends: Container[ir.Relation], *, row_wise: bool = False) -> Selection | None:
    """The selection that `root` is if it only takes columns from a source, a relation with an operator of its own, or
    an exchange; else None.

    `ends` are relations that something else computes. Columns of a source are a selection only if they
    are all of a `row_wise` section, whose rows a DuckDB statement would copy once more.
    """
    relation, columns = root, tuple(range(len(root.schema)))
    while isinstance(relation, ir.Project) and (relation is root or relation not in ends):
        taken = _columns(relation.expressions)
        if taken is None:
            return None
        relation, columns = relation.input, tuple(taken[column] for column in columns)
    if not columns or not isinstance(relation, ir.Read | ir.LocalFiles | ir.Operated | ir.Recursion | ir.Exchange):
        return None
    reads = isinstance(relation, ir.Read | ir.LocalFiles)
    if (reads and not row_wise) or (relation is root and not reads):
        return None
    fits = all(_fits(relation.schema[at], type_) for at, type_ in zip(columns, root.schema, strict=True))
    return Selection(input=relation, columns=columns) if fits else None


def _columns(expressions: Sequence[ir.Expression]) -> tuple[int, ...] | None:
    columns = tuple(expression.index for expression in expressions if is_column(expression))
    return columns if len(columns) == len(expressions) else None


def _fits(type_: Type, wanted: Type) -> bool:
    """Tests whether the values are the other type's unchanged. Inside a plan the fields of structs have other names."""
    return (type_ == wanted or type_ == required(wanted)) and not has_struct(wanted)
