"""The computation of a continuous task: one network of operators on changes, which lives as long as the task.

An epoch's rows are fed as they are read, and processed batch by batch. Memory therefore holds the state and the epoch's
changes so far, but not its input. The result does not depend on where batches are cut, or on the order of splits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from ...operators.arrays.layout import arrow_positions
from ...operators.arrays.retype import unnamed
from ...operators.changes.event_time.window_closing import IDLE
from ...operators.changes.kept.state_format import check_version
from ...operators.changes.network.network import Network
from ...operators.changes.network.schedule import Watched
from ...operators.changes.retraction_check import NotThere
from ...operators.changes.values.epoch_result import EpochResult
from ...operators.changes.values.evaluator import Evaluators
from ...operators.core.interrupts import interrupted, unwatched
from ...operators.core.operator import UNBOUNDED, StateReader, StateWriter
from ...operators.core.piece import FilePiece, FileVersion, Piece
from ...operators.core.sizes import BATCH_BYTES, rows_within
from ...operators.duckdb.conform import Conform
from ...operators.duckdb.instances import Instance, InstancePool, InstanceSettings
from ...operators.sources.change_column import WEIGHT_FIELD
from ...operators.sources.split_pieces import expand
from ...operators.write import Write
from ...operators.writing.staged_write import Written
from ...planner.physical.sources import PlannedSource
from ...planner.prepare_changes import PreparedChanges, PreparedTable
from ...proto.arrow.without_rows import no_rows
from ...proto.errors import Exhausted, InternalError
from ...proto.statistics import LoopStatistics, OperatorStatistics, SourceProgress, StageStatistics
from ...proto.values import FileSplit, InlineSplit, OnError, TaskOptions
from ..api.computation import Effect, RowEffect, Source, Watermarks
from ..changes.build_graph import EntrySource, graph_of
from ..pipelines.input_progress import InputProgress, InputRead
from ..runtime.meters import Meter, Meters, check_rows
from ..runtime.network_totals import loop_statistics, operator_statistics
from .dataflow import source_of
from .read_changes import Reading
from .static_tables import file_versions, sizes
from .written_changes import Effects, WrittenChanges

_BATCH_ROWS: Final = 65_536
_STATEMENTS: Final = 4
"""Statements get this part of the task's memory; state gets the rest."""
_UNWEIGHED: Final = 64
"""Rows may be fed up to this part of the task's memory before the size of the state is checked again."""
_WATERMARKS: Final = pa.schema([("source", pa.string()), ("watermark", pa.int64())])
_LARGEST: Final = 3
"""The number of operators that the error about too large state names."""


