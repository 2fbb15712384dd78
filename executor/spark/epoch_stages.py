"""Pipelines as the stages of a job: a stage lasts as long as its task, and has a turn in each epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from ...operators.core.piece import Piece
from ...operators.duckdb.instances import InstanceSettings
from ...operators.indexes.sql import Database
from ...planner.physical.pipelines import (
    Exchange,
    LookupNode,
    OpenedIndex,
    PhysicalPlan,
    Pipeline,
    ScanNode,
    read_from_sources,
)
from ...proto.values import TaskOptions
from ..exchange.planned_exchanges import plan_paths_of
from ..pipelines.build_operators import Watched
from ..pipelines.channel_pipelines import sent_sources
from ..pipelines.key_shares import CutPieces, cuts_of, key_shares
from ..pipelines.pipeline import EpochInput, Pieces
from ..pipelines.turns import channel_shares
from .effects import Effect
from .iterables import StagedIterable
from .job import Step
from .keeping import SparkKeeping
from .linked_files import LinkedFiles
from .worker.stage import Fed, Given, Received, Shipped, Stage, Turn, TurnEffect, packed, unwatched


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting:
    """The settings that all stages of a task share, and the iterables whose files they read.

    `frames` are the sources that DataFrames feed, with the columns of their rows.
    """

    task: str
    options: TaskOptions
    settings: InstanceSettings
    tables: Mapping[str, Sequence[Piece]]
    databases: Mapping[str, Database]
    watched: Watched = unwatched
    linked: LinkedFiles | None = None
    iterables: tuple[StagedIterable, ...] = ()
    effect: Effect | None = None
    frames: Mapping[str, pa.Schema] = field(default_factory=dict)


class EpochStages:
    """Makes the stages of a task and their turns. `static` gives the pieces of the static sources, as files."""

    def __init__(
        self, setting: Setting, keeping: SparkKeeping, static: Callable[[], Mapping[str, Sequence[Piece]]]
    ) -> None:
        self._setting = setting
        self._keeping = keeping
        self._static = static

    def shipped(
        self, pipelines: Sequence[Pipeline], memory: Sequence[int], name: str, physical: PhysicalPlan | None = None
    ) -> Iterator[Shipped]:
        """The stages of the pipelines, each instance with so much memory."""
        setting = self._setting
        fed: dict[int, Received] = {}
        plan_paths = plan_paths_of(pipelines)
        exchanges = sum(len(other.into) for other in pipelines)
        sent = sent_sources(pipelines, physical)
        for number, (pipeline, mine) in enumerate(zip(pipelines, memory, strict=True)):
            received = tuple(fed[exchange] for exchange in sorted(pipeline.received))
            for exchange in pipeline.into:
                fed[exchange.number] = Received(exchange=exchange, producers=pipeline.channels)
            yield Shipped(
                Stage(
                    number=number,
                    name=f"{name} {number + 1}",
                    pipeline=pipeline,
                    memory=mine,
                    options=setting.options,
                    settings=setting.settings,
                    received=received,
                    fed=tuple(_fed(pipeline, setting.frames)),
                    plan_paths=_named(plan_paths, (*pipeline.into, *(inlet.exchange for inlet in received))),
                    tables=self._opened_over(pipeline),
                    databases=setting.databases,
                    kept=self._keeping.files(pipeline.root),
                    indexes=self._keeping.index_files(pipeline.root),
                    exchanges=exchanges,
                    watched=setting.watched,
                    sent=sent,
                )
            )

    def _opened_over(self, pipeline: Pipeline) -> Mapping[str, Sequence[Piece]]:
        """The tables over which the pipeline's look-ups open indexes."""
        nodes = (node for node in pipeline.nodes if isinstance(node, LookupNode))
        return self._static() if any(isinstance(node.index, OpenedIndex) for node in nodes) else {}

    def steps(
        self,
        stages: Sequence[Shipped],
        *,
        run: int,
        epoch: int,
        epoch_input: EpochInput,
        folder: Path | None,
        effect: TurnEffect,
    ) -> list[Step]:
        """The stages with their turns in an epoch. `effect` is that of the rows of the result."""
        pipelines = [shipped.stage.pipeline for shipped in stages]
        cuts = cuts_of(pipelines)
        most = max(pipeline.channels for pipeline in pipelines)
        cut: Sequence[CutPieces] = key_shares(cuts, epoch_input.whole, most) if cuts else [{}] * most
        return [
            Step(
                shipped,
                packed(
                    Turn(
                        run=run,
                        epoch=epoch,
                        clock_us=epoch_input.clock_us,
                        folder=None if folder is None else str(folder),
                        whole=self._found(_whole(shipped.stage.pipeline, epoch_input.whole)),
                        channel_inputs=tuple(self._inputs(shipped.stage.pipeline, epoch_input.whole, cut)),
                        effect=None if shipped.stage.pipeline.into else effect,
                    )
                ),
            )
            for shipped in stages
        ]

    def _inputs(self, pipeline: Pipeline, whole: Pieces, cut: Sequence[CutPieces]) -> Iterator[bytes]:
        """The input of each channel."""
        reads = (read for node in pipeline.nodes for read in read_from_sources(node))
        mine = {(read.source, read.cut) for read in reads if read.cut is not None}
        for channel, pieces in enumerate(channel_shares(pipeline, whole)):
            yield packed(Given(pieces=self._found(pieces), cut={key: cut[channel][key] for key in mine}))

    def _found(self, pieces: Pieces) -> Pieces:
        """The pieces as they are stored."""
        linked = self._setting.linked
        if linked is None:
            return pieces
        return {name: linked.resolved(source_pieces) for name, source_pieces in pieces.items()}


def _whole(pipeline: Pipeline, pieces: Pieces) -> Pieces:
    """The pieces of the sources of which each channel reads all, or a part by its number."""
    reads = (read for node in pipeline.nodes for read in read_from_sources(node))
    whole = {read.source for read in reads if read.whole or (isinstance(read, ScanNode) and read.parted)}
    return {name: pieces[name] for name in whole}


def _fed(pipeline: Pipeline, frames: Mapping[str, pa.Schema]) -> Iterator[Fed]:
    """The DataFrames whose rows the pipeline reads itself, in shares, or whole in every channel."""
    reads = (read for node in pipeline.nodes for read in read_from_sources(node))
    wanted = dict.fromkeys((read.source, read.whole) for read in reads if read.source in frames)
    for number, (source, whole) in enumerate(wanted):
        yield Fed(number=-1 - number, source=source, whole=whole, schema=frames[source])


def _named(plan_paths: Mapping[int, str], exchanges: Sequence[Exchange]) -> Mapping[int, str]:
    return {exchange.number: plan_paths[exchange.number] for exchange in exchanges if exchange.number in plan_paths}
