"""Builds a graph: nodes by name, each over streams of other nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, Unpack

import pyarrow as pa

from ..partitions import UNSAID, check_streams, partitions_of
from ..proto.arrow.arrow_streams import with_a_stream
from ..proto.dataset import Dataset
from ..proto.encoding.number_ranges import RANGES
from ..proto.errors import InvalidRequest, TransientError
from ..proto.graph import (
    ONLY_STREAM,
    STRIDE,
    BatchFunction,
    DatasetSource,
    Exceptions,
    Executor,
    ExecutorNode,
    FedSource,
    FileSource,
    FileTarget,
    Graph,
    GraphBuilder,
    GraphNode,
    Input,
    IterableSource,
    MapNode,
    Partition,
    Raised,
    UnionNode,
)
from ..proto.values import Explanation, FileFormat, FileSplit
from ..splits import SplitLike, file_split
from ..task_options import Options
from .stock import Partitions, StockNodes, StreamLike
from .stream import Result, Stream

Files: TypeAlias = str | os.PathLike[str] | FileSplit | Sequence[str | os.PathLike[str] | FileSplit]
Streams: TypeAlias = StreamLike | Mapping[str, StreamLike]


class TaskGraph(StockNodes, GraphBuilder):
    """A graph of your operators, under construction.

    Its end is one `blocking` node, or a stream to `collect` or to `write`. A node may read streams that are added
    later, by name. The whole graph is checked when it is run or explained.

    >>> graph = tidegate.TaskGraph()
    >>> sales = graph.read_parquet("sales.parquet")
    >>> totals = graph.aggregate("totals", sales, ["item"], {"total": ("sum", "amount")})
    >>> result = graph.collect(totals)
    >>> sorted(graph.run().table().to_pylist(), key=str)
    [{'item': 'cup', 'total': 8}, {'item': 'tea', 'total': 7}]
    """

    def __init__(self) -> None:
        self._nodes: list[GraphNode] = []
        self._result: str | None = None
        self._target: FileTarget | None = None

    @property
    def value(self) -> Graph:
        """The graph as it is now; later changes of this object do not change it."""
        return Graph(nodes=tuple(self._nodes), result=self._result, target=self._target)

    # -------------------------------------------------------------------------------------------------- inputs

    def source(self, name: str, schema: pa.Schema, *, stride: int = STRIDE) -> Stream:
        """Rows that the task is fed in splits, under this name."""
        return self._add(FedSource(name=name, schema=schema, stride=stride))

    def read_parquet(
        self,
        files: Files,
        *,
        name: str | None = None,
        columns: Sequence[str] | None = None,
        schema: pa.Schema | None = None,
        stride: int = STRIDE,
    ) -> Stream:
        """Parquet files, folders or patterns, read whole in every epoch. The default schema is the first file's.

        An executor that reads the stream gets `stride` rows at a time.
        """
        return self._files(files, "parquet", name, columns, schema, stride)

    def read_csv(
        self,
        files: Files,
        schema: pa.Schema,
        *,
        name: str | None = None,
        columns: Sequence[str] | None = None,
        stride: int = STRIDE,
    ) -> Stream:
        """CSV files with a header line. Their types come only from `schema`."""
        return self._files(files, "csv", name, columns, schema, stride)

    def read_json(
        self,
        files: Files,
        schema: pa.Schema,
        *,
        name: str | None = None,
        columns: Sequence[str] | None = None,
        stride: int = STRIDE,
    ) -> Stream:
        """JSON files with one object per line."""
        return self._files(files, "json", name, columns, schema, stride)

    def read_arrow(
        self,
        data: Files | Any,
        *,
        name: str | None = None,
        columns: Sequence[str] | None = None,
        schema: pa.Schema | None = None,
        stride: int = STRIDE,
    ) -> Stream:
        """Arrow IPC files, or Arrow data of this process: any object with the Arrow C stream protocol."""
        if not hasattr(data, "__arrow_c_stream__"):
            return self._files(data, "arrow", name, columns, schema, stride)
        table = pa.table(with_a_stream(data))
        table = table if columns is None else table.select(list(columns))
        table = table if schema is None else table.cast(schema)
        return self.read_iterable(table.to_batches(), table.schema, name=name, stride=stride)

    def read_dataset(self, dataset: Dataset, *, name: str | None = None, stride: int = STRIDE) -> Stream:
        """The rows of a Dataset, whole in every epoch. The graph keeps the Dataset alive."""
        if not isinstance(dataset, Dataset):
            raise InvalidRequest(
                f"the argument must be a Dataset, not {type(dataset).__name__}", reason="NOT_A_DATASET"
            )
        return self._add(DatasetSource(name=name or self._unused("dataset"), dataset=dataset, stride=stride))

    def read_iterable(
        self,
        items: Iterable[Any] | Callable[[], Iterable[Any]],
        schema: pa.Schema,
        *,
        name: str | None = None,
        epoch_rows: int | None = None,
        stride: int = STRIDE,
    ) -> Stream:
        """The rows of an iterable, or of one that a function makes: Arrow data, or mappings or tuples, each a row.

        An iterable that can be iterated again is, in every epoch. An iterator is used up by one epoch, unless
        `epoch_rows` gives the rows of an epoch. It may be endless with `epoch_rows`, or if a node stops reading it at
        some time.
        """
        if not callable(items) and not isinstance(items, Iterable):
            raise InvalidRequest(
                f"the argument must be an iterable, or a function that makes an iterable, not {type(items).__name__}",
                reason="NOT_AN_ITERABLE",
            )
        name = name or self._unused("iterable")
        return self._add(IterableSource(name=name, items=items, schema=schema, epoch_rows=epoch_rows, stride=stride))

    # -------------------------------------------------------------------------------------------------- nodes

    def node(
        self,
        name: str,
        executor: Callable[[], Executor],
        streams: Streams,
        *,
        schema: pa.Schema | None = None,
        channels: int = 1,
        partition: Partitions = UNSAID,
        after: Mapping[str, str | Sequence[str]] | None = None,
        retries: int = 0,
        transient: Raised = TransientError,
    ) -> Stream:
        """A streaming node: your executor, with `execute(batches, stream, channel)` and `done(channel)`.

        - `executor`: its class, or a function that makes one. It is called for each channel and epoch.
        - `streams`: the node's inputs, by the names that `execute` gets. A single stream without a name is called
          "rows".
        - `schema`: the schema of its rows. The default is the schema of its only stream.
        - `partition`: which of the `channels` get which rows, for each stream or for all: a column or several (equal
          values to one channel), None (all rows to all), a function of (batch, channels) that gives a channel's number
          for each row, or `tidegate.SPREAD`.
        - `after`: `{"probe": "build"}` reads a stream once others have ended.
        - `retries`: how often a channel is made anew in an epoch, with its input from the start, after your code has
          raised an exception that is `transient` (a class or several).
        """
        again = (_count(name, retries), _classes(name, transient))
        return self._add(self._executor(name, executor, streams, schema, channels, partition, after, again))

    def blocking(
        self,
        name: str,
        executor: Callable[[], Executor],
        streams: Streams,
        *,
        schema: pa.Schema | None = None,
        channels: int = 1,
        partition: Partitions = UNSAID,
        after: Mapping[str, str | Sequence[str]] | None = None,
        retries: int = 0,
        transient: Raised = TransientError,
    ) -> Result:
        """The node whose rows are the graph's result; they become a Dataset if the graph is run at once.

        Otherwise as `node`.
        """
        again = (_count(name, retries), _classes(name, transient))
        return self._end(self._add(self._executor(name, executor, streams, schema, channels, partition, after, again)))

    def collect(self, stream: Stream) -> Result:
        """End the graph in the rows of a stream, as they are."""
        self._name_of(stream, "the graph's end")
        return self._end(stream)

    def write(
        self,
        stream: Stream,
        folder: str | os.PathLike[str],
        *,
        format: Literal["parquet", "arrow", "csv"] = "parquet",  # noqa: A002 (what `FileSplit` calls it too)
        mode: Literal["append", "replace", "ignore", "error"] = "append",
    ) -> Result:
        """End the graph in files: each epoch of a task over it adds one file to this folder, at its barrier.

        `format` is parquet, arrow or csv. The folder is made if it does not exist (but not those above it). `mode` says
        what happens if there are files of other writers: append (they must have the same columns), replace, ignore
        (write nothing) or error.
        """
        self._name_of(stream, "the graph's end")
        ended = self._end(stream)
        self._target = FileTarget(folder=os.path.abspath(folder), format=format, mode=mode)
        return ended

    def union(self, *streams: StreamLike, name: str | None = None) -> Stream:
        """The rows of streams of one schema, one stream after the other."""
        name = name or self._unused("union")
        return self._add(UnionNode(name=name, sources=tuple(self._name_of(stream, name) for stream in streams)))

    def add_map(
        self,
        stream: Stream,
        function: BatchFunction,
        schema: pa.Schema | None,
        name: str | None,
        retries: int,
        transient: Raised,
    ) -> Stream:
        """The node of `Stream.map`."""
        name = name or self._unused(f"{stream.name}.map")
        node = MapNode(
            name=name,
            source=stream.name,
            function=function,
            schema=schema,
            retries=_count(name, retries),
            transient=_classes(name, transient),
        )
        return self._add(node)

    # ------------------------------------------------------------------------------------------------- running

    def run(
        self, splits: Mapping[str, SplitLike | Sequence[SplitLike]] | None = None, **options: Unpack[Options]
    ) -> Dataset:
        """Run the graph once over these splits, as `Client.run_graph` does, in a service of its own."""
        from ..connecting import local

        with local() as client:
            return client.run_graph(self, splits, **options)

    def explain(self) -> Explanation:
        """The pipelines of the graph: `.text` and the picture `.svg` for people, `.json` for programs."""
        from ..connecting import local

        with local() as client:
            return client.explain(self)

    # -------------------------------------------------------------------------------------------------- inside

    def _add(self, node: GraphNode) -> Stream:
        if not isinstance(node.name, str) or not node.name:
            raise InvalidRequest(f"a node's name must be text that is not empty, not {node.name!r}", reason="NODE_NAME")
        self._nodes.append(node)
        return Stream(self, node.name)

    def _end(self, stream: Stream) -> Result:
        if self._result is not None:
            raise InvalidRequest(
                f"the graph already ends in {self._result!r}, and a graph has one end: make a second graph that "
                "reads the Dataset of this graph",
                reason="SECOND_RESULT",
            )
        self._result = stream.name
        return Result(self, stream.name)

    def _files(
        self,
        files: Files,
        format_: FileFormat,
        name: str | None,
        columns: Sequence[str] | None,
        schema: pa.Schema | None,
        stride: int,
    ) -> Stream:
        several = [files] if isinstance(files, str | os.PathLike | FileSplit) else list(files)
        splits = tuple(
            file_split(file if isinstance(file, FileSplit) else FileSplit(os.fspath(file), format=format_))
            for file in several
        )
        node = FileSource(
            name=name or self._unused(format_),
            files=splits,
            schema=schema,
            columns=None if columns is None else tuple(columns),
            stride=stride,
        )
        return self._add(node)

    def _executor(
        self,
        name: str,
        executor: Callable[[], Executor],
        streams: Streams,
        schema: pa.Schema | None,
        channels: int,
        partition: Partitions,
        after: Mapping[str, str | Sequence[str]] | None,
        again: tuple[int, Exceptions],
    ) -> ExecutorNode:
        named = streams if isinstance(streams, Mapping) else {ONLY_STREAM: streams}
        names = list(named)
        parts: Mapping[str, Partition] = partitions_of(name, names, partition, channels)
        waits = {} if after is None else after
        check_streams(name, "after", waits, names)
        inputs = tuple(
            Input(
                name=stream,
                source=self._name_of(source, name),
                partition=parts[stream],
                after=_several(waits.get(stream, ())),
            )
            for stream, source in named.items()
        )
        retries, transient = again
        return ExecutorNode(
            name=name,
            inputs=inputs,
            make=executor,
            schema=schema,
            channels=channels,
            retries=retries,
            transient=transient,
        )

    def _name_of(self, stream: StreamLike, node: str) -> str:
        match stream:
            case str():
                return stream
            case Stream(graph=graph) if graph is self:
                return stream.name
            case Stream():
                raise InvalidRequest(
                    f"{node!r} reads {stream.name!r} of another graph: end the other graph in a Dataset, and read "
                    "the Dataset with read_dataset()",
                    reason="OTHER_GRAPH",
                )
            case _:
                raise InvalidRequest(
                    f"{node!r} must read a stream or the name of a node, not {type(stream).__name__}",
                    reason="NOT_A_STREAM",
                )

    def _unused(self, kind: str) -> str:
        names = {node.name for node in self._nodes}
        return next(name for at in range(1, len(names) + 2) if (name := f"{kind}{at}") not in names)


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _count(node: str, retries: object) -> int:
    if not isinstance(retries, int) or isinstance(retries, bool):
        raise InvalidRequest(f"node {node!r}: retries must be a whole number, not {retries!r}")
    RANGES["retries"].check(f"node {node!r}: retries", retries)
    return retries


def _classes(node: str, transient: Raised) -> Exceptions:
    classes = transient if isinstance(transient, tuple) else (transient,)
    for class_ in classes:
        if not isinstance(class_, type) or not issubclass(class_, BaseException):
            raise InvalidRequest(
                f"node {node!r}: transient must be a class of exceptions or a tuple of such classes, not {class_!r}"
            )
    return classes
