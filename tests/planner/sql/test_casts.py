"""Class of bug: a cast that is planned, and that DuckDB does not know when its rows come."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

import duckdb
import pytest

from tests.bare_statements import runnable
from tests.duckdb_oracle import oracle
from tests.planner.functions.test_edges import ordinary
from tests.planner.functions.test_meaning import OneColumn
from tidegate.planner import ir
from tidegate.planner.decode.comparing import castable
from tidegate.planner.functions import bind_scalar, reads_moments_inside
from tidegate.planner.ir import types as t
from tidegate.planner.sql.cast_expressions import cast
from tidegate.planner.sql.expression_writer import render
from tidegate.planner.sql.literal_sql import literal

I32, TEXT = t.Integer(bits=32), t.String()
PLACES: Final = (0, 3, 4, 6, 8, 9)
MOMENTS: Final = [kind(precision=p) for kind in (t.Time, t.Timestamp, t.TimestampTz) for p in PLACES]
INTERVALS: Final = [kind(precision=p) for kind in (t.IntervalDay, t.IntervalCompound) for p in (0, 6)]
PLAIN: Final[list[t.Type]] = [
    t.Boolean(),
    *(t.Integer(bits=bits, signed=signed) for bits in (8, 64) for signed in (True, False)),
    *(t.Float(bits=bits) for bits in (32, 64)),
    *(t.Decimal(precision=precision, scale=scale) for precision, scale in ((5, 2), (38, 20))),
    *(TEXT, t.VarChar(length=40), t.FixedChar(length=40), t.Binary(), t.FixedBinary(length=4)),
    *(t.Date(), t.IntervalYear(), t.Uuid(), *MOMENTS, *INTERVALS),
]
TYPES: Final[list[t.Type]] = [
    *PLAIN,
    *(t.List(element=type_) for type_ in (I32, TEXT, *MOMENTS)),
    *(t.Struct(fields=(I32, type_)) for type_ in (TEXT, *MOMENTS)),
    *(t.Map(key=TEXT, value=type_) for type_ in (I32, *MOMENTS)),
]

UNFIT: Final = (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException)
"""DuckDB's errors for a value that the target cannot hold."""

BEFORE_1970: Final = -1_500_500_500
"""A moment in nanoseconds since 1970: 23:59:58.499499500 of the day before."""


def value(type_: t.Type) -> Any:
    match type_:
        case t.Uuid():
            return bytes(16)
        case t.Struct(fields=fields):
            return tuple(map(value, fields))
        case t.List(element=element):
            return (value(element),)
        case t.Map(key=key, value=inner):
            return ((value(key), value(inner)),)
        case _:
            return ordinary(type_)


@pytest.mark.parametrize("how", list(ir.CastFailure))
@pytest.mark.parametrize("source", TYPES, ids=str)
def test_duckdb_knows_every_cast_that_may_be_planned(source: t.Type, how: ir.CastFailure) -> None:
    with oracle() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE OR REPLACE TEMP TABLE r AS SELECT {literal(value(source), source)} AS c0")
        refusals = {target: _refusal(connection, source, target, how) for target in TYPES if castable(source, target)}
    assert {str(target): refusal for target, refusal in refusals.items() if refusal} == {}


def _refusal(connection: duckdb.DuckDBPyConnection, source: t.Type, target: t.Type, how: ir.CastFailure) -> str | None:
    """DuckDB's reason why it has no such cast. A value that the target cannot hold is no reason."""
    try:
        connection.execute(f"SELECT CAST({cast('c0', source, target, how)} AS VARCHAR) FROM r").fetchall()
    except duckdb.Error as error:
        if how is ir.CastFailure.NULL or not isinstance(error, UNFIT) or "nimplemented" in str(error):
            return str(error)
    return None


