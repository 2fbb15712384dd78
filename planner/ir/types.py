"""Substrait's types as values. Every type knows whether it is nullable, and nothing else about its column.

Old spellings (`timestamp`, `time`, `timestamp_tz`) are the precision-6 forms. Unsigned integers, which Substrait
defines as extension types, are ordinary integers here with `signed=False`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Final, TypeAlias, TypeVar, cast


@dataclass(frozen=True, slots=True, kw_only=True)
class _Type:
    nullable: bool = True

    def __str__(self) -> str:
        """The type in Substrait's spelling: `decimal<15,2>?`, `list<i64>`."""
        return spell(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean(_Type):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(_Type):
    """i8, i16, i32, i64 and, with `signed=False`, u8 to u64."""

    bits: int
    signed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Float(_Type):
    """fp32 and fp64."""

    bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class String(_Type):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class VarChar(_Type):
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedChar(_Type):
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(_Type):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedBinary(_Type):
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decimal(_Type):
    precision: int
    scale: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Date(_Type):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Time(_Type):
    precision: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Timestamp(_Type):
    """A timestamp without a zone. `precision` is the number of decimal places of a second, 0 to 12."""

    precision: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampTz(_Type):
    precision: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalYear(_Type):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalDay(_Type):
    precision: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalCompound(_Type):
    precision: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Uuid(_Type):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct(_Type):
    """A struct. `names` is empty if the plan gives none (Substrait names fields only at reads and at the root)."""

    fields: tuple[Type, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class List(_Type):
    element: Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(_Type):
    key: Type
    value: Type


Scalar: TypeAlias = (
    Boolean
    | Integer
    | Float
    | String
    | VarChar
    | FixedChar
    | Binary
    | FixedBinary
    | Decimal
    | Date
    | Time
    | Timestamp
    | TimestampTz
    | IntervalYear
    | IntervalDay
    | IntervalCompound
    | Uuid
)
Nested: TypeAlias = Struct | List | Map
Type: TypeAlias = Scalar | Nested

IN_ORDER: Final = (
    Boolean,
    Integer,
    Float,
    Decimal,
    String,
    VarChar,
    Binary,
    FixedBinary,
    Date,
    Time,
    Timestamp,
    TimestampTz,
)
"""Types whose values DuckDB and our operators compare and sort alike. In a `fixedchar` blanks do not count."""

T = TypeVar("T", bound=_Type)


_NAMES: Final[dict[type[_Type], str]] = {
    Boolean: "boolean",
    String: "string",
    VarChar: "varchar",
    FixedChar: "fixedchar",
    Binary: "binary",
    FixedBinary: "fixedbinary",
    Decimal: "decimal",
    Date: "date",
    Time: "precision_time",
    Timestamp: "precision_timestamp",
    TimestampTz: "precision_timestamp_tz",
    IntervalYear: "interval_year",
    IntervalDay: "interval_day",
    IntervalCompound: "interval_compound",
    Uuid: "uuid",
    Struct: "struct",
    List: "list",
    Map: "map",
}


def spell(type_: _Type) -> str:
    """The type in Substrait's spelling, for messages."""
    mark = "?" if type_.nullable else ""
    match type_:
        case Integer(bits=bits, signed=signed):
            return f"{'i' if signed else 'u'}{bits}{mark}"
        case Float(bits=bits):
            return f"fp{bits}{mark}"
        case Struct(fields=inner):
            parameters: tuple[object, ...] = inner
        case List(element=element):
            parameters = (element,)
        case Map(key=key, value=value):
            parameters = (key, value)
        case _:
            parameters = tuple(getattr(type_, of.name) for of in fields(type_) if of.name != "nullable")
    return _NAMES[type(type_)] + mark + (f"<{','.join(map(str, parameters))}>" if parameters else "")


def named_like(type_: Type, other: Type) -> Type:
    """`type_`, whose structs have the names of `other`'s where they have none themselves."""
    match type_, other:
        case Struct(fields=fields), Struct(fields=those) if len(fields) == len(those):
            inside = tuple(map(named_like, fields, those))
            return replace(type_, fields=inside, names=type_.names or other.names)
        case List(), List():
            return replace(type_, element=named_like(type_.element, other.element))
        case Map(), Map():
            return replace(type_, key=named_like(type_.key, other.key), value=named_like(type_.value, other.value))
        case _:
            return type_


def nullable(type_: T) -> T:
    """The same type, with nulls allowed."""
    return type_ if type_.nullable else _other(type_)


def required(type_: T) -> T:
    """The same type, with nulls not allowed."""
    return _other(type_) if type_.nullable else type_


def _other(type_: T) -> T:
    if is_nested(type_):
        return replace(type_, nullable=not type_.nullable)
    return cast("T", _other_scalar(type_))


@lru_cache(maxsize=4096)
def _other_scalar(type_: _Type) -> _Type:
    """The same type with the other nullability. A plan asks for few types, and for each of them often."""
    return replace(type_, nullable=not type_.nullable)


def is_text(type_: object) -> bool:
    """Tests whether a type is one of texts."""
    return isinstance(type_, String | VarChar | FixedChar)


def is_moment(type_: object) -> bool:
    """Tests whether a type is one of dates or times."""
    return isinstance(type_, Date | Time | Timestamp | TimestampTz)


def is_nested(type_: object) -> bool:
    """True for a type with types in it. The process remembers nothing by such a type: it may have thousands of fields,
    and a look-up walks all of them.
    """
    return isinstance(type_, Struct | List | Map)


def types_inside(type_: Type) -> tuple[Type, ...]:
    """The types of the values inside a nested value; none for other types."""
    match type_:
        case Struct(fields=fields):
            return fields
        case List(element=element):
            return (element,)
        case Map(key=key, value=value):
            return key, value
        case _:
            return ()
