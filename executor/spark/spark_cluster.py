"""A task's access to Spark: its epochs run as jobs, and its results are files, read in the order of the channels."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from ...operators.changes.network.network_statistics import LoopStatistics, OperatorStatistics
from ...operators.core.interrupts import interrupted
from ...operators.core.operator import Stream
from ...operators.core.piece import InlinePiece, Piece
from ...planner.physical import pipelines as planned
from ...planner.physical.instance_memory import instance_memory, undivided_memory
from ...planner.physical.pipelines import PhysicalPlan, Pipeline, Start, walk
from ...proto.errors import InternalError
from ...proto.statistics import StageStatistics
from ..pipelines.input_progress import InputProgress
from ..pipelines.pipeline import EpochInput, Pieces, Read
from ..runtime.network_totals import combined, combined_operators
from .epoch_stages import EpochStages, Setting
from .job import Job, Step
from .job_progress import Progress
from .keeping import SparkKeeping
from .sessions import Session, Shown
from .staged_files import Result, in_order, staged
from .staging import StagingPlace
from .worker import reports
from .worker import task_failures as failures
from .worker.stage import Shipped, TurnEffect


class SparkCluster:
    """Implements `executor.plans.cluster.Cluster`."""

    def __init__(self, session: Session, staging: StagingPlace, setting: Setting, inputs: InputProgress) -> None:
        self.keeping = SparkKeeping(self.kept, setting.options, inputs.meters)
        self.plans = 0
        self.loops: tuple[LoopStatistics, ...] = ()
        self.bodies: tuple[OperatorStatistics, ...] = ()
        self._session = session
        self._staging = staging
        self._setting = setting
        self._maker = EpochStages(setting, self.keeping, self._static)
        self._meters = inputs.meters
        self._inputs = inputs
        self._tables: dict[str, Sequence[Piece]] = {}
        self._shipped: dict[int, tuple[PhysicalPlan, list[Shipped]]] = {}
        self._stopped = threading.Event()
        self._ended = threading.Event()
        self._ended.set()
        self._tag = ""
        self._number = 0
        self._progress = Progress()
        self._ended_channels = session.ended(self._count)
        self._counting = threading.Lock()
        self._counted: set[tuple[str, int]] = set()
        self._read = Read()

    # -------------------------------------------------------------------------------------------------- running

    def rows(self, physical: PhysicalPlan, *, epoch: int, epoch_input: EpochInput) -> Generator[pa.RecordBatch]:
        self._stopped.clear()  # an interrupt was for the epoch before
        effect = self._setting.effect
        with self._staging.epoch(epoch) as folder, self._filled():
            staged_input = replace(epoch_input, whole=self._whole(epoch_input.whole, folder))
            target = None if effect is None else effect.target()
            results = self._results(self._stages(physical), epoch, staged_input, folder, target)
            yield from in_order(results) if effect is None else effect.adopted(results, self._meters)

    def stages(self) -> tuple[StageStatistics, ...]:
        return self._progress.stages()

    def interrupt(self) -> None:
        self._stopped.set()
        threading.Thread(target=self._interrupt, daemon=True).start()

    def close(self) -> None:
        self._staging.remove()
        self._session.close()

    @contextmanager
    def _filled(self) -> Iterator[None]:
        """A context in which the epoch's items of the iterables are in their files."""
        try:
            for iterable in self._setting.iterables:
                iterable.fill(self._check_stopped)
            yield
        finally:
            for iterable in self._setting.iterables:
                iterable.remove()

    def _results(
        self,
        stages: Sequence[Shipped],
        epoch: int,
        epoch_input: EpochInput,
        folder: Path,
        target: TurnEffect = None,
    ) -> list[Result]:
        """The results of the channels of each pipeline that feeds no exchange, in order."""
        self._begin(epoch_input.read)
        steps = self._maker.steps(
            stages, run=self._number, epoch=epoch, epoch_input=epoch_input, folder=folder, effect=target
        )
        results = list(map(Result.read, self._run(steps, epoch)))
        for result in results:
            self._count(self._number, result.reports)
        return sorted(results, key=lambda result: (result.pipeline, result.channel))

    def _run(self, steps: Sequence[Step], epoch: int) -> list[bytes]:
        self._ended.clear()
        try:
            self._check_stopped()
            tell = partial(self._progress.tell, self._number)
            shown = Shown(group=self._setting.task, description=f"Tidegate task {self._setting.task}, epoch {epoch}")
            return self._session.run(
                lambda spark: Job(spark, steps, self._ended_channels).run(), self._tag, tell, shown
            )
        except Exception as error:
            self._check_stopped()
            ended = self._session.is_lost(error)
            raise failures.of_job(error, f"the Spark job of epoch {epoch}", ended=ended) from error
        finally:
            self._ended.set()

    def _interrupt(self) -> None:
        """Interrupt the run repeatedly, because a run that has just begun may not be a job of Spark's yet."""
        while not self._ended.is_set():
            self._session.interrupt(self._tag)
            self._ended.wait(_INTERRUPTED_SECONDS)

    def _check_stopped(self) -> None:
        if self._stopped.is_set():
            raise interrupted()

    # ----------------------------------------------------------------------------------------------- counting

    def _begin(self, read: Read) -> None:
        """Begin a run, with nothing counted yet."""
        with self._counting:
            self._number += 1
            self._tag = f"tidegate-{uuid.uuid4().hex}"
            self._read = read
            self._counted = set()
            self._progress.begin(self._number)

    def _count(self, number: int, payload: bytes) -> None:
        """Count a report of the run of this number.

        Only a channel's first report counts; it may come before the run's end.
        """
        with self._counting:
            if number != self._number:
                return
            for report in reports.read(payload):
                if (report.stage, report.channel) not in self._counted:
                    self._counted.add((report.stage, report.channel))
                    self._add(report)

    def _add(self, report: reports.Report) -> None:
        reports.add(report, self._meters, self._read)
        self._inputs.ended(report.statements)
        self._progress.end(report)
        self.plans += report.plans
        if report.loops:
            self.loops = combined((*self.loops, *report.loops))
            self.bodies = combined_operators((*self.bodies, *report.bodies))

    # --------------------------------------------------------------------------------------------------- stages

    def _stages(self, physical: PhysicalPlan) -> list[Shipped]:
        shipped = self._shipped.get(id(physical))
        if shipped is None:
            memory = instance_memory(physical, self._setting.options)
            effect = self._setting.effect
            pipelines = physical.pipelines if effect is None else effect.pipelines(physical.pipelines)
            memory = [*memory, *[memory[-1]] * (len(pipelines) - len(memory))]
            stages = list(self._maker.shipped(pipelines, memory, "pipeline", physical))
            shipped = self._shipped[id(physical)] = (physical, stages)
            while len(self._shipped) > _PLANS_KEPT:
                del self._shipped[next(iter(self._shipped))]
        return shipped[1]

    # --------------------------------------------------------------------------------------------------- pieces

    def _whole(self, pieces: Pieces, folder: Path) -> Pieces:
        """All pieces, as files."""
        static = self._static()
        return {
            name: static[name] if name in static else _as_files(source_pieces, folder)
            for name, source_pieces in pieces.items()
        }

    def _static(self) -> Mapping[str, Sequence[Piece]]:
        """The tables, as files of the task."""
        if self._setting.tables and not self._tables:
            folder = self._staging.new_folder("tables")
            self._tables = {
                name: _as_files(source_pieces, folder) for name, source_pieces in self._setting.tables.items()
            }
        return self._tables

    def kept(self, root: planned.PhysicalNode, clock_us: int) -> Result:
        """The rows of a node over the tables, in a file of the task."""
        folder = self._staging.new_folder("kept")
        sources = tuple(dict.fromkeys(read.source for node in walk(root) for read in planned.read_from_sources(node)))
        pipeline = Pipeline(root=root, sources=sources, start=Start.SEAL)
        stages = list(self._maker.shipped([pipeline], [undivided_memory(self._setting.options)], "kept rows"))
        options = self._setting.options
        tables = self._static()
        epoch_input = EpochInput(
            pieces=tables,
            whole=tables,
            receive=_nothing,
            clock_us=clock_us,
            time_zone=options.time_zone,
            read=Read(),
        )
        (result,) = self._results(stages, 0, epoch_input, folder)
        if result.error:
            raise failures.read(result.error.encode())
        return result


_PLANS_KEPT = 16
_INTERRUPTED_SECONDS = 0.5


def _nothing(exchange: int) -> Stream:
    raise InternalError(f"there is no exchange {exchange}")


def _as_files(pieces: Sequence[Piece], folder: Path) -> Sequence[Piece]:
    return tuple(staged(piece, folder) if isinstance(piece, InlinePiece) else piece for piece in pieces)
