"""DataFrames of Spark as a plan's sources and result, as values. They are objects of the caller's process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import types as kinds

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

    Raises `ExecutionError`, which names the column, if the type cannot hold a value: nanoseconds, a number that is too
    large for a schema that the user gave, or a null where the field, or one inside it, allows none. Spark would not
    look for the null.
    """
    try:
        cast = column.cast(with_nulls(field.type))  # Arrow itself would count nulls outside of the column's rows, too
    except pa.ArrowInvalid as inexact:
        raise ExecutionError(
            f"Spark's type for column {field.name!r}, {field.type}, cannot hold all of its values: cast the column in "
            f"the plan ({inexact})",
            reason="UNSUPPORTED_COLUMN",
        ) from inexact
    if _has_null_beside(cast, field):
        raise ExecutionError(
            f"column {field.name!r} has nulls, and Spark's schema says NOT NULL: allow nulls in .schema(...), in "
            "option('notNull', ...) or in the plan, or leave the column, or its rows with nulls, out in the plan",
            reason="NULL_IN_REQUIRED_COLUMN",
        )
    return cast if cast.type.equals(field.type) else pa.array(_Relabelled(cast, field.type))


@dataclass(frozen=True, slots=True)
class _Relabelled:
    """The buffers of an array, under a type that says of fewer of them that they may have nulls."""

    array: pa.Array
    type: pa.DataType

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        _, buffers = self.array.__arrow_c_array__()
        return self.type.__arrow_c_schema__(), buffers


def with_nulls(type_: pa.DataType) -> pa.DataType:
    """The type in which everything but the keys of maps may be null."""
    if kinds.is_struct(type_):
        return pa.struct([field.with_type(with_nulls(field.type)).with_nullable(True) for field in type_])
    if kinds.is_map(type_):
        item = type_.item_field.with_type(with_nulls(type_.item_type)).with_nullable(True)
        return pa.map_(type_.key_field.with_type(with_nulls(type_.key_type)), item)
    if kinds.is_list(type_):
        return pa.list_(type_.value_field.with_type(with_nulls(type_.value_type)).with_nullable(True))
    return type_


def _has_null_beside(array: pa.Array, field: pa.Field) -> bool:
    """True where a value is null although the field, or one inside it, allows none. What lies below a null does not
    count.
    """
    if array.null_count and not field.nullable:
        return True
    if not field.type.num_fields:
        return False
    there = array.drop_null()
    if kinds.is_map(field.type):
        ends = there.offsets
        first, end = ends[0].as_py(), ends[-1].as_py()
        inside = [there.keys.slice(first, end - first), there.items.slice(first, end - first)]
        return any(map(_has_null_beside, inside, (field.type.key_field, field.type.item_field)))
    if kinds.is_struct(field.type):
        return any(_has_null_beside(there.field(at), inner) for at, inner in enumerate(field.type))
    return _has_null_beside(there.flatten(), field.type.value_field)
