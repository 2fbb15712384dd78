"""Calls of regular expressions in SQL: rows of few steps stay in DuckDB, all others go where they can be stopped."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Final

import pyarrow as pa
import pytest

from tidegate.operators.core import quoting
from tidegate.operators.duckdb.statement_functions import StatementFunctions
from tidegate.operators.python_functions.re2_cost import ROW_STEPS, cost_of
from tidegate.planner.functions.templates import regexp_calls
from tidegate.planner.functions.templates.regexp_calls import Pattern

from ...duckdb_oracle import oracle

PATTERN: Final = "(?-ms)b{50}(c)"
CALLS: Final[dict[str, tuple[Callable[[Pattern], str], str, bool]]] = {
    "matches": (lambda p: regexp_calls.matches("x", p), "regexp_matches(x, p)", False),
    "extract": (lambda p: regexp_calls.extract("x", p, 1), "regexp_extract(x, p, 1)", False),
    "extract_all": (lambda p: regexp_calls.extract_all("x", p, "1"), "regexp_extract_all(x, p, 1)", True),
    "split": (lambda p: regexp_calls.split("x", p), "regexp_split_to_array(x, p)", True),
    "replace": (lambda p: regexp_calls.replace("x", p, r"'<\1>'"), r"regexp_replace(x, p, '<\1>')", False),
    "replace_all": (
        lambda p: regexp_calls.replace("x", p, r"'<\1>'", every=True),
        r"regexp_replace(x, p, '<\1>', 'g')",
        True,
    ),
}


def looks(call: str, native: str, text: str, pattern: str = PATTERN, *, others: str = "") -> int:
    """The looks for an interruption while a call answers what DuckDB does, beside other calls."""
    seen: list[None] = []
    sql = f"SELECT {call}, {native} FROM (SELECT * FROM t{others})"
    with oracle({"t": pa.table({"x": [text], "p": [pattern]})}) as connection:
        check = lambda: seen.append(None)  # noqa: E731 - a look
        with closing(StatementFunctions(sql, connection, memory=1 << 30, threads=1, check=check)) as functions:
            [(answer, expected)] = connection.execute(functions.named(sql)).fetchall()
    assert answer == expected
    return len(seen)


@pytest.mark.parametrize("name", CALLS)
def test_the_length_of_a_text_decides_for_a_constant_pattern(name: str) -> None:
    call, native, repeated = CALLS[name]
    cost = cost_of(PATTERN)
    longest = int(ROW_STEPS / (cost.row_steps + repeated * cost.match_steps))
    sql = call(Pattern(quoting.text(PATTERN), PATTERN))
    end = "b" * 50 + "cb"
    assert looks(sql, native, end.rjust(longest)) == 0
    assert looks(sql, native, end.rjust(longest + 1)) > 0


@pytest.mark.parametrize("name", CALLS)
def test_all_calls_of_a_statement_share_the_steps_of_a_row(name: str) -> None:
    call, native, repeated = CALLS[name]
    cost = cost_of(PATTERN)
    text = ("b" * 50 + "cb").rjust(int(ROW_STEPS / 2 / (cost.row_steps + repeated * cost.match_steps)))
    sql = call(Pattern(quoting.text(PATTERN), PATTERN))
    other = regexp_calls.matches("p", Pattern("'x'", "x"))
    assert looks(sql, native, text, others=f" WHERE NOT {other}") == 0
    assert looks(sql, native, text, others=f" WHERE NOT {other} AND {other} IS NOT NULL") > 0


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("text", "pattern", "stays"),
    [
        ("abc" * 9, "b(c)", True),
        ("abc" * 9, "(b){2}", False),
        ("abc" * 9, r"(\pL)b", False),
        ("abc" * 9, "(" + "b" * 200 + ")?c", False),
        ("abc" * 20_000, "b(c)", False),
    ],
)
def test_the_text_and_the_pattern_decide_for_a_pattern_from_a_column(
    name: str, text: str, pattern: str, *, stays: bool
) -> None:
    call, native, _ = CALLS[name]
    assert (looks(call(Pattern("p")), native, text, pattern) == 0) == stays


def test_a_text_is_null_without_a_pattern_to_split_it() -> None:
    call = regexp_calls.split("x", Pattern("CAST(NULL AS VARCHAR)", may_be_null=True))
    assert looks(call, "NULL", "abc") == 0
