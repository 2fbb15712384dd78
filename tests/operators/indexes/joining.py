"""Builders for look-ups: an index of each kind over the same table, and joins with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.operators.core.column import Column
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.index_lookup_join import IndexLookupJoin
from tidegate.operators.indexes import Index, IndexHost, WantedIndex, open_index
from tidegate.operators.indexes.sql import sqlite

from ..data import pieces_of

KINDS = ("arrow", "file", "sql")
TABLE = "the table"


def columns_of(schema: pa.Schema, names: Sequence[str]) -> tuple[Column, ...]:
    return tuple(Column(name=name, type=schema.field(name).type, nullable=True) for name in names)


def wanted(schema: pa.Schema, keys: Sequence[str], columns: Sequence[str], **options: str) -> WantedIndex:
    read = columns_of(schema, columns)
    return WantedIndex(name="of tests", keys=columns_of(schema, keys), columns=read, options=options)


def open_kind(
    kind: str, table: pa.Table, keys: Sequence[str], columns: Sequence[str], *, root: Path, instance: Instance
) -> Index:
    """An index of this kind over `table`, which is first put where such an index finds it."""
    if kind == "sql":
        database = write_sqlite(root / "table.db", table)
        host = IndexHost(databases={"d": sqlite(str(database))})
        return open_index(kind, wanted(table.schema, keys, columns, database="d", table=TABLE), host)
    file = root / "table.parquet"
    pq.write_table(table, file, row_group_size=3)
    host = IndexHost(tables={TABLE: pieces_of(file, root)}, instance=instance)
    return open_index(kind, wanted(table.schema, keys, columns, table=TABLE), host)


def write_sqlite(path: Path, table: pa.Table, *, name: str = TABLE, kinds: str = "") -> Path:
    """The table in a new SQLite file; `kinds` are its columns with their types, if those matter."""
    path.unlink(missing_ok=True)
    quoted = '"' + name.replace('"', '""') + '"'
    columns = kinds or ", ".join('"' + name.replace('"', '""') + '"' for name in table.column_names)
    with connected(path) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {quoted} ({columns})")
        if table.num_rows:
            marks = ", ".join("?" * table.num_columns)
            cursor.executemany(f"INSERT INTO {quoted} VALUES ({marks})", table.combine_chunks().to_batches()[0])
    return path


@contextmanager
def connected(path: Path) -> Iterator[Any]:
    from adbc_driver_sqlite import dbapi

    with dbapi.connect(str(path), autocommit=True) as connection:
        yield connection


def joining(index: Index, probe: pa.Schema, keys: Sequence[str], **options: Any) -> IndexLookupJoin:
    schema = pa.schema([*probe, *index.schema])
    return IndexLookupJoin(
        schema=schema, probe=probe, keys=[probe.names.index(k) for k in keys], index=index, **options
    )


def naive_join(
    probe: pa.Table, table: pa.Table, keys: Sequence[tuple[str, str]], columns: Sequence[str], *, left: bool
) -> list[tuple[object, ...]]:
    """Row at a time: the probe's rows in order, the matches of each in the table's order."""
    joined: list[tuple[object, ...]] = []
    for row in probe.to_pylist():
        wanted_key = [row[mine] for mine, _ in keys]
        matches = [
            tuple(other[name] for name in columns)
            for other in table.to_pylist()
            if None not in wanted_key and all(_equal(row[mine], other[theirs]) for mine, theirs in keys)
        ]
        if left and not matches:
            matches = [(None,) * len(columns)]
        joined += [(*row.values(), *match) for match in matches]
    return joined


def _equal(left: object, right: object) -> bool:
    return left == right or (left != left and right != right)


def tuples(batches: Sequence[pa.RecordBatch]) -> list[tuple[object, ...]]:
    return [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
