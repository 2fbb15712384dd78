"""Chains of row-wise relations that only number slices of a column of times, or say when slices begin, and select
columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....operators.changes.values.sliced_rows import SlicedRows, SliceStart, SliceStarts
from ... import ir
from ...analysis.sliced_columns import slice_beginning, sliced_column
from ...ir.arrow_types import arrow_type
from ...ir.visit import is_column


def sliced_rows(steps: Sequence[ir.Relation]) -> SlicedRows | None:
    """The rows of a chain, whose last step comes first: columns, and one number of a slice, of rows that have a time.
    None if the chain does anything else.
    """
    top, *below = steps
    if not isinstance(top, ir.Project):
        return None
    slices = [slice_ for expression in top.expressions if (slice_ := sliced_column(expression)) is not None]
    output = [expression.index if is_column(expression) else None for expression in top.expressions]
    if len(slices) != 1 or output.count(None) != 1:
        return None
    time = slices[0].column.index
    for step in below:
        if isinstance(step, ir.Project):
            fields = step.expressions
            if not all(is_column(fields[at]) for at in (time, *output) if at is not None):
                return None
            time, output = _index(fields[time]), [None if at is None else _index(fields[at]) for at in output]
        elif not (isinstance(step, ir.Filter) and _has_value(step.condition, time)):
            return None
    return SlicedRows(column=time, size=slices[0].size, origin=slices[0].origin, output=tuple(output))


def slice_starts(steps: Sequence[ir.Relation]) -> SliceStarts | None:
    """The rows of a chain, whose last step comes first: columns, and moments at which slices begin whose numbers are
    columns. None if the chain does anything else.
    """
    output: list[int | SliceStart] | None = None
    for step in reversed(steps):
        if not isinstance(step, ir.Project):
            return None
        chosen = [_column_or_start(expression, output) for expression in step.expressions]
        output = [at for at in chosen if at is not None]
        if len(output) < len(chosen):
            return None
    return None if output is None else SliceStarts(tuple(output))


def _column_or_start(expression: ir.Expression, below: Sequence[int | SliceStart] | None) -> int | SliceStart | None:
    """A column or a start, over what is below; None for other expressions."""
    if is_column(expression):
        return expression.index if below is None else below[expression.index]
    beginning = slice_beginning(expression)
    if beginning is None or not beginning.is_near or not is_column(beginning.number):
        return None
    number = beginning.number.index if below is None else below[beginning.number.index]
    if not isinstance(number, int):
        return None
    return SliceStart(
        column=number,
        size=beginning.size,
        origin=beginning.origin,
        farthest=beginning.farthest,
        bits=arrow_type(expression.type).bit_width,
    )


def _index(field: ir.Expression) -> int:
    assert is_column(field)
    return field.index


def _has_value(condition: ir.Expression, column: int) -> bool:
    """Tests whether the condition is that this column is not null."""
    if not isinstance(condition, ir.Call) or condition.function.name != "is_not_null":
        return False
    (value,) = condition.arguments
    return is_column(value) and value.index == column
