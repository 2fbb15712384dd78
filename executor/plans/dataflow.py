"""A prepared plan as a computation: pipelines are made once per shape of the sources, kept, and run in every epoch.

With one channel the pipelines run one after the other; with more channels they run side by side (`exchange/`). Their
pieces and the memory of each are fixed either way, and nothing outside the task can change their result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final, NotRequired, TypedDict, Unpack

import pyarrow as pa

from ...operators.changes.network.network_statistics import LoopStatistics as RunLoops
from ...operators.changes.network.network_statistics import OperatorStatistics as RunOperators
from ...operators.core.column import schema_of
from ...operators.core.interrupts import interrupted
from ...operators.core.machine import usable_cpus
from ...operators.core.operator import StateReader, StateWriter, Stream
from ...operators.core.piece import FilePiece, FileVersion, InlinePiece, Piece
from ...operators.core.submit import Submit
from ...operators.duckdb.instances import Instance, InstancePool, InstanceSettings
from ...operators.duckdb.loop_resources import Later
from ...operators.indexes.sql import Database
from ...operators.sources.files_ahead import FilesAhead, FreedAhead
from ...operators.sources.formats.matching import match_columns
from ...operators.sources.split_pieces import expand
from ...planner.physical.instance_memory import channel_memory, index_memory, undivided_memory
from ...planner.physical.pipelines import PhysicalNode, PhysicalPlan, Pipeline, ScanNode, SourceShape, Start, walk
from ...planner.physical.sources import PlannedSource
from ...planner.prepare import Planned
from ...proto.errors import Exhausted, InternalError, SplitError
from ...proto.statistics import LoopStatistics, OperatorStatistics, SourceProgress, StageStatistics
from ...proto.values import Determinism, FileSplit, InlineSplit, TaskOptions
from ..api.computation import EpochRun, RowEffect, Source
from ..exchange.parallel_epoch import ExecutionContext
from ..ledger.split_book import rowless
from ..pipelines.build_operators import OperatorFactory, RunNode
from ..pipelines.channel_pipelines import Pipelines, without
from ..pipelines.channel_run import Retries, retries_of
from ..pipelines.input_progress import InputProgress
from ..pipelines.pipeline import EpochInput, Pieces, PipelineInstance, Read, Sent
from ..pipelines.pipeline_watermarks import Passed
from ..pipelines.shapes import shape_of
from ..runtime.batch_store import Quota, SpillSpace
from ..runtime.meters import Meter, Meters
from ..runtime.network_totals import combined, combined_operators, loop_statistics, operator_statistics
from ..runtime.scheduler import Scheduler
from ..runtime.side_threads import SideQueue, SideThreads
from .cluster import Keeps, MakeCluster
from .epoch_of_plan import PlanRun
from .static_results import Keeping
from .static_tables import file_versions, refuse_changes, sizes

_FILE_KINDS: Final = ("file:parquet", "file:arrow", "file:orc", "file:csv", "file:json")
_SHAPES_KEPT = 16
_AHEAD_BYTES: Final = 64 << 20
_AHEAD_SHARE: Final = 64
"""Of each of two files, one part in so many of a task's memory is read ahead, within these bounds."""
_LEAST_AHEAD: Final = 4 << 20
_FILES_AHEAD: Final = 2


class Resources(TypedDict):
    """The resources that a service gives a computation."""

    pool: InstancePool
    settings: InstanceSettings
    roots: Sequence[str]
    space: SpillSpace
    scheduler: Scheduler
    side: str
    tables: Mapping[str, Sequence[Piece]]
    databases: Mapping[str, Database]
    lookups: SideThreads
    readers: SideThreads | None
    later: Later
    write: NotRequired[RowEffect | None]
    cluster: NotRequired[MakeCluster | None]
    progress: NotRequired[InputProgress]


