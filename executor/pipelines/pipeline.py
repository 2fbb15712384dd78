"""A pipeline made ready to run: the operators of a tree of physical nodes, made once and run in every epoch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa

from ...operators.changes.network.network_statistics import LoopStatistics, OperatorStatistics
from ...operators.core.operator import UNBOUNDED, Stream
from ...operators.core.piece import Piece
from ...operators.duckdb.instances import Instance
from ...planner.physical.pipelines import KeptNode, LookupNode, PhysicalNode, ReceiveNode, inputs
from ..runtime.meters import Meter, MeteredStream
from .build_operators import Made, OperatorFactory, ReadSource, RunNode, make
from .epoch_clock import context_row
from .input_progress import Statements
from .kept_rows import Rows
from .key_shares import CutPieces
from .pipeline_watermarks import Passed

Pieces: TypeAlias = Mapping[str, Sequence[Piece]]
Sent: TypeAlias = Mapping[int | str, Sequence[str]]
"""The sources of rows that come from elsewhere: by an exchange's number, or by the name of kept rows or an index."""

_NONE: Final = Passed()


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
class EpochInput:
    """The input of a run: pieces of its channel and of all channels, its ranges of keys, exchanges, and the clock.

    The run counts its rows in `read`, and reports statements that read files to `inputs`. `sent` names the sources of
    rows that a pipeline does not read itself.
    """

    pieces: Pieces
    whole: Pieces
    receive: Callable[[int], Stream]
    clock_us: int
    time_zone: str
    read: Read
    cut: CutPieces = field(default_factory=dict)
    inputs: Statements | None = None
    watermarks: Passed = _NONE
    sent: Sent = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """The streams of one run, by the node they come from. Rows with several readers are held."""

    epoch_input: EpochInput
    stack: ExitStack
    streams: dict[object, MeteredStream] = field(default_factory=dict)
    held: dict[object, list[pa.RecordBatch]] = field(default_factory=dict)


class PipelineInstance:
    """The operators of a pipeline.

    `run` is one epoch, or some of its pieces; the last run must have ended or been closed. `engines` are the DuckDB
    instances that the operators have taken.
    """

    def __init__(
        self,
        root: PhysicalNode,
        *,
        factory: OperatorFactory,
        kept: Callable[[str], Rows],
        engines: Sequence[Instance] = (),
    ) -> None:
        self._root = root
        self._engines = engines
        self._factory = factory
        self._kept = kept
        self._made: list[Made] = []
        self._uses: dict[object, int] = {}
        try:
            for node in _innermost_first(root, self._uses):
                self._made.append(make(node, factory))
        except BaseException:
            self.close()
            raise

    @property
    def plans(self) -> int:
        return sum(built.operator.plans for built in self._made)

    @property
    def lasting(self) -> bool:
        return any(built.operator.lasting for built in self._made)

    @property
    def broken(self) -> bool:
        """True if an engine has failed inside, so that the operators cannot be used again."""
        return any(engine.broken for engine in self._engines)

    @property
    def loops(self) -> tuple[LoopStatistics, ...]:
        """Statistics of the loops that run round by round, and of the loops inside of them."""
        loops = (built.loop for built in self._made if built.loop is not None)
        return tuple(statistics for loop in loops for statistics in loop.statistics().loops)

    @property
    def bodies(self) -> tuple[OperatorStatistics, ...]:
        """Statistics of the operators in the bodies of those loops that follow changes."""
        loops = (built.loop for built in self._made if built.loop is not None)
        return tuple(body for loop in loops for body in loop.statistics().operators)

    def run(self, epoch_input: EpochInput) -> Generator[pa.RecordBatch]:
        """The result's rows for this input."""
        with ExitStack() as stack:
            run = _Run(epoch_input, stack)
            for built in self._made:
                if built.sources:
                    stack.callback(_release, built, epoch_input.read)
                    rows = _assign(built, epoch_input)
                    if built.statement is not None and epoch_input.inputs is not None:
                        stack.enter_context(epoch_input.inputs.statement(rows, built.statement.share))
                if built.clocks and built.statement is not None:
                    built.statement.set_context(context_row(built.clocks, epoch_input.clock_us, epoch_input.time_zone))
                streams = [self._stream(child, run, built.meter) for child in built.inputs]
                batches = self._factory.watched(built.node, self._factory.channel, built.operator.run(streams))
                watermarks = epoch_input.watermarks.sources
                stream = MeteredStream(
                    built.operator.schema, batches, built.meter, inputs=streams, largest=self._factory.memory_limit
                )
                if built.sources:
                    stream.reads({source.name: watermarks.get(source.name, UNBOUNDED) for source in built.sources})
                if isinstance(built.node, LookupNode) and isinstance(built.node.index, str):
                    stream.receives(epoch_input.sent.get(built.node.index, ()))
                if built.leaf:
                    stream.readers += (built.meter, epoch_input.read)
                stack.callback(stream.close)
                run.streams[_key(built.node)] = stream
            yield from self._stream(self._root, run, None)

    def interrupt(self) -> None:
        for built in self._made:
            built.operator.interrupt()

    def close(self) -> None:
        for built in self._made:
            built.operator.close()

    # -------------------------------------------------------------------------------------------------- running

    def _stream(self, node: PhysicalNode, run: _Run, reader: Meter | None) -> Stream:
        match node:
            case KeptNode():
                stream = MeteredStream(node.schema, self._kept(node.name).read(), Meter("Kept", node.name))
                stream.receives(run.epoch_input.sent.get(node.name, ()))
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
            rows = run.epoch_input.receive(node.exchange)
            stream = run.streams[key] = MeteredStream(
                node.schema, rows, self._factory.meter("Exchange", node.plan_path), inputs=[rows]
            )
            stream.receives(run.epoch_input.sent.get(node.exchange, ()))
            run.stack.callback(stream.close)
        return run.streams[key]

    def _replayed(self, node: PhysicalNode, stream: MeteredStream, run: _Run) -> MeteredStream:
        key = _key(node)
        if self._uses[key] == 1:
            return stream
        return MeteredStream(stream.schema, _replay(stream, run.held, key), Meter("Shared", ""), inputs=[stream])


