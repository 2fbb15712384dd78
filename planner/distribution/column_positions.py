"""The positions of an input's columns in the output of a relation that works row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from .. import ir
from ..analysis.sliced_columns import slice_beginning
from ..ir.types import required
from ..ir.visit import is_column
from .alternatives import Ranged


def output_positions(relation: ir.Relation) -> Callable[[int], int | None]:
    """A function from a column of the first input to the output column, None if the column is gone."""
    rows: Sequence[Sequence[ir.Expression]]
    match relation:
        case ir.Expand():
            rows = relation.alternatives
        case ir.Project():
            rows = (relation.expressions,)
        case ir.Unnest():
            rows = (relation.kept,)
        case _:
            passed = relation.traits.columns in ("passed", "sides")
            return lambda column: column if passed else None
    outputs: dict[int, int] = {}
    for at, same in enumerate(zip(*rows, strict=True)):
        columns = {expression.index for expression in same if is_column(expression)}
        if len(columns) == 1 and all(isinstance(expression, ir.Field) for expression in same):
            outputs.setdefault(columns.pop(), at)
    return outputs.get


def moved_columns(columns: tuple[int, ...] | None, position_of: Callable[[int], int | None]) -> tuple[int, ...] | None:
    moved = [position_of(column) for column in columns or ()]
    known = tuple(column for column in moved if column is not None)
    return known if columns is not None and len(known) == len(columns) else None


def moved_range(
    ranged: Ranged | None, position_of: Callable[[int], int | None], relation: ir.Relation
) -> Ranged | None:
    """The range in terms of the relation's columns: of the moments at which slices begin rather than of their
    numbers.
    """
    if ranged is None:
        return None
    if ranged.type is not None and isinstance(relation, ir.Project):
        begins = (at for at, moment in enumerate(relation.expressions) if _begins(moment, ranged))
        if (begin := next(begins, None)) is not None:
            return ranged._replace(column=begin, type=None)
    moved = position_of(ranged.column)
    return None if moved is None else ranged._replace(column=moved)


def _begins(moment: ir.Expression, ranged: Ranged) -> bool:
    """Tests whether the moments are the beginnings of the slices whose numbers are ranged."""
    beginning = slice_beginning(moment)
    if beginning is None or not is_column(beginning.number) or beginning.number.index != ranged.column:
        return False
    return beginning.slices == ranged.slices and required(moment.type) == ranged.type


def moved_order(
    order: tuple[ir.ColumnOrder, ...], position_of: Callable[[int], int | None]
) -> tuple[ir.ColumnOrder, ...] | None:
    """The order in terms of the output's columns; None if one of them is gone."""
    moved = []
    for key in order:
        position = position_of(key.column)
        if position is None:
            return None
        moved.append(replace(key, column=position))
    return tuple(moved)
