"""Writes the tables and queries of TPC-DS with DuckDB's extension for it. It runs in an environment of its own, with
the DuckDB release that the extension is built for: `python tpcds_writer.py FOLDER SCALE`.

Each table goes to FOLDER as `NAME.parquet`, and the queries as `queries.json`, by number.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
import duckdb_extension_tpcds


def main(folder: Path, scale: float) -> None:
    connection = duckdb.connect()
    extensions = Path(duckdb_extension_tpcds.__file__).parent / "extensions"
    connection.execute(f"LOAD '{next(extensions.glob('*/tpcds.duckdb_extension'))}'")
    connection.execute(f"CALL dsdgen(sf={scale})")
    for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        connection.execute(f"COPY {name} TO '{folder / name}.parquet'")
    queries = dict(connection.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall())
    (folder / "queries.json").write_text(json.dumps(queries), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
