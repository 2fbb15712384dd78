"""Every aggregate at the edges of its types and of its group, against its definition in plain Python.

A group is empty, has nulls alone, one row, equal rows, the least and the greatest value of the type, infinities and not
a number. The aggregate sees it as it is, DISTINCT, filtered, sorted, and through the frames of a window.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any, Final, TypeAlias

import duckdb
import pytest

from tidegate.planner import ir
from tidegate.planner.functions import bind
from tidegate.planner.functions.registry import Implementation
from tidegate.planner.ir import types as t
from tidegate.planner.sql.expression_writer import render_measure, render_window_call
from tidegate.planner.sql.literal_sql import literal

from ...searching import SEARCHES
from .aggregate_oracle import AGGREGATES, ERROR, OneOf, Rows
from .test_edges import extremes, ordinary
from .test_templates import SUPPORTED, Columns, arguments

Group: TypeAlias = Sequence[tuple[Any, ...]]

IMPLEMENTATIONS: Final = [i for i in SUPPORTED if i.kind is ir.FunctionKind.AGGREGATE and i.name != "quantile"]
FILES: Final = sorted({implementation.file for implementation in IMPLEMENTATIONS})
EVERY: Final = 1 if SEARCHES else 11
"""One in so many groups of pairs is tried."""

ONE_EACH: Final = {(i.file, i.name): i for i in reversed(IMPLEMENTATIONS)}
"""An implementation for each name."""

KEPT: Final = ir.Field(index=7, type=t.Boolean())
GROUP: Final = ir.Field(index=8, type=t.Integer(bits=64))
POSITION: Final = ir.Field(index=9, type=t.Integer(bits=64))
FORWARDS: Final = ir.SortKey(expression=POSITION, direction=ir.Direction.ASC_NULLS_LAST)
BACKWARDS: Final = ir.SortKey(expression=POSITION, direction=ir.Direction.DESC_NULLS_LAST)

USES: Final[Mapping[str, tuple[Mapping[str, Any], Callable[[Group], Rows]]]] = {
    "plain": ({}, list),
    "DISTINCT": ({"distinct": True}, lambda group: _distinct(group)),
    "FILTER": ({"condition": KEPT}, list),
    "ORDER BY": ({"sorts": (BACKWARDS,)}, lambda group: group[::-1]),
}
"""The use of an aggregate, and the rows of a group that it sees. Rows that FILTER drops are no part of the group."""

WITHOUT_ARGUMENTS: Final = ("plain", "FILTER")
"""The uses of an aggregate without arguments."""

ORDERED: Final = {"string_agg", "array_agg", "first_value", "last_value", "nth_value"}
"""Aggregates whose value depends on the order of the rows, of which DISTINCT leaves none."""

FRAMES: Final = {
    "all rows": (None, None),
    "up to here": (None, 0),
    "before": (None, -1),
    "neighbours": (-1, 1),
    "beyond": (5, 6),
}


def other(type_: t.Type) -> Any:
    """A second value, greater than the ordinary one."""
    match type_:
        case t.Boolean():
            return False
        case t.Float():
            return 4.0
        case t.Decimal(scale=scale):
            return Decimal(7).quantize(Decimal(1).scaleb(-scale))
        case t.String() | t.VarChar():
            return "bä"
        case t.FixedChar(length=length):
            return "x" * length
        case t.Binary():
            return b"\xff"
        case t.FixedBinary(length=length):
            return b"b" * length
        case t.IntervalYear():
            return (27, 0, 0)
        case t.IntervalDay():
            return (0, 3, 5)
        case _:
            return 5


def first(type_: t.Type) -> Any:
    return ordinary(type_)[: type_.length] if isinstance(type_, t.VarChar | t.FixedChar) else ordinary(type_)


def values(type_: t.Type) -> Iterator[Sequence[Any]]:
    """The values of groups."""
    one, two = first(type_), other(type_)
    yield from (
        [],
        [None],
        [None, None],
        [one],
        [one, None, two],
        [two, one, two],
        [None, two, one],
        [one, two],
        [two, one, None, one],
    )
    for extreme in extremes(type_):
        yield from ([extreme], [extreme, extreme], [one, extreme], [extreme, None, two])
    yield from itertools.combinations(extremes(type_), 2)


@cache
def groups(columns: tuple[ir.Field, ...]) -> Sequence[Group]:
    if not columns:
        return [[()] * rows for rows in (0, 1, 3)]
    lists = [list(values(column.type)) for column in columns]
    rows = [
        list(zip(*parts, strict=True)) for parts in itertools.product(*lists) if len({len(part) for part in parts}) == 1
    ]
    return rows if len(columns) == 1 else rows[::EVERY]


def _distinct(group: Group) -> Rows:
    """The rows without the later ones of equal rows. Zero equals minus zero."""
    return list({repr([0.0 if value == 0 else value for value in row]): row for row in reversed(group)}.values())[::-1]


def table(columns: Sequence[ir.Field], cases: Mapping[int, Group]) -> str:
    """The rows of groups as SQL, with two rows more in each group that FILTER drops."""
    fields = (KEPT, GROUP, POSITION, *columns)
    dropped = tuple(other(column.type) for column in columns)
    rows = [
        (kept, number, at, *row)
        for number, group in cases.items()
        for at, (kept, row) in enumerate([*((True, row) for row in group), (False, dropped), (None, dropped)])
    ]
    lines = ", ".join(
        f"({', '.join(literal(value, f.type) for value, f in zip(row, fields, strict=True))})" for row in rows
    )
    return f"(VALUES {lines}) r({', '.join(f'c{field.index}' for field in fields)})"


def shown(sql: str, type_: t.Type) -> str:
    """SQL whose values Python compares: without zones, and intervals as text."""
    match type_:
        case t.TimestampTz():
            return f"CAST({sql} AS TIMESTAMP)"
        case t.IntervalYear() | t.IntervalDay() | t.IntervalCompound():
            return f"CAST({sql} AS VARCHAR)"
        case _:
            return sql


class Database:
    """DuckDB with a table of the groups of one implementation's arguments, which the next one replaces."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, implementation: Implementation) -> None:
        self._connection = connection
        self.arguments = arguments(implementation)
        self.columns = tuple(argument for argument in self.arguments if isinstance(argument, ir.Field))
        self.cases = dict(enumerate(groups(self.columns)))
        columns = "".join(f", {shown(f'c{column.index}', column.type)}" for column in self.columns)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE r AS SELECT * FROM {table(self.columns, self.cases)}")
        read = f"SELECT c8{columns} FROM r WHERE c7 ORDER BY c8, c9"
        self.rows: dict[int, list[tuple[Any, ...]]] = {number: [] for number in self.cases}
        for number, *row in connection.execute(read).fetchall():
            self.rows[number].append(tuple(row))

    def answers(self, sql: str, cases: Mapping[int, Group] | None = None) -> dict[int, Any]:
        """The aggregate of each group; of fewer groups at once if one of them is an error."""
        cases = self.cases if cases is None else cases
        grouped = f"SELECT c8, {sql} FROM {_of(cases)} WHERE {{}} GROUP BY c8"
        filtered = "FILTER (" in sql
        try:
            answers = dict(self._connection.execute(grouped.format("true" if filtered else "c7")).fetchall())
            if not filtered and len(answers) < len(cases):  # a group without rows is the group of all rows of no table
                none = f"SELECT {sql} FROM r WHERE false"
                [(nothing,)] = self._connection.execute(none).fetchall()
                answers.update((number, nothing) for number in cases if number not in answers)
        except (duckdb.InternalException, duckdb.ParserException, duckdb.BinderException):
            raise
        except duckdb.Error:
            if len(cases) == 1:
                return dict.fromkeys(cases, ERROR)
            numbers = sorted(cases)
            halves = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
            return {k: v for half in halves for k, v in self.answers(sql, {n: cases[n] for n in half}).items()}
        return answers

    def frames(self, sql: str, cases: Mapping[int, Group]) -> dict[tuple[int, int], Any]:
        """The aggregate of the frame of each row of some groups."""
        query = f"SELECT c8, c9, {sql} FROM {_of(cases)} WHERE c7"
        return {(number, at): value for number, at, value in self._connection.execute(query).fetchall()}


