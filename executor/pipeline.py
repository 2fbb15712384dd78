"""A pipeline made ready to run: the operators of a tree of physical nodes, made once and run epoch after epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
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
from ..proto.values import Spill
from .clock import RELATION, context_row, context_schema
from .kept import KeptRows
from .meters import Meter, MeteredStream

Pieces: TypeAlias = Mapping[str, Sequence[Piece]]


@dataclass(slots=True)
class Read:
    """Rows and bytes that an epoch has read from splits and tables."""

    rows_in: int = 0
    bytes_in: int = 0
    at_least: bool = False

    def add(self, other: Read) -> None:
        self.rows_in += other.rows_in
        self.bytes_in += other.bytes_in
        self.at_least |= other.at_least


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Supply:
    """What a run reads: the pieces of its channel, those of all channels, exchanges, and the clock. It is counted in
    `read`.
    """

    pieces: Pieces
    whole: Pieces
    receive: Callable[[int], Stream]
    clock_us: int
    time_zone: str
    read: Read


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """A source that an operator reads itself; a fragment calls it `relation`."""

    name: str
    relation: str | None
    whole: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """An operator, what it reads from, and what it reads from sources itself."""

    node: ScanNode | FragmentNode
    operator: Scan | Fragment
    meter: Meter
    inputs: tuple[PhysicalNode, ...]
    sources: tuple[_Source, ...]
    clocks: tuple[Clock, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """The streams of one run, by what they come from. Of what has several readers the rows are held."""

    supply: Supply
    stack: ExitStack
    streams: dict[object, MeteredStream] = field(default_factory=dict)
    held: dict[object, list[pa.RecordBatch]] = field(default_factory=dict)


class PipelineInstance:
    """`run` is one epoch (or some pieces of one); the last run must have ended or been closed.

    `meter` gives an operator's counters by its name and place.
    """

    def __init__(
        self,
        root: PhysicalNode,
        *,
        instance: Instance,
        strict: bool,
        spill: Spill,
        meter: Callable[[str, str], Meter],
        kept: Callable[[str], KeptRows],
    ) -> None:
        self._root = root
        self._instance = instance
        self._strict = strict
        self._spill = spill
        self._meter = meter
        self._kept = kept
        self._made: list[_Made] = []
        self._uses: dict[object, int] = {}
        try:
            for node in _innermost_first(root, self._uses):
                self._made.append(self._make(node))
        except BaseException:
            self.close()
            raise

    @property
    def plans(self) -> int:
        return sum(made.operator.plans for made in self._made if isinstance(made.operator, Fragment))

    def run(self, supply: Supply) -> Iterator[pa.RecordBatch]:
        """The rows of what is supplied."""
        with ExitStack() as stack:
            run = _Run(supply, stack)
            for made in self._made:
                stack.callback(_release, made, supply.read)
                _assign(made, supply)
                if made.clocks and isinstance(made.operator, Fragment):
                    made.operator.set_context(context_row(made.clocks, supply.clock_us, supply.time_zone))
                inputs = [self._stream(each, run, made.meter) for each in made.inputs]
                stream = MeteredStream(made.operator.schema, made.operator.run(inputs), made.meter)
                if isinstance(made.operator, Scan):
                    stream.readers += (made.meter, supply.read)
                stack.callback(stream.close)
                run.streams[_key(made.node)] = stream
            yield from self._stream(self._root, run, None)

    def interrupt(self) -> None:
        for made in self._made:
            made.operator.interrupt()

    def close(self) -> None:
        for made in self._made:
            made.operator.close()

    # -------------------------------------------------------------------------------------------------- making

    def _make(self, node: ScanNode | FragmentNode) -> _Made:
        match node:
            case ScanNode():
                source = _Source(node.source, None, node.whole)
                return _Made(node, Scan(node.source, node.columns), self._meter("Scan", node.place), (), (source,), ())
            case FragmentNode():
                return _Made(
                    node,
                    self._fragment(node),
                    self._meter("Fragment", node.place),
                    tuple(each.node for each in node.streams),
                    tuple(_Source(each.source, each.relation, each.whole) for each in node.files),
                    node.context,
                )
            case _:
                assert_never(node)

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
                    rows=each.node.rows if isinstance(each.node, ReceiveNode) else None,
                )
                for each in node.streams
            ],
            files=[FileSource(source=each.source, relation=each.relation, columns=each.columns) for each in node.files],
            context=ContextSource(relation=RELATION, schema=context_schema(node.context)) if node.context else None,
            strict=self._strict,
            ordered=node.ordered,
            spill=self._spill,
            place=node.place,
        )

    # -------------------------------------------------------------------------------------------------- running

    def _stream(self, node: PhysicalNode, run: _Run, reader: Meter | None) -> Stream:
        match node:
            case KeptNode():
                stream = MeteredStream(node.schema, self._kept(node.name).read(), Meter("Kept", node.name))
            case ReceiveNode():
                stream = self._replayed(node, self._received(node, run), run)
            case _:
                stream = self._replayed(node, run.streams[_key(node)], run)
        if reader is not None:
            stream.readers.append(reader)
        return stream

    def _received(self, node: ReceiveNode, run: _Run) -> MeteredStream:
        """The channel's end of an exchange, opened once."""
        key = _key(node)
        if key not in run.streams:
            rows = run.supply.receive(node.exchange)
            stream = run.streams[key] = MeteredStream(node.schema, rows, self._meter("Exchange", node.place))
            run.stack.callback(stream.close)
        return run.streams[key]

    def _replayed(self, node: PhysicalNode, stream: MeteredStream, run: _Run) -> MeteredStream:
        key = _key(node)
        if self._uses[key] == 1:
            return stream
        return MeteredStream(stream.schema, _replay(stream, run.held, key), Meter("Shared", ""))


