"""The one module that uses DuckDB's private interfaces. `choose_engine` decides whether it is used."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final

import pyarrow as pa
from duckdb._sources.arrow import ArrowScanSource

from ..core.quoting import identifier
from .duckdb_calls import BATCH_ROWS, Connection, Relation, Values, interruptible

_ALL_ROWS = 1 << 40
_PURGE_ALL: Final = b"arena.4096.purge"
"""4096 stands for all arenas."""


class _Source(ArrowScanSource):  # type: ignore[misc] # DuckDB's class is untyped
    """A `Relation` with its row estimate, which gives only the columns that a statement reads."""

    schema_is_stable = True

    def __init__(self, relation: Relation) -> None:
        super().__init__(relation)
        self._relation = relation

    def rows(self) -> int:
        return self._relation.rows

    def __arrow_c_schema__(self) -> object:
        return self._relation.schema.__arrow_c_schema__()

    def stream(self, columns: Sequence[int] | None, filters: Sequence[object]) -> tuple[object, bool]:  # noqa: ARG002
        if not columns:  # a batch without columns could not say how many rows it has
            return self._relation.open(None).__arrow_c_stream__(), False
        return self._relation.open(columns).__arrow_c_stream__(), True


class PrivateEngine:
    """The private form: a prepared statement is planned once and reads new streams at each execution."""

    prepares = True

    @interruptible
    def register(self, connection: Connection, name: str, relation: Relation) -> None:
        private: Any = connection
        private._register_arrow_source(name, _Source(relation))

    @interruptible
    def prepare(self, connection: Connection, name: str, sql: str) -> None:
        connection.execute(f"PREPARE {identifier(name)} AS {sql}")

    def prepared(self, name: str, sql: str) -> str:  # noqa: ARG002
        return f"EXECUTE {identifier(name)}"

    @interruptible
    def execute(self, connection: Connection, name: str, sql: str) -> Sequence[pa.RecordBatch]:
        private: Any = connection
        table = private._submit(self.prepared(name, sql), None, "arrow", _ALL_ROWS).arrow_table()
        batches: list[pa.RecordBatch] = table.to_batches()
        return batches

    @interruptible
    def stream(self, connection: Connection, sql: str, values: Values, rows: int = BATCH_ROWS) -> pa.RecordBatchReader:
        private: Any = connection
        return private._submit(sql, list(values) or None, "stream", rows).arrow_reader()


def freed_memory() -> Callable[[], None] | None:
    """A function that gives back what DuckDB's own allocator keeps of freed memory; None where its library has none.

    DuckDB's wheels for Linux have jemalloc inside, which keeps freed memory for a second, and longer where nothing else
    is taken or freed: some tens of megabytes beside `memory_limit`.
    """
    try:
        control = ctypes.CDLL(import_module("_duckdb").__file__).duckdb_je_mallctl
    except (ImportError, OSError, AttributeError):
        return None
    control.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    # Not a function of this module: it would keep DuckDB alive until the process ends, and DuckDB writes of that.
    return partial(control, _PURGE_ALL, None, None, None, 0)
