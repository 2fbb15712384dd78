"""A channel of a stage, in the process where Spark runs it.

A process keeps what it has made: operators with their prepared statements, DuckDB instances, indexes. A task finds them
there epoch after epoch, whichever of its channels runs in the process. The process writes its files to a folder that
Spark removes when the application ends.
"""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import Accumulator, TaskContext

from ....operators.core.batches import batch_of as batch_of_columns
from ....operators.core.operator import Stream
from ....operators.core.streams import BatchStream
from ....operators.duckdb.instances import Instance, InstancePool
from ....operators.indexes.arrow_index import ArrowIndex
from ....operators.indexes.index import Index
from ....operators.writing.part_writer import PartWriter, WriteTarget
from ....planner.physical.pipelines import RoundsNode, ScanNode
from ....planner.physical.user_nodes import BatchFunctionNode, IterateNode, UserNode
from ....proto.errors import InternalError
from ....proto.spark_frames import in_type_of_spark
from ....proto.values import Determinism
from ...pipelines.build_operators import OperatorFactory
from ...pipelines.input_progress import EndedStatements
from ...pipelines.pipeline import EpochInput, PipelineInstance, Read
from ...runtime.batch_store import Quota, SpillFiles, SpillSpace
from ...runtime.meters import Meter, Meters
from ...runtime.side_threads import SideThreads
from ...runtime.timers import Timers
from ..iterables import bounded
from ..job_progress import Heard
from ..staged_files import Result, StagedRows, write_dataset, write_result
from . import reports
from .fed_rows import FedRows
from .inbox import Inbox
from .outbox import Outbox
from .parcels import Kind, Parcel, batch_of, batches_of, parcels_in
from .stage import Given, HandedOn, KeptAs, Stage, Turn, unpacked

_STAGES_KEPT: Final = 12
_INDEXES_KEPT: Final = 4


