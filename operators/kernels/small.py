"""Runs a fragment's kernels in place of its statement, if the input is small enough, or they cost less at any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import pyarrow as pa

from .groups import Grouped
from .kernel_expressions import Column, Declined, Moment
from .kernel_rows import Filtered, Projected

#: The most rows for kernels. An epoch of 10,000 rows in as many groups takes 0.8 of DuckDB's time; one of 30,000, as
#: long.
SMALL_ROWS: Final = 10_000

Step: TypeAlias = Filtered | Projected | Grouped


def pay_at_any_size(steps: Sequence[Step]) -> bool:
    """Tests whether the steps compute moments, and choose columns, and no more. DuckDB's way there and back costs
    more.
    """
    if not all(isinstance(step, Projected) for step in steps):
        return False
    expressions = [one for step in steps if isinstance(step, Projected) for one in step.expressions]
    has_moments = any(isinstance(one, Moment) for one in expressions)
    return has_moments and all(isinstance(one, Column | Moment) for one in expressions)


class Kernels:
    """The kernels of a statement with one stream. They return the statement's rows, or None where DuckDB has to run the
    statement.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = [step.compiled() for step in steps]
        self.pay_at_any_size = pay_at_any_size(steps)

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        try:
            for step in self._steps:
                rows = step(rows)
        except (Declined, pa.ArrowInvalid):
            return None
        return rows
