"""Builders for exchanges under test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from tidegate.executor.exchange.exchange import Exchange, Slice
from tidegate.executor.exchange.exchange_buffers import Answer
from tidegate.executor.exchange.moved_bytes import Allowance
from tidegate.executor.exchange.routing import HashRouting, Routing
from tidegate.executor.runtime.batch_store import Quota, SpillFiles
from tidegate.operators.core.blocks import blocks
from tidegate.operators.core.operator import Stream
from tidegate.operators.core.streams import BatchStream
from tidegate.proto.errors import ExecutionError

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
PLENTY = 1 << 40
SECONDS = 60
"""How long a thread that must end is waited for before the test fails."""


class OneExchange:
    """An exchange with the quota and the folder it spills to, and how often it said that something changed."""

    def __init__(
        self,
        folder: Path,
        routing: Routing,
        *,
        producers: int,
        memory_limit: int = PLENTY,
        quota: int = PLENTY,
        schema: pa.Schema = SCHEMA,
        allowance: int | None = None,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        self.quota = Quota(quota)
        self.folder = folder
        self.changes = 0
        self.exchange = Exchange(
            schema,
            routing,
            producers=producers,
            epoch=1,
            memory_limit=memory_limit,
            quota=self.quota,
            files=SpillFiles(folder),
            allowance=None if allowance is None else Allowance(allowance),
            on_change=on_change or self._count_change,
        )

    def _count_change(self) -> None:
        self.changes += 1

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*")) if self.folder.exists() else []


def hashed(channels: int) -> HashRouting:
    return HashRouting(SCHEMA, (0,), channels)


def block(*keys: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(keys, pa.int64()), pa.array([f"row {key}" for key in keys])], schema=SCHEMA)


def stream(batches: Iterable[pa.RecordBatch], watermark: int | None = None) -> BatchStream:
    rows = BatchStream(SCHEMA, batches)
    rows.watermark = watermark
    return rows


def push_all(exchange: Exchange, producer: int, pushed: Sequence[pa.RecordBatch]) -> None:
    for batch in pushed:
        exchange.push(producer, batch)
    exchange.end(producer)


def pulled(exchange: Exchange, consumer: int) -> Iterator[Slice]:
    """What is there now."""
    while isinstance(slice_ := exchange.pull(consumer), Slice):
        yield slice_


def keys_of(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [key for batch in batches for key in batch["k"].to_pylist()]


def read(exchange: Exchange, consumer: int) -> list[int]:
    """The keys of a consumer whose producers have all ended."""
    keys = keys_of(slice_.rows for slice_ in pulled(exchange, consumer))
    assert exchange.pull(consumer) is Answer.END
    return keys


def in_threads(*jobs: Callable[[], None]) -> None:
    """Run all at once; they must all end, and none may raise."""
    errors: list[BaseException] = []

    def run(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads), "somebody waits for ever"
    assert errors == []


def feed(exchange: Exchange, producer: int, fed: Stream) -> Generator[None]:
    """Push a whole stream, one block at each step of the iterator, then the stream's end or its error.

    Closes the stream in any case, and early if nobody reads the producer's blocks any more.
    """
    try:
        with closing(fed):
            for rows in blocks(fed):
                if not exchange.push(producer, rows):
                    break
                yield
            watermark = fed.watermark
        exchange.end(producer, watermark)
    except Exception as error:  # noqa: BLE001 - it is raised where the stream is read
        exchange.fail(producer, error)
    except BaseException:
        exchange.fail(producer, ExecutionError("a producer of an exchange was interrupted", reason="INTERRUPTED"))
        raise
