"""A pipeline made ready to run: the operators of a tree of physical nodes, made once and run epoch after epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import pyarrow as pa

from ..operators.file_relations import FileSource
from ..operators.fragment import Fragment
from ..operators.inputs import ContextSource, StreamSource
from ..operators.instances import Instance
from ..operators.operator import Stream
from ..operators.piece import Piece
from ..operators.scan import Scan
from ..planner.ir import Clock
from ..planner.pipelines import FragmentNode, KeptNode, PhysicalNode, ReceiveNode, ScanNode
from .clock import RELATION, context_row, context_schema
from .kept import KeptRows
from .meters import Meter, MeteredStream, Meters

Pieces: TypeAlias = Mapping[str, Sequence[Piece]]


@dataclass(slots=True)
class Read:
    """Rows and bytes that an epoch has read from splits and tables."""

    rows_in: int = 0
    bytes_in: int = 0
    at_least: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """An operator, the places of those it reads from, and what it reads from sources itself."""

    operator: Scan | Fragment
    meter: Meter
    inputs: tuple[_Input, ...]
    sources: tuple[str, ...]
    clocks: tuple[Clock, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Input:
    """What is read: operator number `made`, or kept rows. Of an operator with several readers the rows are held."""

    schema: pa.Schema
    made: int | None = None
    kept: str | None = None
    shared: bool = False


class PipelineInstance:
    """`run` is one epoch (or some pieces of one); the last run must have ended or been closed."""

    def __init__(
        self, root: PhysicalNode, *, instance: Instance, strict: bool, meters: Meters, kept: Callable[[str], KeptRows]
    ) -> None:
        self._instance = instance
        self._strict = strict
        self._meters = meters
        self._kept = kept
        self._made: list[_Made] = []
        self._numbers: dict[int, int] = {}
        self._uses: dict[int, int] = {}
        try:
            for node in _innermost_first(root, self._uses):
                self._numbers[id(node)] = len(self._made)
                self._made.append(self._make(node))
        except BaseException:
            self.close()
            raise

    @property
    def plans(self) -> int:
        return sum(made.operator.plans for made in self._made if isinstance(made.operator, Fragment))

    def run(self, pieces: Pieces, clock_us: int, time_zone: str, read: Read) -> Iterator[pa.RecordBatch]:
        """The rows of these pieces. What is read is counted in `read`."""
        with ExitStack() as stack:
            streams: list[MeteredStream] = []
            held: dict[int, list[pa.RecordBatch]] = {}
            for made in self._made:
                stack.callback(_release, made, read)
                _assign(made, pieces)
                if made.clocks and isinstance(made.operator, Fragment):
                    made.operator.set_context(context_row(made.clocks, clock_us, time_zone))
                inputs = [self._stream(each, streams, held, made.meter) for each in made.inputs]
                stream = MeteredStream(made.operator.schema, made.operator.run(inputs), made.meter)
                if isinstance(made.operator, Scan):
                    stream.readers += (made.meter, read)
                stack.callback(stream.close)
                streams.append(stream)
            yield from streams[-1]

    def interrupt(self) -> None:
        for made in self._made:
            made.operator.interrupt()

    def close(self) -> None:
        for made in self._made:
            made.operator.close()

    # -------------------------------------------------------------------------------------------------- making

    def _make(self, node: PhysicalNode) -> _Made:
        match node:
            case ScanNode():
                scan = Scan(node.source, node.columns)
                return _Made(scan, self._meters.of("Scan", node.place), (), (node.source,), ())
            case FragmentNode():
                inputs = tuple(self._input(each.node) for each in node.streams)
                meter = self._meters.of("Fragment", node.place)
                return _Made(
                    self._fragment(node), meter, inputs, tuple(each.source for each in node.files), node.context
                )
            case KeptNode() | ReceiveNode():
                raise RuntimeError(f"a pipeline's root computes nothing: {node}")
            case _:
                assert_never(node)

    def _input(self, node: PhysicalNode) -> _Input:
        if isinstance(node, KeptNode):
            return _Input(node.schema, kept=node.name)
        return _Input(node.schema, made=self._numbers[id(node)], shared=self._uses[id(node)] > 1)

    def _fragment(self, node: FragmentNode) -> Fragment:
        return Fragment(
            node.sql,
            schema=node.schema,
            instance=self._instance,
            streams=[
                StreamSource(
                    relation=each.relation,
                    schema=each.node.schema,
                    size_class=each.node.size_class,
                    replayed=each.replayed,
                )
                for each in node.streams
            ],
            files=[FileSource(source=each.source, relation=each.relation, columns=each.columns) for each in node.files],
            context=ContextSource(relation=RELATION, schema=context_schema(node.context)) if node.context else None,
            strict=self._strict,
            place=node.place,
        )

    # -------------------------------------------------------------------------------------------------- running

    def _stream(
        self, each: _Input, streams: Sequence[MeteredStream], held: dict[int, list[pa.RecordBatch]], reader: Meter
    ) -> Stream:
        if each.kept is not None:
            stream = MeteredStream(each.schema, self._kept(each.kept).read(), Meter("Kept", each.kept))
        elif each.shared:
            number = each.made or 0
            stream = MeteredStream(each.schema, _replay(streams[number], held, number), Meter("Shared", str(number)))
        else:
            stream = streams[each.made or 0]
        stream.readers.append(reader)
        return stream


def _replay(stream: Stream, held: dict[int, list[pa.RecordBatch]], number: int) -> Iterator[pa.RecordBatch]:
    if number not in held:
        held[number] = list(stream)
    yield from held[number]


def _assign(made: _Made, pieces: Pieces) -> None:
    for source in made.sources:
        made.operator.assign(source, pieces[source])


def _release(made: _Made, read: Read) -> None:
    """Count what a fragment has read of files itself. An operator outlives the epoch; its splits need not."""
    for source in made.sources:
        made.operator.assign(source, ())
    if isinstance(made.operator, Fragment):
        reads = made.operator.reads
        for counts in (read, made.meter):
            counts.rows_in += reads.rows
            counts.bytes_in += reads.bytes
            counts.at_least |= reads.at_least


def _innermost_first(root: PhysicalNode, uses: dict[int, int]) -> Iterator[ScanNode | FragmentNode]:
    """Every node once, after those it reads from; `uses` counts its readers. Plans may be deep: no recursion."""
    done: set[int] = set()
    stack: list[tuple[PhysicalNode, bool]] = [(root, False)]
    while stack:
        node, below_done = stack.pop()
        if isinstance(node, KeptNode | ReceiveNode):
            continue
        if not below_done:
            uses[id(node)] = uses.get(id(node), 0) + 1
        if id(node) in done:
            continue
        inputs = node.streams if isinstance(node, FragmentNode) else ()
        if below_done or not inputs:
            done.add(id(node))
            yield node
        elif uses[id(node)] == 1:
            stack.append((node, True))
            stack.extend((each.node, False) for each in reversed(inputs))
