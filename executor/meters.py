"""What operators did over a task's life, counted where batches pass from one to the next."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from ..operators.sizes import batch_bytes
from ..proto.values import OperatorStatistics


class Meter:
    """One operator's counters; `run_ns` includes the time of the operators it reads from."""

    __slots__ = ("at_least", "bytes_in", "bytes_out", "operator", "place", "rows_in", "rows_out", "run_ns", "runs")

    def __init__(self, operator: str, place: str) -> None:
        self.operator = operator
        self.place = place
        self.rows_in = self.rows_out = self.bytes_in = self.bytes_out = self.runs = self.run_ns = 0
        self.at_least = False

    def statistics(self) -> OperatorStatistics:
        return OperatorStatistics(
            operator=self.operator,
            place=self.place,
            rows_in=self.rows_in,
            rows_out=self.rows_out,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            runs=self.runs,
            run_us=self.run_ns // 1000,
            at_least=self.at_least,
        )


class Meters:
    """By operator and place in the plan: the same one made for another shape goes on counting."""

    def __init__(self) -> None:
        self._meters: dict[tuple[str, str], Meter] = {}

    def of(self, operator: str, place: str) -> Meter:
        return self._meters.setdefault((operator, place), Meter(operator, place))

    def statistics(self) -> tuple[OperatorStatistics, ...]:
        return tuple(meter.statistics() for meter in tuple(self._meters.values()))


class Counts(Protocol):
    rows_in: int
    bytes_in: int


class MeteredStream:
    """What an operator yields in one epoch, counted as its output and as the input of its `readers`."""

    watermark: int | None = None

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], meter: Meter) -> None:
        self.schema = schema
        self.readers: list[Counts] = []
        self._batches = batches
        self._meter = meter
        self._closed = False
        meter.runs += 1

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._closed:
            raise StopIteration
        started = time.perf_counter_ns()
        try:
            batch = next(self._batches)
        finally:
            self._meter.run_ns += time.perf_counter_ns() - started
        size = batch_bytes(batch)
        self._meter.rows_out += batch.num_rows
        self._meter.bytes_out += size
        for reader in self.readers:
            reader.rows_in += batch.num_rows
            reader.bytes_in += size
        return batch

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            close = getattr(self._batches, "close", None)
            if close is not None:
                close()
