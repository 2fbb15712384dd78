"""An epoch of a plan with several channels: its exchanges, the drivers of its channels, and the order of its result."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa

from ...operators.arrays.ordering import Ordering
from ...operators.core.batches import joined
from ...operators.core.blocks import Part, blocks, parts
from ...operators.core.operator import Stream
from ...planner.ir import Routing
from ...planner.physical import pipelines as planned
from ...planner.physical.pipelines import PhysicalNode, Pipeline, Start
from ...proto.errors import ExecutionError
from ..pipelines.channel_pipelines import ChannelInstances, Pipelines
from ..pipelines.channel_run import ChannelRun, Retries
from ..pipelines.key_shares import cuts_of, key_shares
from ..pipelines.pipeline import EpochInput, Pieces, PipelineInstance, Read
from ..pipelines.turns import in_morsels, turns
from ..runtime.batch_store import SpillSpace
from ..runtime.meters import Counts, Meters
from ..runtime.scheduler import Scheduler
from . import routing
from .epoch_scheduler import Driver, EpochScheduler
from .exchange import Exchange, Meanwhile
from .moved_bytes import Allowance
from .planned_exchanges import plan_paths_of, routing_of

Rows: TypeAlias = Generator[pa.RecordBatch]
Parts: TypeAlias = Generator[Part]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """The context that the epochs of a task share.

    `run` gives the rows of an instance, and can be interrupted by a cancellation. `space` is only for rows that wait
    between channels, so that the room does not depend on any reader. `retries` are those of the channels of a pipeline.
    """

    scheduler: Scheduler
    space: SpillSpace
    exchange_bytes: int
    result_bytes: int
    meters: Meters
    run: Callable[[PipelineInstance, EpochInput], Rows]
    retries: Callable[[PhysicalNode], Retries]


@dataclass(frozen=True, slots=True, eq=False)
class _Fed:
    """An exchange and the drivers that feed it."""

    exchange: Exchange
    order: Ordering | None
    gathers: bool = False
    producers: list[Driver] = field(default_factory=list)

    @property
    def above(self) -> tuple[Driver, ...]:
        """All drivers that the rows may have to wait for, nearest first.

        A pipeline's channels read the same exchanges.
        """
        return (*self.producers, *self.producers[0].above)

    def stream(self, consumer: int, meanwhile: Meanwhile) -> Stream:
        if self.order is not None:
            return self.exchange.merged(consumer, self.order, meanwhile)
        if self.gathers:
            return self.exchange.gathered(consumer, meanwhile)
        return self.exchange.stream(consumer, meanwhile)


@dataclass(frozen=True, slots=True)
class _Inlet:
    """A channel's side of an exchange that it reads. Implements `channel_run.ReadAgain`."""

    exchange: Exchange
    channel: int

    @property
    def replayable(self) -> bool:
        return self.exchange.replayable

    def begin_again(self) -> None:
        self.exchange.begin_again(self.channel)


@dataclass(frozen=True, slots=True, eq=False)
class _Result:
    """The rows of a pipeline that feeds no exchange: channel after channel, or morsel after morsel as dealt."""

    fed: _Fed
    morsels: int | None


