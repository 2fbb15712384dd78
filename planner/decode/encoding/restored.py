"""Fields and messages that Substrait has removed and producers still write: the pool puts them back."""

from __future__ import annotations

from typing import Final, NamedTuple


class Restored(NamedTuple):
    """A field of `message`. A `type` with a dot is a message or an enumeration; `presence` tells absent from zero."""

    message: str
    number: int
    name: str
    type: str
    repeated: bool = False
    oneof: str = ""
    presence: bool = False


# parent message or package, name
NEW_MESSAGES: Final = (
    ("substrait.extensions", "AnyMessage"),
    ("substrait.extensions", "SimpleExtensionURI"),
    ("substrait.Type", "Timestamp"),
    ("substrait.Type", "Time"),
    ("substrait.Type", "TimestampTZ"),
    ("substrait.Expression", "Enum"),
    ("substrait.Expression.Enum", "Empty"),
)

_EXPRESSION = "substrait.Expression"
_LITERAL = "substrait.Expression.Literal"
_TYPE = "substrait.Type"
_DECLARATION = "substrait.extensions.SimpleExtensionDeclaration"
_FIELD_REFERENCE = "substrait.Expression.FieldReference"
_NULLABILITY = "substrait.Type.Nullability"

RESTORED: Final = (
    Restored("substrait.extensions.AnyMessage", 1, "type_url", "string"),
    Restored("substrait.extensions.AnyMessage", 2, "value", "bytes"),
    # removed in 0.85
    Restored("substrait.extensions.SimpleExtensionURI", 1, "extension_uri_anchor", "uint32"),
    Restored("substrait.extensions.SimpleExtensionURI", 2, "uri", "string"),
    Restored("substrait.Plan", 1, "extension_uris", "substrait.extensions.SimpleExtensionURI", repeated=True),
    Restored(f"{_DECLARATION}.ExtensionType", 1, "extension_uri_reference", "uint32"),
    Restored(f"{_DECLARATION}.ExtensionTypeVariation", 1, "extension_uri_reference", "uint32"),
    Restored(f"{_DECLARATION}.ExtensionFunction", 1, "extension_uri_reference", "uint32"),
    # removed in 0.88
    Restored("substrait.AggregateRel.Grouping", 1, "grouping_expressions", _EXPRESSION, repeated=True),
    Restored(f"{_TYPE}.Timestamp", 1, "type_variation_reference", "uint32"),
    Restored(f"{_TYPE}.Timestamp", 2, "nullability", _NULLABILITY),
    Restored(f"{_TYPE}.Time", 1, "type_variation_reference", "uint32"),
    Restored(f"{_TYPE}.Time", 2, "nullability", _NULLABILITY),
    Restored(f"{_TYPE}.TimestampTZ", 1, "type_variation_reference", "uint32"),
    Restored(f"{_TYPE}.TimestampTZ", 2, "nullability", _NULLABILITY),
    Restored(_TYPE, 14, "timestamp", f"{_TYPE}.Timestamp", oneof="kind"),
    Restored(_TYPE, 17, "time", f"{_TYPE}.Time", oneof="kind"),
    Restored(_TYPE, 29, "timestamp_tz", f"{_TYPE}.TimestampTZ", oneof="kind"),
    Restored(_LITERAL, 14, "timestamp", "int64", oneof="literal_type"),
    Restored(_LITERAL, 17, "time", "int64", oneof="literal_type"),
    Restored(_LITERAL, 27, "timestamp_tz", "int64", oneof="literal_type"),
    # retyped in 0.52; the numbers are ours, see `RETYPED`
    Restored(_LITERAL, 1034, "old_precision_timestamp", "int64", oneof="literal_type"),
    Restored(_LITERAL, 1035, "old_precision_timestamp_tz", "int64", oneof="literal_type"),
    # removed in 0.93
    Restored(f"{_EXPRESSION}.Enum", 1, "specified", "string", oneof="enum_kind"),
    Restored(f"{_EXPRESSION}.Enum", 2, "unspecified", f"{_EXPRESSION}.Enum.Empty", oneof="enum_kind"),
    Restored(_EXPRESSION, 10, "enum", f"{_EXPRESSION}.Enum", oneof="rex_type"),
    Restored(f"{_EXPRESSION}.ScalarFunction", 2, "args", _EXPRESSION, repeated=True),
    Restored("substrait.AggregateFunction", 2, "args", _EXPRESSION, repeated=True),
    Restored(f"{_EXPRESSION}.WindowFunction", 8, "args", _EXPRESSION, repeated=True),
    # removed in 0.95
    Restored(_TYPE, 31, "user_defined_type_reference", "uint32", oneof="kind"),
    # removed in 0.98
    Restored("substrait.FetchRel", 3, "offset", "int64", presence=True),
    Restored("substrait.FetchRel", 4, "count", "int64", presence=True),
    Restored("substrait.ReadRel.VirtualTable", 1, "values", f"{_LITERAL}.Struct", repeated=True),
    Restored("substrait.HashJoinRel", 4, "left_keys", _FIELD_REFERENCE, repeated=True),
    Restored("substrait.HashJoinRel", 5, "right_keys", _FIELD_REFERENCE, repeated=True),
    Restored("substrait.MergeJoinRel", 4, "left_keys", _FIELD_REFERENCE, repeated=True),
    Restored("substrait.MergeJoinRel", 5, "right_keys", _FIELD_REFERENCE, repeated=True),
    Restored(f"{_LITERAL}.IntervalDayToSecond", 3, "microseconds", "int32", presence=True),
)

# Literals that were plain numbers and are messages now, at the same number: the fields for their old form.
RETYPED: Final = {
    (_LITERAL, 34): (1034, "oldPrecisionTimestamp"),
    (_LITERAL, 35): (1035, "oldPrecisionTimestampTz"),
}

# Old JSON plans spell these values of JoinRel.JoinType so; in binary plans nothing changed.
OLD_JOIN_TYPES: Final = {"JOIN_TYPE_SEMI": 5, "JOIN_TYPE_ANTI": 6, "JOIN_TYPE_SINGLE": 7}
