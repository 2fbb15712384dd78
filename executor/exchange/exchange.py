"""One exchange in one epoch: passes rows from P producer channels to C consumer channels, in an order that does not
depend on timing.

Contract. A producer pushes the blocks of its stream. Each block becomes one slice for each consumer, numbered
(producer, epoch, block). A consumer reads its slices in (block, producer) order: block 0 of producer 0, block 0 of
producer 1, ..., block 1 of producer 0, and so on, skipping producers that have ended. Or it reads the *lane* of each
producer separately, to merge the lanes. Either way the rows that it reads depend on the producers' streams alone. A
large block may come in parts: a consumer reads all parts of a block before a block of another producer.

A producer never waits. Blocks beyond `memory_limit` go to files of the task's folder while the quota has room for them,
and otherwise stay in memory. No plan can therefore deadlock: only consumers wait, and only for producers, which are
never downstream of them. The `allowance` bounds memory and files: all pushed bytes count, waiting or not, and beyond
the allowance `push` fails with an error that says so. An exchange whose producers run only for its one consumer needs
no allowance: it holds only what they produce ahead of that consumer.

An exchange that is `replayed` keeps all blocks until its consumers are closed (`ReplayLog`), so that a consumer that
was made anew can `begin_again`. The end of a consumer's stream is then no close: producers go on until `close`.

A producer's error reaches each consumer in its place, after the blocks before it. A consumer that has closed gets
nothing more, and `push` tells a producer when nobody reads its blocks any more.

All methods may be called from any thread; a producer and a consumer are each one thread at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from ...operators.arrays.ordering import Ordering
from ...operators.arrays.sorted_merge import merged
from ...proto.errors import ExecutionError, TaskCancelled
from ..runtime.batch_store import Quota, SpillFiles, Store
from ..runtime.meters import Counts
from .exchange_buffers import Answer, Block, Lanes
from .moved_bytes import Allowance
from .replay_log import ReplayLog
from .routing import Routing

Meanwhile: TypeAlias = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Slice:
    """One consumer's rows of block number `block` (from 0) of a producer's stream, or of a part of that block."""

    producer: int
    epoch: int
    block: int
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeStatistics:
    """The blocks pushed for open consumers, the bytes of files written, and the most bytes in memory at a time.

    A block that goes to all consumers counts once.
    """

    blocks: int
    rows: int
    bytes: int
    spilled_bytes: int
    peak_bytes: int


class Exchange:
    """An exchange; the module has its contract.

    It calls `on_change`, without any lock, whenever a waiting consumer may find something, a producer lost all its
    readers, or the exchange is no longer crowded. `counts`, if any, has an entry for each producer, which counts the
    producer's rows as it pushes them.
    """

    def __init__(
        self,
        schema: pa.Schema,
        routing: Routing,
        *,
        producers: int,
        epoch: int,
        memory_limit: int,
        quota: Quota,
        files: SpillFiles,
        allowance: Allowance | None = None,
        on_change: Callable[[], None] | None = None,
        counts: Sequence[Counts] = (),
        replayed: bool = False,
    ) -> None:
        self.schema = schema
        self.epoch = epoch
        self.producers = producers
        self.consumers = routing.channels
        self._routing = routing
        self._files = files
        self._allowance = allowance
        self._store = Store(memory_limit, quota)
        self._on_change = on_change
        self._lanes = Lanes(producers, routing.channels, self._store)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._spilling = threading.Lock()
        self._changes = 0
        self._stopped: Exception | None = None
        self._counts = tuple(counts)
        self._log = ReplayLog(quota, files) if replayed else None
        self._blocks = self._rows = self._bytes = self._spilled = self._peak = 0

    # ------------------------------------------------------------------------------------------------- producers

    def push(self, producer: int, rows: pa.RecordBatch, *, ends: bool = True) -> bool:
        """Take the next block of this producer's stream, or a part of it, behind which the block `ends` or goes on.
        False: nobody reads the producer's blocks any more.
        """
        with self._lock:
            self._check_stopped()
            if self._lanes.ended(producer):
                raise RuntimeError(f"producer {producer} pushed a block after its end")
            wanted, part_number = self._lanes.wanted(producer), self._lanes.count(producer)
            number = self._lanes.block_number(producer)
        if not any(wanted):
            return False
        sliced = Block(self._routing.slices(rows, producer, number), wanted, number, ends=ends)
        if self._allowance is not None:
            self._allowance.take(sliced.holding.size)
        if self._log is not None:
            self._log.add(producer, part_number, sliced)
        if not self._keep(producer, sliced):
            self._spill(producer, sliced)
        self._notify()
        return True

    def end(self, producer: int, watermark: int | None = None) -> None:
        """Record that the producer has reached its barrier."""
        with self._lock:
            self._lanes.end(producer, watermark=watermark)
        self._notify()

    def fail(self, producer: int, error: Exception) -> None:
        """End the producer's stream with an error. The error may be one that `push` raised."""
        with self._lock:
            self._lanes.end(producer, error=error)
        self._notify()

    def wanted(self, producer: int) -> bool:
        """True if any consumer still reads this producer's blocks."""
        with self._lock:
            return self._stopped is None and any(self._lanes.wanted(producer))

    @property
    def takes_parts(self) -> bool:
        """True if blocks may be pushed in parts. Else a row's route may depend on the block's other rows."""
        return self._routing.by_row

    @property
    def crowded(self) -> bool:
        """True if memory is full or blocks are on disk: better to wait with the next block until consumers read."""
        with self._lock:
            return self._full

    # ------------------------------------------------------------------------------------------------- consumers

    def pull(self, consumer: int, producer: int | None = None) -> Slice | Answer:
        """The consumer's next slice, of all producers or of one. Raises the producer's error if that is next."""
        with self._lock:
            self._check_stopped()
            answer = self._lanes.find(consumer, producer)
            if isinstance(answer, Answer):
                return answer
            part_number, block = self._lanes.advance(consumer, answer)
        try:
            # Read without the lock, because it may be in a file. It is not freed meanwhile: this consumer is one of its
            # readers.
            number, rows = (
                self._again(consumer, answer, part_number)
                if block is None
                else (block.number, block.holding.batch(block.position(consumer)))
            )
        except (OSError, pa.ArrowException) as error:
            lost = ExecutionError(
                f"the spilled rows of an exchange cannot be read back: {error}", reason="SPILL_FAILED"
            )
            self.cancel(lost)  # or the next pull would go on behind the lost rows
            raise lost from error
        finally:
            with self._lock:
                crowded = self._full
                if block is not None:
                    self._lanes.release(consumer, answer, part_number)
                crowded = crowded and not self._full
            if crowded and self._on_change is not None:
                self._on_change()
        return Slice(answer, self.epoch, number, rows)

    def take(self, consumer: int, producer: int | None = None, meanwhile: Meanwhile | None = None) -> Slice | None:
        """The next slice, or None at the end. Waits for it.

        `meanwhile` lends the waiting thread: it gets the producer that is waited for, does some work for the producers
        if there is any that no other thread does, and returns True if it did. Without `meanwhile`, producers must have
        threads of their own or have ended.
        """
        while True:
            seen = self._changes  # before the look, so that no later change is missed
            answer = self.pull(consumer, producer)
            if isinstance(answer, Slice):
                return answer
            if answer is Answer.END:
                return None
            if meanwhile is None or not meanwhile(self._awaited(consumer, producer)):
                with self._lock:
                    while self._changes == seen:
                        self._changed.wait()

    def wake(self) -> None:
        """Make threads that wait in `take` look again. Called after adding work for `meanwhile`."""
        with self._lock:
            self._changes += 1
            self._changed.notify_all()

    def stream(self, consumer: int, meanwhile: Meanwhile | None = None) -> ExchangeStream:
        """The consumer's rows in (block, producer) order.

        The stream must be the only reader of this consumer's slices.
        """
        return ExchangeStream(self, consumer, None, meanwhile)

    def lanes(self, consumer: int, meanwhile: Meanwhile | None = None) -> tuple[ExchangeStream, ...]:
        """The consumer's rows as one stream per producer, to be merged.

        The streams must be the only readers of its slices.
        """
        return tuple(ExchangeStream(self, consumer, producer, meanwhile) for producer in range(self.producers))

    def merged(self, consumer: int, ordering: Ordering, meanwhile: Meanwhile | None = None) -> LanesStream:
        """The consumer's rows in this order, ties by producer. Each producer's stream must be sorted in this order."""
        return LanesStream(self, consumer, merged(self.lanes(consumer, meanwhile), ordering))

    def gathered(self, consumer: int, meanwhile: Meanwhile | None = None) -> LanesStream:
        """The consumer's rows, producer after producer."""
        return LanesStream(self, consumer, _chained(self.lanes(consumer, meanwhile)))

    def close(self, consumer: int, producer: int | None = None) -> None:
        """End the consumer's reading of all producers, or of one. At any time, and more than once."""
        with self._lock:
            if not self._lanes.close(consumer, range(self.producers) if producer is None else (producer,)):
                return
            log = self._log if self._log is not None and self._lanes.closed else None
        if log is not None:
            log.end()
        self._notify()

    def leave(self, consumer: int, producer: int | None = None) -> None:
        """Close the consumer's stream. If the consumer may begin again, its producers go on."""
        if self._log is None:
            self.close(consumer, producer)
            return
        with self._lock:
            self._lanes.leave(consumer, range(self.producers) if producer is None else (producer,))

    @property
    def replayable(self) -> bool:
        """True if `begin_again` is possible."""
        return self._log is not None and self._log.whole

    def begin_again(self, consumer: int) -> None:
        """Have the consumer, which reads nothing now, read from the first block of each producer."""
        with self._lock:
            self._lanes.begin_again(consumer)

    @property
    def watermark(self) -> int | None:
        """The least of the producers' watermarks once all have ended; None if one of them has none."""
        with self._lock:
            return self._lanes.watermark

    # -------------------------------------------------------------------------------------------------- the whole

    def cancel(self, error: Exception | None = None) -> None:
        """End the exchange for everyone: threads that wait, push or pull get this error. Held blocks are freed."""
        with self._lock:
            if self._stopped is not None:
                return
            self._stopped = error or TaskCancelled("the task was cancelled")
        self._notify()
        for consumer in range(self.consumers):
            self.close(consumer)

    def statistics(self) -> ExchangeStatistics:
        with self._lock:
            return ExchangeStatistics(
                blocks=self._blocks,
                rows=self._rows,
                bytes=self._bytes,
                spilled_bytes=self._spilled,
                peak_bytes=self._peak,
            )

    # ---------------------------------------------------------------------------------------------------- inside

    @property
    def _full(self) -> bool:
        return self._store.memory >= self._store.memory_limit or self._store.disk > 0

    def _again(self, consumer: int, producer: int, part_number: int) -> tuple[int, pa.RecordBatch]:
        """A slice that the consumer had before it was made anew, with the number of its block."""
        assert self._log is not None
        return self._log.slice(consumer, producer, part_number)

    def _awaited(self, consumer: int, producer: int | None) -> int:
        if producer is not None:
            return producer
        with self._lock:
            return self._lanes.turn(consumer)

    def _check_stopped(self) -> None:
        if self._stopped is not None:
            raise self._stopped

    def _keep(self, producer: int, block: Block) -> bool:
        """Keep the block in memory, if there is room."""
        with self._lock:
            if not self._store.fits(block.holding):
                return False
            self._put(producer, block)
            return True

    def _put(self, producer: int, block: Block) -> None:
        self._store.put(block.holding)
        self._peak = max(self._peak, self._store.memory)
        self._publish(producer, block)

    def _spill(self, producer: int, block: Block) -> None:
        """Spill the block to disk if there is room, one producer at a time.

        The newest blocks in memory go with it if that makes a better file.
        """
        with self._spilling:
            with self._lock:
                run = self._store.take_run(block.holding)
                if run is None:
                    self._put(producer, block)
                    return
            try:
                file = self._files.write(run)
            except BaseException:
                with self._lock:
                    self._store.give_back(run)
                raise
            with self._lock:
                self._store.spilled(run, file)
                self._spilled += file.size
                self._publish(producer, block)

    def _publish(self, producer: int, block: Block) -> None:
        self._blocks += block.ends
        rows, size = block.holding.rows, block.holding.size
        self._rows += rows
        self._bytes += size
        if self._counts:
            self._counts[producer].rows_in += rows
            self._counts[producer].bytes_in += size
        self._lanes.publish(producer, block)

    def _notify(self) -> None:
        self.wake()
        if self._on_change is not None:
            self._on_change()


