"""Relations that planning adds: halves of aggregates, exchanges, and relations that have an operator of their own."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa

from ...operators.user.user import UserStream
from ...proto.graph import Executor
from . import traits as table
from .expressions import Direction, Expression, Field, Measure
from .relations import ColumnOrder, JoinType, Node, Schema
from .traits import Parts

if TYPE_CHECKING:
    from . import Relation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartialAggregate(Node):
    """The first half of an `Aggregate` with one grouping set. Columns out: `keys`, then the state columns from which
    `FinalAggregate` makes the same `measures`, over the partial groups of all channels.
    """

    input: Relation
    keys: tuple[Expression, ...]
    measures: tuple[Measure, ...]
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",), expressions=("keys", "measures"))
    traits: ClassVar = table.PARTIAL


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _FinalGroups(Node):
    """The second half of an aggregate: groups its input by the first `keys` columns. The measures' expressions see the
    row that the partial half saw, not the row of this input, so they are not expressions of this relation.
    """

    input: Relation
    keys: int
    measures: tuple[Measure, ...]
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinalAggregate(_FinalGroups):
    """The second half of an aggregate, as a statement of DuckDB."""

    traits: ClassVar = table.FINAL


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _FinalSliding(Node):
    """The second half of a `SlidingAggregate`: its windows from the groups of a `PartialAggregate`, by slice and `keys`
    columns. The measures' expressions are no expressions of this relation, as in `FinalAggregate`.
    """

    input: Relation
    length: int
    step: int
    keys: int
    measures: tuple[Measure, ...]
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinalSlidingAggregate(_FinalSliding):
    """The second half of a `SlidingAggregate`, as a statement of DuckDB."""

    traits: ClassVar = table.FINAL_SLIDING


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlidingWindows(_FinalSliding):
    """The second half of a `SlidingAggregate` whose keys and states have numbers. Its operator puts windows together:
    each costs the same, however many slices it has.
    """

    traits: ClassVar = table.SLIDING_WINDOWS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DenseSlices(Node):
    """Groups by keys that are whole numbers, or texts or bytes behind the first one. `keys`, and what `measures` read,
    are columns of the input; the first key may be slices of a column of times (`time_slice`), whose nulls are in none.
    It is an `Aggregate` if groups are `whole`. If not, it is a `PartialAggregate` of which a group may come out in
    several rows.
    """

    input: Relation
    keys: tuple[Expression, ...]
    measures: tuple[Measure, ...]
    whole: bool
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",), expressions=("keys", "measures"))
    traits: ClassVar = table.DENSE_SLICES


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinalDenseSlices(_FinalGroups):
    """The second half of a `DenseSlices` in parts, whose `keys` first columns are whole numbers."""

    traits: ClassVar = table.FINAL_DENSE_SLICES


class Routing(enum.Enum):
    """The destination of a row in an exchange.

    A row goes to the channel that the hash of its keys gives, to every channel, to each channel in turn block by block,
    or to the only channel. Between nodes of a graph a row can also go to the channel of its producer's number, or to
    the channel that a function of the user gives. On Spark, sorted rows can be cut into ranges, one for each channel.
    """

    HASH = "hash"
    BROADCAST = "broadcast"
    ROUND_ROBIN = "round_robin"
    GATHER = "gather"
    FORWARD = "forward"
    FUNCTION = "function"
    RANGE = "range"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange(Node):
    """The input's rows, moved between channels. The input runs on `producers` channels.

    `keys` are the columns that HASH hashes. With an `order`, the input is sorted by it, and so is the output. `rows`
    estimates the number of rows in all, and `wide` the bytes of a row's long values.
    """

    input: Relation
    routing: Routing
    producers: int
    rows: int
    schema: Schema
    plan_path: str
    keys: tuple[int, ...] = ()
    order: tuple[ColumnOrder, ...] = ()
    wide: float = 0.0
    parts: ClassVar = Parts(inputs=("input",))
    traits: ClassVar = table.EXCHANGE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unnest(Node):
    """Each input row once for every item of its `lists`, which are zipped; with `outer` at least once.

    Columns out: `kept`, then the items of each list, then with `ordinality` the item's number (i64), from 1.
    """

    input: Relation
    kept: tuple[Field, ...]
    lists: tuple[Field, ...]
    ordinality: bool
    outer: bool
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",), columns=("kept", "lists"))
    traits: ClassVar = table.UNNEST


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackLists(Node):
    """Rows of `length` items, filled with the lists of the input's one column: first fit, within windows of
    `window_rows` input rows.

    Columns out: the items, with `padding` behind the last list; the number of each item's list in its row, from 1 (0:
    padding); the item's position in its list.
    """

    input: Relation
    length: int
    padding: int
    window_rows: int
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",))
    traits: ClassVar = table.PACK_LISTS


KEPT_KIND: Final = "arrow"
"""The kind of index that a task builds from a static source and keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexUse:
    """The use of an index for look-ups: the kind of index by its name, the options that open it, `prefetch` (look-ups
    that may be on their way while earlier ones are waited for), and `retries` (repeats of a failed look-up).
    """

    kind: str
    options: Mapping[str, str] = field(default_factory=dict)
    prefetch: int = 0
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexTable(Node):
    """A table that an index itself knows and that is no source of the plan. Only as the right side of an
    `IndexLookup`.
    """

    names: tuple[str, ...]
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts()
    traits: ClassVar = table.INDEX_TABLE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexLookup(Node):
    """The left side's rows, in order, each with the rows of `right` that have its keys; `type` is INNER or LEFT.

    An epoch does not read the right side. For the kind `KEPT_KIND` the task makes an index over the right side once and
    keeps the index; an index of another kind reads the source or knows the table itself. As in a join's condition,
    right columns follow left columns: `keys` pairs a field of the left side with a field of the right side.
    """

    left: Relation
    right: Relation
    keys: tuple[tuple[Field, Field], ...]
    type: JoinType
    index: IndexUse
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("left", "right"), columns=("keys",))
    traits: ClassVar = table.INDEX_LOOKUP


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeKey:
    """A column of each side, `left` and `right`. Both sides are sorted by it, and its values must be equal. With
    `nulls_match` a null equals another null. `direction` is never CLUSTERED.
    """

    left: int
    right: int
    direction: Direction
    nulls_match: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeJoin(Node):
    """A join of two inputs that are sorted by `keys`. `condition` is the rest of the join's condition, over left
    columns, then right ones. The rows come in order of the keys. `why` gives, for each side, the source of its order.
    """

    left: Relation
    right: Relation
    type: JoinType
    keys: tuple[MergeKey, ...]
    condition: Expression | None
    why: tuple[str, str]
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("left", "right"), expressions=("condition",))
    traits: ClassVar = table.MERGE_JOIN


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AsOfMergeJoin(Node):
    """An `AsOfJoin` of two inputs that are sorted by the columns of `keys`, then by those of `ticks`: pairs of columns,
    a left one and a right one, right columns counted after left ones. Among right rows of one tick the last one counts.
    """

    left: Relation
    right: Relation
    keys: tuple[tuple[Field, Field], ...]
    ticks: tuple[Field, Field]
    type: JoinType
    tolerance: int | None
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("left", "right"), columns=("keys", "ticks"))
    traits: ClassVar = table.AS_OF_MERGE_JOIN


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamingAggregate(Node):
    """An aggregate with one grouping set over an input in which the rows of a group stand together. If the input is
    sorted by keys, `order` says so, in columns of the input. `why` gives the source of that knowledge.
    """

    input: Relation
    keys: tuple[Field, ...]
    measures: tuple[Measure, ...]
    order: tuple[ColumnOrder, ...]
    why: str
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",), columns=("keys",), expressions=("measures",))
    traits: ClassVar = table.STREAMING


@dataclass(frozen=True, slots=True, kw_only=True)
class Dealing:
    """The routing of a stream's rows to channels: to the channel that the hash of columns `keys` gives, to all
    channels, or to any channel.
    """

    routing: Routing
    keys: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class User(Node):
    """An operator of the service's owner, over an input for each of its streams.

    `dealing` routes each stream's rows to channels; without a `dealing` there is one channel. `options` is JSON, and
    `declared` is the schema of the executors' batches, whose columns are those of `schema`. The factory of executors is
    no part of a plan's meaning: `name` and `version` stand for it.
    """

    inputs: tuple[Relation, ...]
    name: str
    version: str
    options: str
    streams: tuple[UserStream, ...]
    dealing: tuple[Dealing, ...] | None
    make: Callable[[], Executor] = field(compare=False)
    declared: pa.Schema
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("inputs",))
    traits: ClassVar = table.USER
