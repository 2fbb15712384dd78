"""Constant: rows that exist from the start. Its only state is whether it has returned them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from ..core.operator import StateReader, StateWriter
from .agenda import Agenda
from .change_operator import ChangeOperator
from .values.change import Change, Rounds, constant_rounds
from .values.rows import Rows


class Constant(ChangeOperator):
    """The operator. It gives these rows once, at the first time there is."""

    def __init__(self, schema: pa.Schema, batches: Sequence[pa.RecordBatch], *, depth: int = 0) -> None:
        self.schema = schema
        self._first: Rounds = (0,) * depth
        self._agenda: Agenda[Rows] = Agenda()
        for batch in batches:
            if batch.num_rows:
                self._agenda.add(self._first, Rows.of_batch(batch))

    def receive(self, port: int, change: Change) -> Iterable[Change]:
        raise AssertionError(f"a constant has no inputs, and got {len(change)} rows at input {port}")

    def due(self) -> Rounds | None:
        return self._agenda.first()

    def decide(self, rounds: Rounds) -> Iterable[Change]:
        for rows in self._agenda.take(rounds):
            yield Change(rows, np.ones(len(rows), dtype=np.int64), constant_rounds(rounds, len(rows)))

    def save(self, state: StateWriter) -> None:
        """Write nothing: an operator that loads counts its rows as given out."""

    def load(self, state: StateReader) -> None:  # noqa: ARG002 - nothing to read
        self._agenda = Agenda()
