"""Filters and projections: the rows of a batch for which a condition holds, and expressions over each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..core.batches import batch_of
from .kernel_expressions import Compute, Expression, column_of, compiled


@dataclass(frozen=True, slots=True)
class Filtered:
    condition: Expression

    def compiled(self) -> FilterKernel:
        return FilterKernel(compiled(self.condition))


class FilterKernel:
    def __init__(self, condition: Compute) -> None:
        self._condition = condition

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        kept = self._condition(rows)
        if isinstance(kept, pa.Scalar):
            return rows if kept.as_py() else rows.slice(0, 0)
        return rows.filter(kept)


@dataclass(frozen=True, slots=True)
class Projected:
    expressions: tuple[Expression, ...]
    schema: pa.Schema

    def compiled(self) -> ProjectKernel:
        return ProjectKernel([compiled(expression) for expression in self.expressions], self.schema)


class ProjectKernel:
    def __init__(self, expressions: Sequence[Compute], schema: pa.Schema) -> None:
        self._expressions = expressions
        self._schema = schema

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [column_of(expression(rows), rows) for expression in self._expressions]
        return batch_of(columns, rows.num_rows, self._schema)
