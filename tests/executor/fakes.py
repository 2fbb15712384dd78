"""An engine in a few lines of Python, so that the lifecycle is tested without plans or DuckDB.

Every fed source is a column `x`. The fake's answer is the rows of its sources, one source after the other, each
mapped by `function` (which may raise); with `early`, the first source's rows come before the seal. Work waits for
`gate`, and on splits of several rows never ends before `endless_until`.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import pyarrow as pa

from tests.adding import add_splits
from tidegate.executor.api.computation import Source
from tidegate.executor.api.engine import Engine
from tidegate.executor.runtime.batch_store import SpillSpace
from tidegate.executor.service.manager import TaskManager
from tidegate.operators.core.operator import StateReader, StateWriter, least_watermark
from tidegate.operators.core.piece import FilePiece, FileVersion, InlinePiece, Piece
from tidegate.proto.errors import ExecutionError, SplitError
from tidegate.proto.statistics import LoopStatistics, OperatorStatistics, SourceProgress, StageStatistics
from tidegate.proto.values import (
    START,
    Added,
    Barrier,
    Capabilities,
    Cursor,
    Data,
    Explanation,
    FileSplit,
    Finished,
    Frame,
    InlineSplit,
    PlanBytes,
    Seal,
    TaskInfo,
    TaskOptions,
    after,
)

SCHEMA = pa.schema([pa.field("x", pa.int64())])
PLAN = PlanBytes(binary=b"plan")
POISON = -1


def rows(*values: int, watermark: int | None = None) -> InlineSplit:
    """An inline split of these numbers."""
    return InlineSplit(schema=SCHEMA, batches=(batch(*values),), watermark=watermark)


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


@dataclass
class FakeEngine:
    sources: tuple[str, ...] = ("a",)
    static: tuple[str, ...] = ()
    early: bool = False
    function: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda batch: batch
    repeat: int = 1
    gate: threading.Event | None = None
    endless_until: threading.Event | None = None
    save: Callable[[StateWriter], None] = lambda state: None
    load: Callable[[StateReader], None] = lambda state: None
    computations: list[FakeComputation] = field(default_factory=list)

    def prepare(
        self,
        plan: PlanBytes,
        options: TaskOptions,
        tables: Mapping[str, Sequence[object]],
        space: SpillSpace,
        _: object,
    ) -> FakeComputation:
        self.computations.append(FakeComputation(self))
        return self.computations[-1]

    def validate(self, plan: PlanBytes, options: TaskOptions) -> tuple[Sequence[object], Sequence[str]]:
        return (), ()

    def explain(
        self, plan: PlanBytes, options: TaskOptions, static_sources: Sequence[str], rows: Mapping[str, int]
    ) -> Explanation:
        return Explanation(text="fake", json="{}")

    def capabilities(self) -> Capabilities:
        return Capabilities(version="0", dialect="", engines=self.versions())

    def meaning(self, plan: PlanBytes, tables: object, space: object) -> str:
        return repr(plan)

    def versions(self) -> Mapping[str, str]:
        return {}

    def close(self) -> None:
        pass


def counting(value: int, before: int) -> int:
    """The row that a `CountingEngine` makes of a value, behind so many rows."""
    return value + 1_000 * before


@dataclass
class CountingEngine(FakeEngine):
    """Each row says how many rows of the task came before it, so that the number is a task's state."""

    def prepare(self, *how: object) -> FakeComputation:
        before = [0]

        def number(batch: pa.RecordBatch) -> pa.RecordBatch:
            first = before[0]
            before[0] += batch.num_rows
            values = [counting(value, at) for at, value in enumerate(batch.column(0).to_pylist(), first)]
            return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)

        def save(state: StateWriter) -> None:
            now = before[0]
            state.write_parts("rows", 1, (Noted(now),), lambda noted: pa.table({"rows": [noted.rows]}))

        def load(state: StateReader) -> None:
            _, (table,) = state.read_parts("rows")
            before[0] = table.column("rows")[0].as_py()

        engine = FakeEngine(**{item.name: getattr(self, item.name) for item in fields(self)})
        engine.function, engine.save, engine.load = number, save, load
        self.computations.append(FakeComputation(engine))
        return self.computations[-1]


@dataclass(eq=False)
class Noted:
    rows: int