class ExchangeStream:
    """A consumer's side as a stream, without empty slices. Closing the stream leaves that side."""

    def __init__(self, exchange: Exchange, consumer: int, producer: int | None, meanwhile: Meanwhile | None) -> None:
        self.schema = exchange.schema
        self._exchange = exchange
        self._consumer = consumer
        self._producer = producer
        self._meanwhile = meanwhile

    @property
    def watermark(self) -> int | None:
        return self._exchange.watermark

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        while True:
            taken = self._exchange.take(self._consumer, self._producer, self._meanwhile)
            if taken is None:
                raise StopIteration
            if taken.rows.num_rows:
                return taken.rows

    def close(self) -> None:
        self._exchange.leave(self._consumer, self._producer)


def _chained(lanes: Sequence[ExchangeStream]) -> Generator[pa.RecordBatch]:
    for lane in lanes:
        yield from lane


class LanesStream:
    """A consumer's side as one stream, made from its lanes. Closing the stream leaves that side."""

    def __init__(self, exchange: Exchange, consumer: int, rows: Generator[pa.RecordBatch]) -> None:
        self.schema = exchange.schema
        self._exchange = exchange
        self._consumer = consumer
        self._rows = rows

    @property
    def watermark(self) -> int | None:
        return self._exchange.watermark

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._rows)

    def close(self) -> None:
        self._rows.close()
        self._exchange.leave(self._consumer)
