"""A plan over DataFrames as a DataFrame: its pipelines are stages of the job that Spark runs when rows are wanted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ...operators.core.operator import Stream
from ...operators.core.piece import Piece
from ...operators.duckdb.instances import InstanceSettings
from ...operators.indexes.sql import Database
from ...planner.physical.instance_memory import channel_memory, instance_memory
from ...planner.physical.pipelines import Feed, PhysicalNode, PhysicalPlan, SourceShape
from ...planner.physical.size_classes import size_class
from ...planner.prepare import Prepared
from ...proto.errors import InternalError
from ...proto.spark_frames import FedFrame, Resulting
from ...proto.values import TaskOptions
from ..pipelines.input_progress import InputProgress
from ..pipelines.pipeline import EpochInput, Read
from ..pipelines.shapes import shape_of
from ..runtime.meters import Meters
from .epoch_stages import EpochStages, Setting
from .executors import check_settings
from .job import Job
from .keeping import SparkKeeping
from .sessions import Session
from .spark_cluster import SparkCluster
from .staged_files import Result
from .staging import StagingPlace
from .worker.stage import HandedOn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_UNKNOWN_ROWS: Final = 10_000_000
"""The rows of a DataFrame of which Spark says nothing."""
_VALUE_BYTES: Final = 8
_MOST_BYTES: Final = 1 << 36
"""Larger estimates are mostly those of joins, far above the truth."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanOverFrames:
    """A plan with its sources: `frames` are those that DataFrames feed, `files` the others, as pieces."""

    prepared: Prepared
    options: TaskOptions
    settings: InstanceSettings
    databases: Mapping[str, Database]
    frames: Mapping[str, FedFrame]
    files: Mapping[str, Sequence[Piece]]


def frame_of_plan(
    session: SparkSession, plan: PlanOverFrames, resulting: Resulting, open_staging: Callable[[Session], StagingPlace]
) -> DataFrame:
    """The plan's rows. Nothing runs yet, except what the plan computes from files that it names itself.

    These results are files in the folder that `open_staging` makes, for as long as the service.
    """
    check_settings(lambda name: session.conf.get(name, None), plan.options)
    static = {source.name for source in plan.prepared.sources if source.static}
    setting = Setting(
        task="query",
        options=plan.options,
        settings=plan.settings,
        tables={name: pieces for name, pieces in plan.files.items() if name in static},
        databases=plan.databases,
        frames={name: frame.schema for name, frame in plan.frames.items()},
    )
    meters = Meters()
    keeping = SparkKeeping(_Kept(session, setting, meters, open_staging), plan.options, meters)
    clock_us = time.time_ns() // 1000
    physical = _physical(plan, keeping, clock_us)
    maker = EpochStages(setting, keeping, lambda: setting.tables)
    memory = instance_memory(physical, plan.options)
    stages = list(maker.shipped(physical.pipelines, memory, "pipeline", physical))
    pieces: dict[str, Sequence[Piece]] = {**plan.files, **dict.fromkeys(plan.frames, ())}
    epoch_input = EpochInput(
        pieces=pieces,
        whole=pieces,
        receive=_nothing,
        clock_us=clock_us,
        time_zone=plan.options.time_zone,
        read=Read(),
    )
    effect = HandedOn(schema=resulting.schema)
    steps = maker.steps(stages, run=0, epoch=1, epoch_input=epoch_input, folder=None, effect=effect)
    frames = {name: frame.frame for name, frame in plan.frames.items()}
    result = Job(session, steps, frames=frames, columns=resulting.columns).result
    return result if len(plan.prepared.schema) else result.select()


class _Kept:
    """Computes rows of the plan's own files, in a session that is opened for the first of them."""

    def __init__(
        self, session: SparkSession, setting: Setting, meters: Meters, open_staging: Callable[[Session], StagingPlace]
    ) -> None:
        self._session = session
        self._setting = setting
        self._meters = meters
        self._open_staging = open_staging

    def __call__(self, root: PhysicalNode, clock_us: int) -> Result:
        session = Session(self._session)
        try:
            staging = self._open_staging(session)
            roots = (*self._setting.settings.roots, str(staging.folder))
            setting = replace(self._setting, settings=replace(self._setting.settings, roots=roots))
            cluster = SparkCluster(session, staging, setting, InputProgress(self._meters))
            return cluster.kept(root, clock_us)
        finally:
            session.close()


def _physical(plan: PlanOverFrames, keeping: SparkKeeping, clock_us: int) -> PhysicalPlan:
    options = plan.options
    columns = {source.name: source.columns for source in plan.prepared.sources}
    shape = {name: _shape(frame, options.channels) for name, frame in plan.frames.items()} | {
        name: shape_of(pieces, columns[name], options.channels, channel_memory(options))
        for name, pieces in plan.files.items()
    }
    without: set[str] = set()
    while True:
        physical = plan.prepared.physical(shape, without)
        large = keeping.ensure(physical, clock_us)
        if large is None:
            return physical
        without.add(large.name)


def _shape(frame: FedFrame, channels: int) -> SourceShape:
    """The shape of a DataFrame, by Spark's estimate of its bytes."""
    width = _VALUE_BYTES * max(1, len(frame.schema))
    size = _UNKNOWN_ROWS * width if frame.bytes is None else min(frame.bytes, _MOST_BYTES)
    return SourceShape(
        feed=Feed.STREAM,
        size_class=size_class(max(1, size // width), channels),
        byte_class=size_class(size, channels) if channels > 1 else 0,
    )


def _nothing(exchange: int) -> Stream:
    raise InternalError(f"there is no exchange {exchange}")
