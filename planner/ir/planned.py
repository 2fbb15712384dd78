"""Relations that planning puts in: halves of aggregates, exchanges, and those that have an operator of their own."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...operators.user.user import UserStream
from ...proto.graph import Executor
from .expressions import Direction, Expression, Field, Measure
from .relations import ColumnOrder, JoinType, Schema

if TYPE_CHECKING:
    from .relation import Relation


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
    in turn block by block, or to the only one there is; between nodes of a graph also to the channel of its producer's
    number, or to the one that a function of the user's says.
    """

    HASH = "hash"
    BROADCAST = "broadcast"
    ROUND_ROBIN = "round_robin"
    GATHER = "gather"
    FORWARD = "forward"
    FUNCTION = "function"


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


KEPT_KIND: Final = "arrow"
"""The kind of index that a task builds from a static source and keeps."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Dealing:
    """Which channels get which rows of a stream: those that the hash of columns `keys` says; all of them; or any."""

    routing: Routing
    keys: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class User:
    """An operator of the service's owner, over an input for each of its streams.

    `dealing` says of each stream which channels get its rows; without one there is one channel. `options` is JSON, and
    `declared` the schema that the executors' batches have, whose columns are those of `schema`. What makes executors is
    no part of what a plan means: `name` and `version` stand for it.
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
    place: str