def work(
    key: str, stage: bytes, turn: bytes, ended: Accumulator[Any] | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """A channel's rows in an epoch, as parcels.

    The first row of the input, a parcel or the channel's number, says which channel runs. `ended`, if there is one,
    gets the report when the channel has ended.
    """
    channel, parcels = _first(batches)
    made_stage = Process.current().stage_for(key, stage, channel)
    run = _Channel(made_stage, channel, parcels, unpacked(turn))
    yield from run.rows()
    if ended is not None:
        ended.add((run.report,))


def _first(batches: Iterator[pa.RecordBatch]) -> tuple[int, Iterator[Parcel]]:
    for batch in batches:
        if not batch.num_rows:
            continue
        if batch.num_columns == 1:
            for _ in batches:
                """A process that leaves some of its input cannot be used again."""
            return batch.column(0)[0].as_py(), iter(())
        return batch.column(0)[0].as_py(), parcels_in(_again(batch, batches))
    raise InternalError("a channel came without its number")


def _again(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


class Process:
    """The objects that this process keeps."""

    _current: Process | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pool = InstancePool(folder / "duckdb")
        self.lookups = SideThreads()
        self.timers = Timers()
        self._made: OrderedDict[tuple[str, int], MadeStage] = OrderedDict()
        self._indexes: OrderedDict[str, Index] = OrderedDict()
        self._spaces = 0

    @classmethod
    def current(cls) -> Process:
        if cls._current is None:
            folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
            if folder is not None:
                os.makedirs(folder, exist_ok=True)
            cls._current = cls(Path(tempfile.mkdtemp(prefix="tidegate-", dir=folder)))
        return cls._current

    def stage_for(self, key: str, payload: bytes, channel: int) -> MadeStage:
        """The stage's operators: kept ones, if they can serve this channel."""
        for mine in (channel, _ANY):
            kept = self._made.get((key, mine))
            if kept is not None:
                self._made.move_to_end((key, mine))
                return kept
        stage: Stage = unpacked(payload)
        new_stage = MadeStage(stage, channel, self)
        if new_stage.again:
            self._made[key, channel if new_stage.of_channel else _ANY] = new_stage
            if len(self._made) > _STAGES_KEPT:
                self._made.popitem(last=False)[1].close()
        return new_stage

    def index(self, name: str, path: str, keys: tuple[int, ...]) -> Index:
        """A kept index, over the rows of a file."""
        kept_index = self._indexes.pop(path, None)
        if kept_index is None:
            rows = StagedRows(path)
            table = pa.Table.from_batches(list(rows.read()), schema=rows.schema)
            kept_index = ArrowIndex(name, table, keys=keys, columns=range(len(table.schema)))
        self._indexes[path] = kept_index
        if len(self._indexes) > _INDEXES_KEPT:
            self._indexes.popitem(last=False)
        return kept_index

    def space(self, quota: int) -> SpillSpace:
        self._spaces += 1
        return SpillSpace(SpillFiles(self.folder / str(self._spaces)), Quota(quota))


_ANY: Final = -1


class MadeStage:
    """A stage's operators, made for one channel.

    `of_channel`: no other channel can use them. `again`: they may run in another epoch.
    """

    def __init__(self, stage: Stage, channel: int, process: Process) -> None:
        nodes = stage.pipeline.nodes
        own = (UserNode, BatchFunctionNode, IterateNode)
        self.stage = stage
        self.of_channel = any(isinstance(node, own) or (isinstance(node, ScanNode) and node.parted) for node in nodes)
        self.again = not any(isinstance(node, RoundsNode) for node in nodes)
        self.meters = Meters()
        self.space = process.space(stage.options.spill_quota)
        self.folder = process.folder
        self._process = process
        self._instance: Instance | None = None
        self._plans = 0
        factory = OperatorFactory(
            take=self._take,
            strict=stage.options.determinism is Determinism.STRICT,
            spill=stage.options.spill,
            meter=self.meters.of,
            index=self._index,
            tables=stage.tables,
            databases=stage.databases,
            lookup_queue=lambda limit: process.lookups.queue(limit).submit,
            space=self.space,
            loop_seconds=stage.options.loop_seconds,
            later=process.timers.call_later,
            channels=stage.options.channels,
            channel=channel,
            watched=stage.watched,
            memory_limit=stage.options.memory_limit,
            missing_columns=stage.options.missing_columns,
        )
        try:
            self.instance = PipelineInstance(
                stage.pipeline.root, factory=factory, kept=lambda name: StagedRows(stage.kept[name])
            )
        except BaseException:
            self.close()
            raise

    def plans(self) -> int:
        """The plans prepared since the last call."""
        before, self._plans = self._plans, self.instance.plans
        return self._plans - before

    def close(self) -> None:
        if hasattr(self, "instance"):
            self.instance.close()
        self.space.files.remove()
        if self._instance is not None:
            self._process.pool.give_back(self._instance)

    def _take(self) -> Instance:
        if self._instance is None:
            roots = (*self.stage.settings.roots, str(self._process.folder))
            settings = replace(self.stage.settings, memory_limit=self.stage.memory, roots=roots)
            self._instance = self._process.pool.take(settings)
        return self._instance

    def _index(self, name: str) -> Index:
        path, keys = self.stage.indexes[name]
        return self._process.index(name, path, keys)


def _spark_stage() -> int:
    """The number of the Spark stage that this process works for."""
    context = TaskContext.get()
    return 0 if context is None else context.stageId()


class _Channel:
    """One run of one channel."""

    def __init__(self, made_stage: MadeStage, channel: int, parcels: Iterator[Parcel], turn: Turn) -> None:
        self._made = made_stage
        self._stage = made_stage.stage
        self._channel = channel
        self._turn = turn
        self._given: Given = unpacked(turn.channel_inputs[channel])
        self._read = Read()
        self._statements = EndedStatements()
        self._mine = b""
        room = self._stage.options.queue_bytes // max(self._stage.exchanges, 1)
        self._fed = FedRows(parcels, self._stage.fed, made_stage.folder, self._stage.options.spill_quota)
        self._inbox = Inbox(
            self._fed.parcels,
            self._stage.received,
            epoch=turn.epoch,
            memory_limit=room * len(self._stage.received),
            space=made_stage.space,
            files=turn.folder is not None,
        )

    @property
    def report(self) -> Heard:
        """This channel's own report, once it has ended."""
        return self._turn.run, self._mine

    def rows(self) -> Iterator[pa.RecordBatch]:
        try:
            if self._stage.pipeline.into:
                yield from self._send()
            elif isinstance(self._turn.effect, HandedOn):
                yield from self._handed_on(self._turn.effect.schema)
            else:
                yield batch_of([self._result(self._turn.effect)])
        finally:
            self._fed.remove()
            if not self._made.again:
                self._made.close()

    def _send(self) -> Iterator[pa.RecordBatch]:
        into = self._stage.pipeline.into
        meters = [self._meter(self._stage.plan_paths.get(exchange.number, "")) for exchange in into]
        folder = None if self._turn.folder is None else Path(self._turn.folder)
        outbox = Outbox(into, self._channel, self._stage.pipeline.channels, meters, folder)
        with closing(self._rows()) as rows:
            for parcels in outbox.parcels(rows):
                yield from batches_of(parcels)
        yield batch_of(outbox.messages(self._report(outbox.rows, outbox.moved)))

    def _handed_on(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows themselves, in the types that Spark expects."""
        with closing(self._rows()) as rows:
            for batch in rows:
                arrays = batch.columns or [pa.nulls(batch.num_rows)]  # Spark gets no rows without columns
                columns = list(map(in_type_of_spark, arrays, schema))
                yield batch_of_columns(columns, batch.num_rows, schema)
        self._inbox.drain()

    @property
    def _folder(self) -> Path:
        if self._turn.folder is None:
            raise InternalError("a stage that writes files has no folder for them")
        return Path(self._turn.folder)

    def _result(self, effect: KeptAs | WriteTarget | None) -> Parcel:
        match effect:
            case None:
                result = self._written(self._stage.pipeline.root.schema, self._rows())
            case WriteTarget() as target:
                result = self._in_table(target)
            case KeptAs() as kept_as:
                result = self._kept(kept_as)
        payload = replace(result, reports=self._report(result.rows, 0)).written()
        return Parcel(self._channel, self._stage.number, 0, 0, Kind.RESULT, payload)

    def _in_table(self, target: WriteTarget) -> Result:
        writer = PartWriter(target, pipeline=self._stage.number, channel=self._channel)
        counted = BatchStream(target.table, self._rows())
        with closing(counted):
            result = self._written(target.schema, writer.run(counted))
        return replace(result, part=writer.part, counted=counted.bytes)

    def _kept(self, dataset: KeptAs) -> Result:
        return write_dataset(
            self._folder,
            self._stage.pipeline.root.schema,
            self._rows(),
            keyed=dataset.keyed,
            pipeline=self._stage.number,
            channel=self._channel,
        )

    def _written(self, schema: pa.Schema, rows: Generator[pa.RecordBatch]) -> Result:
        return write_result(
            self._folder,
            schema,
            rows,
            pipeline=self._stage.number,
            channel=self._channel,
        )

    def _rows(self) -> Generator[pa.RecordBatch]:
        options = self._stage.options
        epoch_input = EpochInput(
            pieces={**self._given.pieces, **self._fed.pieces(whole=False)},
            whole={**self._turn.whole, **self._fed.pieces(whole=True)},
            receive=self._receive,
            clock_us=self._turn.clock_us,
            time_zone=options.time_zone,
            read=self._read,
            inputs=self._statements,
            cut=self._given.cut,
            sent=self._stage.sent,
        )
        rows = self._made.instance.run(epoch_input)
        yield from bounded(rows, self._stage.pipeline.root, self._channel, options.spill_quota)

    def _receive(self, exchange: int) -> Stream:
        return self._inbox.receive(exchange)

    def _meter(self, plan_path: str) -> Meter:
        return self._made.meters.of("Exchange", plan_path)

    def _report(self, rows: int, moved: int) -> bytes:
        """This channel's report, with the reports that came with its input.

        It is empty for a query, which nobody counts: so Spark finds the same checksums in each attempt's parcels.
        """
        self._inbox.drain()
        if self._turn.folder is None:
            return b""
        for received in self._stage.received:
            plan_path = self._stage.plan_paths.get(received.exchange.number, "")
            self._meter(plan_path).spilled_bytes += self._inbox.spilled_bytes[received.exchange.number]
        mine = reports.Report(
            stage=self._stage.name,
            channel=self._channel,
            spark_stage=_spark_stage(),
            meters=reports.taken(self._made.meters),
            rows_in=self._read.rows_in,
            bytes_in=self._read.bytes_in,
            rows_out=rows,
            at_least=self._read.at_least,
            plans=self._made.plans(),
            moved=moved,
            statements=self._statements.rows,
            loops=self._made.instance.loops,
            bodies=self._made.instance.bodies,
        )
        self._mine = reports.written([mine])
        others = [report for payload in self._inbox.reports for report in reports.read(payload)]
        return reports.written([mine, *others])
