"""The range of a look-up's keys, for messages, so that a person can find the rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ...proto.arrow.shown_values import shown
from .equality import stored

_LONGEST = 60


def key_range(keys: pa.RecordBatch) -> str:
    """The least and the greatest key, by the first column, then the second, ..."""
    columns = [stored(column) for column in keys.columns]
    table = pa.table(columns, names=[str(i) for i in range(len(columns))])
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
    least, greatest = (_shown(table.slice(order[at].as_py(), 1)) for at in (0, -1))
    if least == greatest:
        return f"key {least} ({keys.num_rows} rows)"
    return f"keys {least} to {greatest} ({keys.num_rows} rows)"


def _shown(row: pa.Table) -> str:
    values = [_value(column[0]) for column in row.columns]
    return values[0] if len(values) == 1 else f"({', '.join(values)})"


def _value(value: pa.Scalar) -> str:
    text = shown(value, lambda plain: repr(plain) if isinstance(plain, str | bytes) else str(plain))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