class ParallelRun:
    """A run of the pipelines from `first` to `last` over some pieces.

    `rows` may be read once. All pipelines share the `epoch_input`.
    """

    def __init__(
        self,
        pipelines: Pipelines,
        first: int,
        last: int,
        *,
        epoch: int,
        epoch_input: EpochInput,
        execution_context: ExecutionContext,
    ) -> None:
        self._made = pipelines
        self._epoch = epoch
        self._epoch_input = epoch_input
        self._execution_context = execution_context
        self._scheduler = EpochScheduler(execution_context.scheduler)
        self._fed: dict[int, _Fed] = {}
        self._results: list[_Result] = []
        self._reads: list[Read] = []
        self._allowance = Allowance(execution_context.exchange_bytes + execution_context.space.quota.limit)
        chosen = pipelines.physical.pipelines[first:last]
        exchanges = [exchange for pipeline in chosen for exchange in pipeline.into]
        self._replayed = {
            number
            for pipeline in chosen
            if execution_context.retries(pipeline.root).count
            for number in pipeline.received
        }
        room = execution_context.exchange_bytes // max(len(exchanges), 1)
        plan_paths = plan_paths_of(chosen)
        self._noted = [
            (
                self._exchange(exchange, chosen, room, plan_paths.get(exchange.number, "")),
                plan_paths.get(exchange.number, ""),
            )
            for exchange in exchanges
        ]
        cuts = cuts_of(chosen)
        most = max((pipeline.channels for pipeline in chosen), default=1)
        self._cut = key_shares(cuts, epoch_input.whole, most) if cuts else []
        self._result_room = execution_context.result_bytes // max(sum(not part.into for part in chosen), 1)
        for index, pipeline in enumerate(chosen, first):
            self._add(index, pipeline)

    def rows(self) -> Rows:
        """The result's rows. However reading ends, nothing is running or open afterwards."""
        try:
            self._scheduler.start()
            for result in self._results:
                yield from self._read(result)
        finally:
            self._scheduler.close()
            self._count()
            self._fed.clear()  # else the drivers behind it refer back to this object
            self._results.clear()

    # -------------------------------------------------------------------------------------------------- exchanges

    def _exchange(self, sent: planned.Exchange, chosen: Sequence[Pipeline], room: int, plan_path: str) -> Exchange:
        producer = next(pipeline for pipeline in chosen if sent in pipeline.into)
        waits = sent.consumers > 1 or len(producer.into) > 1
        exchange = self._new(
            sent.schema,
            routing_of(sent),
            producer.channels,
            room,
            self._allowance if waits else None,
            [self._execution_context.meters.of("Exchange", plan_path, channel) for channel in range(producer.channels)],
            replayed=sent.number in self._replayed,
        )
        self._fed[sent.number] = _Fed(
            exchange, Ordering(sent.order) if sent.order else None, sent.routing is Routing.GATHER
        )
        return exchange

    def _new(
        self,
        schema: pa.Schema,
        how: routing.Routing,
        producers: int,
        room: int,
        allowance: Allowance | None = None,
        counts: Sequence[Counts] = (),
        *,
        replayed: bool = False,
    ) -> Exchange:
        return Exchange(
            schema,
            how,
            producers=producers,
            epoch=self._epoch,
            memory_limit=room,
            quota=self._execution_context.space.quota,
            files=self._execution_context.space.files,
            allowance=allowance,
            on_change=self._scheduler.offer,
            counts=counts,
            replayed=replayed,
        )

    # ------------------------------------------------------------------------------------------------------- runs

    def _add(self, index: int, pipeline: Pipeline) -> None:
        """Add the drivers of a pipeline's channels, and the gather of its result if it feeds no exchange."""
        if pipeline.into:
            fed = [self._fed[exchange.number] for exchange in pipeline.into]
        else:
            gather = self._new(pipeline.root.schema, routing.Broadcast(1), pipeline.channels, self._result_room)
            fed = [_Fed(gather, None)]
        channel_turns = turns(pipeline, self._epoch_input.whole)
        if not pipeline.into:
            self._results.append(_Result(fed[0], sum(map(len, channel_turns)) if in_morsels(pipeline) else None))
        for number, mine in enumerate(channel_turns):
            run = self._run(pipeline, self._channel(pipeline, index, number), mine, fed)
            self._scheduler.add(run)
            for outlet in fed:
                outlet.producers.append(run)

    def _channel(self, pipeline: Pipeline, index: int, number: int) -> ChannelRun:
        read = Read()
        self._reads.append(read)
        cut = self._cut[number] if self._cut else {}
        epoch_input = replace(
            self._epoch_input, receive=lambda exchange: self._receive(exchange, number), read=read, cut=cut
        )
        return ChannelRun(
            number,
            epoch_input,
            instances=ChannelInstances(self._made, index, number),
            run=self._execution_context.run,
            retries=self._execution_context.retries(pipeline.root),
            inputs=[_Inlet(self._fed[received].exchange, number) for received in pipeline.received],
        )

    def _run(self, pipeline: Pipeline, channel: ChannelRun, turns: Sequence[Pieces], fed: Sequence[_Fed]) -> Driver:
        received = [self._fed[number] for number in pipeline.received]
        outlets = [(outlet.exchange, channel.number) for outlet in fed]
        passed = self._epoch_input.watermarks
        watermark = passed.exchanges[pipeline.into[0].number] if pipeline.into else passed.result
        if pipeline.into and all(exchange.takes_parts for exchange, _ in outlets):
            sent = _in_parts(channel, turns)
        elif pipeline.into:
            sent = _whole(_in_blocks(channel, turns))
        elif pipeline.start is Start.PIECE:
            sent = _whole(_in_morsels(channel, turns, _empty(pipeline.root.schema)))
        else:
            sent = _whole(_as_they_come(channel, turns))
        return Driver(
            _steps(sent, outlets, watermark),
            inlets=[(inlet.exchange, channel.number) for inlet in received],
            outlets=outlets,
            above=tuple(dict.fromkeys(run for inlet in received for run in inlet.above)),
            interrupt=channel.interrupt,
        )

    def _receive(self, number: int, channel: int) -> Stream:
        fed = self._fed[number]
        return fed.stream(channel, self._scheduler.lender(fed.producers, fed.above))

    # ----------------------------------------------------------------------------------------------------- result

    def _read(self, result: _Result) -> Iterator[pa.RecordBatch]:
        exchange = result.fed.exchange
        lend = self._scheduler.lender(result.fed.producers, result.fed.above)
        if result.morsels is None:
            for lane in exchange.lanes(0, lend):
                yield from lane
            return
        for morsel in range(result.morsels):
            producer = morsel % exchange.producers
            while (taken := exchange.take(0, producer, lend)) is not None and taken.rows.num_rows:
                yield taken.rows

    def _count(self) -> None:
        for read in self._reads:
            self._epoch_input.read.add(read)
        for exchange, plan_path in self._noted:
            self._execution_context.meters.of(
                "Exchange", plan_path
            ).spilled_bytes += exchange.statistics().spilled_bytes


