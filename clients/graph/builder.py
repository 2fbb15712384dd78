"""Building a graph: nodes by name, each over streams of the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, Unpack

import pyarrow as pa

from ..partitions import UNSAID, check_streams, partitions_of
from ..proto.dataset import Dataset
from ..proto.errors import InvalidRequest
from ..proto.graph import (
    ONLY_STREAM,
    STRIDE,
    BatchFunction,
    DatasetSource,
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
    UnionNode,
)
from ..proto.values import Explanation, FileSplit
from ..splits import SplitLike, file_split
from ..task_options import Options
from .stock import Partitions, StockNodes, StreamLike
from .stream import Result, Stream

Files: TypeAlias = str | os.PathLike[str] | FileSplit | Sequence[str | os.PathLike[str] | FileSplit]
Streams: TypeAlias = StreamLike | Mapping[str, StreamLike]


class TaskGraph(StockNodes, GraphBuilder):
    """A graph of one's own operators, under construction. Its end is one `blocking` node, or a stream to `collect` or
    to `write`.

    What a node reads may be named before it is there. A graph is checked as a whole when it is run or explained.
    """

    def __init__(self) -> None:
        self._nodes: list[GraphNode] = []
        self._result: str | None = None
        self._target: FileTarget | None = None

    @property
    def value(self) -> Graph:
        """The graph as it is now; it does not change with this object."""
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
        """Files, folders or patterns, whole in every epoch. Without a schema it is the first file's.

        `stride` is how many rows an executor that reads the stream is given at a time.
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
        """Files with a header line; nothing about their types is guessed."""
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
        """Files with an object a line."""
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
        """Arrow IPC files, or Arrow data of this process: whatever speaks the Arrow C stream protocol."""
        if not hasattr(data, "__arrow_c_stream__"):
            return self._files(data, "arrow", name, columns, schema, stride)
        table = pa.table(data)
        table = table if columns is None else table.select(list(columns))
        table = table if schema is None else table.cast(schema)
        return self.read_iterable(table.to_batches(), table.schema, name=name, stride=stride)

    def read_dataset(self, dataset: Dataset, *, name: str | None = None, stride: int = STRIDE) -> Stream:
        """The rows of a Dataset, whole in every epoch. The graph keeps it."""
        if not isinstance(dataset, Dataset):
            raise InvalidRequest(f"a Dataset is needed, not {type(dataset).__name__}", reason="NOT_A_DATASET")
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
        """What an iterable gives, or one that a function makes: Arrow data, mappings or tuples, each a row.

        What can be iterated again is, in every epoch. An iterator is used up by one epoch, unless `epoch_rows` says how
        many of its rows are an epoch's. It may be endless where that is said, or where a node has enough at some time.
        """
        if not callable(items) and not isinstance(items, Iterable):
            raise InvalidRequest(
                f"an iterable is needed, or a function that makes one, not {type(items).__name__}",
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
    ) -> Stream:
        """A streaming node: an executor of one's own (`execute(batches, stream, channel)`, `done(channel)`).

        `executor` is its class, or a function that makes one, which is called for each channel and epoch. `streams` are
        what it reads, by the names that `execute` hears; a single one need not have a name and is called "rows".
        `schema` is that of what it gives; unless given, that of its only stream. `partition` says, for each stream or
        for all, which of the `channels` get which rows: a column or several (equal values to one channel), None (all
        rows to all), a function of (batch, channels) that gives a channel's number for each row, or `tidegate.SPREAD`.
        `after={"probe": "build"}` has a stream read once others have ended.
        """
        return self._add(self._executor(name, executor, streams, schema, channels, partition, after))

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
    ) -> Result:
        """The node whose rows are the graph's, and become a Dataset where the graph is run at once. Like `node`."""
        return self._end(self._add(self._executor(name, executor, streams, schema, channels, partition, after)))

    def collect(self, stream: Stream) -> Result:
        """End the graph in the rows of a stream, as they are."""
        self._name_of(stream, "the graph's end")
        return self._end(stream)

    def write(
        self,
        stream: Stream,
        folder: str | os.PathLike[str],
        *,
        format: str = "parquet",  # noqa: A002 (what `FileSplit` calls it too)
        mode: str = "append",
    ) -> Result:
        """End the graph in files: each epoch of a task over it adds one to this folder, at its barrier.

        `format` is parquet, arrow or csv. The folder is made if there is none (but not those above it). `mode` says
        what of files that others have written there: append (which must have the same columns), replace, ignore (write
        nothing) or error.
        """
        self._name_of(stream, "the graph's end")
        ended = self._end(stream)
        self._target = FileTarget(folder=os.path.abspath(folder), format=format, mode=mode)
        return ended

    def union(self, *streams: StreamLike, name: str | None = None) -> Stream:
        """The rows of streams of one schema, one stream after the other."""
        name = name or self._unused("union")
        return self._add(UnionNode(name=name, sources=tuple(self._name_of(each, name) for each in streams)))

    def add_map(self, stream: Stream, function: BatchFunction, schema: pa.Schema | None, name: str | None) -> Stream:
        """`Stream.map`."""
        name = name or self._unused(f"{stream.name}.map")
        return self._add(MapNode(name=name, source=stream.name, function=function, schema=schema))

    # ------------------------------------------------------------------------------------------------- running

    def run(
        self, splits: Mapping[str, SplitLike | Sequence[SplitLike]] | None = None, **options: Unpack[Options]
    ) -> Dataset:
        """Run the graph once, in a service of its own, over these splits of its fed sources; as `Client.run_graph`."""
        from ..connecting import local

        with local() as client:
            return client.run_graph(self, splits, **options)

    def explain(self) -> Explanation:
        """The pipelines that the graph runs as: `.text` and the picture `.svg` for people, `.json` for programs."""
        from ..connecting import local

        with local() as client:
            return client.explain(self)

    # -------------------------------------------------------------------------------------------------- inside

    def _add(self, node: GraphNode) -> Stream:
        if not isinstance(node.name, str) or not node.name:
            raise InvalidRequest(f"a node's name is a text that is not empty, not {node.name!r}", reason="NODE_NAME")
        self._nodes.append(node)
        return Stream(self, node.name)

    def _end(self, stream: Stream) -> Result:
        if self._result is not None:
            raise InvalidRequest(
                f"the graph ends in {self._result!r} already, and has one end: make another graph, whose input is this "
                "one's Dataset",
                reason="SECOND_RESULT",
            )
        self._result = stream.name
        return Result(self, stream.name)

    def _files(
        self,
        files: Files,
        format_: str,
        name: str | None,
        columns: Sequence[str] | None,
        schema: pa.Schema | None,
        stride: int,
    ) -> Stream:
        several = [files] if isinstance(files, str | os.PathLike | FileSplit) else list(files)
        splits = tuple(
            file_split(each if isinstance(each, FileSplit) else FileSplit(os.fspath(each), format=format_))
            for each in several
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
        return ExecutorNode(name=name, inputs=inputs, make=executor, schema=schema, channels=channels)

    def _name_of(self, stream: StreamLike, node: str) -> str:
        match stream:
            case str():
                return stream
            case Stream(graph=graph) if graph is self:
                return stream.name
            case Stream():
                raise InvalidRequest(
                    f"{node!r} reads {stream.name!r} of another graph: end that one in a Dataset and read_dataset() it",
                    reason="OTHER_GRAPH",
                )
            case _:
                raise InvalidRequest(
                    f"{node!r} reads a stream or the name of a node, not {type(stream).__name__}", reason="NOT_A_STREAM"
                )

    def _unused(self, kind: str) -> str:
        names = {node.name for node in self._nodes}
        return next(name for at in range(1, len(names) + 2) if (name := f"{kind}{at}") not in names)


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
