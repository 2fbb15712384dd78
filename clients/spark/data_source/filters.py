"""Spark's filters as conditions of a plan: those that mean the same to Spark and to the plan."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import datasource as spark
from substrait.proto import Expression, Type

COMPARISONS: Final = "extension:io.substrait:functions_comparison"
BOOLEANS: Final = "extension:io.substrait:functions_boolean"
STRINGS: Final = "extension:io.substrait:functions_string"

Function = tuple[str, str]
"""The extension of a function, and its name there."""
Anchor = Callable[[Function], int]

_BINARY: Final[dict[type, Function]] = {
    spark.EqualTo: (COMPARISONS, "equal:any_any"),
    spark.GreaterThan: (COMPARISONS, "gt:any_any"),
    spark.GreaterThanOrEqual: (COMPARISONS, "gte:any_any"),
    spark.LessThan: (COMPARISONS, "lt:any_any"),
    spark.LessThanOrEqual: (COMPARISONS, "lte:any_any"),
    spark.StringStartsWith: (STRINGS, "starts_with:str_str"),
    spark.StringEndsWith: (STRINGS, "ends_with:str_str"),
    spark.StringContains: (STRINGS, "contains:str_str"),
}
_UNARY: Final[dict[type, Function]] = {
    spark.IsNull: (COMPARISONS, "is_null:any"),
    spark.IsNotNull: (COMPARISONS, "is_not_null:any"),
}
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_INTEGERS: Final = {8: "i8", 16: "i16", 32: "i32", 64: "i64"}


def pushed(filters: Sequence[Any], schema: pa.Schema) -> tuple[list[Any], list[Any]]:
    """The filters that the plan can apply to a result of this schema, and the others."""
    known = [one for one in filters if _is_known(one, schema)]
    return known, [one for one in filters if one not in known]


def conditions(filters: Sequence[Any], schema: pa.Schema, anchor: Anchor) -> list[Expression]:
    """The filters as expressions over the result's columns. `anchor` declares a function in the plan."""
    return [_condition(one, schema, anchor) for one in filters]


def _is_known(filter_: Any, schema: pa.Schema) -> bool:
    if isinstance(filter_, spark.Not):
        return _is_known(filter_.child, schema)
    attribute: tuple[str, ...] = getattr(filter_, "attribute", ())
    if len(attribute) != 1 or len(schema.get_all_field_indices(attribute[0])) != 1:
        return False
    type_ = schema.field(attribute[0]).type
    match filter_:
        case spark.IsNull() | spark.IsNotNull():
            return True
        case spark.In(value=values):
            return 0 < len(values) <= _MOST_VALUES and all(_literal(value, type_) is not None for value in values)
        case _:
            return type(filter_) in _BINARY and _literal(filter_.value, type_) is not None


_MOST_VALUES: Final = 1_000


def _condition(filter_: Any, schema: pa.Schema, anchor: Anchor) -> Expression:
    if isinstance(filter_, spark.Not):
        return _call(anchor((BOOLEANS, "not:bool")), [_condition(filter_.child, schema, anchor)])
    index = schema.get_field_index(filter_.attribute[0])
    type_ = schema.field(index).type
    column = Expression()
    column.selection.direct_reference.struct_field.field = index
    column.selection.root_reference.SetInParent()
    match filter_:
        case spark.IsNull() | spark.IsNotNull():
            return _call(anchor(_UNARY[type(filter_)]), [column], nullable=False)
        case spark.In(value=values):
            chosen = Expression()
            chosen.singular_or_list.value.CopyFrom(column)
            chosen.singular_or_list.options.extend(_literal(value, type_) for value in values)
            return chosen
        case _:
            return _call(anchor(_BINARY[type(filter_)]), [column, _literal(filter_.value, type_)])


def _call(anchor: int, arguments: Sequence[Expression | None], *, nullable: bool = True) -> Expression:
    expression = Expression()
    call = expression.scalar_function
    call.function_reference = anchor
    call.output_type.bool.nullability = Type.NULLABILITY_NULLABLE if nullable else Type.NULLABILITY_REQUIRED
    for argument in arguments:
        call.arguments.add().value.CopyFrom(argument)
    return expression


def _literal(value: Any, type_: pa.DataType) -> Expression | None:
    """The value as a literal of the column's type; None if it cannot be one, or compares in another way.

    Floats are left out: Spark and others differ about NaN and about the sign of zero.
    """
    expression = Expression()
    literal = expression.literal
    match value:
        case bool() if kinds.is_boolean(type_):
            literal.boolean = value
        case int() if kinds.is_signed_integer(type_) and not isinstance(value, bool):
            if (value if value >= 0 else ~value).bit_length() >= type_.bit_width:
                return None  # Spark reads the column in a wider type: the user gave a schema
            setattr(literal, _INTEGERS[type_.bit_width], value)
        case str() if kinds.is_string(type_) or kinds.is_large_string(type_):
            literal.string = value
        case dt.datetime() if kinds.is_timestamp(type_) and type_.unit == "us":
            instant = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
            if (value.tzinfo is None) != (type_.tz is None):
                return None
            stored = literal.precision_timestamp if type_.tz is None else literal.precision_timestamp_tz
            stored.precision, stored.value = 6, (instant - _EPOCH) // dt.timedelta(microseconds=1)
        case dt.date() if kinds.is_date32(type_) and not isinstance(value, dt.datetime):
            literal.date = (value - _EPOCH.date()).days
        case Decimal() if kinds.is_decimal(type_):
            unscaled = value.scaleb(type_.scale)
            if unscaled != int(unscaled) or len(str(abs(int(unscaled)))) > type_.precision:
                return None
            literal.decimal.precision, literal.decimal.scale = type_.precision, type_.scale
            literal.decimal.value = int(unscaled).to_bytes(16, "little", signed=True)
        case _:
            return None
    return expression