def _key(node: PhysicalNode) -> object:
    """The key of a node's rows. An exchange has one end, however many nodes read it."""
    return ("exchange", node.exchange) if isinstance(node, ReceiveNode) else node


def _replay(stream: Stream, held: dict[object, list[pa.RecordBatch]], key: object) -> Iterator[pa.RecordBatch]:
    if key not in held:
        held[key] = list(stream)
    yield from held[key]


def _assign(built: Made, epoch_input: EpochInput) -> Mapping[str, int]:
    """Give the operator its pieces; the rows of each source, as far as they are known."""
    rows: dict[str, int] = {}
    for source in built.sources:
        pieces = _pieces(source, epoch_input)
        _give(built, source, pieces)
        rows[source.name] = rows.get(source.name, 0) + sum(piece.row_count or 0 for piece in pieces)
    return rows


def _pieces(source: ReadSource, epoch_input: EpochInput) -> Sequence[Piece]:
    if source.cut is not None:
        return epoch_input.cut[source.cut]
    if source.part is not None:
        return [piece for piece in epoch_input.whole[source.name] if piece.part == source.part]
    return (epoch_input.whole if source.whole else epoch_input.pieces)[source.name]


def _give(built: Made, source: ReadSource, pieces: Sequence[Piece]) -> None:
    if source.relation is not None and built.statement is not None:
        built.statement.assign_to(source.relation, pieces)
    elif built.reader is not None:
        built.reader.assign(source.name, pieces)


def _release(built: Made, read: Read) -> None:
    """Count the files that a fragment has read itself, and drop the splits, which need not outlive the epoch."""
    for source in built.sources:
        _give(built, source, ())
    if built.statement is not None:
        reads = built.statement.reads
        for counts in (read, built.meter):
            counts.rows_in += reads.rows
            counts.bytes_in += reads.bytes
            counts.at_least |= reads.at_least


def _innermost_first(root: PhysicalNode, uses: dict[object, int]) -> Iterator[RunNode]:
    """Every operator once, after the operators it reads from; `uses` counts readers.

    Plans may be deep: no recursion.
    """
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
        below = inputs(node)
        if below_done or not below:
            done.add(key)
            yield node
        elif uses[key] == 1:
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(below))