class ContinuousComputation:
    """A continuous computation. `tables` are the opened pieces of the static sources; the first epoch reads them. The
    rows of a plan that writes go through `write`, those of its side tables through `side_tables`.
    """

    early_source: str | None = None
    early_frees = False

    def __init__(
        self,
        prepared: PreparedChanges,
        options: TaskOptions,
        *,
        pool: InstancePool,
        settings: InstanceSettings,
        roots: Sequence[str],
        side: str,
        tables: Mapping[str, Sequence[Piece]],
        write: RowEffect | None = None,
        side_tables: Sequence[Write] = (),
    ) -> None:
        self.schema = prepared.schema
        self.warnings = prepared.warnings
        self.nothing = no_rows(prepared.schema)
        self._meters = Meters()
        self._inputs = InputProgress(self._meters)
        self.write = None if write is None else self._written(write)
        self._side_tables = [self._side_table(*both) for both in zip(side_tables, prepared.side_tables, strict=True)]
        self._fed = {
            planned.name: self._fed_from(planned, port, options.memory_limit)
            for port, planned in enumerate(prepared.sources)
        }
        self.sources = tuple(fed.source for fed in self._fed.values())
        self._tables = dict(tables)
        self._roots, self._side = tuple(roots), side
        self._memory_limit = options.memory_limit
        self._memory = options.memory_limit - options.memory_limit // _STATEMENTS
        self._unweighed = 0
        self._stopped = False
        self._watermarks: dict[str, int] = {}
        """The greatest watermark of each source so far."""
        self._idle: set[str] = set()
        self._skips = options.on_error is OnError.SKIP_EPOCH
        self._undo: _Undo | None = None
        self._pool = pool
        self._instance_settings = replace(settings, memory_limit=options.memory_limit // _STATEMENTS)
        self._instance: Instance | None = None
        """None while the task rests, and if it has no statements."""
        self._evaluators = Evaluators(self._engine)
        try:
            entries = {name: fed.entry for name, fed in self._fed.items()}
            graph = graph_of(prepared.root, entries, self._evaluators)
            schedule = Watched(self.check_stopped, self.check, self.has_room, self.refuse)
            self._network = Network(graph, options.channels, schedule=schedule)
        except BaseException:
            self.close()
            raise
        self._outside = Conform(prepared.columns, "the result")
        self._result_schema = self._outside.taken_from(self._network.schema)

    def _engine(self) -> Instance:
        if self._instance is None:
            self._instance = self._pool.take(self._instance_settings)
        return self._instance

    def _fed_from(self, planned: PlannedSource, port: int, largest: int) -> _Fed:
        source = source_of(planned)
        schema = pa.schema([field.with_type(unnamed(field.type)) for field in source.schema])
        at = "Scan", planned.plan_paths[0] if planned.plan_paths else planned.name
        return _Fed(
            source,
            EntrySource(port=port, schema=schema, event_time=planned.event_time),
            Reading(planned, schema, self._meters.of(*at), largest),
            InputRead(source=planned.name, meter=at),
        )

    def _written(self, write: RowEffect) -> WrittenChanges:
        return WrittenChanges(write, self._meters.of("Write", write.plan_path), self.schema)

    def _side_table(self, effect: Write, planned: PreparedTable) -> _SideTable:
        return _SideTable(effect, self._written(effect), Conform(planned.columns, effect.plan_path))

    # -------------------------------------------------------------------------------------------------- splits

    def accept_file(self, source: str, split: FileSplit, origin: str) -> tuple[FilePiece, ...]:
        self._fed[source].reading.accept(split, origin)
        return expand(split, self._roots, origin, side=self._side)

    def accept_inline(self, source: str, split: InlineSplit, origin: str) -> None:
        self._fed[source].reading.accept(split, origin)

    def static_sizes(self) -> Mapping[str, int]:
        return sizes(self._tables)

    def static_files(self) -> Mapping[str, FileVersion]:
        return file_versions(self._tables)

    def owned_versions(self) -> Mapping[str, str | None]:
        """None: a plan on changes names neither operators nor databases."""
        return {}

    # -------------------------------------------------------------------------------------------------- epochs

    def save(self, state: StateWriter) -> None:
        """Save the network. Before the first complete epoch it has no state, and no static source was read."""
        state.write("begun", 1, pa.table({"begun": [not self._network.fresh]}))
        said = {"source": pa.array(self._watermarks, pa.string()), "watermark": [*self._watermarks.values()]}
        state.write("watermarks", 1, pa.table(said, _WATERMARKS))
        if not self._network.fresh:
            self._network.save(state)

    def load(self, state: StateReader) -> None:
        """Load the network. If an epoch was complete, it has read the static sources."""
        version, table = state.read("begun")
        check_version("begun", version, 1)
        version, said = state.read("watermarks")
        check_version("watermarks", version, 1)
        self._watermarks = {row["source"]: row["watermark"] for row in said.to_pylist()}
        if table.column("begun")[0].as_py():
            self._network.load(state)
            self._tables = {}
            self.check()

    def epoch(self, number: int, clock_us: int) -> ContinuousRun:  # noqa: ARG002 - no answer depends on the clock
        self._stopped = False  # an interrupt was for the epoch before
        self._evaluators.go_on()
        others: list[Effect] = [] if self.write is None else [self.write.effect]
        if self._skips:
            others.append(Undoing(self))
        if not self._side_tables and len(others) <= 1:
            return ContinuousRun(self, number, others[0] if others else None)
        return ContinuousRun(self, number, Effects([table.effect for table in self._side_tables], others))

    def mark(self) -> None:
        """Keep what `roll_back` restores, in tasks that skip epochs."""
        if self._skips:
            meters = tuple((meter, meter.runs, meter.rows_out, meter.bytes_out) for meter in self._meters.all())
            with unwatched():
                self._network.mark()
            self._undo = _Undo(self._tables, meters, dict(self._watermarks))

    def keep(self) -> None:
        """Keep the epoch's changes of state: the epoch is complete."""
        self._network.unmark()
        self._undo = None

    def roll_back(self) -> None:
        """Restore the state before the epoch, if an epoch was begun and not kept."""
        undo, self._undo = self._undo, None
        if undo is None:
            return
        with unwatched():
            self._network.roll_back()
        self._tables = dict(undo.tables)
        self._watermarks = dict(undo.watermarks)
        for meter, runs, rows, size in undo.meters:
            meter.runs, meter.rows_out, meter.bytes_out = runs, rows, size

    def blamed(self, error: NotThere, pieces: Mapping[str, Sequence[Piece]]) -> NotThere:
        """The error with the splits that delete the row. Reads the source's pieces once more to find them."""
        reading, splits = self._fed[error.source].reading, []
        for piece in pieces.get(error.source, ()):
            deletes = any(error.is_deleted_in(change) for change, _ in reading.changes(reading.opened((piece,))))
            if deletes and piece.origin not in splits:
                splits.append(piece.origin)
        return error.deleted_by(splits)

    def begin(self, number: int, pieces: Mapping[str, Sequence[Piece]]) -> Mapping[str, Sequence[Piece]]:
        """Begin an epoch of these pieces; the first epoch also reads the static sources. All pieces, opened."""
        tables, self._tables = self._tables, {}
        opened = {
            name: self._fed[name].reading.opened(source_pieces)
            for name, source_pieces in (*pieces.items(), *tables.items())
        }
        self._inputs.begin(number, [fed.read for name, fed in self._fed.items() if name in opened], opened)
        return opened

    def changes(self, source: str, pieces: Sequence[Piece]) -> Iterator[tuple[int, int]]:
        """Feed rows of a source; yields the number of rows and of bytes of each batch."""
        fed = self._fed[source]
        for change, size in fed.reading.changes(pieces):
            self._unweighed += size
            if self._unweighed > self._memory // _UNWEIGHED:
                self.check(size)
            self._network.feed(fed.entry.port, 0, change)
            self._network.run()
            yield len(change), size

    def reach(self, watermarks: Watermarks) -> None:
        """Raise the sources' watermarks. A watermark never goes back, and stays if the epoch says none. A source that
        is idle in the epoch keeps its own for later.
        """
        self._idle = {name for name, watermark in watermarks.items() if watermark == IDLE}
        for name, watermark in watermarks.items():
            if watermark is not None and watermark != IDLE:
                reached = watermark if watermark == UNBOUNDED else min(watermark, IDLE - 1)
                self._watermarks[name] = max(reached, self._watermarks.get(name, reached))

    @property
    def watermark(self) -> int | None:
        """The result's watermark, for the epoch completed last. Sources that are all idle say none."""
        return None if self._network.watermark == IDLE else self._network.watermark

    def complete(self, number: int) -> Iterator[pa.RecordBatch]:
        """End the epoch of this number; the rows of the result. Those of side tables are written before."""
        said = {
            source.name: UNBOUNDED if source.static else self._watermarks.get(source.name) for source in self.sources
        }
        said |= {name: IDLE for name in self._idle if said[name] != UNBOUNDED}
        self._network.end_all({self._fed[name].entry.port: watermark for name, watermark in said.items()})
        if not self._network.run():
            raise InternalError("the network stopped before the epoch was complete")
        result, *beside = self._network.results()
        self.check()
        for meter in self._meters.all():
            meter.failed = False  # an epoch that ends well is health again, for sources that it did not read too
        for table, rows, schema in zip(self._side_tables, beside, self._network.beside, strict=True):
            for _ in table.changes.rows(number, self._batches(rows, schema, table.conform)):
                """The rows of a side table are not part of the result."""
        changes = self._batches(result, self._result_schema, self._outside)
        yield from changes if self.write is None else self.write.rows(number, changes)

    def check(self, more: int = 0) -> None:
        """Raise if the run is to stop, or if the state and `more` bytes of input are too large."""
        self.check_stopped()
        self._unweighed = 0
        if self._network.nbytes + more > self._memory:
            self.refuse(more)

    def refuse(self, more: int) -> None:
        """Raise the error of state that is too large with `more` bytes beside it."""
        size = self._network.nbytes + more
        operators = sorted(self._network.statistics().operators, key=lambda operator: operator.nbytes, reverse=True)
        largest = "; ".join(
            f"{operator.operator} at {operator.plan_path}: {operator.nbytes:,}" for operator in operators[:_LARGEST]
        )
        raise Exhausted(
            f"the state of the continuous task and the epoch's changes take {size:,} bytes ({largest}); at most "
            f"{self._memory:,} bytes, three quarters of memory_limit, are allowed: raise memory_limit, or keep fewer "
            "rows or columns",
            reason="STATE_TOO_LARGE",
        )

    def has_room(self, size: int) -> bool:
        """True where the state, while it is put together anew, may take so many bytes more: what statements have."""
        return self._network.nbytes + size <= self._memory_limit

    def check_stopped(self) -> None:
        if self._stopped:
            raise interrupted()

    def _batches(self, result: EpochResult, schema: pa.Schema, conform: Conform) -> Iterator[pa.RecordBatch]:
        """The rows of a result of the network as they go out, and their weights."""
        for part in result.parts(rows_within(BATCH_BYTES, result.row_bytes, _BATCH_ROWS)):
            rows = conform(part.rows.to_batch(schema))
            check_rows(rows, self._memory_limit, "the result")
            yield rows.append_column(WEIGHT_FIELD, arrow_positions(part.weights))

    # ------------------------------------------------------------------------------------------------- the rest

    def operators(self) -> tuple[OperatorStatistics, ...]:
        return (*self._meters.statistics(), *operator_statistics(self._network.statistics().operators))

    def loops(self) -> tuple[LoopStatistics, ...]:
        return loop_statistics(self._network.statistics().loops)

    def stages(self) -> tuple[StageStatistics, ...]:
        return ()

    def progress(self) -> Mapping[str, SourceProgress]:
        return self._inputs.progress()

    @property
    def plans(self) -> int:
        return self._evaluators.plans

    def interrupt(self) -> None:
        self._stopped = True
        instance = self._instance
        if instance is not None:
            instance.interrupt()

    def rest(self) -> None:
        """State stays; statements are planned again in the next epoch."""
        instance, self._instance = self._instance, None
        if instance is not None:
            self._evaluators.rest()
            self._pool.retire(instance)

    def close(self) -> None:
        if self.write is not None:
            self.write.effect.close()
        for table in self._side_tables:
            table.effect.close()
        self._evaluators.close()
        self._tables.clear()
        instance, self._instance = self._instance, None
        if instance is not None:
            self._pool.give_back(instance)


@dataclass(frozen=True, slots=True)
class _Fed:
    """A source, its entry into the network, the reader of its rows, and the progress through them."""

    source: Source
    entry: EntrySource
    reading: Reading
    read: InputRead


@dataclass(frozen=True, slots=True)
class _SideTable:
    """A table that is written beside the result: its rows pass `conform`, and then `changes` writes them."""

    effect: Write
    changes: WrittenChanges
    conform: Conform


@dataclass(frozen=True, slots=True)
class _Undo:
    """The parts of a computation before an epoch, beside its network: tables that were not read yet, and counts."""

    tables: Mapping[str, Sequence[Piece]]
    meters: Sequence[tuple[Meter, int, int, int]]
    watermarks: Mapping[str, int]


class Undoing:
    """An epoch's change of state as an effect: it is committed, or dropped."""

    def __init__(self, computation: ContinuousComputation) -> None:
        self._computation = computation

    def commit(self) -> Written:
        self._computation.keep()
        return Written()

    def drop(self) -> None:
        self._computation.roll_back()


class ContinuousRun:
    """One epoch of a continuous computation."""

    at_least = False
    on_spark = False

    def __init__(self, computation: ContinuousComputation, number: int, effect: Effect | None) -> None:
        self.effect = effect
        self._number = number
        self._computation = computation
        self.rows_in = 0
        self.bytes_in = 0
        self.watermark: int | None = None

    def early(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        raise InternalError(f"a continuous task runs no {len(pieces)} pieces ahead of the seal")

    def sealed(self, pieces: Mapping[str, Sequence[Piece]], watermarks: Watermarks) -> Iterator[pa.RecordBatch]:
        """The epoch's changes. Empty batches while rows are fed let other tasks have their turn."""
        computation = self._computation
        computation.mark()
        computation.reach(watermarks)
        for source, source_pieces in computation.begin(self._number, pieces).items():
            for rows, size in computation.changes(source, source_pieces):
                self.rows_in += rows
                self.bytes_in += size
                yield computation.nothing
        try:
            yield from computation.complete(self._number)
        except NotThere as error:
            raise computation.blamed(error, pieces) from error
        self.watermark = computation.watermark
