"""The output of a stage's channel: its rows as parcels for each exchange it feeds, cut and routed as in one process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from ....operators.core.blocks import blocks
from ....operators.core.sizes import batch_bytes
from ....planner.ir import Routing
from ....planner.physical.pipelines import Exchange
from ....planner.physical.stages import is_shared
from ....proto.errors import ExecutionError, TidegateError
from ...exchange.planned_exchanges import routing_of
from ...runtime.meters import Meter
from . import task_failures as failures
from .parcels import BEFORE_ALL, Kind, Parcel, by_producer, encoded
from .ranges import Sample

SHARED_BYTES: Final = 256 << 10
"""Rows for all channels travel inside the parcels if they have fewer bytes."""


class _Outlet(Protocol):
    readers: int
    """The number of tasks that read the parcels."""

    def block(self, rows: pa.RecordBatch, number: int) -> list[Parcel]: ...

    def end(self, blocks: int, error: bytes) -> list[Parcel]: ...

    def close(self) -> None: ...


class Outbox:
    """The output of the producer of this number. `meters` count the rows of each exchange; `folder` is for files.

    Without a folder, rows for all channels travel inside the parcels, however many they are.
    """

    def __init__(
        self, exchanges: Sequence[Exchange], producer: int, producers: int, meters: Sequence[Meter], folder: Path | None
    ) -> None:
        self.moved = self.rows = 0
        self._exchanges = tuple(exchanges)
        self._producer = producer
        self._meters = tuple(meters)
        self._outlets: list[_Outlet] = [_outlet(exchange, producer, producers, folder) for exchange in exchanges]

    def parcels(self, rows: Iterator[pa.RecordBatch]) -> Iterator[list[Parcel]]:
        """The parcels of each block, and then of the end. An error in the plan's data is a parcel too."""
        number, error = 0, b""
        with ExitStack() as stack:
            for outlet in self._outlets:
                stack.callback(outlet.close)
            try:
                for block in blocks(rows):
                    yield self._counted(block, number)
                    number += 1
            except TidegateError as failure:
                error = failures.written(failure)
            yield self._weighed([parcel for outlet in self._outlets for parcel in outlet.end(number, error)])

    def messages(self, report: bytes) -> list[Parcel]:
        """The messages to readers.

        The report goes to one of the reading channels. The first producer also sends a parcel to each channel, so that
        no channel is without parcels.
        """
        outgoing = (
            []
            if self._producer
            else [
                (exchange, at, b"")
                for exchange, outlet in zip(self._exchanges, self._outlets, strict=True)
                for at in range(outlet.readers)
            ]
        )
        outgoing.append((self._exchanges[0], 0, report))
        return [
            Parcel(channel, exchange.number, BEFORE_ALL, self._producer, Kind.REPORT, payload)
            for exchange, channel, payload in outgoing
        ]

    def _counted(self, block: pa.RecordBatch, number: int) -> list[Parcel]:
        size = batch_bytes(block)
        self.rows += block.num_rows
        for meter in self._meters:
            meter.rows_in += block.num_rows
            meter.bytes_in += size
        return self._weighed([parcel for outlet in self._outlets for parcel in outlet.block(block, number)])

    def _weighed(self, parcels: list[Parcel]) -> list[Parcel]:
        self.moved += sum(len(parcel.payload) for parcel in parcels)
        return parcels


def _outlet(exchange: Exchange, producer: int, producers: int, folder: Path | None) -> _Outlet:
    if exchange.routing is Routing.RANGE:
        return _Cut(exchange, producer, producers)
    shared = folder is not None and is_shared(exchange)
    return _Shared(exchange, producer, folder) if shared and folder is not None else _Own(exchange, producer)


