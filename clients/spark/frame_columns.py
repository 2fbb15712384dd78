"""The columns of a DataFrame that a source takes, and their types: exact, or refused with the column named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import types as spark

from ..proto.errors import InvalidRequest
from ..proto.source_names import fed_source
from ..proto.spark_frames import with_nulls
from ..proto.values import MissingColumns, SourceInfo, TaskInfo

_PLAIN: Final[dict[type, pa.DataType]] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", "UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.CharType: pa.string(),
    spark.VarcharType: pa.string(),
}
_INTERVAL: Final = "no engine reads this type as Spark writes it; cast the column to a number of units"
_REFUSED: Final[dict[type, str]] = {
    spark.NullType: "its values are all null, without a type; cast the column to the type that the plan wants",
    spark.CalendarIntervalType: _INTERVAL,
    spark.DayTimeIntervalType: _INTERVAL,
    spark.YearMonthIntervalType: _INTERVAL,
    spark.TimeType: "Spark itself can neither write this type nor hand it on; cast the column to text",
    spark.VariantType: "only Spark can read this type; extract its fields, or make the column text with to_json",
    spark.GeometryType: "only Spark can read this type; make the column text or binary",
    spark.GeographyType: "only Spark can read this type; make the column text or binary",
}
_INTEGER_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 19}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the fed DataFrame: its name and type there, and the source's type, if the source has the column."""

    name: str
    type: pa.DataType
    wanted: pa.DataType | None = None

    @property
    def temporal(self) -> bool:
        """True if its values depend on a calendar, of which Spark has known two."""
        return _temporal(self.type)


def fed_by_name(info: TaskInfo, name: str) -> SourceInfo:
    """The source of a task that is fed under this name. Refuses names of tables and unknown ones."""
    static = {declared.name for declared in info.sources if declared.static}
    source = fed_source(name, {declared.name for declared in info.sources} - static, static)
    return next(declared for declared in info.sources if declared.name == source)


def quoted(name: str) -> str:
    """A column's name, quoted for Spark's expressions."""
    return "`" + name.replace("`", "``") + "`"


def numbered(columns: Sequence[Column]) -> list[str]:
    """Spark's expressions of the columns under other names, for `mapInArrow`: it finds no column with a dot in its
    name.
    """
    return [f"{quoted(column.name)} AS _{number}" for number, column in enumerate(columns)] or [
        "cast(null AS int) AS _"
    ]


def numbered_schema(columns: Sequence[Column]) -> pa.Schema:
    """The schema of `numbered` columns, under their own names. pyarrow casts no null in place of a struct whose fields
    are NOT NULL, so everything may be null.
    """
    return pa.schema([(column.name, with_nulls(column.type)) for column in columns] or [("_", pa.int32())])


def wanted_columns(
    schema: spark.StructType,
    source: str,
    wanted: pa.Schema,
    more: Sequence[str],
    *,
    missing: MissingColumns,
    case_sensitive: bool,
) -> tuple[Column, ...]:
    """The DataFrame's columns that the source has, in the source's order, and then those named in `more`.

    A column that the DataFrame does not have is refused. It is null if `missing` says so and the source takes nulls
    there. The same holds for the fields of structs.
    """
    columns = []
    for field in wanted:
        spark_field = _named(field.name, schema, case_sensitive=case_sensitive)
        if spark_field is not None:
            columns.append(_column(spark_field, source, field.type, missing))
        elif not field.nullable or missing is MissingColumns.ERROR:
            raise _absent(source, field, f"column {field.name!r}", "the DataFrame", schema.names)
    for name in more:
        spark_field = _named(name, schema, case_sensitive=case_sensitive)
        if spark_field is None:
            raise InvalidRequest(
                f"the DataFrame has no column {name!r}; there are: {', '.join(schema.names)}", reason="MISSING_COLUMN"
            )
        if spark_field.name not in [column.name for column in columns]:
            columns.append(_column(spark_field, source, None))
    return tuple(columns)


def _absent(source: str, field: pa.Field, what: str, where: str, names: Sequence[str]) -> InvalidRequest:
    verb, hint = ("reads", '; with missing_columns="null" its values are null') if field.nullable else ("requires", "")
    return InvalidRequest(
        f"source {source!r} {verb} {what}, which {where} does not have; there are: {', '.join(names)}{hint}",
        reason="MISSING_COLUMN",
    )


