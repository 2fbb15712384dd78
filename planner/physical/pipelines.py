"""Operators as values, in trees, cut into pipelines, joined by exchanges: the planner's output for the executor.

Pipelines are made for a `Shape`: the feed of each source in an epoch, and the source's size class. The executor keeps
the pipelines that it has made per shape, so the second epoch of a shape plans nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

import pyarrow as pa

from ...operators.arrays.ordering import Order
from ...operators.core.column import Column, KeyCut, Slices
from ...operators.duckdb.long_values import LongColumn
from ...operators.duckdb.loop_resources import LoopBound
from ...operators.duckdb.statement import Ordered
from ...operators.index_lookup_join import LookupJoinType
from ...operators.indexes.kind import WantedIndex
from ...operators.kernels import Step
from ...proto.graph import Choose
from ..changes.change_nodes import ChangeNode
from ..ir import Clock, Relation, Routing
from ..ir.walk import each_once
from .merge_nodes import AsOfMergeJoinNode, MergeJoinNode, StreamingAggregateNode
from .slice_nodes import DenseSlicesNode, DenseWindowsNode, SliceNode, SlidingWindowsNode
from .user_nodes import BatchFunctionNode, IterateNode, UnionNode, UserNode, UserOperatorNode


class Feed(enum.Enum):
    """The way in which a source is fed. FILES: every piece is a Parquet file that DuckDB reads as the plan wants it.
    STREAM: `Scan` reads the pieces.
    """

    FILES = "files"
    STREAM = "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceShape:
    """The shape of a source. `size_class` is the power of ten (with several channels, of two) at or above the number of
    sealed rows, 0 for none; `byte_class` is that of their bytes, 0 with one channel. `clustered` are the columns whose
    values lie in ranges that hardly overlap between pieces; `rising` are those of them whose ranges also rise from
    piece to piece. `sliced` are the columns whose ranges lie so that the source can be cut into even parts between
    these slices. `narrow`: any 2,048 rows are few bytes.
    """

    feed: Feed
    size_class: int
    clustered: frozenset[str] = frozenset()
    rising: frozenset[str] = frozenset()
    sliced: frozenset[tuple[str, Slices]] = frozenset()
    narrow: bool = False
    byte_class: int = 0


NOTHING: Final = SourceShape(feed=Feed.STREAM, size_class=0)
"""The shape of a source without rows."""

Shape: TypeAlias = Mapping[str, SourceShape]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScanNode:
    """Reads a source's pieces, in order, as Arrow in the plan's types.

    It reads this channel's pieces, or all pieces if `whole`, or if `parted` those of the partition of the channel's
    number, or the rows in the channel's range of a `cut`. With an `order`, a row that is out of order is an error.
    """

    source: str
    columns: tuple[Column, ...]
    schema: pa.Schema
    size_class: int
    plan_path: str
    whole: bool = False
    parted: bool = False
    cut: KeyCut | None = None
    order: tuple[Order, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileInput:
    """A source that a fragment reads itself; its SQL calls it `relation`, with columns c0, c1, ...

    It reads the pieces of this channel, or all pieces if `whole`, or the rows in the channel's range of a `cut`. If the
    source has `full_cardinality`, DuckDB should expect all rows of it.
    """

    source: str
    relation: str
    columns: tuple[Column, ...]
    plan_path: str
    whole: bool = False
    cut: KeyCut | None = None
    full_cardinality: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamInput:
    """An Arrow stream that a fragment reads; its SQL calls it `relation`, with columns c0, c1, ...

    `replayed` says that the statement may ask for the stream more than once, so that the fragment must be able to hand
    it out again (the stream is put in a MATERIALIZED common table expression). `long` are the columns, by position,
    whose long values the SQL does not look at. `unnamed` says that the SQL calls the fields of structs f1, f2, ...
    `growth` is the number of bytes that the SQL may make of each byte, uncounted, so that it should get few at once; 0
    where such bytes are counted.
    """

    node: PhysicalNode
    relation: str
    replayed: bool
    unnamed: bool = False
    long: Mapping[int, LongColumn] = field(default_factory=dict)
    growth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FragmentNode:
    """A relational subtree run by DuckDB as one statement.

    | Field | Meaning |
    |---|---|
    | `sql` | One SELECT over the inputs' relations (never a WITH, so that inputs may be defined before it). |
    | `context` | The clock values of `sql`: a relation `context` of one row, read once, has them as c0, c1, ... |
    | `size_class` | The largest of the inputs', an estimate and no more. |
    | `row_wise` | Each output row comes from one input row, in order, so that pieces may run one by one. |
    | `lazy` | It takes rows one by one, in order; its reader may want few, or the first soon: no waiting for a block. |
    | `collects` | An aggregate collects values in texts or lists, whose copies DuckDB does not count. |
    | `ordered` | The statement to run instead if the hash joins of `sql` do not fit in memory. |
    | `loops` | The loops in which `sql` recurses. |
    | `result` | The loop whose rows are the fragment's rows, in any order: to be put in canonical order afterwards. |
    | `long` | The columns of the result in which long values of the streams come out. |
    | `kernels` | The same computation as `sql`, for few rows, over the one stream. |

    In `context`, TIMESTAMP is timestamp[us, UTC], DATE is date32 and TIMEZONE is a string.
    """

    sql: str
    streams: tuple[StreamInput, ...]
    files: tuple[FileInput, ...]
    context: tuple[Clock, ...]
    schema: pa.Schema
    size_class: int
    row_wise: bool
    plan_path: str
    relations: int
    collects: bool = False
    ordered: Ordered | None = None
    lazy: bool = False
    loops: tuple[LoopBound, ...] = ()
    result: LoopBound | None = None
    long: tuple[int, ...] = ()
    kernels: tuple[Step, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptNode:
    """Reads the rows that `PhysicalPlan.kept` of this name computed once for the task."""

    name: str
    schema: pa.Schema
    size_class: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReceiveNode:
    """Reads this channel's end of the exchange of this number. `rows` estimates the number of rows that come."""

    exchange: int
    schema: pa.Schema
    size_class: int
    rows: int
    plan_path: str


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
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackNode:
    """Rows of `length` items, filled with the lists of the input's one column, within windows of input rows."""

    input: PhysicalNode
    length: int
    padding: int
    window_rows: int
    schema: pa.Schema
    size_class: int
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenedIndex:
    """An index that each instance of a pipeline opens for itself."""

    kind: str
    wanted: WantedIndex
    prefetch: int
    retries: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LookupNode:
    """The input's rows, each with the rows that an index has for its columns `keys`. The index is the one of this name
    in `PhysicalPlan.indexes`, or one that the instance opens itself.
    """

    input: PhysicalNode
    keys: tuple[int, ...]
    index: str | OpenedIndex
    join: LookupJoinType
    schema: pa.Schema
    size_class: int
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelectNode:
    """The input's columns at the positions `columns`."""

    input: PhysicalNode
    columns: tuple[int, ...]
    schema: pa.Schema
    size_class: int
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundsNode:
    """A loop that runs round by round: `root` are operators on changes. They read the rows of `inputs` as the sources
    that `input_name` names, each with the columns c0, c1, ...
    """

    inputs: tuple[PhysicalNode, ...]
    root: ChangeNode
    schema: pa.Schema
    size_class: int
    plan_path: str


