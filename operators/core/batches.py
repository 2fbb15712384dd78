"""Record batches from columns, with their number of rows where there are no columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from ...proto.arrow.without_rows import no_rows

_NO_COLUMNS: Final = pa.struct([])


def batch_of(columns: Sequence[pa.Array], rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of `columns` with `rows` rows each. `RecordBatch.from_arrays` counts the rows of the first column, so a
    batch without columns has none. A batch from here keeps its number of rows when it is cut, joined, filtered, written
    as IPC and read.
    """
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    rows_alone = pa.Array.from_buffers(_NO_COLUMNS, rows, [None], null_count=0)
    return pa.RecordBatch.from_struct_array(rows_alone).replace_schema_metadata(schema.metadata)


def joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """All rows in one batch; Arrow's error where a column of text is larger than one array can be."""
    if not batches:
        return no_rows(schema)
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