@pytest.mark.parametrize("source", MOMENTS[len(PLACES) :], ids=str)
@pytest.mark.parametrize("target", MOMENTS[: 2 * len(PLACES)], ids=str)
def test_a_moment_is_cast_to_what_a_clock_in_the_task_s_zone_shows(
    source: t.Timestamp | t.TimestampTz, target: t.Time | t.Timestamp
) -> None:
    moment = literal(BEFORE_1970 // 10 ** (9 - source.precision), source)
    with oracle() as connection:
        connection.execute("SET TimeZone = 'Europe/Berlin'")
        connection.execute(f"CREATE OR REPLACE TEMP TABLE r AS SELECT {moment} AS c0")
        text = cast(cast("c0", source, target, ir.CastFailure.ERROR), target, TEXT, ir.CastFailure.ERROR)
        [(got,)] = connection.execute(f"SELECT {text} FROM r").fetchall()
    exact = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=isinstance(source, t.TimestampTz))
    least = 10 ** (9 - min(source.precision, target.precision))
    ticks = BEFORE_1970 // 10 ** (9 - source.precision) * 10 ** (9 - source.precision)
    written = [_text(exact, ticks + off, time=isinstance(target, t.Time)) for off in (0, least, -least)]
    cut = [text[: len(text) - 9 + min(source.precision, target.precision)].rstrip("0").rstrip(".") for text in written]
    assert got.rstrip("0").rstrip(".") in cut


def _text(origin: dt.datetime, nanoseconds: int, *, time: bool) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    moment = origin + dt.timedelta(seconds=seconds)
    return f"{moment:{'%H:%M:%S' if time else '%Y-%m-%d %H:%M:%S'}}.{rest:09}"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (t.IntervalCompound(), t.IntervalDay()),
        (t.IntervalCompound(), t.IntervalYear()),
        (t.IntervalDay(), t.IntervalYear()),
        (t.IntervalYear(), t.IntervalDay()),
    ],
    ids=str,
)
def test_months_are_not_cast_to_days(source: t.Type, target: t.Type) -> None:
    assert not castable(source, target)
    assert castable(target, t.IntervalCompound())


WORDS: Final = ("infinity", "-infinity", "Inf", " -INF ", "epoch", "Epoch", "-epoch")


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("target", [t.Date(), *MOMENTS], ids=str)
def test_a_word_is_no_moment(word: str, target: t.Type) -> None:
    for source, word_sql, nothing in ((TEXT, f"'{word}'", None), (t.List(element=TEXT), f"['{word}']", [None])):
        wanted = t.List(element=target) if isinstance(source, t.List) else target
        with oracle() as connection:
            sql = cast("c0", source, wanted, ir.CastFailure.ERROR)
            with pytest.raises(UNFIT):
                connection.execute(f"SELECT {sql} FROM (SELECT {word_sql} AS c0)").fetchall()
            sql = cast("c0", source, wanted, ir.CastFailure.NULL)
            assert connection.execute(f"SELECT {sql} FROM (SELECT {word_sql} AS c0)").fetchall() in [
                [(nothing,)],
                [(None,)],
            ]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_not_read_by_a_format(word: str) -> None:
    read = bind_scalar("strptime_date", None, [ir.Field(index=0, type=TEXT), ir.Literal(value="%Y-%m-%d", type=TEXT)])
    sql = f"SELECT {render(read, OneColumn())} FROM (SELECT '{word}' AS c0) r"
    with oracle() as connection, runnable(sql, connection) as statement, pytest.raises(UNFIT):
        connection.execute(statement).fetchall()


def test_words_are_not_read_as_moments_inside_of_structs_and_maps() -> None:
    date = t.Date()
    of_text, of_date = t.Struct(fields=(I32, TEXT)), t.Struct(fields=(I32, date))
    assert reads_moments_inside(of_text, of_date) == (TEXT, date)
    assert reads_moments_inside(t.Map(key=TEXT, value=TEXT), t.Map(key=TEXT, value=date)) == (TEXT, date)
    nested = t.List(element=t.List(element=TEXT)), t.List(element=t.List(element=date))
    assert reads_moments_inside(*nested) == (TEXT, date)
    assert reads_moments_inside(t.List(element=TEXT), t.List(element=date)) is None
    assert reads_moments_inside(of_text, of_text) is None
