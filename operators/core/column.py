"""A column that the plan wants from a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa


class Slices(NamedTuple):
    """Slices of `size` units of a column's type, of which slice 0 begins at `origin`."""

    size: int
    origin: int


class KeyCut(NamedTuple):
    """The way in which a source is cut: each channel has the rows whose values of `key` are in its range. If the cuts
    of two sources have the same number of `ranges`, they have the same ranges. No slice of `slices` lies in two ranges.
    """

    key: str
    ranges: int
    slices: Slices | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A wanted column. The scan matches it by `name` (exactly, else without regard to case where that is unambiguous)
    and casts it losslessly to `type`. A missing column is an error, or null if the column is nullable and the split
    says so. A null in a required column is an error, too.

    `number_or_text` says that a file without types may have whole numbers here instead of text.

    `key` asks for the range of the column's values, where a file tells it, because the source may be cut by them.
    `slices` asks for it, too, because the source may be cut by them between two slices of one of these kinds.
    """

    name: str
    type: pa.DataType
    nullable: bool
    key: bool = False
    slices: tuple[Slices, ...] = ()
    number_or_text: bool = False


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """The schema of the columns that a plan wants from a source."""
    return pa.schema([pa.field(column.name, column.type, column.nullable) for column in columns])
