"""Writes plans with DuckDB's Substrait extension. It runs in the producers' own environment, with the DuckDB release
that the extension is built for, and without Tidegate: `python duckdb_writer.py FOLDER`.

FOLDER has `t.parquet` and `u.parquet`. Standard input has a JSON list of queries, or null for `QUERIES`. The answers of
the producer go to the folder as `N.parquet`. Writes one JSON object: for each query its plan (base64), its answer's
file, and the file of the answer that the producer itself reads out of the plan. A query that the producer does not
write, or whose plan it does not read, has the error instead.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import duckdb
import duckdb_extension_substrait

QUERIES = (
    "SELECT * FROM t WHERE a > 1",
    "SELECT k, a + k AS x, f * 2 AS y FROM t",
    "SELECT k FROM t WHERE NOT b",
    "SELECT k FROM t WHERE s IS NULL",
    "SELECT k FROM t WHERE s IS NOT NULL AND a IS NOT NULL",
    "SELECT k FROM t WHERE a BETWEEN 0 AND 2",
    "SELECT k FROM t WHERE a IN (1, 2, 5)",
    "SELECT k FROM t WHERE a = 1 OR a = 2",
    "SELECT CASE WHEN a > 1 THEN 'many' WHEN a = 1 THEN 'one' ELSE 'none' END AS x FROM t",
    "SELECT coalesce(a, k, 0) AS x FROM t",
    "SELECT CAST(a AS DOUBLE) AS x FROM t",
    "SELECT CAST(a AS VARCHAR) AS x FROM t",
    "SELECT upper(s) AS x, lower(s) AS y FROM t",
    "SELECT length(s) AS x FROM t",
    "SELECT k FROM t WHERE s LIKE '%a%'",
    "SELECT k FROM t WHERE s LIKE 'a%'",
    "SELECT k FROM t WHERE s NOT LIKE '%a%b%'",
    "SELECT substring(s, 1, 2) AS x FROM t",
    "SELECT s || '!' AS x FROM t",
    "SELECT year(d) AS x FROM t",
    "SELECT k FROM t WHERE d < DATE '2024-03-01'",
    "SELECT abs(a) AS x FROM t",
    "SELECT floor(f) AS x, ceil(f) AS y FROM t",
    "SELECT f / 3 AS x FROM t",
    "SELECT a % 3 AS x FROM t",
    "SELECT count(*) AS n FROM t",
    "SELECT a, sum(f) AS n FROM t GROUP BY a",
    "SELECT a, avg(f) AS n FROM t GROUP BY a",
    "SELECT s, min(f) AS low, max(f) AS high FROM t GROUP BY s",
    "SELECT a, count(s) AS n FROM t GROUP BY a",
    "SELECT count(DISTINCT s) AS n FROM t",
    "SELECT a, count(*) AS n FROM t GROUP BY a HAVING count(*) > 1",
    "SELECT DISTINCT a FROM t",
    "SELECT k, a FROM t ORDER BY a DESC, k",
    "SELECT k FROM t ORDER BY k LIMIT 3",
    "SELECT k FROM t ORDER BY k LIMIT 3 OFFSET 2",
    "SELECT t.k, u.name FROM t JOIN u ON t.k = u.k",
    "SELECT t.k, u.name FROM t LEFT JOIN u ON t.k = u.k",
    "SELECT k FROM t WHERE k IN (SELECT k FROM u)",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "SELECT k FROM t UNION ALL SELECT k FROM u",
    "SELECT k FROM t UNION SELECT k FROM u",
    "SELECT k FROM t INTERSECT SELECT k FROM u",
    "SELECT k FROM t EXCEPT SELECT k FROM u",
    "SELECT k, row_number() OVER (ORDER BY k) AS n FROM t",
)


class Producer:
    """A database with the tables of a folder; another one after a plan that ends it, which this release may write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connection = connected(folder)

    def written(self, query: str, file: Path) -> dict[str, str]:
        try:
            (plan,) = self._connection.execute(f"CALL get_substrait($q${query}$q$)").fetchone()
            self._connection.execute(f"COPY ({query}) TO '{file}'")
        except duckdb.Error as error:
            return {"error": self._message(error)}
        read = self._read_back(plan, file.with_suffix(".again.parquet"))
        return {"plan": base64.b64encode(plan).decode(), "answer": str(file), **read}

    def _read_back(self, plan: bytes, file: Path) -> dict[str, str]:
        try:
            self._connection.from_substrait(plan).write_parquet(str(file))
        except duckdb.Error as error:
            return {"lost": self._message(error)}
        return {"again": str(file)}

    def _message(self, error: duckdb.Error) -> str:
        if isinstance(error, duckdb.InternalException | duckdb.FatalException):
            self._connection = connected(self._folder)
        return f"{type(error).__name__}: {error}"[:200]


def connected(folder: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    extensions = Path(duckdb_extension_substrait.__file__).parent / "extensions"
    connection.execute(f"LOAD '{next(extensions.glob('*/substrait.duckdb_extension'))}'")
    for name in ("t", "u"):
        connection.execute(f"CREATE TABLE {name} AS FROM '{folder / name}.parquet'")
    return connection


def main(folder: Path, queries: Sequence[str]) -> None:
    producer = Producer(folder)
    files = (folder / f"{number}.parquet" for number in range(len(queries)))
    print(json.dumps({query: producer.written(query, file) for query, file in zip(queries, files, strict=True)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.load(sys.stdin) or QUERIES)
