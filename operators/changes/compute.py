"""Compute: rows computed in SQL from one row each: filters, projections, unnesting. The only state is postponed
rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from .change_operator import ChangeOperator
from .postponed import Postponed
from .values.change import Change, Rounds
from .values.evaluator import NUMBER, Evaluator
from .values.rows import Rows
from .values.sliced_rows import SlicedRows, SliceStarts


class Compute(ChangeOperator):
    """The operator. `evaluate` takes the columns of rows, then the number of each row. It returns columns of `schema`,
    then the number of the row that each of the new rows comes from. Where `in_arrays` gives the rows, `evaluate` is
    not asked.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        schema: pa.Schema,
        evaluate: Evaluator,
        in_arrays: SlicedRows | SliceStarts | None = None,
    ) -> None:
        self.schema = schema
        self._read = input_schema.append(NUMBER)
        self._evaluate = evaluate
        self._in_arrays = in_arrays
        self._postponed = Postponed(input_schema, self._computed)

    def receive(self, port: int, change: Change) -> Iterator[Change]:  # noqa: ARG002 - there is one input
        return self._postponed.evaluated(change)

    def due(self) -> Rounds | None:
        return self._postponed.due()

    def decide(self, rounds: Rounds) -> Iterator[Change]:
        return self._postponed.decide(rounds)

    @property
    def nbytes(self) -> int:
        return self._postponed.nbytes

    def _computed(self, change: Change) -> Change:
        rows = None if self._in_arrays is None else self._in_arrays.of(change.rows)
        if rows is not None:
            return change.with_rows(rows)
        numbers = pa.array(np.arange(len(change)))
        *columns, number = self._evaluate(change.rows.to_batch(self._read, numbers)).columns
        origin = number.to_numpy(zero_copy_only=False)
        rows = Rows.of_arrays(columns, len(origin))
        return Change(rows, change.weights[origin], tuple(rounds[origin] for rounds in change.rounds))
