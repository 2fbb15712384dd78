"""A column that a source is read for."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Matched by `name` (exactly, else without regard to case where that is unambiguous) and cast losslessly to
    `type`. Where it is missing it is an error, or, if it is nullable and the split says so, null; a null in a required
    column is an error too.

    `number_or_text` says that a file without types of its own may have whole numbers here instead of text.

    `key` asks what a file tells of the range of its values, because the source may be cut by them.
    """

    name: str
    type: pa.DataType
    nullable: bool
    key: bool = False
    number_or_text: bool = False