class _Own:
    """Sends each channel its own rows."""

    def __init__(self, exchange: Exchange, producer: int) -> None:
        self.readers = exchange.consumers
        self._exchange = exchange
        self._producer = producer
        self._routing = routing_of(exchange)

    def block(self, rows: pa.RecordBatch, number: int) -> list[Parcel]:
        slices = self._routing.slices(rows, self._producer, number)
        return [
            _parcel(self._exchange, self._producer, channel, number, Kind.ROWS, encoded(part))
            for channel, part in enumerate(slices)
            if part.num_rows
        ]

    def end(self, blocks: int, error: bytes) -> list[Parcel]:
        if not error:
            return []
        return [
            _parcel(self._exchange, self._producer, channel, blocks, Kind.ERROR, error)
            for channel in range(self._exchange.consumers)
        ]

    def close(self) -> None:
        """Do nothing: nothing is open."""


class _Cut:
    """Sends sorted rows to the task that cuts them into ranges, and a sample of their keys to all such tasks."""

    def __init__(self, exchange: Exchange, producer: int, producers: int) -> None:
        self.readers = producers
        self._exchange = exchange
        self._producer = producer
        self._sample = Sample(exchange)

    def block(self, rows: pa.RecordBatch, number: int) -> list[Parcel]:
        self._sample.add(rows)
        return [_parcel(self._exchange, self._producer, self._producer, number, Kind.ROWS, encoded(rows))]

    def end(self, blocks: int, error: bytes) -> list[Parcel]:
        sample = encoded(self._sample.batch())
        outgoing = [
            Parcel(task, self._exchange.number, BEFORE_ALL, self._producer, Kind.SAMPLE, sample)
            for task in range(self.readers)
        ]
        if error:
            outgoing.append(_parcel(self._exchange, self._producer, self._producer, blocks, Kind.ERROR, error))
        return outgoing

    def close(self) -> None:
        """Do nothing: nothing is open."""


class _Shared:
    """Sends all rows to all channels: once, in a file, unless they are few."""

    def __init__(self, exchange: Exchange, producer: int, folder: Path) -> None:
        self.readers = exchange.consumers
        self._exchange = exchange
        self._producer = producer
        self._folder = folder
        self._held: list[pa.RecordBatch] = []
        self._size = 0
        self._path: Path | None = None
        self._open = ExitStack()
        self._writer: pa.RecordBatchStreamWriter | None = None

    def block(self, rows: pa.RecordBatch, number: int) -> list[Parcel]:  # noqa: ARG002 - they stay in order
        if self._writer is not None:
            self._write([rows])
            return []
        self._held.append(rows)
        self._size += batch_bytes(rows)
        if self._size > SHARED_BYTES:
            self._path = self._folder / f"shared-{uuid.uuid4().hex}.arrow"
            sink = self._open.enter_context(pa.OSFile(str(self._path), "wb"))
            self._writer = self._open.enter_context(pa.ipc.new_stream(sink, self._exchange.schema))
            held, self._held = self._held, []
            self._write(held)
        return []

    def end(self, blocks: int, error: bytes) -> list[Parcel]:
        self._open.close()
        outgoing = [(Kind.ROWS, encoded(rows)) for rows in self._held]
        if self._path is not None:
            outgoing = [(Kind.FILE, str(self._path).encode())]
        if error:
            outgoing.append((Kind.ERROR, error))
        assert len(outgoing) <= blocks + 1
        return [
            _parcel(self._exchange, self._producer, channel, number, kind, payload)
            for channel in range(self._exchange.consumers)
            for number, (kind, payload) in enumerate(outgoing)
        ]

    def close(self) -> None:
        self._open.close()

    def _write(self, batches: Sequence[pa.RecordBatch]) -> None:
        assert self._writer is not None
        try:
            for rows in batches:
                self._writer.write_batch(rows)
        except OSError as error:
            raise ExecutionError(
                f"rows for all channels cannot be written: {error}; give the staging place room", reason="SPILL_FAILED"
            ) from error


def _parcel(exchange: Exchange, producer: int, channel: int, number: int, kind: Kind, payload: bytes) -> Parcel:
    """A parcel at the position where the exchange's readers expect the producer's parcel of this number."""
    order = (producer, number) if by_producer(exchange) else (number, producer)
    return Parcel(channel, exchange.number, *order, kind, payload)
