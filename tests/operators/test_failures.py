"""Errors of values are a user's, whatever DuckDB calls them."""

from __future__ import annotations

import re

import duckdb
import pytest

from tidegate.operators.duckdb import failures
from tidegate.proto.errors import InternalError


@pytest.mark.parametrize(
    ("pattern", "escape", "message"),
    [("a", "long", "Escape string must be empty or one character"), ("a!", "!", "must not end with escape character")],
)
def test_a_rows_pattern_or_escape_that_like_cannot_use_is_no_bug(pattern: str, escape: str, message: str) -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT ? AS pattern, ? AS escape", [pattern, escape])
        with pytest.raises(duckdb.Error) as caught:
            connection.execute("SELECT 'abc' LIKE pattern ESCAPE escape FROM t").fetchall()
    translated = failures.translate(caught.value, "place", 1 << 30)
    assert translated.reason == "EXECUTION_FAILED"
    assert message in translated.message


def test_a_value_that_fails_where_duckdb_expects_no_failure_is_no_bug() -> None:
    """DuckDB's own message has a trace of the stack, with addresses of the process and paths of the machine."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT make_timestamp(-9223372036854775808) AS a")
        with pytest.raises(duckdb.Error, match="Stack Trace") as caught:
            connection.execute("SELECT CAST(a AS VARCHAR) FROM t").fetchall()
    translated = failures.translate(caught.value, "place", 1 << 30)
    assert failures.is_fatal(caught.value)
    assert translated.reason == "EXECUTION_FAILED"
    assert translated.message == "place: Date out of range in timestamp conversion"


@pytest.mark.parametrize("call", ["from_hex(x)", "unbin(x)", "CAST(x AS BIT)"])
def test_a_message_that_is_no_text_is_told_all_the_same(call: str) -> None:
    """DuckDB's message has the first byte of a character of two."""
    with duckdb.connect() as connection, pytest.raises(failures.ENGINE_ERRORS) as caught:
        connection.execute(f"SELECT {call} FROM (VALUES ('\u00e9')) v(x)").fetchall()
    assert isinstance(caught.value, UnicodeDecodeError)
    translated = failures.translate(caught.value, "place", 1 << 30)
    assert translated.reason == "EXECUTION_FAILED"
    assert re.fullmatch(r"place: Invalid (input|character) .*\ufffd'?", translated.message)


def test_a_text_of_anything_else_that_cannot_be_read_is_a_bug() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        b"\xc3".decode()
    assert isinstance(failures.translate(caught.value, "place", 1 << 30), InternalError)


def test_a_bug_of_duckdb_is_one_without_the_trace_of_its_stack() -> None:
    text = "INTERNAL Error: it broke\n\nStack Trace:\n\n/usr/lib/duckdb.so(+0x1d08be1) [0x7f096db08be1]\n"
    translated = failures.translate(duckdb.InternalException(text), "place", 1 << 30)
    assert isinstance(translated, InternalError)
    assert translated.message == "place: DuckDB refused the fragment: it broke"


@pytest.mark.parametrize("sql", ["SELEKT 1", "SELECT missing FROM range(1)", "SELECT * FROM missing"])
def test_a_statement_that_duckdb_does_not_understand_is_a_bug(sql: str) -> None:
    with duckdb.connect() as connection, pytest.raises(duckdb.Error) as caught:
        connection.execute(sql)
    assert isinstance(failures.translate(caught.value, "place", 1 << 30), InternalError)


def test_several_rows_of_a_subquery_for_one_value_are_told_without_settings_of_duckdb() -> None:
    with duckdb.connect() as connection, pytest.raises(duckdb.Error, match="SET scalar_subquery") as caught:
        connection.execute("SELECT (SELECT x FROM (VALUES (1), (2)) v(x))").fetchall()
    translated = failures.translate(caught.value, "place", 1 << 30)
    assert translated.reason == "MORE_THAN_ONE_ROW"
    assert "SET" not in translated.message
    assert "place: " in translated.message
    assert "aggregate the rows" in translated.message