def _key(node: PhysicalNode) -> object:
    """What a node's rows go by: there is one end of an exchange, however many nodes read it."""
    return ("exchange", node.exchange) if isinstance(node, ReceiveNode) else id(node)


def _replay(stream: Stream, held: dict[object, list[pa.RecordBatch]], key: object) -> Iterator[pa.RecordBatch]:
    if key not in held:
        held[key] = list(stream)
    yield from held[key]


def _assign(made: _Made, supply: Supply) -> None:
    for source in made.sources:
        _give(made, source, (supply.whole if source.whole else supply.pieces)[source.name])


def _give(made: _Made, source: _Source, pieces: Sequence[Piece]) -> None:
    if isinstance(made.operator, Fragment) and source.relation is not None:
        made.operator.assign_to(source.relation, pieces)
    else:
        made.operator.assign(source.name, pieces)


def _release(made: _Made, read: Read) -> None:
    """Count what a fragment has read of files itself. An operator outlives the epoch; its splits need not."""
    for source in made.sources:
        _give(made, source, ())
    if isinstance(made.operator, Fragment):
        reads = made.operator.reads
        for counts in (read, made.meter):
            counts.rows_in += reads.rows
            counts.bytes_in += reads.bytes
            counts.at_least |= reads.at_least


def _innermost_first(root: PhysicalNode, uses: dict[object, int]) -> Iterator[ScanNode | FragmentNode]:
    """Every operator once, after those it reads from; `uses` counts readers. Plans may be deep: no recursion."""
    done: set[object] = set()
    stack: list[tuple[PhysicalNode, bool]] = [(root, False)]
    while stack:
        node, below_done = stack.pop()
        if isinstance(node, KeptNode):
            continue
        key = _key(node)
        if not below_done:
            uses[key] = uses.get(key, 0) + 1
        if isinstance(node, ReceiveNode) or key in done:
            continue
        inputs = node.streams if isinstance(node, FragmentNode) else ()
        if below_done or not inputs:
            done.add(key)
            yield node
        elif uses[key] == 1:
            stack.append((node, True))
            stack.extend((each.node, False) for each in reversed(inputs))
