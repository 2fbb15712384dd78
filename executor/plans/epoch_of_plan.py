"""An epoch of a plan or a graph, run by its pipelines."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa

from ...operators.changes.event_time.window_closing import IDLE
from ...operators.core.operator import UNBOUNDED
from ...operators.core.piece import Piece
from ...operators.sources.scan import Scan
from ...operators.sources.split_pieces import open_pieces
from ...planner.physical.instance_memory import channel_memory
from ...planner.physical.pipelines import Pipeline
from ...proto.errors import ExecutionError, NodeError
from ..api.computation import RowEffect, Watermarks
from ..api.errors_of_rows import caused_by_rows, located
from ..exchange.parallel_epoch import ParallelRun
from ..pipelines.channel_pipelines import ChannelInstances, Pipelines
from ..pipelines.channel_run import ChannelRun
from ..pipelines.pipeline import Pieces, Read
from ..pipelines.pipeline_watermarks import Passed, passed_on
from ..pipelines.shapes import same_feed, shape_of
from ..pipelines.shares import morsels
from ..pipelines.turns import in_morsels
from ..runtime.meters import Meter, MeteredStream

if TYPE_CHECKING:
    from .dataflow import PlanComputation

_log = logging.getLogger(__name__)


class PlanRun:
    """One epoch: the pipelines before the early one, the early one piece by piece, and all others at the seal.

    Errors of user code get the epoch added, and are logged with their traceback.
    """

    def __init__(self, computation: PlanComputation, clock_us: int, number: int) -> None:
        self._computation = computation
        self._clock_us = clock_us
        self.number = number
        self._read = Read()
        self._led = False
        self._watermarks: Watermarks = {}
        self.watermark: int | None = None

    @property
    def rows_in(self) -> int:
        return self._read.rows_in

    @property
    def bytes_in(self) -> int:
        return self._read.bytes_in

    @property
    def at_least(self) -> bool:
        return self._read.at_least

    @property
    def on_spark(self) -> bool:
        return self._computation.cluster is not None

    @property
    def effect(self) -> RowEffect | None:
        return self._computation.write

    def early(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        computation, source = self._computation, self._computation.early_source or ""
        yield from self._lead()
        columns = computation.columns[source]
        for group in same_feed(open_pieces(pieces, columns), columns):
            pipelines = computation.pipelines(
                {source: shape_of(group, columns, computation.options.channels)}, self._clock_us
            )
            try:
                yield from self._rows(pipelines, computation.lead, computation.lead + 1, {source: group})
            except ExecutionError as error:
                raise self._blamed(error, pipelines, source, group) from error

    def _blamed(
        self, error: ExecutionError, pipelines: Pipelines, source: str, pieces: Sequence[Piece]
    ) -> ExecutionError:
        """The error with the first split whose rows alone cause it, if there is one: rows are computed one by one."""
        computation = self._computation
        tables = [name for name in error.sources or () if name != source]
        if not caused_by_rows(error) or source not in (error.sources or ()) or {*tables} - computation.tables.keys():
            return error
        by_split: dict[str, list[Piece]] = {}
        for piece in pieces:
            by_split.setdefault(piece.origin, []).append(piece)
        for origin, mine in by_split.items():
            alone = computation.epoch_input({**computation.tables, source: mine}, self._clock_us, Read(), Passed())
            try:
                for _ in computation.run(pipelines.get(computation.lead), alone):
                    """The rows are void: the epoch has failed."""
            except ExecutionError as failure:
                if failure.message == error.message:
                    more = (f"table {name!r}" for name in tables)
                    return located(error, f"rows of {', '.join((origin, *more))}" if tables else origin)
                return error
        return error

    def _lead(self) -> Iterator[pa.RecordBatch]:
        if self._led or not self._computation.lead:
            return
        self._led = True
        yield from self._rows(self._computation.pipelines({}, self._clock_us), 0, self._computation.lead, {})

    def sealed(self, pieces: Mapping[str, Sequence[Piece]], watermarks: Watermarks) -> Iterator[pa.RecordBatch]:
        self._watermarks = {name: UNBOUNDED if said == IDLE else said for name, said in watermarks.items()}
        rows = self._sealed(pieces)
        return self._with_epoch(rows if self.effect is None else self._written(self.effect, rows))

    def _with_epoch(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from rows
        except NodeError as error:
            failure = error.in_epoch(self.number)
            _log.error("user code failed: %s", failure, exc_info=error.__cause__)
            raise failure from error.__cause__

    def _written(self, write: RowEffect, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        meter = self._computation.meter(write)
        write.begin(self.number)
        stream = MeteredStream(write.table, rows, Meter("Result", ""))
        stream.readers.append(meter)
        with closing(MeteredStream(write.schema, write.run([stream]), meter)) as returned:
            yield from returned

    def _sealed(self, pieces: Mapping[str, Sequence[Piece]]) -> Iterator[pa.RecordBatch]:
        computation = self._computation
        first = 0
        if computation.early_source is not None:
            yield from self._lead()
            first = computation.lead + 1
        if computation.early_frees:
            pieces = {name: source_pieces for name, source_pieces in pieces.items() if name != computation.early_source}
        opened = {name: open_pieces(source_pieces, computation.columns[name]) for name, source_pieces in pieces.items()}
        options = computation.options
        shape = {
            name: shape_of(source_pieces, computation.columns[name], options.channels, channel_memory(options))
            for name, source_pieces in opened.items()
        }
        pipelines = computation.pipelines(shape, self._clock_us)
        self._count_unread(pipelines, opened)
        yield from self._rows(pipelines, first, len(pipelines), opened)

    def _count_unread(self, pipelines: Pipelines, pieces: Pieces) -> None:
        """Count the rows of sources that the plan names but, after its rewrites, does not read."""
        for name in pieces.keys() - pipelines.sources:
            scan = Scan(name, ())
            scan.assign(name, pieces[name])
            for batch in scan.run(()):
                self._computation.check_stopped()
                self._read.rows_in += batch.num_rows

    def _rows(self, pipelines: Pipelines, first: int, last: int, pieces: Pieces) -> Iterator[pa.RecordBatch]:
        """The rows of the pipelines from `first` to `last` over these pieces and the tables."""
        computation = self._computation
        computation.check_stopped()
        passed = passed_on(pipelines.physical.pipelines, self._watermarks)
        self.watermark = passed.result
        epoch_input = computation.epoch_input(
            {**computation.tables, **pieces}, self._clock_us, self._read, passed, pipelines.sent
        )
        computation.inputs.begin(self.number, pipelines.reads(first, last), epoch_input.whole)
        if computation.cluster is not None:
            yield from computation.cluster.rows(pipelines.physical, epoch=self.number, epoch_input=epoch_input)
            return
        if pipelines.parallel and not _is_one_morsel(pipelines.physical.pipelines[first:last], epoch_input.whole):
            execution_context = computation.execution_context
            run = ParallelRun(
                pipelines, first, last, epoch=self.number, epoch_input=epoch_input, execution_context=execution_context
            )
            yield from run.rows()
            return
        for index in range(first, last):
            channel = ChannelRun(
                0,
                epoch_input,
                instances=ChannelInstances(pipelines, index, 0),
                run=computation.run,
                retries=computation.retries(pipelines.physical.pipelines[index].root),
            )
            yield from channel.rows(epoch_input.pieces)


def _is_one_morsel(pipelines: Sequence[Pipeline], pieces: Pieces) -> bool:
    """True if there is one pipeline with so few rows that one of its channels gets all of them."""
    if len(pipelines) != 1 or not in_morsels(pipelines[0]):
        return False
    dealt = morsels(pieces[pipelines[0].sources[0]], pipelines[0].channels)
    return next(dealt, None) is None or next(dealt, None) is None
