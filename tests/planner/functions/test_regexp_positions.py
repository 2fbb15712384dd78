"""The position of a match of a pattern, and the replacement of one of several, against Python's `re`."""

from __future__ import annotations

import re
from typing import Any, Final

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.planner import ir
from tidegate.planner.functions import bind_scalar
from tidegate.planner.ir import types as t
from tidegate.planner.sql.expression_writer import render
from tidegate.proto.errors import PlanError

from ...bare_statements import runnable
from ...duckdb_oracle import oracle
from .test_meaning import NoColumns

TEXT, NUMBER = t.String(nullable=False), t.Integer(bits=64, nullable=False)
PATTERNS: Final = ("a", "a+", "ab|a", "[äb]{2}", "(a)(b?)", "b$", "^a", r"\ba", "a.c", "(?:a|b)+c")
texts: Final = st.text("abcä ", max_size=12)


def answer(name: str, *arguments: str | int) -> Any:
    types = {str: TEXT, int: NUMBER}
    values = [ir.Literal(value=value, type=types[type(value)]) for value in arguments]
    sql = f"SELECT {render(bind_scalar(name, None, values), NoColumns())}"
    with oracle() as connection, runnable(sql, connection) as statement:
        [(value,)] = connection.execute(statement).fetchall()
    return value


@given(texts, st.sampled_from(PATTERNS), st.integers(1, 6), st.integers(1, 5))
def test_the_position_of_a_match(text: str, pattern: str, position: int, occurrence: int) -> None:
    matches = [match.start() + position for match in re.finditer(pattern, text[position - 1 :], re.ASCII)]
    wanted = matches[occurrence - 1] if len(matches) >= occurrence else 0
    assert answer("regexp_strpos", text, pattern, position, occurrence) == wanted


@given(texts, st.sampled_from(PATTERNS), st.integers(1, 6), st.integers(2, 5))
def test_a_later_match_is_replaced(text: str, pattern: str, position: int, occurrence: int) -> None:
    start = position - 1
    matches = list(re.finditer(pattern, text[start:], re.ASCII))
    wanted = text
    if len(matches) >= occurrence:
        match = matches[occurrence - 1]
        wanted = text[: start + match.start()] + f"<{match.group()}>" + text[start + match.end() :]
    assert answer("regexp_replace", text, pattern, r"<\0>", position, occurrence) == wanted


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("regexp_strpos", ("abc", "x*", 1, 2), "a pattern that matches an empty text"),
        ("regexp_strpos", ("abc", "b", 0, 1), "a position below 1"),
        ("regexp_strpos", ("abc", "b", 1, 0), "an occurrence below 1"),
        ("regexp_replace", ("abc", "b", "x", 1, -1), "an occurrence below 0"),
    ],
)
def test_what_is_undefined_is_an_error(name: str, arguments: tuple[str | int, ...], says: str) -> None:
    with pytest.raises(duckdb.Error, match=says):
        answer(name, *arguments)


@pytest.mark.parametrize("pattern", [r"\Ba", "(?<=b)a"])
def test_a_later_match_of_a_pattern_that_looks_before_it_is_refused(pattern: str) -> None:
    with pytest.raises(PlanError, match="to replace a later match"):
        answer("regexp_replace", "baba", pattern, "x", 1, 2)
