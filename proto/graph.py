"""A graph of your own operators, as a value: the builder makes it, and the planner checks and lowers it.

Nodes name each other, so a graph may be wrong (a circle, a name that no node has); the planner finds out when it
prepares the graph. A graph holds functions and classes of user code, which never leave the process.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa

from .dataset import Dataset, Keyed
from .errors import TransientError
from .values import Explanation, FileSplit, TaskInfo, TaskOptions

STRIDE: Final = 65_536
"""The rows of a batch that user code sees, unless an input says otherwise."""

ONLY_STREAM: Final = "rows"
"""The name of a node's only stream where user code gave it none."""

Rows: TypeAlias = Any
"""The values that an executor may return: None, Arrow data (a batch, a table, any object that speaks the Arrow C stream
protocol), or an iterable of such data.
"""


class Executor(Protocol):
    """Your own operator. A new executor is made for each channel and epoch, so its state is gone at the barrier.

    An executor may also have a method `finished(stream, channel)`, which is called before each read of a stream. Once
    it returns True, the stream is closed and the nodes that feed it stop reading.

    >>> class Count:
    ...     rows = 0
    ...     def execute(self, batches, stream, channel):
    ...         self.rows += sum(batch.num_rows for batch in batches)
    ...     def done(self, channel):
    ...         return pa.table({"rows": [self.rows]})
    >>> graph = tidegate.TaskGraph()
    >>> result = graph.blocking("count", Count, graph.read_arrow(monday), schema=pa.schema({"rows": pa.int64()}))
    >>> graph.run().table().to_pylist()
    [{'rows': 3}]
    """

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Rows:
        """Take some rows of a stream; called for one part of it after the other."""
        ...

    def done(self, channel: int) -> Rows:
        """Give the last rows: all streams have ended, or are wanted no more."""
        ...


Exceptions: TypeAlias = tuple[type[BaseException], ...]
Raised: TypeAlias = type[BaseException] | Exceptions
BatchFunction: TypeAlias = Callable[[pa.RecordBatch], Any]
Choose: TypeAlias = Callable[[pa.RecordBatch, int], Any]
"""A function from a batch and the number of channels to a channel for each row."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Routing to any channel: rows stay on the channel that made them, or go to one channel after the other, block by
    block.

    >>> graph = tidegate.TaskGraph()
    >>> rows = graph.read_arrow(monday)
    >>> graph.blocking("count", Count, rows, channels=2, partition=tidegate.graph.Spread())
    <tidegate.graph.Result 'count'>
    """

    def __str__(self) -> str:
        return "spread"


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Routing of all rows to every channel."""

    def __str__(self) -> str:
        return "broadcast"


@dataclass(frozen=True, slots=True)
class ByKey:
    """Routing by key: rows with equal values in these columns go to one channel."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"by {', '.join(self.columns)}"


@dataclass(frozen=True, slots=True)
class ByFunction:
    """Routing by user code: a function names the channel of each row."""

    choose: Choose

    def __str__(self) -> str:
        return f"by {getattr(self.choose, '__name__', 'a function')}()"


