"""The input of a stage's channel, as streams for its operators: one stream for each exchange.

Parcels come in the order of their exchanges. The channel takes them from Spark only as an operator asks for rows.
Parcels of an exchange that no operator has asked for yet wait in a local exchange, in memory up to its part of
`queue_bytes`, then on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import pyarrow as pa

from ....operators.arrays.ordering import Ordering
from ....operators.arrays.sorted_merge import merged
from ....operators.core.operator import Stream
from ....operators.core.streams import BatchStream
from ....planner.ir import Routing
from ....planner.physical.stages import is_shared
from ....proto.arrow.validation import each_validated
from ....proto.errors import InternalError
from ...exchange.exchange import Exchange
from ...exchange.routing import Broadcast
from ...runtime.batch_store import SpillSpace
from . import task_failures as failures
from .parcels import Kind, Parcel, by_producer, decoded
from .stage import Received

Pump: TypeAlias = Callable[[], bool]


class _Door(Protocol):
    """One exchange's end."""

    @property
    def spilled_bytes(self) -> int: ...

    def stream(self) -> Stream: ...

    def take(self, parcel: Parcel) -> None: ...

    def end(self) -> None:
        """Record that there are no more parcels. May be called more than once."""
        ...

    def close(self) -> None:
        """Record that no more rows are wanted."""
        ...


class Inbox:
    """The input of one run of a channel: its parcels, dealt to the exchanges that they belong to.

    Without `files`, rows for all channels are in the parcels like any others.
    """

    def __init__(
        self,
        parcels: Iterator[Parcel],
        received: Sequence[Received],
        *,
        epoch: int,
        memory_limit: int,
        space: SpillSpace,
        files: bool = True,
    ) -> None:
        self.reports: list[bytes] = []
        self._parcels = parcels
        self._at = -1
        self._more = True
        room = memory_limit // max(len(received), 1)
        self._doors: dict[int, _Door] = {
            inlet.exchange.number: _Shared(inlet, self._pump)
            if files and is_shared(inlet.exchange)
            else _Own(inlet, self._pump, epoch=epoch, memory_limit=room, space=space)
            for inlet in received
        }

    def receive(self, exchange: int) -> Stream:
        if exchange not in self._doors:
            raise InternalError(f"there is no exchange {exchange}")
        return self._doors[exchange].stream()

    def drain(self) -> None:
        """Take the remaining parcels, for their reports.

        A process that leaves some of its input cannot be used again.
        """
        for door in self._doors.values():
            door.close()
        while self._pump():
            pass

    @property
    def spilled_bytes(self) -> dict[int, int]:
        return {number: door.spilled_bytes for number, door in self._doors.items()}

    def _pump(self) -> bool:
        """Take the next parcel; False once all parcels and their end were taken."""
        if not self._more:
            return False
        parcel = next(self._parcels, None)
        if parcel is None or parcel.exchange != self._at:
            for number, door in self._doors.items():
                if parcel is None or number < parcel.exchange:
                    door.end()
        if parcel is None:
            self._more = False
            return True
        self._at = parcel.exchange
        if parcel.kind is Kind.REPORT:
            self.reports += [parcel.payload] if parcel.payload else []
        else:
            self._doors[parcel.exchange].take(parcel)
        return True


class _Own:
    """An exchange whose parcels are for this channel alone."""

    def __init__(self, received: Received, pump: Pump, *, epoch: int, memory_limit: int, space: SpillSpace) -> None:
        self._schema = received.exchange.schema
        self._order = received.exchange.order
        self._lanes = received.producers if self._order else 1
        self._pump = pump
        self._ended: set[int] = set()
        self._exchange = Exchange(
            self._schema,
            Broadcast(1),
            producers=self._lanes,
            epoch=epoch,
            memory_limit=memory_limit,
            quota=space.quota,
            files=space.files,
        )

    @property
    def spilled_bytes(self) -> int:
        return self._exchange.statistics().spilled_bytes

    def stream(self) -> Stream:
        if self._order:
            return self._exchange.merged(0, Ordering(self._order), lambda _: self._pump())
        return self._exchange.stream(0, lambda _: self._pump())

    def take(self, parcel: Parcel) -> None:
        lane = parcel.first if self._order else 0
        for before in range(lane):
            self._end(before)
        if lane in self._ended:
            return
        if parcel.kind is Kind.ERROR:
            self._ended.add(lane)
            self._exchange.fail(lane, failures.read(parcel.payload))
        elif self._exchange.wanted(lane):
            self._exchange.push(lane, decoded(parcel.payload, self._schema))

    def end(self) -> None:
        for lane in range(self._lanes):
            self._end(lane)

    def _end(self, lane: int) -> None:
        if lane not in self._ended:
            self._ended.add(lane)
            self._exchange.end(lane)

    def close(self) -> None:
        self._exchange.close(0)


@dataclass(slots=True)
class _Lane:
    """One producer's rows: its parcels, or the file with its rows, and the error that ends them."""

    parcels: list[bytes] = field(default_factory=list)
    file: str = ""
    error: bytes = b""

    def rows(self, schema: pa.Schema) -> Generator[pa.RecordBatch]:
        for payload in self.parcels:
            yield decoded(payload, schema)
        if self.file:
            with pa.memory_map(self.file) as source, pa.ipc.open_stream(source) as reader:
                yield from each_validated(reader)
        if self.error:
            raise failures.read(self.error)


class _Shared:
    """An exchange whose rows all channels read. The parcels name the rows' files, unless the rows are few."""

    spilled_bytes = 0

    def __init__(self, received: Received, pump: Pump) -> None:
        self._received = received
        self._pump = pump
        self._lanes = [_Lane() for _ in range(received.producers)]
        self._by_producer = by_producer(received.exchange)
        self._complete = False

    def stream(self) -> Stream:
        schema, order = self._received.exchange.schema, self._received.exchange.order
        if order:
            lanes = [BatchStream(schema, self._lane(number)) for number in range(len(self._lanes))]
            return BatchStream(schema, merged(lanes, Ordering(order)))
        if self._received.exchange.routing is Routing.GATHER:
            return BatchStream(schema, self._one_by_one())
        return BatchStream(schema, self._in_turn())

    def take(self, parcel: Parcel) -> None:
        lane = self._lanes[parcel.first if self._by_producer else parcel.second]
        match parcel.kind:
            case Kind.FILE:
                lane.file = parcel.payload.decode()
            case Kind.ERROR:
                lane.error = parcel.payload
            case _:
                lane.parcels.append(parcel.payload)

    def end(self) -> None:
        self._complete = True

    def close(self) -> None:
        """Do nothing: only names and a few rows are held."""

    def _lane(self, number: int) -> Generator[pa.RecordBatch]:
        while not self._complete:
            self._pump()
        yield from self._lanes[number].rows(self._received.exchange.schema)

    def _one_by_one(self) -> Generator[pa.RecordBatch]:
        for number in range(len(self._lanes)):
            yield from self._lane(number)

    def _in_turn(self) -> Generator[pa.RecordBatch]:
        """Block 0 of each producer, then block 1 of each producer, and so on."""
        waiting = [self._lane(number) for number in range(len(self._lanes))]
        while waiting:
            still = []
            for lane in waiting:
                block = next(lane, None)
                if block is not None:
                    yield block
                    still.append(lane)
            waiting = still