def _named(name: str, schema: spark.StructType, *, case_sensitive: bool) -> spark.StructField | None:
    """The column of this name, as the service matches names: exactly, else the only one that differs by case alone."""
    exact = [field for field in schema if field.name == name]
    folded = [field for field in schema if field.name.casefold() == name.casefold()]
    if len(exact) > 1 or (len(folded) > 1 and not (exact and case_sensitive)):
        raise InvalidRequest(
            f"column {name!r} could be any of {', '.join(field.name for field in folded)} of the DataFrame: rename "
            "all but one of these",
            reason="AMBIGUOUS_COLUMN",
        )
    return next(iter(exact or folded), None)


def _column(
    field: spark.StructField,
    source: str,
    wanted: pa.DataType | None,
    missing: MissingColumns = MissingColumns.ERROR,
) -> Column:
    type_ = arrow_type(field.dataType, field.name)
    if wanted is not None:
        wanted = _Fields(source, field.name, missing).there(type_, wanted)
    if wanted is not None and not fits(type_, wanted):
        raise InvalidRequest(
            f"column {field.name!r} is {field.dataType.simpleString()} in the DataFrame and {wanted} in source "
            f"{source!r}: cast the column in the DataFrame",
            reason="COLUMN_TYPE",
        )
    return Column(field.name, type_, wanted)


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of structs in a column of a DataFrame, as a source wants them."""

    source: str
    column: str
    missing: MissingColumns

    def there(self, type_: pa.DataType, wanted: pa.DataType, path: str = "") -> pa.DataType:
        """`wanted` without the fields that `type_` does not have and that may be null. Other such fields are
        refused.
        """
        type_, wanted = stored(type_), stored(wanted)
        if kinds.is_struct(type_) and kinds.is_struct(wanted):
            return pa.struct(list(self._fields(type_, wanted, path)))
        if kinds.is_list(type_) and kinds.is_list(wanted):
            return pa.list_(wanted.value_field.with_type(self.there(type_.value_type, wanted.value_type, path)))
        if kinds.is_map(type_) and kinds.is_map(wanted):
            item = wanted.item_field.with_type(self.there(type_.item_type, wanted.item_type, path))
            return pa.map_(wanted.key_field.with_type(self.there(type_.key_type, wanted.key_type, path)), item)
        return wanted

    def _fields(self, type_: pa.DataType, wanted: pa.DataType, path: str) -> Iterator[pa.Field]:
        there = {field.name: field.type for field in type_}
        for field in wanted:
            name = f"{path}{field.name}"
            if field.name in there:
                yield field.with_type(self.there(there[field.name], field.type, f"{name}."))
            elif not field.nullable or self.missing is MissingColumns.ERROR:
                what = f"field {name!r} of column {self.column!r}"
                raise _absent(self.source, field, what, "the DataFrame's column", list(there))


def arrow_type(type_: spark.DataType, column: str) -> pa.DataType:
    """The Arrow type of the same values.

    Raises `InvalidRequest`, which names the column (`a.b` is field b of column a).
    """
    if (plain := _PLAIN.get(type(type_))) is not None:
        return plain
    make = _MADE.get(type(type_))
    if make is None:
        why = _REFUSED.get(type(type_), "it is a user-defined type; cast the column to the type of the stored values")
        raise _unmapped(type_, column, why)
    return make(type_, column)


def _unmapped(type_: spark.DataType, column: str, why: str) -> InvalidRequest:
    return InvalidRequest(
        f"column {column!r} of the DataFrame has type {type_.simpleString()}, which cannot be fed: {why}",
        reason="COLUMN_TYPE",
    )


def _decimal(type_: spark.DecimalType, column: str) -> pa.DataType:  # noqa: ARG001 - one of the makers
    return pa.decimal128(type_.precision, type_.scale)


def _string(type_: spark.StringType, column: str) -> pa.DataType:
    if not type_.isUTF8BinaryCollation():
        why = (
            "under its collation some different texts are equal, and for the plan they differ; cast the column to a "
            "plain string"
        )
        raise _unmapped(type_, column, why)
    return pa.string()


def _struct(type_: spark.StructType, column: str) -> pa.DataType:
    if len(set(type_.names)) < len(type_.names):
        raise InvalidRequest(
            f"column {column!r} of the DataFrame has several fields of one name ({', '.join(type_.names)}): rename all "
            "but one of these",
            reason="AMBIGUOUS_COLUMN",
        )
    fields = [
        pa.field(field.name, arrow_type(field.dataType, f"{column}.{field.name}"), field.nullable) for field in type_
    ]
    return pa.struct(fields)


def _array(type_: spark.ArrayType, column: str) -> pa.DataType:
    return pa.list_(pa.field("element", arrow_type(type_.elementType, f"{column}.element"), type_.containsNull))


def _map(type_: spark.MapType, column: str) -> pa.DataType:
    value = pa.field("value", arrow_type(type_.valueType, f"{column}.value"), type_.valueContainsNull)
    return pa.map_(arrow_type(type_.keyType, f"{column}.key"), value)


_MADE: Final[dict[type, Callable[[Any, str], pa.DataType]]] = {
    spark.DecimalType: _decimal,
    spark.StringType: _string,
    spark.StructType: _struct,
    spark.ArrayType: _array,
    spark.MapType: _map,
}


def _temporal(type_: pa.DataType) -> bool:
    nested = (type_.field(i).type for i in range(type_.num_fields)) if kinds.is_nested(type_) else ()
    return bool(kinds.is_date(type_) or kinds.is_timestamp(type_)) or any(map(_temporal, nested))


def stored(type_: pa.DataType) -> pa.DataType:
    """`type_` without the choices of storage at its top: no dictionary, large or view."""
    if kinds.is_dictionary(type_):
        return stored(type_.value_type)
    if kinds.is_large_string(type_) or kinds.is_string_view(type_):
        return pa.string()
    if kinds.is_large_binary(type_) or kinds.is_binary_view(type_):
        return pa.binary()
    if kinds.is_large_list(type_):
        return pa.list_(type_.value_field)
    return type_


def fits(type_: pa.DataType, wanted: pa.DataType) -> bool:
    """True if every value of `type_` is one of `wanted`, with the same meaning, apart from nullability."""
    type_, wanted = stored(type_), stored(wanted)
    if type_.equals(wanted):
        return True
    return any(left(type_) and left(wanted) and rule(type_, wanted) for left, rule in _ALIKE) or _as_decimal(
        type_, wanted
    )


def _as_decimal(type_: pa.DataType, wanted: pa.DataType) -> bool:
    if not (kinds.is_signed_integer(type_) and kinds.is_decimal(wanted)):
        return False
    return bool(wanted.precision - wanted.scale >= _INTEGER_DIGITS[type_.bit_width])


def _wider(type_: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(type_.bit_width <= wanted.bit_width)


def _unsigned_or_wider(type_: pa.DataType, wanted: pa.DataType) -> bool:
    if kinds.is_unsigned_integer(type_) != kinds.is_unsigned_integer(wanted):
        return bool(kinds.is_unsigned_integer(type_) and type_.bit_width < wanted.bit_width)
    return _wider(type_, wanted)


def _digits(type_: pa.DataType, wanted: pa.DataType) -> bool:
    whole = type_.precision - type_.scale <= wanted.precision - wanted.scale
    return bool(whole and type_.scale <= wanted.scale)


def _finer(type_: pa.DataType, wanted: pa.DataType) -> bool:
    units = ("s", "ms", "us", "ns")
    same = (type_.tz is None) == (wanted.tz is None)
    return same and units.index(type_.unit) <= units.index(wanted.unit)


def _items(type_: pa.DataType, wanted: pa.DataType) -> bool:
    return fits(type_.value_type, wanted.value_type)


def _entries(type_: pa.DataType, wanted: pa.DataType) -> bool:
    return fits(type_.key_type, wanted.key_type) and fits(type_.item_type, wanted.item_type)


def _fields(type_: pa.DataType, wanted: pa.DataType) -> bool:
    same = [field.name for field in type_] == [field.name for field in wanted]
    return same and all(fits(left.type, right.type) for left, right in zip(type_, wanted, strict=True))


_ALIKE: Final = (
    (kinds.is_integer, _unsigned_or_wider),
    (kinds.is_floating, _wider),
    (kinds.is_decimal, _digits),
    (kinds.is_timestamp, _finer),
    (kinds.is_list, _items),
    (kinds.is_map, _entries),
    (kinds.is_struct, _fields),
)
