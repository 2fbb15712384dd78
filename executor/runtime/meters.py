"""Counters of operators over a task's life, counted where batches pass from one operator to the next."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Protocol

import pyarrow as pa

from ...operators.core.interrupts import look
from ...operators.core.operator import UNBOUNDED, Stream, least_watermark
from ...operators.core.sizes import batch_bytes, row_beyond
from ...proto.errors import ExecutionError, TidegateError
from ...proto.statistics import NodeStatistics, OperatorStatistics

_SUMMED: Final = ("rows_in", "rows_out", "bytes_in", "bytes_out", "runs", "spilled_bytes")
_counts: Final = attrgetter(*_SUMMED)


class Meter:
    """The counters of one operator.

    `run_ns` includes the time of the operators it reads from; `own_ns` does not. `open_ns` is the time that its streams
    were open, and `pressed_ns` the part of it in which the operator had handed out rows and nobody asked for more.
    `text_bytes` are the bytes of text files that it has read.
    """

    __slots__ = (
        "at_least",
        "bytes_in",
        "bytes_out",
        "failed",
        "open_ns",
        "operator",
        "own_ns",
        "plan_path",
        "pressed_ns",
        "rows_in",
        "rows_out",
        "run_ns",
        "runs",
        "spilled_bytes",
        "text_bytes",
    )

    def __init__(self, operator: str, plan_path: str) -> None:
        self.operator = operator
        self.plan_path = plan_path
        self.rows_in = self.rows_out = self.bytes_in = self.bytes_out = self.runs = self.run_ns = self.spilled_bytes = 0
        self.own_ns = self.pressed_ns = self.open_ns = self.text_bytes = 0
        self.at_least = False
        self.failed = False

    @property
    def busy(self) -> float:
        return min(self.own_ns / self.open_ns, 1.0) if self.open_ns else 0.0

    @property
    def backpressure(self) -> float:
        return min(self.pressed_ns / self.open_ns, 1.0) if self.open_ns else 0.0


class Meters:
    """Meters by operator and plan path. An operator that is made again for another shape goes on counting.

    Each channel counts for itself, so that threads share no counter. `statistics` reports the sums.
    """

    def __init__(self) -> None:
        self._meters: dict[tuple[str, str], dict[int, Meter]] = {}

    def of(self, operator: str, plan_path: str, channel: int = 0) -> Meter:
        channels = self._meters.setdefault((operator, plan_path), {})
        return channels.setdefault(channel, Meter(operator, plan_path))

    def all(self) -> tuple[Meter, ...]:
        return tuple(meter for channels in tuple(self._meters.values()) for meter in tuple(channels.values()))

    def read_by(self, operator: str, plan_path: str) -> tuple[int, int]:
        """The rows of an operator, and the bytes of text files that it has read, over all channels; 0 if the operator
        does not exist yet.
        """
        meters = tuple(self._meters.get((operator, plan_path), {}).values())
        return sum([meter.rows_out for meter in meters]), sum([meter.text_bytes for meter in meters])

    def statistics(self) -> tuple[OperatorStatistics, ...]:
        return tuple(OperatorStatistics(**_sum(tuple(channels.values()))) for channels in tuple(self._meters.values()))

    def by_channel(self) -> tuple[OperatorStatistics, ...]:
        """The statistics of each channel separately."""
        return tuple(
            NodeStatistics(**_sum((meter,)), channel=channel)
            for channels in tuple(self._meters.values())
            for channel, meter in sorted(channels.items())
        )


def _sum(meters: Sequence[Meter]) -> dict[str, Any]:
    return {
        "operator": meters[0].operator,
        "place": meters[0].plan_path,
        **dict(zip(_SUMMED, map(sum, zip(*map(_counts, meters), strict=True)), strict=True)),
        "run_us": sum(meter.run_ns for meter in meters) // 1000,
        "at_least": any(meter.at_least for meter in meters),
        "busy": max(meter.busy for meter in meters),
        "backpressure": max(meter.backpressure for meter in meters),
        "health": float(not any(meter.failed for meter in meters)),
    }


class Counts(Protocol):
    """Counters of the rows and bytes that an operator reads."""

    rows_in: int
    bytes_in: int


def check_rows(batch: pa.RecordBatch, most: int, plan_path: str) -> None:
    """Raise if a row that the relation at `plan_path` makes has more than `most` bytes."""
    too_large = row_beyond(batch, most)
    if too_large is not None:
        raise ExecutionError(
            f"{plan_path}: makes a row of {too_large[1]:,} bytes, more than the task's memory_limit of {most:,}: raise "
            "memory_limit",
            reason="ROW_TOO_LARGE",
        )


class MeteredStream:
    """The rows of an operator in one epoch, counted as its output and as the input of its `readers`. A row of more than
    `largest` bytes is an error.

    Its watermark is the least of its `inputs` and of the sources that it reads.
    """

    def __init__(
        self,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        meter: Meter,
        inputs: Sequence[Stream] = (),
        *,
        largest: int | None = None,
    ) -> None:
        self.schema = schema
        self._inputs = inputs
        self._sources: int | None = UNBOUNDED
        self._names: Iterable[str] = ()
        self.readers: list[Counts] = []
        self._batches = batches
        self._meter = meter
        self._largest = largest
        self._closed = False
        self.elapsed_ns = 0
        self.failed = False
        self._below = [stream for stream in inputs if isinstance(stream, MeteredStream)]
        self._handed_out = 0
        meter.runs += 1

    def reads(self, sources: Mapping[str, int | None]) -> None:
        """Record that the operator reads these sources itself, each with its watermark."""
        self._names = sources
        self._sources = least_watermark(sources.values())

    def receives(self, sources: Iterable[str]) -> None:
        """Record the sources of rows that come from elsewhere."""
        self._names = sources

    @property
    def watermark(self) -> int | None:
        """The least watermark of inputs and sources. Valid once the stream has ended."""
        return least_watermark((self._sources, *(stream.watermark for stream in self._inputs)))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._closed:
            raise StopIteration
        look()
        started = time.perf_counter_ns()
        if self._handed_out:
            self._meter.pressed_ns += started - self._handed_out
            self._meter.open_ns += started - self._handed_out
        below = self._elapsed_below() if self._below else 0
        try:
            batch = next(self._batches)
        except StopIteration:
            self._meter.failed = False
            raise
        except Exception as error:
            self._fail(error)
            raise
        finally:
            self._handed_out = time.perf_counter_ns()
            took = self._handed_out - started
            self.elapsed_ns += took
            self._meter.run_ns += took
            self._meter.open_ns += took
            self._meter.own_ns += max(0, took + below - self._elapsed_below()) if self._below else took
        size = batch_bytes(batch)
        if self._largest is not None and size > self._largest:
            self._check_rows(batch, self._largest)
        self._meter.rows_out += batch.num_rows
        self._meter.bytes_out += size
        for reader in self.readers:
            reader.rows_in += batch.num_rows
            reader.bytes_in += size
        return batch

    def _check_rows(self, batch: pa.RecordBatch, most: int) -> None:
        try:
            check_rows(batch, most, self._meter.plan_path)
        except ExecutionError as error:
            self._fail(error)
            raise

    def _elapsed_below(self) -> int:
        elapsed = 0
        for stream in self._below:
            elapsed += stream.elapsed_ns
        return elapsed

    def _fail(self, error: Exception) -> None:
        """Mark the operator as failed, unless one of its inputs failed first or the run was interrupted."""
        self.failed = True
        if any(stream.failed for stream in self._below) or getattr(error, "reason", None) == "INTERRUPTED":
            return
        if isinstance(error, TidegateError):
            if error.sources is not None:
                return  # an operator on another channel has failed
            error.sources = self._all_sources()
        self._meter.failed = True

    def _all_sources(self) -> tuple[str, ...]:
        """The sources of the operator's rows, those of its inputs included."""
        names: dict[str, None] = {}
        stack = [self]
        while stack:
            stream = stack.pop()
            names |= dict.fromkeys(stream._names)
            stack.extend(reversed(stream._below))
        return tuple(names)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            close = getattr(self._batches, "close", None)
            if close is not None:
                close()