Partition: TypeAlias = Spread | Broadcast | ByKey | ByFunction


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Input:
    """A stream of a node: the rows of the node `source`. The stream is read once the streams `after` have ended."""

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
    """Files, read whole in every epoch. Without a `schema` the source has the first file's. The source has its
    `columns`, or all columns.
    """

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
    """The rows of an iterable: Arrow data, mappings from column to value, or tuples of values.

    `items` is the iterable, or a function that makes one. An iterable that can be iterated again is read anew in every
    epoch. An iterator goes on where it stood: each epoch takes `epoch_rows` rows of it.
    """

    name: str
    items: Iterable[Any] | Callable[[], Iterable[Any]]
    schema: pa.Schema
    epoch_rows: int | None = None
    stride: int = STRIDE

    @property
    def is_function(self) -> bool:
        """True where a function makes the iterable in every epoch, so that nothing of it is kept between epochs."""
        return callable(self.items) and not isinstance(self.items, Iterator) and self.epoch_rows is None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapNode:
    """A function over the batches of `source`. Without a `schema` the node has the schema that the function makes of an
    empty batch. Its channel is made anew up to `retries` times in an epoch after an exception that is `transient`.
    """

    name: str
    source: str
    function: BatchFunction
    schema: pa.Schema | None = None
    retries: int = 0
    transient: Exceptions = (TransientError,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnionNode:
    """The rows of its sources, one source after the other."""

    name: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExecutorNode:
    """An executor of user code on `channels` channels; `make` returns a new one. Without a `schema` the node has the
    schema of its only stream. A channel is made anew up to `retries` times in an epoch after an exception that is
    `transient`.
    """

    name: str
    inputs: tuple[Input, ...]
    make: Callable[[], Executor]
    schema: pa.Schema | None = None
    channels: int = 1
    retries: int = 0
    transient: Exceptions = (TransientError,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SqlNode:
    """A SELECT in DuckDB's SQL, over relations that have the names of the node's streams. Each of `channels` runs the
    SELECT over its own rows.
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
    """A join of two streams on equal `keys` (pairs of columns). A null equals nothing."""

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
    """A row for each combination of the values of `keys`; a single row where there are no keys."""

    keys: tuple[str, ...]
    measures: tuple[Measure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """Every row once: all columns, or these columns alone."""

    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """All rows in the order of `keys` (columns, and whether each descends), nulls last; or the `first` rows of that
    order.
    """

    keys: tuple[tuple[str, bool], ...]
    first: int | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """The number of rows."""


Operation: TypeAlias = Join | Aggregate | Distinct | Sort | Count


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StockNode:
    """An operation that comes with Tidegate, on `channels` channels. The operation decides how rows are routed to its
    channels.
    """

    name: str
    inputs: tuple[Input, ...]
    operation: Operation
    channels: int = 1


SourceNode: TypeAlias = FedSource | FileSource | DatasetSource | IterableSource
GraphNode: TypeAlias = SourceNode | MapNode | UnionNode | ExecutorNode | SqlNode | StockNode


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTarget:
    """The folder that a graph's rows are written to. The file of an epoch appears at the epoch's barrier. `mode` says
    what becomes of files that were in the folder before.
    """

    folder: str
    format: str = "parquet"
    mode: str = "append"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """A graph: its `nodes` in the order in which they were added. The rows of the node `result` are the graph's result.
    With a `target` the task writes them there, and no client reads them.

    >>> [node.name for node in graph.value.nodes]
    ['parquet1', 'totals', 'sorted']
    """

    nodes: tuple[GraphNode, ...]
    result: str | None = None
    target: FileTarget | None = None


class GraphBuilder(ABC):
    """A builder of graphs, which clients take in place of a graph. `value` is the graph as it is built so far."""

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
            return tuple(stream.source for stream in node.inputs)
        case _:
            return ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowBatches:
    """Rows for a new Dataset."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch] = field(repr=False)


class GraphService(Protocol):
    """Calls on graphs that a service in the caller's own process takes."""

    def create_task(
        self, graph: Graph, options: TaskOptions, *, keep: bool = False, keyed: Keyed | None = None
    ) -> TaskInfo:
        """Create a task over a graph. With `keep` the service keeps its rows instead of handing them out: a Dataset an
        epoch, keyed by `keyed`.
        """
        ...

    def take(self, task: str, epoch: int) -> Dataset:
        """The Dataset that is kept of an epoch; it can be taken once."""
        ...

    def keep(self, rows: RowBatches, keyed: Keyed | None = None) -> Dataset:
        """Make a Dataset of these rows."""
        ...

    def explain(self, graph: Graph, options: TaskOptions) -> Explanation: ...