OperatorNode: TypeAlias = (
    UnnestNode
    | PackNode
    | LookupNode
    | MergeJoinNode
    | AsOfMergeJoinNode
    | StreamingAggregateNode
    | SliceNode
    | SelectNode
    | RoundsNode
    | UserOperatorNode
)
"""Nodes that have an operator of their own, neither a scan nor a fragment."""

PhysicalNode: TypeAlias = ScanNode | FragmentNode | KeptNode | ReceiveNode | OperatorNode


def inputs(node: PhysicalNode) -> tuple[PhysicalNode, ...]:
    """The nodes whose rows a node reads, in order."""
    match node:
        case ScanNode() | KeptNode() | ReceiveNode() | IterateNode():
            return ()
        case FragmentNode():
            return tuple(stream.node for stream in node.streams)
        case UnnestNode() | LookupNode() | PackNode() | StreamingAggregateNode() | SelectNode() | BatchFunctionNode():
            return (node.input,)
        case SlidingWindowsNode() | DenseSlicesNode() | DenseWindowsNode():
            return (node.input,)
        case MergeJoinNode() | AsOfMergeJoinNode():
            return (node.left, node.right)
        case RoundsNode() | UserNode() | UnionNode():
            return node.inputs
        case _:
            assert_never(node)


def walk(root: PhysicalNode) -> Iterator[PhysicalNode]:
    """The node and all nodes that it reads from, each once, in order, a node before those below it."""
    return each_once(root, inputs)


