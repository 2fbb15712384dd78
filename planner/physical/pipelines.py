"""What the planner hands to the executor: operators as values, in trees, cut into pipelines, joined by exchanges.

They are made for a `Shape`: how each source is fed in an epoch, and its size class. The executor keeps the pipelines
it has made per shape, so the second epoch of a shape plans nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import pyarrow as pa

from ...operators.arrays.ordering import Order
from ...operators.core.column import Column
from ...operators.duckdb.fragment import Ordered
from ...operators.duckdb.loop_bounds import LoopBound
from ...operators.group_measures import Measure
from ...operators.index_lookup_join import LookupJoinType
from ...operators.indexes.kind import WantedIndex
from ...operators.kernels import Step
from ...operators.merge_join import JoinKey
from ...operators.merging.kinds import MergeJoinType
from ...operators.merging.pair_filter import PairCondition
from ...proto.graph import Choose
from ..changes.change_nodes import ChangeNode
from ..ir import Clock, Relation, Routing
from .user_nodes import BatchFunctionNode, IterateNode, UnionNode, UserNode, UserOperatorNode


class Feed(enum.Enum):
    """FILES: every piece is a Parquet file that DuckDB reads as the plan wants it. STREAM: `Scan` reads it."""

    FILES = "files"
    STREAM = "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceShape:
    """`size_class` is the power of ten (with several channels, of two) at or above the sealed rows, 0 for none.
    `clustered` are the columns whose values lie in ranges that hardly overlap from piece to piece, `rising` those of
    them whose ranges rise so.
    """

    feed: Feed
    size_class: int
    clustered: frozenset[str] = frozenset()
    rising: frozenset[str] = frozenset()


Shape: TypeAlias = Mapping[str, SourceShape]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScanNode:
    """Read a source's pieces, in order, as Arrow in the plan's types: those of this channel, or all if `whole`, or if
    `parted` those of the partition of the channel's number, or the rows in the channel's range of the ranges number
    `cut[1]` of column `cut[0]`. Where there is an `order`, a row that is out of it is an error.
    """

    source: str
    columns: tuple[Column, ...]
    schema: pa.Schema
    size_class: int
    place: str
    whole: bool = False
    parted: bool = False
    cut: tuple[str, int] | None = None
    order: tuple[Order, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileInput:
    """A source that a fragment reads itself; its SQL calls it `relation`, with columns c0, c1, ...

    It reads the pieces of this channel, or all of them if `whole`, or the rows whose values of column `cut[0]` are in
    the channel's range of the ranges number `cut[1]`. Where it is `weighed`, DuckDB should expect as many rows of it as
    it has.
    """

    source: str
    relation: str
    columns: tuple[Column, ...]
    place: str
    whole: bool = False
    cut: tuple[str, int] | None = None
    weighed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamInput:
    """An Arrow stream that a fragment reads; its SQL calls it `relation`, with columns c0, c1, ...

    `replayed` says that the statement may ask for it more than once, so that the fragment must be able to hand it
    out again (it is put in a MATERIALIZED common table expression).
    """

    node: PhysicalNode
    relation: str
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FragmentNode:
    """A relational subtree run by DuckDB as one statement.

    `sql` is one SELECT (never a WITH, so that inputs may be defined before it) over the inputs' relations.
    `context` lists the clock values it wants: where there are any, a one-row relation called `context` holds them as
    c0, c1, ... (TIMESTAMP as timestamp[us, UTC], DATE as date32, TIMEZONE as string) and is read once.
    `size_class` is the largest of its inputs', an estimate and no more. `row_wise`: each output row comes from one
    input row, in order, so that pieces may run one by one. `blocking`: the root consumes all input before its first
    row, so nothing is lost by executing at once. `lazy`: it takes rows one by one, in order, and what reads them may
    want few of them, or wants the first ones soon, so that it must not wait for a block. `ordered` has
    the statement to run instead where the hash joins of `sql` do not fit in memory. `loops` are those it recurses in;
    where its rows are those of the loop `result`, they come in any order and shall be put in canonical order. `kernels`
    say the same as `sql`, for few rows, of the one stream.
    """

    sql: str
    streams: tuple[StreamInput, ...]
    files: tuple[FileInput, ...]
    context: tuple[Clock, ...]
    schema: pa.Schema
    size_class: int
    row_wise: bool
    blocking: bool
    place: str
    relations: int
    ordered: Ordered | None = None
    lazy: bool = False
    loops: tuple[LoopBound, ...] = ()
    result: LoopBound | None = None
    kernels: tuple[Step, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptNode:
    """Read what `PhysicalPlan.kept` of this name computed once for the task."""

    name: str
    schema: pa.Schema
    size_class: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReceiveNode:
    """Read this channel's end of the exchange of this number. `rows` is an estimate of how many come."""

    exchange: int
    schema: pa.Schema
    size_class: int
    rows: int
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnnestNode:
    """A row for each item of the input's columns `lists`, beside its columns `keep`."""

    input: PhysicalNode
    keep: tuple[int, ...]
    lists: tuple[int, ...]
    ordinality: bool
    outer: bool
    schema: pa.Schema
    size_class: int
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenedIndex:
    """An index that each instance of a pipeline opens for itself."""

    kind: str
    wanted: WantedIndex
    prefetch: int
    retries: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LookupNode:
    """The input's rows, each with those that an index has for its columns `keys`. The index is the one of
    `PhysicalPlan.indexes` of this name, or one of the instance's own.
    """

    input: PhysicalNode
    keys: tuple[int, ...]
    index: str | OpenedIndex
    join: LookupJoinType
    schema: pa.Schema
    size_class: int
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeJoinNode:
    """Two inputs that are sorted by `keys`, joined as they stream by; `condition` is what pairs must meet besides."""

    left: PhysicalNode
    right: PhysicalNode
    keys: tuple[JoinKey, ...]
    type: MergeJoinType
    condition: PairCondition | None
    schema: pa.Schema
    size_class: int
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamingAggregateNode:
    """Groups of neighbouring rows of the input by its columns `keys`, which is sorted by `order`, if by any."""

    input: PhysicalNode
    keys: tuple[int, ...]
    measures: tuple[Measure, ...]
    order: tuple[Order, ...]
    schema: pa.Schema
    size_class: int
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelectNode:
    """The input's columns at the places `columns`."""

    input: PhysicalNode
    columns: tuple[int, ...]
    schema: pa.Schema
    size_class: int
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundsNode:
    """A loop that goes round by round: `root` are operators on changes that read the rows of `inputs` as the sources
    that `input_name` calls them, each with the columns c0, c1, ...
    """

    inputs: tuple[PhysicalNode, ...]
    root: ChangeNode
    schema: pa.Schema
    size_class: int
    place: str


