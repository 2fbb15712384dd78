"""A plan on Spark whose small epochs run in the service: a job takes longer than their rows do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, Unpack

import pyarrow as pa

from ...operators.changes.network.network_statistics import LoopStatistics as RunLoops
from ...operators.changes.network.network_statistics import OperatorStatistics as RunOperators
from ...operators.core.piece import InlinePiece, Piece
from ...operators.core.sizes import batch_bytes
from ...operators.sources.split_pieces import estimated_rows, open_pieces
from ...planner.prepare import Prepared
from ...proto.statistics import StageStatistics
from ...proto.values import TaskOptions
from ..api.computation import Effect, EpochRun, Watermarks
from ..pipelines.shapes import piece_bytes
from .dataflow import PlanComputation, Resources

_LEAST_ROW: Final = 16
"""The bytes that a row has at least, however well its file is packed."""


class ComputationBySize(PlanComputation):
    """The computation of a plan that need not run on Spark (`Prepared.why_on_spark`).

    An epoch runs in this process, as that of a task without Spark does, if the splits and the static tables together
    have fewer bytes than `spark_threshold_bytes`. Nothing else decides, so the same splits always run in the same
    place.
    """

    def __init__(self, prepared: Prepared, options: TaskOptions, **resources: Unpack[Resources]) -> None:
        super().__init__(prepared, options, **resources)
        local = prepared.in_service()
        here: Resources = {**resources, "cluster": None, "progress": self.inputs}
        self._in_service = PlanComputation(local, local.options, **here)
        self._of_tables = input_bytes(self.tables)
        self._last: RunBySize | None = None

    def epoch(self, number: int, clock_us: int) -> EpochRun:
        spark, service = super().epoch(number, clock_us), self._in_service.epoch(number, clock_us)
        self._last = RunBySize(self, spark, service)
        return self._last

    def is_small(self, pieces: Mapping[str, Sequence[Piece]]) -> bool:
        """True if an epoch of these opened pieces runs in this process."""
        return self._of_tables + input_bytes(pieces) < self.options.spark_threshold_bytes

    def bodies(self) -> tuple[RunOperators, ...]:
        return (*super().bodies(), *self._in_service.bodies())

    def rounds(self) -> tuple[RunLoops, ...]:
        return (*super().rounds(), *self._in_service.rounds())

    def stages(self) -> tuple[StageStatistics, ...]:
        last = self._last
        return super().stages() if last is not None and last.on_spark else ()

    @property
    def plans(self) -> int:
        return super().plans + self._in_service.plans

    def interrupt(self) -> None:
        super().interrupt()
        self._in_service.interrupt()

    def rest(self) -> None:
        super().rest()
        self._in_service.rest()

    def close(self) -> None:
        self._in_service.close()
        super().close()


class RunBySize:
    """One epoch: on Spark, or in this process if its rows are few."""

    def __init__(self, computation: ComputationBySize, spark: EpochRun, service: EpochRun) -> None:
        self._computation = computation
        self._service = service
        self._run = spark

    @property
    def rows_in(self) -> int:
        return self._run.rows_in

    @property
    def bytes_in(self) -> int:
        return self._run.bytes_in

    @property
    def at_least(self) -> bool:
        return self._run.at_least

    @property
    def on_spark(self) -> bool:
        return self._run.on_spark

    @property
    def effect(self) -> Effect | None:
        return self._run.effect

    @property
    def watermark(self) -> int | None:
        return self._run.watermark

    def early(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        return self._run.early(pieces)

    def sealed(self, pieces: Mapping[str, Sequence[Piece]], watermarks: Watermarks) -> Iterator[pa.RecordBatch]:
        columns = self._computation.columns
        opened = {name: open_pieces(source_pieces, columns[name]) for name, source_pieces in pieces.items()}
        if self._computation.is_small(opened):
            self._run = self._service
        yield from self._run.sealed(opened, watermarks)


def input_bytes(pieces: Mapping[str, Sequence[Piece]]) -> int:
    """About the bytes of opened pieces, as their files and calls tell them."""
    every = chain.from_iterable(pieces.values())
    return sum(max(_bytes(piece), _LEAST_ROW * estimated_rows((piece,))) for piece in every)


def _bytes(piece: Piece) -> int:
    if isinstance(piece, InlinePiece) and piece.byte_count is None:  # of a static table: read once
        return sum(map(batch_bytes, piece.batches()))
    return piece_bytes(piece)