class FakeComputation:
    schema = SCHEMA
    warnings = ()
    plans = 0

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine
        self.sources = (
            *(Source(name=name, schema=SCHEMA, static=False, split_kinds=("inline",)) for name in engine.sources),
            *(Source(name=name, schema=SCHEMA, static=True, split_kinds=()) for name in engine.static),
        )
        self.early_source = engine.sources[0] if engine.early else None
        self.early_frees = engine.early
        self.interrupted = threading.Event()
        self.closed = threading.Event()
        self.clocks: list[int] = []
        self.rests = 0

    def accept_file(self, source: str, split: FileSplit, origin: str) -> tuple[FilePiece, ...]:
        if split.path == "missing":
            raise SplitError(f"{origin}: there is no file 'missing'")
        version = FileVersion(size=1, modified_ns=1)
        return (FilePiece(path=split.path, format="fake", version=version, origin=origin),)

    def accept_inline(self, source: str, split: InlineSplit, origin: str) -> None:
        if split.schema != SCHEMA:
            raise SplitError(f"{origin}: columns {split.schema.names} are not {SCHEMA.names}")

    def static_sizes(self) -> Mapping[str, int]:
        return dict.fromkeys(self.engine.static, 1)

    def static_files(self) -> Mapping[str, FileVersion]:
        return {}

    def owned_versions(self) -> Mapping[str, str | None]:
        return {}

    def save(self, state: StateWriter) -> None:
        self.engine.save(state)

    def load(self, state: StateReader) -> None:
        self.engine.load(state)

    def epoch(self, _: int, clock_us: int) -> FakeRun:
        self.clocks.append(clock_us)
        return FakeRun(self)

    def rest(self) -> None:
        self.rests += 1

    def operators(self) -> tuple[OperatorStatistics, ...]:
        return ()

    def loops(self) -> tuple[LoopStatistics, ...]:
        return ()

    def stages(self) -> tuple[StageStatistics, ...]:
        return ()

    def progress(self) -> Mapping[str, SourceProgress]:
        return {}

    def interrupt(self) -> None:
        self.interrupted.set()

    def close(self) -> None:
        self.closed.set()


class FakeRun:
    def __init__(self, computation: FakeComputation) -> None:
        self._computation = computation
        self.rows_in = 0
        self.bytes_in = 0
        self.at_least = False
        self.on_spark = False
        self.effect = None
        self.watermark: int | None = None

    def early(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        return self._run(pieces)

    def sealed(
        self, pieces: Mapping[str, Sequence[Piece]], watermarks: Mapping[str, int | None]
    ) -> Iterator[pa.RecordBatch]:
        self.watermark = least_watermark(watermarks.values())
        first = self._computation.early_source
        for source, some in pieces.items():
            if source != first:
                yield from self._run(some)
        for _ in self._computation.engine.static:
            yield batch(1000)

    def _run(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        engine = self._computation.engine
        for piece in pieces:
            if engine.gate is not None:
                while not engine.gate.wait(0.01):
                    if self._computation.interrupted.is_set():
                        raise ExecutionError("interrupted")
            for some in piece.batches() if isinstance(piece, InlinePiece) else [batch(int(piece.path))]:
                if some.num_rows and some.column(0)[0].as_py() == POISON:
                    raise ExecutionError(f"{piece.origin}: poison")
                while engine.endless_until is not None and some.num_rows > 1 and not engine.endless_until.is_set():
                    yield batch()
                self.rows_in += some.num_rows
                for _ in range(engine.repeat):
                    yield engine.function(some)


class Client:
    """One task of a service of its own, and short names for its calls."""

    def __init__(self, manager: TaskManager, info: TaskInfo) -> None:
        self.manager = manager
        self.id = info.id
        self.cursor = START

    def add(self, *values: int, source: str = "a", sequence: int | None = None, epoch: int | None = None) -> Added:
        return add_splits(self.manager, self.id, [(source, rows(*values), sequence)], epoch=epoch)[0][0]

    def seal(self, epoch: int | None = None, **through: int) -> int:
        return self.manager.request_barrier(self.id, epoch, Seal(through=through or None))

    def end(self, source: str | None = None, **through: int) -> None:
        self.manager.no_more_splits(self.id, source, through or None)

    def next(self, epoch: int, row: int = 0, **options: object) -> Sequence[Frame]:
        return self.at(Cursor(epoch, row), **options)

    def at(self, cursor: Cursor, **options: object) -> Sequence[Frame]:
        return self.manager.next(self.id, cursor, **{"wait": 20.0, **options})

    def look(self, epoch: int, row: int = 0) -> Sequence[Frame]:
        return self.manager.poll(self.id, Cursor(epoch, row))

    def epoch(self, number: int, row: int = 0, *, acknowledge: bool = False) -> list[int]:
        """Read an epoch from a row to its BARRIER: its values. Its barrier is left in `barrier`."""
        values: list[int] = []
        cursor = Cursor(number, row)
        while True:
            for frame in self.at(cursor, acknowledge=cursor if acknowledge else None):
                cursor = after(frame, cursor)
                match frame:
                    case Data():
                        values += [value for some in frame.batches for value in some.column(0).to_pylist()]
                    case Barrier():
                        self.barrier = frame
                        return values
                    case _:
                        raise AssertionError(f"epoch {number}: {frame}")

    def info(self) -> TaskInfo:
        return self.manager.get_task(self.id)

    def finished(self, epoch: int) -> bool:
        return isinstance(self.next(epoch)[0], Finished)


def manager_of(engine: Engine, **how: object) -> TaskManager:
    """A service over this engine, in a folder of its own."""
    return TaskManager(engine, folder=Path(tempfile.mkdtemp(prefix="tidegate-test-")), **how)


@contextlib.contextmanager
def running(engine: FakeEngine | None = None, *, threads: int = 2, **options: object) -> Iterator[Client]:
    manager = manager_of(engine or FakeEngine(), threads=threads)
    try:
        yield Client(manager, manager.create_task(PLAN, TaskOptions(**options), {}))
    finally:
        manager.close()
