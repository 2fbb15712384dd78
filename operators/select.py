"""Select: some of the input's columns, in another order, under other names.

Order: the input's rows, in the input's batches. Nulls: as they are. Empty input: no rows. Memory: none. Barrier:
nothing is kept. Closing the output closes the input.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from ..proto.errors import InternalError
from .core.batches import batch_of
from .core.operator import Operator, Stream


class Select(Operator):
    """The operator. `columns` are the positions in the input of the columns of `schema`."""

    def __init__(
        self, input_schema: pa.Schema, *, columns: Sequence[int], schema: pa.Schema, plan_path: str = ""
    ) -> None:
        fields = [input_schema.field(i) for i in columns]
        if schema.types != [field.type for field in fields]:
            raise InternalError(f"{plan_path}: columns {list(columns)} of {input_schema.types} as {schema.types}")
        if any(field.nullable and not wanted.nullable for field, wanted in zip(fields, schema, strict=True)):
            raise InternalError(f"{plan_path}: a column that may be null as a required one: {schema}")
        self.schema = schema
        self._columns = tuple(columns)
        is_same = schema.equals(input_schema, check_metadata=True)
        self._takes_all = is_same and self._columns == tuple(range(len(schema)))

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        [rows] = inputs
        return self._run(rows)

    def _run(self, rows: Stream) -> Generator[pa.RecordBatch]:
        with closing(rows):
            if self._takes_all:
                yield from rows
                return
            for batch in rows:
                yield batch_of([batch.column(i) for i in self._columns], batch.num_rows, self.schema)
