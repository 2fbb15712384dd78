"""Windows of every kind of time, run as tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import substrait.dataframe as sub

import tidegate
from tidegate import windows
from tidegate.relations import Span

from .naive import MEASURES, WHOLE, Calendar, Row, Spans

SEVERAL: Final[Mapping[int, Mapping[str, Any]]] = {1: {}, 2: {"channels": 2, "parallel_threshold_seconds": 0}}
"""The options for one channel, and for two however few rows there are."""


def _whole(units: int) -> Span:
    return Span(units=units)


def _nanoseconds(tick: int) -> Callable[[int], Span]:
    return lambda ticks: Span(nanoseconds=ticks * tick)


@dataclass(frozen=True)
class Time:
    """A kind of time column: its type in plans and in Arrow, and a number of its ticks as a span."""

    plan: Any
    arrow: pa.DataType
    span: Callable[[int], Span]

    def array(self, ticks: Sequence[int | None]) -> pa.Array:
        width = pa.int32() if self.arrow == pa.date32() else pa.int64()
        return pa.array(ticks, width).cast(self.arrow)

    def ticks(self, values: pa.ChunkedArray) -> list[int]:
        numbers = values.cast(pa.int32()) if values.type == pa.date32() else values.cast(pa.int64())
        return [int(number) for number in numbers.to_pylist()]


TIMES: Final[Mapping[str, Time]] = {
    "i8": Time(sub.i8, pa.int8(), _whole),
    "i32": Time(sub.i32, pa.int32(), _whole),
    "i64": Time(sub.i64, pa.int64(), _whole),
    "date": Time(sub.date, pa.date32(), _whole),
    "seconds": Time(sub.precision_timestamp(0), pa.timestamp("s"), _nanoseconds(10**9)),
    "milliseconds": Time(sub.precision_timestamp(3), pa.timestamp("ms"), _nanoseconds(10**6)),
    "microseconds": Time(sub.precision_timestamp(6), pa.timestamp("us"), _nanoseconds(1_000)),
    "nanoseconds": Time(sub.precision_timestamp(9), pa.timestamp("ns"), _nanoseconds(1)),
    "zoned milliseconds": Time(sub.precision_timestamp_tz(3), pa.timestamp("ms", "UTC"), _nanoseconds(10**6)),
    "zoned microseconds": Time(sub.precision_timestamp_tz(6), pa.timestamp("us", "UTC"), _nanoseconds(1_000)),
    "zoned nanoseconds": Time(sub.precision_timestamp_tz(9), pa.timestamp("ns", "UTC"), _nanoseconds(1)),
}


def lengths(time: Time, spans: Spans | Calendar) -> dict[str, Any]:
    """The arguments of windows of these spans."""
    span = time.span if isinstance(spans, Spans) else lambda units: Span(**{spans.unit: units})
    zone = {} if isinstance(spans, Spans) else {"zone": spans.zone}
    return {name: span(getattr(spans, name)) for name in ("size", "slide", "offset")} | zone


def plan(time: Time, spans: Spans | Calendar, keys: Sequence[str], measures: Sequence[str]) -> Any:
    """Windows over the source `events`, whose columns are a time `t`, a text `k` and an integer `v`."""
    events = sub.read_named_table("events", {"t": time.plan, "k": sub.string, "v": sub.i64})
    built = windows.sliding(
        events,
        "t",
        **lengths(time, spans),
        keys=keys,
        measures=[{**MEASURES, **WHOLE}[name][0].alias(name) for name in measures],
    )
    return built.to_plan()


def events(time: Time, rows: Sequence[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.table(
        {"t": time.array(columns[0]), "k": pa.array(columns[1], pa.string()), "v": pa.array(columns[2], pa.int64())}
    )


def rows_of(time: Time, table: pa.Table) -> list[Row]:
    """The rows of windows, with their bounds in ticks."""
    columns = [time.ticks(table.column(0)), time.ticks(table.column(1))]
    columns += [column.to_pylist() for column in table.columns[2:]]
    return list(zip(*columns, strict=True))


def run(client: tidegate.Client, windows_plan: Any, splits: Sequence[pa.Table], channels: int = 1) -> pa.Table:
    with client.create_task(windows_plan, **SEVERAL[channels]) as task:
        return task.run_epoch({"events": list(splits)}).table()
