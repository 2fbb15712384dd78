"""Plans as values: relations and expressions, immutable, typed, each with its place in the plan it came from.

What differs from Substrait's own shapes, so that later passes have fewer cases:

- `Project` *replaces* its input (a SELECT list). Substrait's append-then-emit, and the emit of every other
  relation, become one `Project` each; there is no emit here.
- `Join` covers the logical join and the physical hash, merge and nested-loop joins; `Cross` stays apart.
- Field references are flat positions into the input row, plus steps into nested values. In a join's condition the
  right side's columns follow the left side's. `outer=n` reads the row of the n-th enclosing subquery's operator.
- `schema` is the tuple of column types; names exist only in `Read` and `Plan`.

Nodes are compared and hashed by identity: plans can be thousands of levels deep, and a structural hash would
recurse. Walk them with `planner.walk`, never with plain recursion.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ..operators.writing.modes import WriteMode
from .types import Boolean, Type

Schema: TypeAlias = tuple[Type, ...]


# ---------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Literal:
    """`value` is a plain Python value, None for null.

    bool, int, float, str, bytes, decimal.Decimal; dates as days since 1970, times and timestamps as integers in
    units of the type's precision (UTC); intervals as (months, days, subseconds); uuid as 16 bytes; structs and
    lists as tuples of such values, maps as tuples of pairs.
    """

    value: object
    type: Type


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Field:
    """Column `index` of the input row; `steps` go on into it: an int is a struct field, others see their class."""

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
    """Steps into a value that is not a column of the row (the result of a function, say)."""

    operand: Expression
    steps: tuple[int | ListElement | MapKey, ...]
    type: Type


class FunctionKind(enum.Enum):
    SCALAR = "scalar"
    AGGREGATE = "aggregate"
    WINDOW = "window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A bound function: the official extension's URN, its name there, and the implementation's signature.

    `signature` is the compound name (`add:i64_i64`). Nothing of the producer's spelling is left.
    """

    urn: str
    name: str
    signature: str
    kind: FunctionKind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """A scalar function. `arguments` holds expressions, and a plain string for an enum argument (`YEAR`)."""

    function: Function
    arguments: tuple[Expression | str, ...]
    type: Type
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    place: str = ""


class CastFailure(enum.Enum):
    ERROR = "error"
    NULL = "null"


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
    """`value IN (options)`: singular and multi or-lists (a singular one has rows of length one)."""

    value: tuple[Expression, ...]
    options: tuple[tuple[Expression, ...], ...]
    type: Boolean


class Construct(enum.Enum):
    STRUCT = "struct"
    LIST = "list"
    MAP = "map"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nested:
    """Builds a struct, a list, or a map (keys and values alternate)."""

    construct: Construct
    items: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lambda:
    """A function literal, only as an argument of a list function. Its parameters are read by `Parameter`."""

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
    """`needles` belong to IN (any number), ANY and ALL (one), `comparison` to ANY and ALL."""

    kind: SubqueryKind
    relation: Relation
    type: Type
    needles: tuple[Expression, ...] = ()
    comparison: Comparison | None = None
    place: str = ""


class Clock(enum.Enum):
    """The execution context's variables: the clock is read once per epoch and handed on as a value."""

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
    """An aggregate function's use in an `Aggregate`."""

    function: Function
    arguments: tuple[Expression | str, ...]
    type: Type
    distinct: bool = False
    sorts: tuple[SortKey, ...] = ()
    condition: Expression | None = None
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    place: str = ""


class BoundsKind(enum.Enum):
    ROWS = "ROWS"
    RANGE = "RANGE"
    GROUPS = "GROUPS"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bound:
    """`offset` rows (or values) from the current row, negative before it; None is unbounded on this side."""

    offset: int | Expression | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowCall:
    """A window function over its partition. Only in `Window` relations: the decoder lifts it out of projections."""

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
    place: str = ""


