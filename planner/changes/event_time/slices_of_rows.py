"""Chains of row-wise relations that only number slices of a column of times, and select columns."""

from __future__ import annotations

from collections.abc import Sequence

from ....operators.changes.values.sliced_rows import SlicedRows
from ... import ir
from ...analysis.sliced_columns import sliced_column
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


def _index(field: ir.Expression) -> int:
    assert is_column(field)
    return field.index


def _has_value(condition: ir.Expression, column: int) -> bool:
    """Tests whether the condition is that this column is not null."""
    if not isinstance(condition, ir.Call) or condition.function.name != "is_not_null":
        return False
    (value,) = condition.arguments
    return is_column(value) and value.index == column
