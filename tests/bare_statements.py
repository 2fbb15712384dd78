"""Statements of templates on a bare DuckDB connection, for tests of what one function answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import duckdb

from tidegate.operators.duckdb.statement_functions import StatementFunctions


@contextmanager
def runnable(sql: str, connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """The statement, while the connection has the functions that DuckDB itself does not have."""
    with closing(StatementFunctions(sql, connection, memory=1 << 30, threads=1, check=lambda: None)) as functions:
        yield functions.named(sql)
