"""The built-in kinds of index."""

from __future__ import annotations

import pyarrow as pa

from ...proto.errors import InternalError
from ..sources.scan import Scan
from .arrow_index import ArrowIndex
from .file import FileIndex
from .index import Index
from .kind import IndexHost, WantedIndex, named
from .sql import SqlIndex


class ArrowKind:
    """An index over a table that is read once and kept in memory. Option `table`."""

    name = "arrow"
    reads_source = True
    needed = frozenset({"table"})
    possible: frozenset[str] = frozenset()

    def open(self, wanted: WantedIndex, host: IndexHost) -> Index:
        table = wanted.options["table"]
        named("table", table, host.tables, wanted)
        positions = {column: at for at, column in enumerate(dict.fromkeys((*wanted.keys, *wanted.columns)))}
        scan = Scan(table, list(positions))
        scan.assign(table, host.tables[table])
        rows = pa.Table.from_batches(scan.run(()), schema=scan.schema)
        return ArrowIndex(
            wanted.name,
            rows,
            keys=[positions[column] for column in wanted.keys],
            columns=[positions[column] for column in wanted.columns],
        )


class FileKind:
    """An index over a table of Parquet files that are read anew for each batch of keys. Option `table`."""

    name = "file"
    reads_source = True
    needed = frozenset({"table"})
    possible: frozenset[str] = frozenset()

    def open(self, wanted: WantedIndex, host: IndexHost) -> Index:
        table = wanted.options["table"]
        named("table", table, host.tables, wanted)
        if host.instance is None:
            raise InternalError(f"index {wanted.name!r}: there is no DuckDB instance to look up in files with")
        return FileIndex(
            wanted.name, host.tables[table], keys=wanted.keys, columns=wanted.columns, instance=host.instance
        )


class SqlKind:
    """An index over a table of a database that the service's owner has named. Options `database`, `table` and, perhaps,
    `schema`.
    """

    name = "sql"
    reads_source = False
    needed = frozenset({"database", "table"})
    possible = frozenset({"schema"})

    def open(self, wanted: WantedIndex, host: IndexHost) -> Index:
        options = wanted.options
        named("database", options["database"], host.databases, wanted)
        table = [options[part] for part in ("schema", "table") if part in options]
        return SqlIndex(
            wanted.name,
            host.databases[options["database"]],
            table,
            keys=wanted.keys,
            columns=wanted.columns,
            missing=host.missing_columns,
        )
