"""Compute: what each row becomes by itself, in SQL: filters, projections, unnesting. No state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from .change import Change
from .evaluator import Evaluator
from .operator import ChangeOperator
from .rows import Rows

_ROWS: Final = 65_536


class Compute(ChangeOperator):
    """`evaluate` is given the columns of rows, then the number of each; it gives back columns of `schema`, then the
    number of the row that each of its rows comes from.
    """

    def __init__(self, input_schema: pa.Schema, schema: pa.Schema, evaluate: Evaluator) -> None:
        self.schema = schema
        self._types = input_schema.types
        self._evaluate = evaluate

    def receive(self, port: int, change: Change) -> Iterator[Change]:  # noqa: ARG002 - there is one input
        for start in range(0, len(change), _ROWS):
            part = change
            if len(change) > _ROWS:
                part = change.take(np.arange(start, min(start + _ROWS, len(change))))
            yield from self._computed(part)

    def _computed(self, change: Change) -> Iterator[Change]:
        numbers = pa.array(np.arange(len(change)))
        *columns, number = self._evaluate([*change.rows.to_arrays(self._types), numbers])
        origin = number.to_numpy(zero_copy_only=False)
        if len(origin):
            rows = Rows.of_arrays(columns, len(origin))
            yield Change(rows, change.weights[origin], tuple(rounds[origin] for rounds in change.rounds))
