"""Instants that a Parquet file stores as INT96, as Spark, Hive and Impala do.

INT96 has the number of a day and the nanoseconds of the day, in UTC: a point in time, not the time on a wall. So such
columns are timestamps with the time zone UTC. They have microseconds, as Spark's timestamps have: an int64 of
nanoseconds would wrap round outside of the years 1677 to 2262, and Arrow does not notice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyarrow import types as kinds

from .nested_types import with_types
from .parquet_footer import INT96, Footer

INT96_UNIT: Final = "us"
"""The unit in which Arrow is to read INT96."""
INSTANT: Final = pa.timestamp(INT96_UNIT, "UTC")
_LEGACY: Final = b"org.apache.spark.legacyINT96"
_SPARK_VERSION: Final = b"org.apache.spark.version"
_FIRST_MARKED: Final = (3, 1)
"""The first version of Spark that marks files in the old calendar."""


def int96_columns(footer: Footer) -> frozenset[str]:
    """The names of the columns that have INT96 inside."""
    return frozenset(leaf.path[0] for leaf in footer.leaves if leaf.physical == INT96)


def with_instants(schema: pa.Schema, footer: Footer) -> pa.Schema:
    """The file's schema, as Arrow sees it, with the types of instants."""
    if not int96_columns(footer):
        return schema
    physical = iter([leaf.physical for leaf in footer.leaves])
    return pa.schema([field.with_type(_typed(field.type, physical)) for field in schema], schema.metadata)


def in_the_calendar_of_spark_2(written: Mapping[bytes, bytes]) -> bool:
    """True where Spark moves the instants of a file with these texts in its footer that are before 1900: they are in a
    calendar that ends in 1582, and in local times.
    """
    version = written.get(_SPARK_VERSION)
    numbers = [] if version is None else version.split(b".")[:2]
    is_old = version is not None and all(map(bytes.isdigit, numbers)) and tuple(map(int, numbers)) < _FIRST_MARKED
    return is_old or _LEGACY in written


def _typed(type_: pa.DataType, physical: Iterator[int]) -> pa.DataType:
    """The type, with the types of instants. `physical` tells the types of its leaves in the file, in order."""
    if isinstance(type_, pa.BaseExtensionType):
        _typed(type_.storage_type, physical)
        return type_
    if kinds.is_nested(type_):
        return with_types(type_, lambda inside: _typed(inside, physical))
    return INSTANT if next(physical, None) == INT96 else type_
