"""DataFrames of Spark as a plan's sources and result, as values. They are objects of the caller's process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from .errors import ExecutionError
from .values import FileSplit, SourceInfo


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FedFrame:
    """A DataFrame that feeds a source: it has the columns of `schema`, in this order.

    `bytes` is Spark's estimate, if there is one.
    """

    frame: Any
    schema: pa.Schema
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resulting:
    """The columns of a resulting DataFrame: as Spark's `StructType`, and as the Arrow schema that Spark expects."""

    columns: Any
    schema: pa.Schema


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameFeeds:
    """The caller's part of a plan over DataFrames.

    - `session`: its Spark session
    - `sources`: chooses a DataFrame for each source, or a list of the files that a DataFrame is read from
    - `result`: makes the columns of the resulting DataFrame
    """

    session: Any
    sources: Callable[[Sequence[SourceInfo]], Feeds]
    result: Callable[[pa.Schema], Resulting]


Feeds: TypeAlias = "dict[str, FedFrame | list[FileSplit]]"


def in_type_of_spark(column: pa.Array, field: pa.Field) -> pa.Array:
    """The column in the type that Spark expects.

    Raises `ExecutionError`, which names the column, if the type cannot hold a value: nanoseconds, or a number that is
    too large for a schema that the user gave.
    """
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as inexact:
        raise ExecutionError(
            f"Spark's type for column {field.name!r}, {field.type}, cannot hold all of its values: cast the column in "
            f"the plan ({inexact})",
            reason="UNSUPPORTED_COLUMN",
        ) from inexact
