"""The columns that Spark reads of a result: by name, in types that hold the same values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    GeographyType,
    GeometryType,
    MapType,
    StructField,
    StructType,
    VariantType,
)

from ...proto.errors import Refused
from ..frame_columns import stored

_CODED: Final = (VariantType, GeometryType, GeographyType)
_AGAIN: Final = (
    "if Spark's table was made of another plan, make it again with CREATE OR REPLACE TABLE ... USING tidegate; if you "
    "gave .schema(...), change it there"
)


def check_columns(wanted: StructType, result: pa.Schema) -> None:
    """Raise `Refused` if a table of Spark's catalog, or a schema that was given, has columns, or fields of structs in
    them, that the result lacks, or has of a kind in which Spark would read other values, or names a column twice.
    """
    if twice := [name for name, times in Counter(wanted.names).items() if times > 1]:
        raise Refused(
            f"Spark would read column {twice[0]!r} twice, and tells columns of a data source apart by their names: "
            "name each column once in .schema(...)",
            reason="UNSUPPORTED_COLUMN",
        )
    missing = [name for name in wanted.names if name not in result.names]
    if missing:
        raise Refused(
            f"Spark reads a column {missing[0]!r}, which the result does not have; it has: {', '.join(result.names)}: "
            f"{_AGAIN}; WITH (columns = ...) can leave out no column of a table, so name the columns in CREATE TABLE",
            reason="RESULT_CHANGED",
        )
    for field in wanted:
        type_, there = _arrow_type(field), result.field(field.name).type
        if type_ is None or not _is_alike(there, type_):
            raise Refused(
                f"Spark reads column {field.name!r} as {field.dataType.simpleString()}, and it is {there} in the "
                f"result: {_AGAIN}",
                reason="RESULT_CHANGED",
            )


def _arrow_type(field: StructField) -> pa.DataType | None:
    """The Arrow type in which Spark takes the column; None if there is none, or if its bytes are a code of Spark's."""
    if any(isinstance(part, _CODED) for part in _parts(field.dataType)):
        return None
    try:
        return to_arrow_schema(StructType([field]), timezone="UTC").field(0).type
    except (TypeError, ValueError):  # also a void column that is NOT NULL
        return None


def _parts(type_: DataType) -> Iterator[DataType]:
    yield type_
    match type_:
        case StructType():
            inner = [field.dataType for field in type_]
        case ArrayType():
            inner = [type_.elementType]
        case MapType():
            inner = [type_.keyType, type_.valueType]
        case _:
            inner = []
    for part in inner:
        yield from _parts(part)


def _is_alike(type_: pa.DataType, wanted: pa.DataType) -> bool:
    """True if a cast of values of `type_` to `wanted` gives the same values, or fails."""
    type_ = stored(type_)
    return bool(type_.equals(wanted)) or any(left(type_) and right(wanted, type_) for left, right in _ALIKE)


def _wider(wanted: pa.DataType, type_: pa.DataType) -> bool:
    return bool(kinds.is_floating(wanted) and type_.bit_width <= wanted.bit_width)


def _same_zone(wanted: pa.DataType, type_: pa.DataType) -> bool:
    return bool(kinds.is_timestamp(wanted)) and (type_.tz is None) == (wanted.tz is None)


def _items(wanted: pa.DataType, type_: pa.DataType) -> bool:
    return bool(kinds.is_list(wanted)) and _is_alike(type_.value_type, wanted.value_type)


def _entries(wanted: pa.DataType, type_: pa.DataType) -> bool:
    return (
        bool(kinds.is_map(wanted))
        and _is_alike(type_.key_type, wanted.key_type)
        and _is_alike(type_.item_type, wanted.item_type)
    )


def _fields(wanted: pa.DataType, type_: pa.DataType) -> bool:
    """Fields are found by name. One that the result lacks would be null."""
    if not kinds.is_struct(wanted):
        return False
    there = {field.name: field.type for field in type_}
    return all(field.name in there and _is_alike(there[field.name], field.type) for field in wanted)


_Rule = Callable[[pa.DataType], bool]
_ALIKE: Final[tuple[tuple[_Rule, Callable[[pa.DataType, pa.DataType], bool]], ...]] = (
    (kinds.is_integer, lambda wanted, _: bool(kinds.is_integer(wanted) or kinds.is_decimal(wanted))),
    (kinds.is_decimal, lambda wanted, _: bool(kinds.is_decimal(wanted))),
    (kinds.is_floating, _wider),
    (kinds.is_timestamp, _same_zone),
    (kinds.is_time, lambda wanted, _: bool(kinds.is_time(wanted))),
    (kinds.is_duration, lambda wanted, _: bool(kinds.is_duration(wanted))),
    (kinds.is_fixed_size_binary, lambda wanted, _: bool(kinds.is_binary(wanted))),
    (kinds.is_list, _items),
    (kinds.is_fixed_size_list, _items),
    (kinds.is_map, _entries),
    (kinds.is_struct, _fields),
)