def read_from_sources(node: PhysicalNode) -> tuple[FileInput | ScanNode, ...]:
    """The node's own reads of sources."""
    match node:
        case ScanNode():
            return (node,)
        case FragmentNode():
            return node.files
        case _:
            return ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kept:
    """A subtree fed by static sources alone: computed once, before the first epoch that needs it, and kept."""

    name: str
    root: PhysicalNode
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptIndex:
    """An index over rows that static sources alone feed: made once, before the first epoch that needs it, and kept.

    The index finds `root`'s rows by their columns `keys`. It is one of `among` indexes that the plan may ask for, and
    may take its part of the memory for indexes.
    """

    name: str
    root: PhysicalNode
    keys: tuple[int, ...]
    plan_path: str
    among: int = 1


class Start(enum.Enum):
    """The time when a pipeline starts. PIECE: row-wise over one source, it runs piece by piece while splits are still
    being added. SEAL: it waits for the seal.
    """

    PIECE = "piece"
    SEAL = "seal"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """Moves a pipeline's rows to the channels of another pipeline, which reads them with a `ReceiveNode` of this
    `number`.

    `keys` are the columns that HASH hashes; `choose` is the function of FUNCTION, for the node `plan_path`. A consumer
    reads in (block, producer) order, or, with an `order`, merges the producers' rows by it, ties by producer.
    """

    number: int
    routing: Routing
    schema: pa.Schema
    consumers: int
    keys: tuple[int, ...] = ()
    order: tuple[Order, ...] = ()
    choose: Choose | None = None
    plan_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pipeline:
    """A chain of operators without an exchange inside, run by `channels` instances, each with its share of the pieces
    of `sources` (the sources that the pipeline reads directly, each once). `weight` is its part of the task's memory.

    A pipeline that starts at PIECE reads one source. A pipeline with no source (a virtual table, kept rows) starts at
    SEAL and runs once per epoch. Its rows go into all of the exchanges `into`; without any, they are the result's rows.
    """

    root: PhysicalNode
    sources: tuple[str, ...]
    start: Start
    channels: int = 1
    weight: int = 1
    into: tuple[Exchange, ...] = ()
    nodes: tuple[PhysicalNode, ...] = field(init=False)
    """The root and all nodes that it reads from, each once, in order, a node before those below it."""
    received: tuple[int, ...] = field(init=False)
    """The exchanges, by number, that the pipeline receives from, each once, in order."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", tuple(walk(self.root)))
        numbers = dict.fromkeys(node.exchange for node in self.nodes if isinstance(node, ReceiveNode))
        object.__setattr__(self, "received", tuple(numbers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """The reason why a plan has fewer channels than the requested `channels`: an instance would have `instance_memory`
    bytes and needs `least`. From a memory limit of `memory_limit` bytes on, all instances have enough.
    """

    channels: int
    instance_memory: int
    least: int
    memory_limit: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalPlan:
    """The pipelines of an epoch. A pipeline stands after those whose exchanges it reads.

    The result is the rows of the pipelines that feed no exchange, pipeline after pipeline and in each channel after
    channel (the gather at the root). An index stands after the indexes in which its rows are looked up; `kept` results
    may use them all.

    `saved` estimates the nanoseconds that several channels save over one, whether or not they are used; None if there
    was nothing to decide. `shortage` is the reason for fewer channels than requested; None if memory did not decide.
    `computes` are the relations that the pipelines compute, down to their exchanges, and `shared` the relations that
    these read: both serve explanations alone.
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
        """Tests whether the pipelines run side by side, each channel of each pipeline on an instance of its own."""
        return any(pipeline.channels > 1 or pipeline.into for pipeline in self.pipelines)
