"""The time of an epoch, as a relation of one row that fragments read instead of a clock."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Sequence
from typing import assert_never

import pyarrow as pa

from ...operators.core.batches import batch_of
from ...planner.ir import Clock

RELATION = "context"


def context_schema(clocks: Sequence[Clock]) -> pa.Schema:
    """Columns c0, c1, ... in the order of the fragment's clock values."""
    return pa.schema([pa.field(f"c{index}", _type(clock)) for index, clock in enumerate(clocks)])


def context_row(clocks: Sequence[Clock], clock_us: int, time_zone: str) -> pa.RecordBatch:
    """The time `clock_us` (microseconds since 1970, UTC), and its date in this time zone."""
    arrays = [pa.array([_value(clock, clock_us, time_zone)], _type(clock)) for clock in clocks]
    return batch_of(arrays, 1, context_schema(clocks))


def _type(clock: Clock) -> pa.DataType:
    match clock:
        case Clock.TIMESTAMP:
            return pa.timestamp("us", "UTC")
        case Clock.DATE:
            return pa.date32()
        case Clock.TIMEZONE:
            return pa.string()
        case _:
            assert_never(clock)


def _value(clock: Clock, clock_us: int, time_zone: str) -> object:
    match clock:
        case Clock.TIMESTAMP:
            return clock_us
        case Clock.DATE:
            epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
            return (epoch + dt.timedelta(microseconds=clock_us)).astimezone(zoneinfo.ZoneInfo(time_zone)).date()
        case Clock.TIMEZONE:
            return time_zone
        case _:
            assert_never(clock)
