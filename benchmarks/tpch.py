"""TPC-H: its data as files that every contender reads alike, its queries, and its plans by four producers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import datafusion
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
PRODUCERS = ("datafusion", "duckdb", "ibis", "substrait_python")
ROW_GROUP_ROWS = 122_880


@dataclass(frozen=True)
class Plan:
    """A plan, and the SQL that says what it must answer."""

    producer: str
    query: int
    path: Path
    sql: str

    @property
    def name(self) -> str:
        return f"{self.producer}/q{self.query:02}"


def plans(folder: Path, producer: str) -> Iterator[Plan]:
    sql = folder / ("sql_ibis" if producer == "ibis" else "sql")
    for path in sorted((folder / producer).glob("q*.bin")):
        yield Plan(producer, int(path.stem[1:]), path, (sql / f"{path.stem}.sql").read_text())


def data(folder: Path, scale: float) -> Mapping[str, Path]:
    """The tables' Parquet files at this scale, generated when they are not there yet.

    Written once more by pyarrow: plain strings, and decimals as integers, which every reader takes fastest.
    """
    data_folder = folder / f"tpch-{scale:g}"
    files = {table: data_folder / f"{table}.parquet" for table in TABLES}
    if not all(path.exists() for path in files.values()):
        data_folder.mkdir(parents=True, exist_ok=True)
        raw = data_folder / "raw"
        command = [_generator(), "parquet", "--quiet", "-s", f"{scale:g}", "--output-dir", str(raw)]
        subprocess.run(command, check=True)
        for table, path in files.items():
            _rewrite(raw / f"{table}.parquet", path)
        shutil.rmtree(raw)
    return files


def _generator() -> str:
    """The program of the extra `bench`: beside this Python, or wherever it is found."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    generator = shutil.which("tpchgen-cli", path=os.pathsep.join(folders))
    if generator is None:
        raise RuntimeError("tpchgen-cli is not installed: it comes with the extra `bench`")
    return generator


def _rewrite(source: Path, target: Path) -> None:
    with pq.ParquetFile(source) as read:
        plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
        schema = pa.schema([field.with_type(plain.get(field.type, field.type)) for field in read.schema_arrow])
        partial = target.with_suffix(".partial")
        with pq.ParquetWriter(partial, schema, store_decimal_as_integer=True) as written:
            for batch in read.iter_batches(ROW_GROUP_ROWS):
                written.write_table(pa.Table.from_batches([batch]).cast(schema), row_group_size=ROW_GROUP_ROWS)
        partial.rename(target)


@contextmanager
def duckdb_sql(
    files: Mapping[str, Path], threads: int, where: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Callable[[str], pa.Table]]:
    """DuckDB over the files; `where` keeps some rows of a table only."""
    with duckdb.connect(config={"threads": threads}) as connection:
        connection.execute("SET TimeZone='UTC'; SET enable_progress_bar=false")
        for table, path in files.items():
            connection.read_parquet(str(path)).filter(where.get(table, "true")).create_view(table)
        yield lambda sql: connection.sql(sql).to_arrow_table()


def datafusion_sql(files: Mapping[str, Path], threads: int) -> Callable[[str], pa.Table]:
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(threads))
    for table, path in files.items():
        context.register_parquet(table, str(path))
    return lambda sql: context.sql(sql).to_arrow_table()


def acero_plan(files: Mapping[str, Path]) -> Callable[[bytes], pa.Table]:
    """Acero reads tables that are in memory already; it is shown for the plans it runs at all."""
    from pyarrow import substrait

    loaded: dict[str, pa.Table] = {}

    def table(names: list[str], _schema: pa.Schema) -> pa.Table:
        name = names[-1].lower()
        return loaded.setdefault(name, pq.read_table(files[name]))

    return lambda plan: substrait.run_query(pa.py_buffer(plan), table_provider=table).read_all()
