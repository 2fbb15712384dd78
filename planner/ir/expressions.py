"""Expressions, and the parts of aggregates, windows and sorts."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from .types import Boolean, Type

if TYPE_CHECKING:
    from . import Relation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Literal:
    """A constant. `value` is a plain Python value, None for null.

    bool, int, float, str, bytes, decimal.Decimal; dates as days since 1970, times and timestamps as integers in units
    of the type's precision (UTC); intervals as (months, days, subseconds); uuid as 16 bytes; structs and lists as
    tuples of such values, maps as tuples of pairs.
    """

    value: object
    type: Type


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Field:
    """Column `index` of the input row. `steps` lead into the column's value: an int is a struct field; the other steps
    are described at their classes.
    """

    index: int
    type: Type
    steps: tuple[int | ListElement | MapKey, ...] = ()
    outer: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ListElement:
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapKey:
    key: Literal


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NestedField:
    """Steps into a value that is not a column of the row, such as the result of a function."""

    operand: Expression
    steps: tuple[int | ListElement | MapKey, ...]
    type: Type


class FunctionKind(enum.Enum):
    SCALAR = "scalar"
    AGGREGATE = "aggregate"
    WINDOW = "window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A bound function: the official extension's URN, the function's name there, and the implementation's signature.

    `signature` is the compound name (`add:i64_i64`). The producer's spelling is gone.
    """

    urn: str
    name: str
    signature: str
    kind: FunctionKind = field(hash=False)  # the rest tells functions apart, and an enum's hash is slow


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """A call of a scalar function. `arguments` holds expressions, and a plain string for an enum argument (`YEAR`)."""

    function: Function
    arguments: tuple[Expression | str, ...]
    type: Type
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plan_path: str = ""


class CastFailure(enum.Enum):
    """The outcome of a cast of a value that the type does not have. `CLAMPED` is of operands that are compared: a
    decimal with too many digits in front of the point is the type's greatest or least value, which no operand may be
    itself.
    """

    ERROR = "error"
    NULL = "null"
    CLAMPED = "clamped"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cast:
    operand: Expression
    type: Type
    on_failure: CastFailure = CastFailure.ERROR


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IfThen:
    clauses: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None
    type: Type


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Switch:
    match: Expression
    clauses: tuple[tuple[Literal, Expression], ...]
    otherwise: Expression | None
    type: Type


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OneOf:
    """`value IN (options)`: singular and multi or-lists (a singular list has rows of length one)."""

    value: tuple[Expression, ...]
    options: tuple[tuple[Expression, ...], ...]
    type: Boolean


class Construct(enum.Enum):
    STRUCT = "struct"
    LIST = "list"
    MAP = "map"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nested:
    """A struct, a list, or a map that an expression builds (in a map, keys and values alternate)."""

    construct: Construct
    items: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lambda:
    """A function literal, allowed only as an argument of a list function. `Parameter` reads its parameters."""

    parameters: tuple[Type, ...]
    body: Expression
    type: Type


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parameter:
    """A lambda's parameter: `index` among those of the lambda `outer` levels up (0: the innermost)."""

    index: int
    type: Type
    outer: int = 0


class SubqueryKind(enum.Enum):
    SCALAR = "scalar"
    EXISTS = "exists"
    UNIQUE = "unique"
    IN = "in"
    ANY = "any"
    ALL = "all"


class Comparison(enum.Enum):
    EQ = "="
    NE = "<>"
    LT = "<"
    GT = ">"
    LE = "<="
    GE = ">="


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subquery:
    """A subquery. IN has any number of `needles`, ANY and ALL have one; `comparison` belongs to ANY and ALL."""

    kind: SubqueryKind
    relation: Relation
    type: Type
    needles: tuple[Expression, ...] = ()
    comparison: Comparison | None = None
    plan_path: str = ""


class Clock(enum.Enum):
    """The variables of the execution context. The clock is read once per epoch and handed on as a value."""

    TIMESTAMP = "current_timestamp"
    DATE = "current_date"
    TIMEZONE = "current_timezone"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContextVariable:
    variable: Clock
    type: Type


Expression: TypeAlias = (
    Literal
    | Field
    | NestedField
    | Call
    | Cast
    | IfThen
    | Switch
    | OneOf
    | Nested
    | Lambda
    | Parameter
    | Subquery
    | ContextVariable
)


class Direction(enum.Enum):
    ASC_NULLS_FIRST = "ASC NULLS FIRST"
    ASC_NULLS_LAST = "ASC NULLS LAST"
    DESC_NULLS_FIRST = "DESC NULLS FIRST"
    DESC_NULLS_LAST = "DESC NULLS LAST"
    CLUSTERED = "clustered"

    @property
    def descending(self) -> bool:
        return self in (Direction.DESC_NULLS_FIRST, Direction.DESC_NULLS_LAST)

    @property
    def nulls_first(self) -> bool:
        return self in (Direction.ASC_NULLS_FIRST, Direction.DESC_NULLS_FIRST)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SortKey:
    expression: Expression
    direction: Direction


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measure:
    """The use of an aggregate function in an `Aggregate`."""

    function: Function
    arguments: tuple[Expression | str, ...]
    type: Type
    distinct: bool = False
    sorts: tuple[SortKey, ...] = ()
    condition: Expression | None = None
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plan_path: str = ""


class BoundsKind(enum.Enum):
    ROWS = "ROWS"
    RANGE = "RANGE"
    GROUPS = "GROUPS"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bound:
    """A window frame's bound: `offset` rows (or values) from the current row, negative before it. None is unbounded."""

    offset: int | Expression | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowCall:
    """A window function over its partition. Only in `Window` relations: the decoder lifts window calls out of
    projections.
    """

    function: Function
    arguments: tuple[Expression | str, ...]
    type: Type
    partitions: tuple[Expression, ...] = ()
    sorts: tuple[SortKey, ...] = ()
    lower: Bound = Bound(offset=None)
    upper: Bound = Bound(offset=None)
    bounds: BoundsKind = BoundsKind.ROWS
    distinct: bool = False
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plan_path: str = ""
