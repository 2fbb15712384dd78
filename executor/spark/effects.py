"""Effects of epochs whose rows the channels write: the service takes the files over, and commits them once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from ...operators.write import AdoptingWrite
from ...operators.writing.part_writer import WriteTarget
from ...planner.ir import Routing
from ...planner.physical.pipelines import Exchange, Pipeline, ReceiveNode, Start
from ...proto.dataset import Ranged
from ...proto.values import ResultFile
from ..api.computation import RowEffect
from ..datasets.sink import AdoptingSink
from ..plans.result_files import ResultFiles
from ..runtime.meters import Meters
from .staged_files import Result, in_order, layout_of
from .worker import task_failures as failures
from .worker.stage import KeptAs


class Effect(Protocol):
    """The effect of a task's epochs."""

    def target(self) -> KeptAs | WriteTarget | None:
        """The description of the files that the channels write in the epoch that has begun."""
        ...

    def pipelines(self, planned: Sequence[Pipeline]) -> Sequence[Pipeline]:
        """The planned pipelines, as far as the files need others."""
        ...

    def adopted(self, results: Sequence[Result], meters: Meters) -> Iterator[pa.RecordBatch]:
        """Take the channels' files over, and count their rows; the rows to hand on."""
        ...


def effect_of(row_effect: RowEffect | None, parent: Path | None) -> Effect | None:
    """The effect on Spark of rows that have this effect. Datasets are below `parent`, or in their sink's own place."""
    match row_effect:
        case None:
            return None
        case AdoptingSink() as sink:
            return Datasets(sink=sink, parent=parent)
        case AdoptingWrite() as write:
            return Tables(write)
        case ResultFiles() as files:
            return Files(files)
        case _:
            raise AssertionError(f"no channel can write for a {type(row_effect).__name__}")


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Adds the files of an epoch to a table."""

    write: AdoptingWrite

    def target(self) -> WriteTarget:
        return self.write.target()

    def pipelines(self, planned: Sequence[Pipeline]) -> Sequence[Pipeline]:
        return planned

    def adopted(self, results: Sequence[Result], meters: Meters) -> Iterator[pa.RecordBatch]:
        _raise_first(results)
        self.write.adopt([result.part for result in results if result.part is not None])
        meter = meters.of("Write", self.write.plan_path)
        # Rows that are handed on are counted as they come.
        meter.bytes_in += sum(result.counted - result.size for result in results)
        meter.rows_in += sum(result.part.rows - result.rows for result in results if result.part is not None)
        yield from in_order(results)


@dataclass(frozen=True, slots=True, eq=False)
class Files:
    """Leaves the rows in the files of the channels, beside the folder of the epoch."""

    files: ResultFiles

    def target(self) -> None:
        return None

    def pipelines(self, planned: Sequence[Pipeline]) -> Sequence[Pipeline]:
        return planned

    def adopted(self, results: Sequence[Result], meters: Meters) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        _raise_first(results)
        kept = []
        for result in results:
            path = Path(result.path)
            kept.append(ResultFile(path=str(path.rename(path.parent.parent / path.name)), rows=result.rows))
        self.files.adopt(kept)
        yield from ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Datasets:
    """Makes a Dataset of each epoch's rows, below `parent` or in the sink's place."""

    sink: AdoptingSink
    parent: Path | None

    def target(self) -> KeptAs:
        return KeptAs(self.sink.keyed)

    def pipelines(self, planned: Sequence[Pipeline]) -> Sequence[Pipeline]:
        """The planned pipelines; rows that must be sorted go on to one channel."""
        if not isinstance(self.sink.keyed, Ranged):
            return planned
        return [part for pipeline in planned for part in ([pipeline] if pipeline.into else _to_one(pipeline, planned))]

    def adopted(self, results: Sequence[Result], meters: Meters) -> Iterator[pa.RecordBatch]:
        _raise_first(results)
        self.sink.adopt([(Path(result.path), layout_of(result)) for result in results], self.parent)
        meter = meters.of("Write", self.sink.plan_path)
        meter.rows_in += sum(result.rows for result in results)
        meter.bytes_in += sum(result.size for result in results)
        yield from ()


def _raise_first(results: Sequence[Result]) -> None:
    for result in results:
        if result.error:
            raise failures.read(result.error.encode())


def _to_one(pipeline: Pipeline, planned: Sequence[Pipeline]) -> list[Pipeline]:
    if pipeline.channels == 1:
        return [pipeline]
    root = pipeline.root
    gathered = Exchange(
        number=1 + max((exchange.number for other in planned for exchange in other.into), default=0),
        routing=Routing.GATHER,
        schema=root.schema,
        consumers=1,
    )
    received = ReceiveNode(
        exchange=gathered.number,
        schema=root.schema,
        size_class=root.size_class,
        rows=root.size_class,
        plan_path=_PLACE,
    )
    return [replace(pipeline, into=(gathered,)), Pipeline(root=received, sources=(), start=Start.SEAL)]


_PLACE = "result.rows"
