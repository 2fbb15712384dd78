"""A column that the plan wants from a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A wanted column. The scan matches it by `name` (exactly, else without regard to case where that is unambiguous)
    and casts it losslessly to `type`. A missing column is an error, or null if the column is nullable and the split
    says so. A null in a required column is an error, too.

    `number_or_text` says that a file without types may have whole numbers here instead of text.

    `key` asks for the range of the column's values, where a file tells it, because the source may be cut by them.
    """

    name: str
    type: pa.DataType
    nullable: bool
    key: bool = False
    number_or_text: bool = False


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """The schema of the columns that a plan wants from a source."""
    return pa.schema([pa.field(column.name, column.type, column.nullable) for column in columns])
