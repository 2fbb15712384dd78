"""A graph of a user's own operators, as a value: what the builder makes, and the planner checks and lowers.

Nodes name each other, so a graph may be wrong (a circle, a name that is not there); who prepares it finds out. It holds
functions and classes of the user's, which never leave the process.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa

from .dataset import Dataset, Keyed
from .values import Explanation, FileSplit, TaskInfo, TaskOptions

STRIDE: Final = 65_536
"""Rows of the batches that user code sees, unless an input says otherwise."""

ONLY_STREAM: Final = "rows"
"""What a node's stream is called where there is one and nobody named it."""

Rows: TypeAlias = Any
"""What an executor may give: nothing, Arrow data (a batch, a table, whatever speaks the Arrow C stream protocol), or an
iterable of such data.
"""


class Executor(Protocol):
    """A user's own operator. Made anew for each channel and epoch, so what it keeps is gone at the barrier.

    It may have a method `finished(stream, channel)` besides, which is asked before each read of a stream: once it says
    True, the stream is closed and what feeds it stops reading.
    """

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Rows:
        """Some rows of a stream."""
        ...

    def done(self, channel: int) -> Rows:
        """All streams have ended, or were wanted no more."""
        ...


BatchFunction: TypeAlias = Callable[[pa.RecordBatch], Any]
Choose: TypeAlias = Callable[[pa.RecordBatch, int], Any]
"""The number of a channel for each row of a batch, given how many channels there are."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Any channel will do: rows stay on the channel that made them, or go to one after the other block by block."""

    def __str__(self) -> str:
        return "spread"


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Every channel gets all rows."""

    def __str__(self) -> str:
        return "broadcast"


@dataclass(frozen=True, slots=True)
class ByKey:
    """Rows with equal values in these columns go to one channel."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"by {', '.join(self.columns)}"


@dataclass(frozen=True, slots=True)
class ByFunction:
    """A function of the user's says which channel each row goes to."""

    choose: Choose

    def __str__(self) -> str:
        return f"by {getattr(self.choose, '__name__', 'a function')}()"


Partition: TypeAlias = Spread | Broadcast | ByKey | ByFunction


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Input:
    """A stream of a node: the rows of the node `source`. It is read once the streams `after` have ended."""

    name: str
    source: str
    partition: Partition = Spread()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FedSource:
    """Rows that the task is fed in splits, epoch after epoch."""

    name: str
    schema: pa.Schema
    stride: int = STRIDE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileSource:
    """Files, whole in every epoch. Without a `schema` the first file's is the source's; of it, `columns` or all."""

    name: str
    files: tuple[FileSplit, ...]
    schema: pa.Schema | None = None
    columns: tuple[str, ...] | None = None
    stride: int = STRIDE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DatasetSource:
    """The rows of a Dataset, whole in every epoch."""

    name: str
    dataset: Dataset
    stride: int = STRIDE

    @property
    def schema(self) -> pa.Schema:
        return self.dataset.schema


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IterableSource:
    """What an iterable gives: Arrow data, mappings from column to value, or tuples of values.

    `items` is the iterable, or a function that makes one. One that can be iterated again is, in every epoch. An
    iterator goes on where it stood: each epoch takes `epoch_rows` of it.
    """

    name: str
    items: Iterable[Any] | Callable[[], Iterable[Any]]
    schema: pa.Schema
    epoch_rows: int | None = None
    stride: int = STRIDE

    @property
    def is_function(self) -> bool:
        """Whether a function makes it in every epoch, so that nothing of it is kept between them."""
        return callable(self.items) and not isinstance(self.items, Iterator) and self.epoch_rows is None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapNode:
    """A function over the batches of `source`. Without a `schema` it is what the function makes of an empty batch."""

    name: str
    source: str
    function: BatchFunction
    schema: pa.Schema | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnionNode:
    """The rows of its sources, one after the other."""

    name: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExecutorNode:
    """An executor of the user's on `channels` channels; `make` gives a new one. Without a `schema` its rows are like
    those of its only stream.
    """

    name: str
    inputs: tuple[Input, ...]
    make: Callable[[], Executor]
    schema: pa.Schema | None = None
    channels: int = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SqlNode:
    """A SELECT of the user's in DuckDB's SQL, over relations that have the names of its streams. Each of `channels`
    runs it over its own rows.
    """

    name: str
    inputs: tuple[Input, ...]
    statement: str
    channels: int = 1


class JoinType(enum.Enum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Rows of two streams whose `keys` (pairs of columns) are equal; nulls equal nothing."""

    keys: tuple[tuple[str, str], ...]
    type: JoinType = JoinType.INNER


class MeasureFunction(enum.Enum):
    COUNT = "count"
    COUNT_DISTINCT = "count_distinct"
    SUM = "sum"
    MEAN = "mean"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A column of an aggregate's rows. COUNT without a `column` counts rows."""

    name: str
    function: MeasureFunction
    column: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """A row for each combination of the values of `keys`; a single one where there are no keys."""

    keys: tuple[str, ...]
    measures: tuple[Measure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """Every row once; of all columns, or of these."""

    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """All rows in the order of `keys` (columns, and whether they descend), nulls last; or the `first` of them."""

    keys: tuple[tuple[str, bool], ...]
    first: int | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows there are."""


Operation: TypeAlias = Join | Aggregate | Distinct | Sort | Count


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StockNode:
    """An operation that comes with Tidegate, on `channels` channels. How rows are dealt to them is its own matter."""

    name: str
    inputs: tuple[Input, ...]
    operation: Operation
    channels: int = 1


SourceNode: TypeAlias = FedSource | FileSource | DatasetSource | IterableSource
GraphNode: TypeAlias = SourceNode | MapNode | UnionNode | ExecutorNode | SqlNode | StockNode


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTarget:
    """A folder that a graph's rows are written to, a file an epoch, which appears at its barrier. `mode` says what of
    others' files that are there.
    """

    folder: str
    format: str = "parquet"
    mode: str = "append"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """`nodes` in the order in which they were added. The rows of `result` are the graph's; with a `target` they are
    written there, and nobody reads them.
    """

    nodes: tuple[GraphNode, ...]
    result: str | None = None
    target: FileTarget | None = None


class GraphBuilder(ABC):
    """What clients take for a graph besides one: a builder, which gives the graph as it is when it is asked."""

    @property
    @abstractmethod
    def value(self) -> Graph: ...


def read_by(node: GraphNode) -> tuple[str, ...]:
    """The names of the nodes that a node reads, in order."""
    match node:
        case MapNode():
            return (node.source,)
        case UnionNode():
            return node.sources
        case ExecutorNode() | SqlNode() | StockNode():
            return tuple(each.source for each in node.inputs)
        case _:
            return ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowBatches:
    """Rows to be made a Dataset of."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch] = field(repr=False)


class GraphService(Protocol):
    """What a service in the user's own process does with graphs."""

    def create_task(
        self, graph: Graph, options: TaskOptions, *, keep: bool = False, keyed: Keyed | None = None
    ) -> TaskInfo:
        """A task over a graph. With `keep` its rows are not read but kept, as a Dataset an epoch, `keyed` so."""
        ...

    def take(self, task: str, epoch: int) -> Dataset:
        """What is kept of an epoch, once."""
        ...

    def keep(self, rows: RowBatches, keyed: Keyed | None = None) -> Dataset:
        """A Dataset of these rows."""
        ...

    def explain(self, graph: Graph, options: TaskOptions) -> Explanation: ...