def _of(cases: Mapping[int, Group]) -> str:
    """The rows of some groups: no others are computed."""
    return f"(SELECT * FROM r WHERE c8 IN ({', '.join(map(str, cases)) or 'NULL'})) r"


def same(got: Any, wanted: Any, type_: t.Type) -> bool:
    if wanted is None:
        return got is None and type_.nullable
    if isinstance(wanted, OneOf):
        return any(same(got, value, type_) for value in wanted)
    if isinstance(wanted, float) and isinstance(got, float):
        digits = 1e-6 if isinstance(type_, t.Float) and type_.bits == 32 else 1e-9
        return (
            (math.isnan(wanted) and math.isnan(got))
            or got == wanted
            or math.isclose(got, wanted, rel_tol=digits, abs_tol=digits)
        )
    return bool(got == wanted) or repr(got) == repr(wanted)


@pytest.mark.parametrize("file", FILES)
def test_every_aggregate_of_a_group_is_what_its_definition_says(
    file: str, connection: duckdb.DuckDBPyConnection
) -> None:
    wrong = []
    for implementation in (i for i in IMPLEMENTATIONS if i.file == file):
        database = Database(connection, implementation)
        bound = bind(implementation.kind, implementation.signature, implementation.urn, database.arguments)
        for use, (how, sees) in USES.items():
            if (use == "DISTINCT" and implementation.name in ORDERED) or (
                not database.columns and use not in WITHOUT_ARGUMENTS
            ):
                continue
            measure = ir.Measure(
                function=bound.function, arguments=bound.arguments, type=bound.type, options=bound.options, **how
            )
            answers = database.answers(shown(render_measure(measure, Columns()), bound.type))
            for number, rows in database.rows.items():
                wanted = AGGREGATES[implementation.name](sees(rows), bound.type)
                if not same(answers[number], wanted, bound.type):
                    wrong.append((implementation.signature, use, database.cases[number], answers[number], wanted))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("frame", FRAMES)
