"""Errors of values are a user's, whatever DuckDB calls them."""

from __future__ import annotations

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


@pytest.mark.parametrize("sql", ["SELEKT 1", "SELECT missing FROM range(1)", "SELECT * FROM missing"])
def test_a_statement_that_duckdb_does_not_understand_is_a_bug(sql: str) -> None:
    with duckdb.connect() as connection, pytest.raises(duckdb.Error) as caught:
        connection.execute(sql)
    assert isinstance(failures.translate(caught.value, "place", 1 << 30), InternalError)
