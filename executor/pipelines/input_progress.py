"""Progress of an epoch through the inputs of a plan or a graph.

A scan or an iterable counts rows as it gives them. Text files do not tell how many rows they have before their end, so
a scan also counts their bytes. A statement that reads files itself gives its first rows late: while
it runs, its rows count by DuckDB's own estimate of its progress, and all of them once it has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from ...operators.core.piece import FilePiece, Piece
from ...planner.physical.pipelines import FragmentNode, PhysicalNode, Pipeline, ScanNode
from ...planner.physical.user_nodes import IterateNode
from ...proto.graph import IterableSource
from ...proto.statistics import SourceProgress
from ..runtime.meters import Meters

Total: TypeAlias = int | None
Meter: TypeAlias = tuple[str, str]


class Statements(Protocol):
    """Receives reports about statements that read files themselves."""

    def statement(self, rows: Mapping[str, int], share: Callable[[], float | None]) -> AbstractContextManager[None]: ...


class EndedStatements:
    """Rows that ended statements have read from each source, in a process that nobody asks while they run."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}

    @contextmanager
    def statement(
        self,
        rows: Mapping[str, int],
        share: Callable[[], float | None],  # noqa: ARG002
    ) -> Generator[None]:
        yield
        for name, count in rows.items():
            self.rows[name] = self.rows.get(name, 0) + count


class InputProgress:
    """The progress of the current epoch, by the counts of `meters`.

    `begin` comes before the pipelines that read pieces, perhaps more than once.
    """

    def __init__(self, meters: Meters) -> None:
        self.meters = meters
        self._lock = threading.Lock()
        self._begin(0)

    def _begin(self, epoch: int) -> None:
        self._epoch = epoch
        self._totals: dict[str, Total] = {}
        self._text_totals: dict[str, int] = {}
        self._before: dict[str, dict[Meter, _Counted]] = {}
        self._ended: dict[str, float] = {}
        self._running: dict[int, _Statement] = {}

    def begin(self, epoch: int, reads: Sequence[InputRead], pieces: Mapping[str, Sequence[Piece]]) -> None:
        """Begin to read these pieces in `epoch`. No other epoch is running."""
        with self._lock:
            if epoch != self._epoch:
                self._begin(epoch)
            for read in reads:
                known, total = self._totals.get(read.source, 0), read.total(pieces)
                self._totals[read.source] = None if known is None or total is None else known + total
                self._text_totals[read.source] = self._text_totals.get(read.source, 0) + read.text_bytes(pieces)
                if read.meter is not None:
                    before = self._before.setdefault(read.source, {})
                    before.setdefault(read.meter, self._counted(read.meter))

    @contextmanager
    def statement(self, rows: Mapping[str, int], share: Callable[[], float | None]) -> Generator[None]:
        """A context in which a statement reads `rows` of the sources' files; `share` gives the part that is done."""
        statement = _Statement(rows, share)
        with self._lock:
            self._running[id(statement)] = statement
        done = 0.0
        try:
            yield
            done = 1.0
        finally:
            with self._lock:
                self._running.pop(id(statement), None)
                for name, count in rows.items():
                    self._ended[name] = self._ended.get(name, 0.0) + count * (done or statement.done)

    def ended(self, rows: Mapping[str, int]) -> None:
        """Count rows of the sources' files that statements of other processes have read."""
        with self._lock:
            for name, count in rows.items():
                self._ended[name] = self._ended.get(name, 0.0) + count

    def progress(self) -> Mapping[str, SourceProgress]:
        """The progress of each input that is read. From any thread."""
        with self._lock:
            running = tuple(self._running.values())
            shares = {id(statement): statement.ask() for statement in running}
            return {name: self._of(name, total, running, shares) for name, total in self._totals.items()}

    def _of(
        self, name: str, total: Total, running: Sequence[_Statement], shares: Mapping[int, float]
    ) -> SourceProgress:
        counted = [(self._counted(meter), before) for meter, before in self._before.get(name, {}).items()]
        rows = sum(now.rows - before.rows for now, before in counted)
        rows += int(
            self._ended.get(name, 0.0)
            + sum(statement.rows.get(name, 0) * shares[id(statement)] for statement in running)
        )
        return SourceProgress(
            rows=rows if total is None else min(rows, total),
            total=total,
            text_bytes=sum(now.text_bytes - before.text_bytes for now, before in counted),
            total_text_bytes=self._text_totals[name],
        )

    def _counted(self, meter: Meter) -> _Counted:
        return _Counted(*self.meters.read_by(*meter))


class _Counted(NamedTuple):
    """The counts of a meter."""

    rows: int
    text_bytes: int


class _Statement:
    """A running statement.

    `done` is a lower bound of its progress: estimates may fall, and a statement may run again.
    """

    def __init__(self, rows: Mapping[str, int], share: Callable[[], float | None]) -> None:
        self.rows = rows
        self.done = 0.0
        self._share = share

    def ask(self) -> float:
        self.done = max(self.done, self._share() or 0.0)
        return self.done


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRead:
    """A node that reads an input.

    `meter` counts its rows, except rows of files that a statement reads itself. All channels together read the pieces
    of `source` `times` times; an `iterable` has no pieces.
    """

    source: str
    meter: Meter | None = None
    times: int = 1
    iterable: IterableSource | None = None

    def total(self, pieces: Mapping[str, Sequence[Piece]]) -> Total:
        """The rows that all channels read there."""
        if self.iterable is not None:
            return _iterated(self.iterable)
        rows = _sum(piece.row_count for piece in pieces.get(self.source, ()))
        return None if rows is None else rows * self.times

    def text_bytes(self, pieces: Mapping[str, Sequence[Piece]]) -> int:
        """The bytes of text files, which do not tell their number of rows, that all channels read there."""
        return self.times * sum(
            piece.version.size
            for piece in pieces.get(self.source, ())
            if isinstance(piece, FilePiece) and piece.row_count is None
        )


def reads_of(pipelines: Sequence[Pipeline]) -> tuple[InputRead, ...]:
    """The inputs that these pipelines read."""
    return tuple(read for pipeline in pipelines for node in pipeline.nodes for read in _reads(node, pipeline))


def _reads(node: PhysicalNode, pipeline: Pipeline) -> Iterator[InputRead]:
    match node:
        case ScanNode():
            times = pipeline.channels if node.whole else 1
            yield InputRead(source=node.source, meter=("Scan", node.plan_path), times=times)
        case FragmentNode():
            for file in node.files:
                yield InputRead(source=file.source, times=pipeline.channels if file.whole else 1)
        case IterateNode(source=source):
            yield InputRead(source=source.name, meter=("Iterate", source.name), iterable=source)
        case _:
            pass


def _iterated(source: IterableSource) -> Total:
    """The rows of an iterable. Arrow data given as a list tells them; any other iterable may end anywhere."""
    if not isinstance(source.items, list) or source.epoch_rows is not None:
        return None
    return _sum(batch.num_rows if isinstance(batch, pa.RecordBatch) else None for batch in source.items)


def _sum(counts: Iterable[Total]) -> Total:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total