def test_every_aggregate_of_a_frame_is_what_its_definition_says(
    frame: str, connection: duckdb.DuckDBPyConnection
) -> None:
    wrong = []
    lower, upper = FRAMES[frame]
    for implementation in ONE_EACH.values():
        database = Database(connection, implementation)
        bound = bind(ir.FunctionKind.WINDOW, implementation.signature, implementation.urn, database.arguments)
        call = ir.WindowCall(
            function=bound.function,
            arguments=bound.arguments,
            type=bound.type,
            options=bound.options,
            partitions=(GROUP,),
            sorts=(FORWARDS,),
            lower=ir.Bound(offset=lower),
            upper=ir.Bound(offset=upper),
        )
        wanted = {
            number: [AGGREGATES[implementation.name](framed(rows, at, frame), bound.type) for at in range(len(rows))]
            for number, rows in database.rows.items()
        }
        cases = {number: group for number, group in database.cases.items() if ERROR not in wanted[number]}
        answers = database.frames(shown(render_window_call(call, Columns()), bound.type), cases)
        wrong += [
            (implementation.signature, frame, cases[number], at, answer, wanted[number][at])
            for (number, at), answer in answers.items()
            if not same(answer, wanted[number][at], bound.type)
        ]
    assert not wrong, "\n".join(map(str, wrong))


def framed(rows: Rows, at: int, frame: str) -> Rows:
    lower, upper = FRAMES[frame]
    begin = 0 if lower is None else max(at + lower, 0)
    end = len(rows) if upper is None else max(at + upper + 1, 0)
    return rows[begin:end]
