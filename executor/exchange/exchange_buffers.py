"""The state of an exchange: the blocks that each producer has pushed, and each consumer's position. Callers hold the
exchange's lock.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..runtime.batch_store import Holding, Store
from .routing import Slices


class Answer(enum.Enum):
    """The answer to a consumer when there is no slice for it."""

    WAIT = enum.auto()
    END = enum.auto()


class Block:
    """The slices of a block, or of a part of it, in one holding. A slice for all consumers is stored once. `readers`
    have not read theirs yet. `ends`: the block numbered `number` has no rows behind these.
    """

    __slots__ = ("_positions", "ends", "holding", "number", "readers")

    def __init__(self, slices: Slices, wanted: list[bool], number: int, *, ends: bool = True) -> None:
        self.number = number
        self.ends = ends
        self.readers: set[int] = set()
        if all(slice_ is slices[0] for slice_ in slices):
            self.holding = Holding((slices[0],))
            self._positions = (0,) * len(slices)
        else:
            kept = [slice_ if want else slice_.slice(0, 0) for slice_, want in zip(slices, wanted, strict=True)]
            self.holding = Holding(tuple(kept))
            self._positions = tuple(range(len(kept)))

    def position(self, consumer: int) -> int:
        """The position of this consumer's slice among the holding's batches."""
        return self._positions[consumer]


@dataclass(slots=True, eq=False)
class _Lane:
    """One producer's parts of blocks that are still to be read, by their place in its stream, and the stream's end.

    There were `count` parts so far, and `ended_blocks` blocks. Behind the parts `unended` their blocks go on.
    """

    parts: dict[int, Block] = field(default_factory=dict)
    count: int = 0
    ended_blocks: int = 0
    unended: set[int] = field(default_factory=set)
    ended: bool = False
    error: Exception | None = None
    watermark: int | None = None


@dataclass(slots=True, eq=False)
class _Reader:
    """One consumer's next block of each producer, which producers it still reads, and the producer whose turn it is.

    A consumer that has left a producer reads no more of it, but may read it again from the start: the producer goes on.
    The blocks before `replayed` are not in the lanes any more.
    """

    next: list[int]
    replayed: list[int]
    open: list[bool]
    reading: list[bool]
    turn: int = 0


class Lanes:
    """The lanes of all producers. A block is freed in the store when its last reader has released it or closed."""

    def __init__(self, producers: int, consumers: int, store: Store) -> None:
        self._lanes = [_Lane() for _ in range(producers)]
        self._readers = [
            _Reader([0] * producers, [0] * producers, [True] * producers, [True] * producers) for _ in range(consumers)
        ]
        self._store = store

    # ------------------------------------------------------------------------------------------------- producers

    def wanted(self, producer: int) -> list[bool]:
        """For each consumer, True if it still reads this producer, or may read it again."""
        return [reader.open[producer] for reader in self._readers]

    def publish(self, producer: int, block: Block) -> None:
        """Add the producer's next block, or part of one, which is in the store already."""
        lane = self._lanes[producer]
        block.readers = {consumer for consumer, reader in enumerate(self._readers) if reader.reading[producer]}
        if block.readers:
            lane.parts[lane.count] = block
        else:
            self._store.free(block.holding)
        if block.ends:
            lane.ended_blocks += 1
        else:
            lane.unended.add(lane.count)
        lane.count += 1

    def end(self, producer: int, *, watermark: int | None = None, error: Exception | None = None) -> None:
        """End the producer's stream. A second call changes nothing."""
        lane = self._lanes[producer]
        if not lane.ended:
            lane.ended, lane.watermark, lane.error = True, watermark, error

    def ended(self, producer: int) -> bool:
        return self._lanes[producer].ended

    def count(self, producer: int) -> int:
        """The number of parts of blocks that the producer has pushed."""
        return self._lanes[producer].count

    def block_number(self, producer: int) -> int:
        """The number of the block that the producer's next rows belong to."""
        return self._lanes[producer].ended_blocks

    @property
    def watermark(self) -> int | None:
        """The least of the producers' watermarks, once all have ended with one."""
        known = [lane.watermark for lane in self._lanes if lane.watermark is not None]
        return min(known) if len(known) == len(self._lanes) else None

    # ------------------------------------------------------------------------------------------------- consumers

    def find(self, consumer: int, only: int | None) -> int | Answer:
        """The producer of the next block or error in (block, producer) order, or `only` if a producer is given.

        Skips producers that ended before that block for good.
        """
        reader = self._readers[consumer]
        if only is not None:
            return self._at(reader, only)
        for _ in self._lanes:
            answer = self._at(reader, reader.turn)
            if answer is not Answer.END:
                return answer
            reader.turn = (reader.turn + 1) % len(self._lanes)
        return Answer.END

    def turn(self, consumer: int) -> int:
        """The producer whose block is next in (block, producer) order."""
        return self._readers[consumer].turn

    def advance(self, consumer: int, producer: int) -> tuple[int, Block | None]:
        """The part of a block that `find` found and its place, to be read and then released. None for a part that is
        read again, and is not here any more.

        Raises the producer's error instead.
        """
        lane, reader = self._lanes[producer], self._readers[consumer]
        number = reader.next[producer]
        if number == lane.count and lane.error is not None:
            raise lane.error
        reader.next[producer] = number + 1
        reader.turn = producer if number in lane.unended else (producer + 1) % len(self._lanes)
        return number, lane.parts[number] if number >= reader.replayed[producer] else None

    def release(self, consumer: int, producer: int, number: int) -> None:
        """Record that the consumer has read its slice of this part, or will never want it."""
        lane = self._lanes[producer]
        block = lane.parts[number]
        block.readers.discard(consumer)
        if not block.readers:
            del lane.parts[number]
            self._store.free(block.holding)

    def leave(self, consumer: int, producers: Iterable[int]) -> None:
        """End the consumer's reading of these producers until it begins again. A block that it is reading stays until
        it is released.
        """
        reader = self._readers[consumer]
        for producer in producers:
            if reader.reading[producer]:
                reader.reading[producer] = False
                first = max(reader.next[producer], reader.replayed[producer])
                for number in range(first, self._lanes[producer].count):
                    self.release(consumer, producer, number)

    def begin_again(self, consumer: int) -> None:
        """Have the consumer read all producers from their first blocks, which are not here any more."""
        reader = self._readers[consumer]
        self.leave(consumer, range(len(self._lanes)))
        for producer, lane in enumerate(self._lanes):
            reader.next[producer], reader.replayed[producer] = 0, lane.count
            reader.reading[producer] = reader.open[producer]
        reader.turn = 0

    def close(self, consumer: int, producers: Iterable[int]) -> bool:
        """End the consumer's reading of these producers for good. False if that changes nothing."""
        is_open = self._readers[consumer].open
        still = [producer for producer in producers if is_open[producer]]
        self.leave(consumer, still)
        for producer in still:
            is_open[producer] = False
        return bool(still)

    @property
    def closed(self) -> bool:
        """True if no consumer reads any producer any more."""
        return not any(True in reader.open for reader in self._readers)

    def _at(self, reader: _Reader, producer: int) -> int | Answer:
        lane = self._lanes[producer]
        if not reader.reading[producer]:
            return Answer.END
        if reader.next[producer] < lane.count or lane.error is not None:
            return producer
        return Answer.END if lane.ended else Answer.WAIT
