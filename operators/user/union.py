"""Union: the rows of several streams of one schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pyarrow as pa

from ..core.batches import batch_of
from ..core.operator import Operator, Stream


class Union(Operator):
    """The operator that yields all rows of its inputs, one input after the other.

    Order: that of the inputs, and in each input the input's order. Nulls: as they are. Empty input: no rows. Memory: a
    batch. Barrier: nothing is kept. An input is not read before the inputs ahead of it have ended.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        with ExitStack() as stack:
            for stream in inputs:
                stack.callback(stream.close)
            for stream in inputs:
                for batch in stream:
                    yield batch if batch.schema.equals(self.schema) else self._fitted(batch)

    def _fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch under the union's schema: inputs may differ in the nullability of their columns."""
        return batch_of(batch.columns, batch.num_rows, self.schema)
