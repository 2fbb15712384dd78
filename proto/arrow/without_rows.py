"""Arrays, batches and tables without rows. pyarrow's own ways to make them fail for types with UUIDs inside."""

from __future__ import annotations

import pyarrow as pa


def no_values(type_: pa.DataType) -> pa.Array:
    return pa.nulls(0, type_)


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([no_values(type_) for type_ in schema.types], schema=schema)


def empty_table(schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches([], schema)