def _as_they_come(channel: ChannelRun, turns: Sequence[Pieces]) -> Rows:
    for pieces in turns:
        with closing(channel.rows(pieces)) as batches:
            yield from batches


def _in_blocks(channel: ChannelRun, turns: Sequence[Pieces]) -> Rows:
    with closing(_as_they_come(channel, turns)) as batches:
        yield from blocks(batches)


def _in_parts(channel: ChannelRun, turns: Sequence[Pieces]) -> Parts:
    with closing(_as_they_come(channel, turns)) as batches:
        yield from parts(batches)


def _whole(rows: Rows) -> Parts:
    with closing(rows):
        for batch in rows:
            yield Part(batch, ends=True)


def _in_morsels(channel: ChannelRun, turns: Sequence[Pieces], end: pa.RecordBatch) -> Rows:
    """The channel's rows, turn by turn. An empty batch ends each morsel; no other batch is empty."""
    for pieces in turns:
        with closing(channel.rows(pieces)) as batches:
            for batch in batches:
                if batch.num_rows:
                    yield batch
        yield end


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return joined([], schema)


def _steps(sent: Parts, outlets: Sequence[tuple[Exchange, int]], watermark: int | None) -> Generator[None]:
    """Push the rows, one batch per step, until nobody reads them any more; then push their end or their error."""
    try:
        with closing(sent):
            for part in sent:
                if not _push(outlets, part):
                    break
                yield
        for exchange, producer in outlets:
            exchange.end(producer, watermark)
    except Exception as error:  # noqa: BLE001 - it is raised where the rows are read
        _fail(outlets, error)
    except BaseException:
        _fail(outlets, ExecutionError("a channel was interrupted", reason="INTERRUPTED"))
        raise


def _push(outlets: Sequence[tuple[Exchange, int]], part: Part) -> bool:
    """Push the rows into all outlets; True if any of them wants more."""
    wanted = False
    for exchange, producer in outlets:
        wanted |= exchange.push(producer, part.rows, ends=part.ends)
    return wanted


def _fail(outlets: Sequence[tuple[Exchange, int]], error: Exception) -> None:
    for exchange, producer in outlets:
        exchange.fail(producer, error)
