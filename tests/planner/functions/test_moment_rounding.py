"""`round_temporal` and `round_calendar`, against a search for the multiples in plain Python."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import product
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.planner import ir
from tidegate.planner.functions import bind_scalar
from tidegate.planner.ir import types as t
from tidegate.planner.sql.expression_writer import render

from ...duckdb_oracle import oracle
from .test_meaning import NoColumns

ROUNDINGS: Final = ("FLOOR", "CEIL", "ROUND_TIE_DOWN", "ROUND_TIE_UP")
UNITS: Final = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
CALENDAR: Final = (
    *("YEAR", "MONTH", "MONDAY_WEEK", "SUNDAY_WEEK", "ISO_WEEK", "US_WEEK"),
    *("DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"),
)
LENGTHS: Final = {unit: dt.timedelta(**{f"{unit.lower()}s": 1}) for unit in UNITS[2:]}
MICRO: Final = dt.timedelta(microseconds=1)
EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)
I64: Final = t.Integer(bits=64, nullable=False)
Moment: TypeAlias = dt.datetime

moments: Final = st.datetimes(dt.datetime(1890, 1, 1), dt.datetime(2110, 1, 1))  # noqa: DTZ001  # a wall clock's

recent: Final = st.datetimes(dt.datetime(1981, 1, 1), dt.datetime(2037, 1, 1))  # noqa: DTZ001
"""Moments since clocks in Berlin are changed by night."""


def after(origin: Moment, unit: str, steps: int) -> Moment:
    """The origin and so many units. Months end on the origin's day, or on their last one."""
    if unit in LENGTHS:
        return origin + steps * LENGTHS[unit]
    months = origin.year * 12 + origin.month - 1 + steps * (12 if unit == "YEAR" else 1)
    first = origin.replace(year=months // 12, month=months % 12 + 1, day=1)
    days = ((first + dt.timedelta(days=31)).replace(day=1) - first).days
    return first.replace(day=min(origin.day, days))


def rounded(x: Moment, origin: Moment, rounding: str, unit: str, multiple: int) -> Moment:
    length = LENGTHS.get(unit, dt.timedelta(days=365.2425 if unit == "YEAR" else 30.436875))
    near = (x - origin) // (length * multiple)
    steps = next(n for n in range(near + 3, near - 9, -1) if after(origin, unit, n * multiple) <= x)
    low, high = after(origin, unit, steps * multiple), after(origin, unit, (steps + 1) * multiple)
    match rounding:
        case "FLOOR":
            return low
        case "CEIL":
            return low if low == x else high
        case "ROUND_TIE_DOWN":
            return low if x - low <= high - x else high
        case _:
            return low if x - low < high - x else high


def beginning(x: Moment, calendar: str) -> Moment:
    if calendar.endswith("WEEK"):
        since = x.weekday() if calendar in ("MONDAY_WEEK", "ISO_WEEK") else (x.weekday() + 1) % 7
        return (x - dt.timedelta(days=since)).replace(hour=0, minute=0, second=0, microsecond=0)
    if calendar == "MILLISECOND":
        return x.replace(microsecond=x.microsecond // 1000 * 1000)
    parts = ("year", "month", "day", "hour", "minute", "second")
    kept = {part: getattr(x, part) for part in parts[: parts.index(calendar.lower()) + 1]}
    return EPOCH.replace(**kept)


def timestamp(x: Moment) -> ir.Literal:
    return ir.Literal(value=(x - EPOCH) // MICRO, type=t.Timestamp(precision=6, nullable=False))


def answer(name: str, *arguments: Any) -> Any:
    values = [ir.Literal(value=value, type=I64) if isinstance(value, int) else value for value in arguments]
    sql = render(bind_scalar(name, None, values), NoColumns())
    with oracle() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        [(value,)] = connection.execute(f"SELECT {sql}").fetchall()
    return value


@given(moments, moments, st.sampled_from(ROUNDINGS), st.sampled_from(UNITS), st.integers(1, 40))
def test_a_moment_is_rounded_to_a_multiple_from_its_origin(
    x: Moment, origin: Moment, rounding: str, unit: str, multiple: int
) -> None:
    got = answer("round_temporal", timestamp(x), rounding, unit, multiple, timestamp(origin))
    assert got == rounded(x, origin, rounding, unit, multiple)


@given(moments, st.sampled_from(ROUNDINGS), st.sampled_from(UNITS), st.sampled_from(CALENDAR), st.integers(1, 40))
def test_a_moment_is_rounded_to_a_multiple_from_the_last_beginning(
    x: Moment, rounding: str, unit: str, calendar: str, multiple: int
) -> None:
    got = answer("round_calendar", timestamp(x), rounding, unit, calendar, multiple)
    assert got == rounded(x, beginning(x, calendar), rounding, unit, multiple)


@given(recent, st.sampled_from(ROUNDINGS), st.sampled_from(UNITS[:4]), st.integers(1, 40))
def test_an_instant_is_rounded_as_its_zone_s_clock_shows_it(x: Moment, rounding: str, unit: str, multiple: int) -> None:
    zone = ZoneInfo("Europe/Berlin")
    instant = x.replace(tzinfo=dt.UTC)
    local = instant.astimezone(zone).replace(tzinfo=None)
    origin = dt.datetime(2000, 1, 3, tzinfo=zone)
    first, value = (
        ir.Literal(
            value=(moment - EPOCH.replace(tzinfo=dt.UTC)) // MICRO, type=t.TimestampTz(precision=6, nullable=False)
        )
        for moment in (origin, instant)
    )
    berlin = ir.Literal(value="Europe/Berlin", type=t.String(nullable=False))
    got = bind_scalar(
        "round_temporal", None, [value, rounding, unit, ir.Literal(value=multiple, type=I64), berlin, first]
    )
    with oracle() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        [(micros,)] = connection.execute(f"SELECT epoch_us({render(got, NoColumns())})").fetchall()
    wanted = rounded(local, origin.replace(tzinfo=None), rounding, unit, multiple).replace(tzinfo=zone)
    assert EPOCH.replace(tzinfo=dt.UTC) + micros * MICRO == wanted.astimezone(dt.UTC)


def dates_and_times() -> Iterator[tuple[Any, ...]]:
    days = t.Date(nullable=False)
    for rounding, unit in product(ROUNDINGS, UNITS[:4]):
        x, origin = ir.Literal(value=19_800, type=days), ir.Literal(value=10_987, type=days)
        wanted = rounded(EPOCH + dt.timedelta(19_800), EPOCH + dt.timedelta(10_987), rounding, unit, 3).date()
        yield ("round_temporal", x, rounding, unit, 3, origin, wanted)
    for rounding, unit in product(ROUNDINGS, UNITS[4:]):
        clock = dt.timedelta(hours=13, minutes=29, seconds=31, milliseconds=501, microseconds=2)
        x, origin = (
            ir.Literal(value=value, type=t.Time(precision=6, nullable=False))
            for value in (clock // MICRO, 1_800_000_000)
        )
        wanted = rounded(EPOCH + clock, EPOCH + dt.timedelta(minutes=30), rounding, unit, 2).time()
        yield ("round_temporal", x, rounding, unit, 2, origin, wanted)


@pytest.mark.parametrize("case", [*dates_and_times()])
def test_dates_and_times_are_rounded(case: tuple[Any, ...]) -> None:
    name, *arguments, wanted = case
    assert answer(name, *arguments) == wanted


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("round_temporal", ("FLOOR", "DAY", 0, timestamp(EPOCH)), "round_temporal to a multiple below 1"),
        ("round_calendar", ("FLOOR", "DAY", "YEAR", -1), "round_calendar to a multiple below 1"),
    ],
)
def test_a_multiple_below_one_is_an_error(name: str, arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(duckdb.Error, match=says):
        answer(name, timestamp(EPOCH), *arguments)


def test_a_time_beyond_the_day_is_an_error() -> None:
    late = ir.Literal(value=86_399_000_000, type=t.Time(precision=6, nullable=False))
    with pytest.raises(duckdb.Error, match="a time beyond the day"):
        answer("round_calendar", late, "CEIL", "HOUR", "DAY", 1)