# ------------------------------------------------------------------------------------------------ relations


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOrder:
    """Sorted by a column; `direction` is never CLUSTERED."""

    column: int
    direction: Direction


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Read:
    """A leaf read of one source: all reads of one name are one source. `names` and `schema` are of the columns
    this read uses, in order; `source` is the name as the plan writes it, parts joined by dots. The source's rows are
    declared to be sorted by `order`, where there is one: reading them in another order fails.

    Where a plan is spread over channels, a read has its channel's share of the rows, or all of them if `whole`, or
    those whose values of column `cut[0]` are in the channel's range: all reads of one plan whose cuts have the same
    number `cut[1]` have the same ranges.
    """

    source: str
    names: tuple[str, ...]
    schema: Schema
    place: str
    whole: bool = False
    cut: tuple[str, int] | None = None
    order: tuple[ColumnOrder, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileItem:
    """A file, folder or glob the plan itself names in `local_files`."""

    path: str
    format: str
    start: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalFiles:
    """A static source: files that the plan names, called by its place. `whole`, `cut` and `order` as in `Read`."""

    source: str
    names: tuple[str, ...]
    items: tuple[FileItem, ...]
    schema: Schema
    place: str
    whole: bool = False
    cut: tuple[str, int] | None = None
    order: tuple[ColumnOrder, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Values:
    """A virtual table."""

    rows: tuple[tuple[Expression, ...], ...]
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Filter:
    input: Relation
    condition: Expression
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Project:
    """The output columns are `expressions` and nothing else."""

    input: Relation
    expressions: tuple[Expression, ...]
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fetch:
    """`count=None` is no limit."""

    input: Relation
    offset: Expression | None
    count: Expression | None
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sort:
    input: Relation
    keys: tuple[SortKey, ...]
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopN:
    """Sort and fetch in one; with `ties`, rows equal to the last one by the keys come too."""

    input: Relation
    keys: tuple[SortKey, ...]
    offset: Expression | None
    count: Expression | None
    ties: bool
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Aggregate:
    """Columns out: `keys`, then `measures`, then, with several grouping sets, the set's number (i32).

    `grouping_sets` holds positions into `keys`; one empty set is a global aggregate.
    """

    input: Relation
    keys: tuple[Expression, ...]
    grouping_sets: tuple[tuple[int, ...], ...]
    measures: tuple[Measure, ...]
    schema: Schema
    place: str


class JoinType(enum.Enum):
    INNER = "inner"
    OUTER = "outer"
    LEFT = "left"
    RIGHT = "right"
    LEFT_SEMI = "left_semi"
    RIGHT_SEMI = "right_semi"
    LEFT_ANTI = "left_anti"
    RIGHT_ANTI = "right_anti"
    LEFT_SINGLE = "left_single"
    RIGHT_SINGLE = "right_single"
    LEFT_MARK = "left_mark"
    RIGHT_MARK = "right_mark"


class JoinAlgorithm(enum.Enum):
    ANY = "any"
    HASH = "hash"
    MERGE = "merge"
    NESTED_LOOP = "nested_loop"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Join:
    """`condition` sees left columns, then right columns, whatever the type. A post-join filter is a `Filter` above."""

    left: Relation
    right: Relation
    type: JoinType
    condition: Expression | None
    schema: Schema
    place: str
    algorithm: JoinAlgorithm = JoinAlgorithm.ANY


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LateralJoin:
    """The right side is evaluated for each left row, which it reads as `outer` fields."""

    left: Relation
    right: Relation
    type: JoinType
    condition: Expression | None
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cross:
    left: Relation
    right: Relation
    schema: Schema
    place: str


class SetOperation(enum.Enum):
    MINUS_PRIMARY = "minus_primary"
    MINUS_PRIMARY_ALL = "minus_primary_all"
    MINUS_MULTISET = "minus_multiset"
    INTERSECTION_PRIMARY = "intersection_primary"
    INTERSECTION_MULTISET = "intersection_multiset"
    INTERSECTION_MULTISET_ALL = "intersection_multiset_all"
    UNION_DISTINCT = "union_distinct"
    UNION_ALL = "union_all"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Set:
    inputs: tuple[Relation, ...]
    operation: SetOperation
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window:
    """Columns out: the input's, then one per call."""

    input: Relation
    calls: tuple[WindowCall, ...]
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expand:
    """Each input row gives one row per alternative. Columns out: one per field, then the alternative's number."""

    input: Relation
    alternatives: tuple[tuple[Expression, ...], ...]
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shared:
    """A use of `Plan.shared[ordinal]`, a common subtree computed once."""

    ordinal: int
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartialAggregate:
    """The first half of an `Aggregate` with one grouping set. Columns out: `keys`, then the state columns that
    `FinalAggregate` makes the same `measures` from, over the partial groups of all channels.
    """

    input: Relation
    keys: tuple[Expression, ...]
    measures: tuple[Measure, ...]
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinalAggregate:
    """The second half: groups its input by the first `keys` columns. Its measures' expressions see the row that the
    partial half saw, not this one's input, so they are no expressions of this relation.
    """

    input: Relation
    keys: int
    measures: tuple[Measure, ...]
    schema: Schema
    place: str


class Routing(enum.Enum):
    """Where an exchange sends a row: to the channel that the hash of its keys says, to every channel, to each channel
    in turn block by block, or to the only one there is.
    """

    HASH = "hash"
    BROADCAST = "broadcast"
    ROUND_ROBIN = "round_robin"
    GATHER = "gather"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """Its input's rows, moved between channels: the input runs on `producers` channels. `keys` are the columns that
    HASH hashes. Where there is an `order`, the input is sorted by it and stays so. `rows` is an estimate of how many
    there are in all.
    """

    input: Relation
    routing: Routing
    producers: int
    rows: int
    schema: Schema
    place: str
    keys: tuple[int, ...] = ()
    order: tuple[ColumnOrder, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unnest:
    """Each input row once for every item of its `lists`, which are zipped; with `outer` at least once.

    Columns out: `kept`, then the items of each list, then with `ordinality` the item's number (i64), from 1.
    """

    input: Relation
    kept: tuple[Field, ...]
    lists: tuple[Field, ...]
    ordinality: bool
    outer: bool
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexUse:
    """How rows are looked up: a kind of index by its name, the options it needs to be opened, how many look-ups may be
    on their way while earlier ones are waited for, and how often a failed one is made again.
    """

    kind: str
    options: Mapping[str, str] = field(default_factory=dict)
    prefetch: int = 0
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexTable:
    """A table that an index knows by itself and that is no source of the plan. Only as the right side of an
    `IndexLookup`.
    """

    names: tuple[str, ...]
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexLookup:
    """The left side's rows, in order, each with the rows of `right` that have its keys; `type` is INNER or LEFT.

    The right side is not read with every epoch: an index over it is made once for the task and kept. As in a join's
    condition, right columns follow left ones: `keys` pairs a field of the left side with one of the right.
    """

    left: Relation
    right: Relation
    keys: tuple[tuple[Field, Field], ...]
    type: JoinType
    index: IndexUse
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeKey:
    """A column of each side, `left` and `right`, by which both are sorted and which must be equal. With
    `nulls_match` a null equals another one. `direction` is never CLUSTERED.
    """

    left: int
    right: int
    direction: Direction
    nulls_match: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeJoin:
    """A join of two inputs that are sorted by `keys`; `condition` is what it asks besides, over left columns, then
    right ones. Its rows are in order of the keys. `why` says, of each side, from where its order is known.
    """

    left: Relation
    right: Relation
    type: JoinType
    keys: tuple[MergeKey, ...]
    condition: Expression | None
    why: tuple[str, str]
    schema: Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamingAggregate:
    """An aggregate with one grouping set over rows of which those of a group stand together. Where the input is sorted
    by keys, `order` says so, in columns of the input. `why` says from where that is known.
    """

    input: Relation
    keys: tuple[Field, ...]
    measures: tuple[Measure, ...]
    order: tuple[ColumnOrder, ...]
    why: str
    schema: Schema
    place: str


Operated: TypeAlias = Unnest | IndexLookup | MergeJoin | StreamingAggregate
"""Relations that have an operator of their own: what stands above and below them are fragments."""

Relation: TypeAlias = (
    Read
    | LocalFiles
    | Values
    | Filter
    | Project
    | Fetch
    | Sort
    | TopN
    | Aggregate
    | Join
    | LateralJoin
    | Cross
    | Set
    | Window
    | Expand
    | Shared
    | PartialAggregate
    | FinalAggregate
    | Exchange
    | IndexTable
    | Operated
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A table into which a plan's rows go. The result has its `columns` under these `names`, and its rows if they are
    `returned`.
    """

    table: tuple[str, ...]
    table_names: tuple[str, ...]
    mode: WriteMode
    columns: tuple[int, ...]
    returned: bool
    place: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """A decoded plan: `root`'s columns are called `names` (nested names flattened depth first, as in Substrait).

    A relation in `shared` refers only to those before it. Where the rows are written, `names` are the table's.
    """

    root: Relation
    names: tuple[str, ...]
    shared: tuple[Relation, ...] = ()
    producer: str = ""
    write: Write | None = None