OperatorNode: TypeAlias = (
    UnnestNode | LookupNode | MergeJoinNode | StreamingAggregateNode | SelectNode | RoundsNode | UserOperatorNode
)
"""What has an operator of its own, neither a scan nor a fragment."""

PhysicalNode: TypeAlias = ScanNode | FragmentNode | KeptNode | ReceiveNode | OperatorNode


def inputs(node: PhysicalNode) -> tuple[PhysicalNode, ...]:
    """The nodes whose rows it reads, in order."""
    match node:
        case ScanNode() | KeptNode() | ReceiveNode() | IterateNode():
            return ()
        case FragmentNode():
            return tuple(each.node for each in node.streams)
        case UnnestNode() | LookupNode() | StreamingAggregateNode() | SelectNode() | BatchFunctionNode():
            return (node.input,)
        case MergeJoinNode():
            return (node.left, node.right)
        case RoundsNode() | UserNode() | UnionNode():
            return node.inputs
        case _:
            assert_never(node)


def walk(root: PhysicalNode) -> Iterator[PhysicalNode]:
    """The node and all that it reads from, each once, in order, those above before those below."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            stack.extend(reversed(inputs(node)))


def read_from_sources(node: PhysicalNode) -> tuple[FileInput | ScanNode, ...]:
    """What the node itself reads from sources."""
    match node:
        case ScanNode():
            return (node,)
        case FragmentNode():
            return node.files
        case _:
            return ()


def received_by(root: PhysicalNode) -> tuple[int, ...]:
    """The numbers of the exchanges that a node and what it reads from receive, each once, in order."""
    return tuple(dict.fromkeys(node.exchange for node in walk(root) if isinstance(node, ReceiveNode)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kept:
    """A subtree fed by static sources alone: computed once, before the first epoch that needs it, and kept."""

    name: str
    root: PhysicalNode
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptIndex:
    """An index over what static sources alone feed: made once, before the first epoch that needs it, and kept.

    It finds `root`'s rows by their columns `keys`. It is one of `among` that the plan may ask for, and may take as much
    of the memory that is for indexes.
    """

    name: str
    root: PhysicalNode
    keys: tuple[int, ...]
    place: str
    among: int = 1


class Start(enum.Enum):
    """PIECE: row-wise over one source, runs piece by piece while splits are still being added. SEAL: waits."""

    PIECE = "piece"
    SEAL = "seal"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """Moves a pipeline's rows to the channels of another, which reads them with a `ReceiveNode` of this `number`.

    `keys` are the columns that HASH hashes, `choose` is the function of FUNCTION, for the node `place`. A consumer
    reads in (block, producer) order, or, where there is an `order`, merges the producers' rows by it, ties by producer.
    """

    number: int
    routing: Routing
    schema: pa.Schema
    consumers: int
    keys: tuple[int, ...] = ()
    order: tuple[Order, ...] = ()
    choose: Choose | None = None
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pipeline:
    """A chain of operators without an exchange inside, run by `channels` instances, each with its share of the pieces
    of `sources` (those it reads directly, each once). `weight` is its part of the task's memory among the others'.

    One that starts at PIECE reads one source. One with no source (a virtual table, kept rows) starts at SEAL and runs
    once per epoch. Its rows go into all of the exchanges `into`; where there are none, they are the result's.
    """

    root: PhysicalNode
    sources: tuple[str, ...]
    start: Start
    channels: int = 1
    weight: int = 1
    into: tuple[Exchange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Why a plan has fewer channels than the `channels` asked for: one of their instances would have `instance_memory`
    bytes and needs `least`, which all have from a memory limit of `memory_limit` bytes on.
    """

    channels: int
    instance_memory: int
    least: int
    memory_limit: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalPlan:
    """A pipeline stands after those whose exchanges it reads. The result is the rows of those that feed no exchange,
    pipeline after pipeline and in each channel after channel (the gather at the root). An index stands after those that
    its rows are looked up in; what is kept may use them all. `saved`, where it was to decide, is what several channels
    are estimated to save over one, in nanoseconds, whether they are used or not. `shortage`, where it was to decide, is
    why there are fewer channels than were asked for. `computes` are the relations that the pipelines compute, down to
    their exchanges, which read the relations `shared`: to explain them, for they are run without.
    """

    pipelines: tuple[Pipeline, ...]
    kept: tuple[Kept, ...]
    indexes: tuple[KeptIndex, ...] = ()
    saved: float | None = None
    shortage: Shortage | None = None
    computes: tuple[Relation, ...] = ()
    shared: tuple[Relation, ...] = ()

    @property
    def parallel(self) -> bool:
        """Whether its pipelines run side by side, each of their channels on an instance of its own."""
        return any(each.channels > 1 or each.into for each in self.pipelines)
