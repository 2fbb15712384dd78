"""Class of bug: a large query, as DataFusion plans it, that is refused or has another answer than in DuckDB.

`make producers-venv` makes the environment that writes TPC-DS's tables and queries. Without it the tests are skipped.
`TPCDS_SCALE` is the scale of the tables: at 0.1 a fifth of the answers have no rows, at 1 one answer has none.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import datafusion
import duckdb
import pytest
from datafusion.substrait import Serde

import tidegate

from ..conformance import tpch
from .outcomes import kind

HERE: Final = Path(__file__).parent
PYTHON: Final = Path(os.environ.get("TPCDS_PYTHON", HERE.parent.parent / ".venv-tpcds" / "bin" / "python"))
SCALE: Final = os.environ.get("TPCDS_SCALE", "0.1")
ROUNDED: Final = 1e-6
"""DataFusion divides decimals to four or six more places and goes on with that; DuckDB divides them as doubles."""

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="TPC-DS is not here: make producers-venv")


@dataclass(frozen=True, slots=True)
class Bench:
    """The tables' files, and the engines over them."""

    files: Mapping[str, Path]
    queries: Mapping[str, str]
    client: tidegate.Client
    duckdb: duckdb.DuckDBPyConnection
    datafusion: datafusion.SessionContext


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("tpcds")
    command = [str(PYTHON), str(HERE / "tpcds_writer.py"), str(folder), SCALE]
    subprocess.run(command, check=True, timeout=300)
    files = {path.stem: path for path in sorted(folder.glob("*.parquet"))}
    queries = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
    context = datafusion.SessionContext()
    with duckdb.connect() as connection, tidegate.local(roots=[folder]) as client:
        for name, path in files.items():
            connection.read_parquet(str(path)).create_view(name)
            context.register_parquet(name, str(path))
        yield Bench(files, queries, client, connection, context)


@pytest.mark.parametrize("number", [str(number) for number in range(1, 100)])
def test_a_query_has_duckdb_s_rows_and_datafusion_s_types(number: str, bench: Bench) -> None:
    sql = bench.queries[number]
    with bench.client.create_task(Serde.serialize_bytes(sql, bench.datafusion), determinism="strict") as task:
        result = task.run_epoch({name: str(bench.files[name]) for name in task.sources}).table()
    rows, typed = bench.duckdb.sql(sql).to_arrow_table(), bench.datafusion.sql(sql).to_arrow_table()
    assert [kind(type_) for type_ in result.schema.types] == [kind(type_) for type_ in typed.schema.types]
    ratios = tpch.quotients({"DuckDB": rows, "DataFusion": typed})
    assert tpch.differences(result, rows, "", ratios, rounded=ROUNDED) == []