class PlanComputation:
    """The computation of a plan in per-epoch mode.

    `tables` are the opened pieces of the static sources. Splits may be read from `roots`. The plan's rows go through
    `write`; a computation that writes waits for the seal. A computation with a `cluster` waits for the seal too: the
    cluster runs the pipelines. So does one that shares its `progress` with another computation.
    """

    def __init__(self, prepared: Planned, options: TaskOptions, **resources: Unpack[Resources]) -> None:
        write, space = resources.get("write"), resources["space"]
        self.schema = prepared.schema if write is None else write.schema
        self.warnings = prepared.warnings
        sources = prepared.sources
        self.sources = tuple(map(source_of, sources))
        self.options = options
        self.columns = {source.name: source.columns for source in sources}
        self.tables = dict(resources["tables"])
        self._prepared = prepared
        self._pool, self._settings = resources["pool"], resources["settings"]
        self._roots, self._side = tuple(resources["roots"]), resources["side"]
        self._space = space
        self._nominal = self._nominal_shapes()
        self._at_seal = "progress" in resources
        self.inputs = resources.get("progress") or InputProgress(Meters())
        self.meters = self.inputs.meters
        make_cluster = resources.get("cluster")
        self.cluster = None if make_cluster is None else make_cluster(self.inputs)
        self._keeping: Keeps = (
            Keeping(self._kept_rows, options, space, self.meters) if self.cluster is None else self.cluster.keeping
        )
        self._without: set[str] = set()
        self._databases, self._later = resources["databases"], resources["later"]
        self._lookups, self._readers = resources["lookups"], resources["readers"]
        self._side_queues: list[SideQueue] = []
        self._ahead: FilesAhead | None = None
        self._made: Mapping[tuple[SourceShape, ...], Pipelines] = {}  # never changed: other threads read it
        self._running: set[PipelineInstance] = set()
        self._instances: dict[tuple[int, int], Instance] = {}
        self.execution_context = ExecutionContext(
            scheduler=resources["scheduler"],
            space=SpillSpace(space.files, Quota(options.spill_quota)),
            exchange_bytes=options.queue_bytes,
            result_bytes=options.output_bytes,
            meters=self.meters,
            run=self.run,
            retries=self.retries,
        )
        self._stopped = False
        self._plans = 0
        self._ended_loops: tuple[RunLoops, ...] = ()
        self._ended_bodies: tuple[RunOperators, ...] = ()
        self._accepted: dict[str, InlinePiece] = {}
        pipelines = prepared.physical(self._nominal).pipelines
        self.write = write
        self.lead, self.early_source = self._ahead_of_the_seal(pipelines)
        behind = (source for pipeline in pipelines[self.lead + 1 :] for source in pipeline.sources)
        self.early_frees = self.early_source is not None and self.early_source not in behind

    def _nominal_shapes(self) -> dict[str, SourceShape]:
        """The shape of each table, and of fed sources without rows."""
        options = self.options
        return {
            name: shape_of(self.tables.get(name, ()), columns, options.channels, channel_memory(options))
            for name, columns in self.columns.items()
        }

    def _ahead_of_the_seal(self, pipelines: Sequence[Pipeline]) -> tuple[int, str | None]:
        """The first pipeline that starts with its pieces, by its number, and its source.

        Only static pipelines precede it.
        """
        if self.write is not None or self.cluster is not None or self._at_seal:
            return 0, None
        for index, pipeline in enumerate(pipelines):
            if pipeline.into or pipeline.received:
                break
            if all(source in self.tables for source in pipeline.sources):
                continue
            if pipeline.start is Start.PIECE:
                return index, pipeline.sources[0]
            break
        return 0, None

    # -------------------------------------------------------------------------------------------------- splits

    def accept_file(self, source: str, split: FileSplit, origin: str) -> tuple[FilePiece, ...]:  # noqa: ARG002
        refuse_changes(split, origin)
        return expand(split, self._roots, origin, side=self._side)

    def accept_inline(self, source: str, split: InlineSplit, origin: str) -> None:
        refuse_changes(split, origin)
        known = self._accepted.get(source)
        if known is not None and known.missing_columns is split.missing_columns and known.schema.equals(split.schema):
            return
        piece = self._accepted[source] = rowless(split, origin)
        try:
            match_columns(self.columns[source], split.schema, piece)
        except SplitError:
            del self._accepted[source]
            raise

    def static_sizes(self) -> Mapping[str, int]:
        return sizes(self.tables)

    def static_files(self) -> Mapping[str, FileVersion]:
        return file_versions(self.tables)

    def owned_versions(self) -> Mapping[str, str | None]:
        return self._prepared.owned_versions()

    # -------------------------------------------------------------------------------------------------- epochs

    def save(self, state: StateWriter) -> None:
        """Save nothing: an epoch leaves no state behind."""

    def load(self, state: StateReader) -> None:
        """Load nothing: there is no state."""

    def epoch(self, number: int, clock_us: int) -> EpochRun:
        self._stopped = False  # an interrupt was for the epoch before
        return PlanRun(self, clock_us, number)

    def pipelines(self, shape: Mapping[str, SourceShape], clock_us: int) -> Pipelines:
        """The pipelines for sources of this shape, with their kept results.

        Sources that are not named have the shape that they had when the task was made.
        """
        whole = {**self._nominal, **self._prepared.relevant(shape)}
        key = tuple(whole.values())
        pipelines = self._made.get(key)
        if pipelines is None:
            physical = self._kept_for(whole, clock_us)
            pipelines = Pipelines(physical, self.options, self.make, self._count)
        if [*self._made.values()][-1:] != [pipelines]:
            self._made = {**without(self._made, key), key: pipelines}
        if len(self._made) > _SHAPES_KEPT:
            self._end(next(iter(self._made)))
        return pipelines

    def _end(self, key: tuple[SourceShape, ...]) -> None:
        pipelines = self._made[key]
        self._made = without(self._made, key)
        self._count(pipelines)
        pipelines.close()

    def _kept_for(self, shape: Mapping[str, SourceShape], clock_us: int) -> PhysicalPlan:
        """The physical plan, after computing all results of static sources that it needs.

        If an index is too large and the plan can do without it, the plan is made without the index.
        """
        physical = self._prepared.physical(shape, self._without)
        while (large := self._keeping.ensure(physical, clock_us)) is not None:
            if large.name in self._without:
                room = index_memory(self.options)
                option = "slot_memory" if self.options.slot_memory else "memory_limit"
                raise Exhausted(
                    f"{large.plan_path}: the index does not fit; the indexes of a task may take {room} bytes together, "
                    f"a quarter of its {option}: raise {option}",
                    reason="INDEX_TOO_LARGE",
                )
            self._without.add(large.name)
            physical = self._prepared.physical(shape, self._without)
        return physical

    def make(self, root: PhysicalNode, channel: int, memory_limit: int, number: int) -> PipelineInstance:
        """The operators of a pipeline, on the DuckDB instance of this number among those with as much memory."""
        engines: list[Instance] = []
        factory = OperatorFactory(
            take=lambda: self._instance(memory_limit, number, engines),
            strict=self.options.determinism is Determinism.STRICT,
            spill=self.options.spill,
            meter=lambda operator, plan_path: self.meters.of(operator, plan_path, channel),
            index=self._keeping.index,
            tables=self.tables,
            databases=self._databases,
            lookup_queue=self._lookup_queue,
            space=self._space,
            channels=self.options.channels,
            loop_seconds=self.options.loop_seconds,
            later=self._later,
            channel=channel,
            watched=self.watched,
            memory_limit=self.options.memory_limit,
            missing_columns=self.options.missing_columns,
            read_ahead=self._read_ahead(root),
        )
        return PipelineInstance(root, factory=factory, kept=self._keeping.rows, engines=engines)

    def _instance(self, memory_limit: int, number: int, users: list[Instance]) -> Instance:
        instance = self._instances.get((memory_limit, number))
        if instance is not None and instance.broken:
            self._pool.give_back(instance)
            instance = None
        if instance is None:
            settings = replace(self._settings, memory_limit=memory_limit)
            instance = self._instances[memory_limit, number] = self._pool.take(settings)
        users.append(instance)
        return instance

    def _count(self, ended: PipelineInstance | Pipelines) -> None:
        """Add the statistics of pipelines that are about to be closed."""
        self._plans += ended.plans
        self._ended_loops = combined((*self._ended_loops, *ended.loops))
        self._ended_bodies = combined_operators((*self._ended_bodies, *ended.bodies))

    def _lookup_queue(self, limit: int) -> Submit:
        return self._side_queue(self._lookups, limit)

    def _read_ahead(self, root: PhysicalNode) -> FilesAhead | None:
        """Room to read ahead, where the task has memory for it and the pipeline reads one source: a join may leave most
        rows of a source unread. Channels use the cores already.
        """
        most = min(_AHEAD_BYTES, self.options.memory_limit // _AHEAD_SHARE)
        scans = (isinstance(node, ScanNode) for node in walk(root))
        if self._readers is None or self.options.channels > 1 or most < _LEAST_AHEAD or sum(scans) != 1:
            return None
        if self._ahead is None:
            freed = FreedAhead(self.options.memory_limit)
            self._ahead = FilesAhead(self._side_queue(self._readers, _FILES_AHEAD), most, freed)
        return self._ahead

    def _side_queue(self, threads: SideThreads, limit: int) -> Submit:
        queue = threads.queue(limit)
        self._side_queues.append(queue)
        return queue.submit

    def _kept_rows(self, root: PhysicalNode, clock_us: int) -> Generator[pa.RecordBatch]:
        instance = self.make(root, 0, undivided_memory(self.options), 0)
        try:
            with closing(self.run(instance, self.epoch_input(self.tables, clock_us, Read(), Passed()))) as rows:
                yield from rows
        finally:
            self._count(instance)
            instance.close()

    def epoch_input(
        self, pieces: Pieces, clock_us: int, read: Read, watermarks: Passed, sent: Sent | None = None
    ) -> EpochInput:
        """The input of a run over all of these pieces."""
        return EpochInput(
            pieces=pieces,
            whole=pieces,
            receive=_nothing,
            clock_us=clock_us,
            time_zone=self.options.time_zone,
            read=read,
            inputs=self.inputs,
            watermarks=watermarks,
            sent=sent or {},
        )

    def retries(self, root: PhysicalNode) -> Retries:
        """The retries of the channels of a pipeline with this root."""
        return retries_of(root, self.options.retries)

    def watched(self, node: RunNode, channel: int, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """The rows of the node's operator in an epoch; subclasses wrap them."""
        return rows

    def run(self, instance: PipelineInstance, epoch_input: EpochInput) -> Generator[pa.RecordBatch]:
        self._running.add(instance)
        try:
            self.check_stopped()
            yield from instance.run(epoch_input)
        finally:
            self._running.discard(instance)

    def check_stopped(self) -> None:
        if self._stopped:
            raise interrupted()

    # ------------------------------------------------------------------------------------------------- the rest

    def meter(self, write: RowEffect) -> Meter:
        return self.meters.of("Write", write.plan_path)

    def operators(self) -> tuple[OperatorStatistics, ...]:
        return (*self.meters.statistics(), *operator_statistics(combined_operators(self.bodies())))

    def bodies(self) -> tuple[RunOperators, ...]:
        elsewhere = () if self.cluster is None else self.cluster.bodies
        here = (body for pipelines in self._made.values() for body in pipelines.bodies)
        return (*self._ended_bodies, *elsewhere, *here)

    def loops(self) -> tuple[LoopStatistics, ...]:
        return loop_statistics(self.rounds())

    def rounds(self) -> tuple[RunLoops, ...]:
        elsewhere = () if self.cluster is None else self.cluster.loops
        here = (loop for pipelines in self._made.values() for loop in pipelines.loops)
        return (*self._ended_loops, *elsewhere, *here)

    def stages(self) -> tuple[StageStatistics, ...]:
        return () if self.cluster is None else self.cluster.stages()

    def progress(self) -> Mapping[str, SourceProgress]:
        return self.inputs.progress()

    @property
    def plans(self) -> int:
        elsewhere = 0 if self.cluster is None else self.cluster.plans
        return self._plans + elsewhere + sum(pipelines.plans for pipelines in self._made.values())

    def interrupt(self) -> None:
        self._stopped = True
        for running in tuple(self._running):
            running.interrupt()
        if self.cluster is not None:
            self.cluster.interrupt()

    def rest(self) -> None:
        """Operators with their statements, and DuckDB's instances, are made again in the next epoch; what static
        sources alone feed stays.
        """
        if any(pipelines.lasting for pipelines in self._made.values()):
            return
        self._close_operators()
        self._give_back(self._pool.retire)

    def close(self) -> None:
        self._close_operators()
        self._keeping.close()
        if self.cluster is not None:
            self.cluster.close()
        self.tables.clear()
        if self.write is not None:
            self.write.close()
        self._give_back(self._pool.give_back)

    def _close_operators(self) -> None:
        self._ahead = None
        while self._side_queues:
            self._side_queues.pop().close()
        while self._made:
            self._end(next(iter(self._made)))

    def _give_back(self, give_back: Callable[[Instance], None]) -> None:
        while self._instances:
            _, instance = self._instances.popitem()
            give_back(instance)


def source_of(planned: PlannedSource) -> Source:
    """The source of a plan as a computation describes it."""
    kinds = () if planned.static else (*_FILE_KINDS, "inline")
    return Source(name=planned.name, schema=schema_of(planned.columns), static=planned.static, split_kinds=kinds)


def _nothing(exchange: int) -> Stream:
    raise InternalError(f"there is no exchange {exchange}")


def instance_settings(options: TaskOptions, roots: Sequence[str]) -> InstanceSettings:
    """The settings of DuckDB instances.

    Strict tasks have one thread, so that rows come in a repeatable order. Relaxed tasks have one for each CPU that
    the process may use.
    """
    strict = options.determinism is Determinism.STRICT
    return InstanceSettings(
        memory_limit=options.memory_limit,
        threads=1 if strict else usable_cpus(),
        roots=tuple(roots),
        time_zone=options.time_zone,
        spill_limit=options.spill_quota,
    )
