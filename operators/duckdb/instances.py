"""Pooled DuckDB instances: one per pipeline instance, each with its own threads, memory, temp folder and file roots.

An instance is configured and then locked, so that no statement can change a setting or reach a file outside the roots.
Making an instance takes tens of milliseconds, so an instance that is given back is used again. The results of an
instance depend on its settings alone, never on earlier users.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from ...proto.errors import InternalError, InvalidRequest
from ..sources.read_log import LOG_SETTINGS, ReadLog
from .choose_engine import default_engine
from .duckdb_calls import Connection, Engine, opened

IDLE_PER_SETTINGS = 16
IDLE_IN_ALL = 64
RETIRED_PER_SETTINGS = 4
"""Each takes about 3 MiB: of those whose tasks are idle few are worth that."""
_WHOLE: Final = 64 << 20
_BESIDE: Final = 64 << 20
_BESIDE_SHARE: Final = 16
_MOST_BESIDE: Final = 3
"""All but DuckDB itself has `_BESIDE` bytes and one part in `_BESIDE_SHARE` of an instance's memory. It has at most one
part in `_MOST_BESIDE` of what is above `_WHOLE` bytes.
"""
_LATE_ROWS = "late_materialization_max_rows"
_DISABLED: Final = "disabled_optimizers"
_PLACEMENT: Final = "projection_placement"
"""It looks at every pair of a projection's columns: a minute to plan 5,000 columns that each choose by a condition."""
_DISTINCT: Final = "distinct_aggregate_rewrite"
"""It makes a join for each DISTINCT of an aggregation, and takes the fifth power of their number: a minute for 200."""
MANY_DISTINCT: Final = 32
_REPEATED: Final = "common_subexpressions"
"""It takes the second power of the expressions that a projection repeats: a minute for 5,000."""
LONG_STATEMENT: Final = 1 << 16
#: The settings that stay adjustable. They count, or decide how many rows are handed on at once, when columns are read,
#: and how groups find their distinct values.
_ADJUSTABLE = [
    "enable_profiling",
    "enable_logging",
    "enable_progress_bar",
    "enable_progress_bar_print",
    "enable_caching_operators",
    _LATE_ROWS,
    _DISABLED,
]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSettings:
    """The settings of an instance. `threads` is 1 where rows must come in a repeatable order: DuckDB then has no thread
    but the calling one. `memory_limit` and `spill_limit` are bytes, `roots` the folders whose files may be read.
    """

    memory_limit: int
    threads: int = 1
    roots: tuple[str, ...] = ()
    time_zone: str = "UTC"
    spill_limit: int | None = None


class Instance:
    """A locked DuckDB instance. It hands out connections, one for each open result."""

    def __init__(self, settings: InstanceSettings, spill_directory: str, engine: Engine | None = None) -> None:
        self.settings = settings
        self.broken = False
        self._lock = threading.Lock()
        self._connections: list[Connection] = []
        self._temp = tempfile.mkdtemp(prefix="duckdb-", dir=spill_directory)
        try:
            self._reads_late, self._left_out = True, _PLACEMENT
            self._database = _open(settings, self._temp)
            self.read_log = ReadLog(self._logged)
            self.engine = engine or default_engine(self._database)
        except BaseException:
            shutil.rmtree(self._temp, ignore_errors=True)
            raise

    def connect(self) -> Connection:
        """A new connection. Other connections do not see relations and statements that are registered or prepared on
        it.
        """
        with self._lock:
            connection = self._database.cursor()
            self._connections.append(connection)
            return connection

    def disconnect(self, connection: Connection) -> None:
        with self._lock:
            if connection in self._connections:
                self._connections.remove(connection)
        connection.close()

    def interrupt(self) -> None:
        """Stop all statements on the instance's connections. Any thread may call it."""
        with self._lock:
            connections = tuple(self._connections)
        for connection in connections:
            with suppress(duckdb.Error):  # closed meanwhile
                connection.interrupt()

    @property
    def idle(self) -> bool:
        """True where no connection is out and nothing has failed inside, so that another user may have the instance."""
        return not self.broken and not self._connections

    @property
    def temp_folder(self) -> str:
        """The folder that the instance spills to. It is removed with the instance."""
        return self._temp

    def read_late(self, late: bool) -> None:
        """Set whether the statements that are planned next may look up the columns that a LIMIT hands on only for its
        own rows. DuckDB fails to plan that ("Attempted to access index -9223372036854775807 within vector") where a
        statement selects rows by `file_row_number` or `file_index`.
        """
        if late is self._reads_late:
            return
        with self._lock:
            self._database.execute(f"{'RESET' if late else 'SET'} GLOBAL {_LATE_ROWS}{'' if late else ' = 0'}")
        self._reads_late = late

    def tune_for(self, sql: str) -> None:
        """Leave out what DuckDB's planner would take far too long for in this statement, which is planned next. That
        depends on the statement alone, and so does the order of its rows.
        """
        disabled = _left_out(sql)
        if disabled == self._left_out:
            return
        with self._lock:
            self._database.execute(f"SET GLOBAL {_DISABLED} = '{disabled}'")
        self._left_out = disabled

    def _logged(self, sql: str) -> list[Any]:
        with self._lock:
            rows: list[Any] = self._database.execute(sql).fetchall()
            return rows

    def hash_table_bytes(self) -> int:
        """The bytes that hash tables (of joins and of aggregates) hold in memory now."""
        query = "SELECT sum(memory_usage_bytes)::BIGINT FROM duckdb_memory() WHERE tag = 'HASH_TABLE'"
        with self._lock:
            row = self._database.execute(query).fetchone()
        return int(row[0] or 0) if row else 0

    def close(self) -> None:
        """Close every connection and remove the temp folder."""
        with self._lock:
            connections, self._connections = self._connections, []
        for connection in connections:
            connection.close()
        self._database.close()
        shutil.rmtree(self._temp, ignore_errors=True)


def engine_bytes(memory_limit: int) -> int:
    """The bytes that DuckDB itself may take of an instance's memory. Beside them are the memory that DuckDB does not
    count, which grows with its limit, and what a statement keeps outside of DuckDB.
    """
    above = max(memory_limit - _WHOLE, 0)
    return memory_limit - min(above // _MOST_BESIDE, _BESIDE + memory_limit // _BESIDE_SHARE)


def _left_out(sql: str) -> str:
    """The optimizers that the statement is planned without."""
    names = [_PLACEMENT]
    if sql.count("(DISTINCT ") > MANY_DISTINCT:
        names.append(_DISTINCT)
    if len(sql) > LONG_STATEMENT:
        names.append(_REPEATED)
    return ",".join(names)


def _open(settings: InstanceSettings, temp: str) -> Connection:
    config: dict[str, str | int] = {
        "threads": settings.threads,
        # With a thread that reads ahead, the disk's timing decides which of a statement's pipelines goes on first, and
        # so the order of a GROUP BY over a union and the bits of its float sums. It also reserves memory, so that
        # joins, groups and sorts spill sooner or later.
        "async_threads": 0 if settings.threads == 1 else 1,
        "memory_limit": f"{engine_bytes(settings.memory_limit)}B",
        "temp_directory": temp,
        # A cache of file contents would make memory, and so the decision to spill, depend on earlier epochs.
        "enable_external_file_cache": "false",
        "autoload_known_extensions": "false",
        "autoinstall_known_extensions": "false",
    }
    database = opened(config)
    try:
        _lock_down(database, settings)
    except BaseException:
        database.close()
        raise
    return database


def _lock_down(database: Connection, settings: InstanceSettings) -> None:
    """Set and lock the settings. They are GLOBAL, because a later connection does not inherit the session's
    settings.
    """
    try:
        database.execute("SET GLOBAL TimeZone = $1", [settings.time_zone])
    except duckdb.Error as error:
        raise InvalidRequest(f"unknown time zone {settings.time_zone!r}", reason="UNKNOWN_TIME_ZONE") from error
    chosen = {
        "asof_loop_join_threshold": "0",
        "nested_loop_join_threshold": "0",
        "merge_join_threshold": "0",
        _DISABLED: f"'{_PLACEMENT}'",
        "preserve_insertion_order": "true",
        **LOG_SETTINGS,
    }
    if settings.spill_limit is not None:  # among the options of `connect` it shows, and does nothing
        chosen["max_temp_directory_size"] = f"'{settings.spill_limit:d}B'"
    database.execute(";".join(f"SET GLOBAL {name} = {value}" for name, value in chosen.items()))
    roots = [os.path.join(root, "") for root in settings.roots]
    database.execute("SET GLOBAL allowed_directories = $1", [roots])
    database.execute("SET GLOBAL enable_external_access = false")
    database.execute("SET GLOBAL allowed_configs = $1", [_ADJUSTABLE])
    database.execute("SET GLOBAL lock_configuration = true")


class InstancePool:
    """A pool of instances by their settings. It is thread-safe. `close` closes the idle instances and refuses to hand
    out more.
    """

    def __init__(self, spill_directory: str | os.PathLike[str], *, engine: Engine | None = None) -> None:
        self._spill_directory = os.fspath(spill_directory)
        os.makedirs(self._spill_directory, mode=0o700, exist_ok=True)
        self._engine = engine
        self._lock = threading.Lock()
        self._idle: dict[InstanceSettings, list[Instance]] = {}
        self._closed = False

    def take(self, settings: InstanceSettings) -> Instance:
        with self._lock:
            if self._closed:
                raise InternalError("the pool of DuckDB instances is closed")
            if settings in self._idle:
                return self._pop(settings)
        return self._make(settings)

    def give_back(self, instance: Instance) -> None:
        """Give an instance back. An instance with open connections, or a broken one, is closed."""
        self._put_by(instance, IDLE_PER_SETTINGS)

    def retire(self, instance: Instance) -> None:
        """Give back an instance whose task is idle. The pool keeps few of those."""
        self._put_by(instance, RETIRED_PER_SETTINGS)

    def _put_by(self, instance: Instance, most: int) -> None:
        with self._lock:
            too_many = self._keep(instance, most)
        if too_many is not None:
            too_many.close()

    def _keep(self, instance: Instance, most: int) -> Instance | None:
        """Keep an idle instance, under the lock. Return the instance to close, if any: this one, or the one that was
        not asked for longest.
        """
        if self._closed or not instance.idle or len(self._idle.get(instance.settings, ())) >= most:
            return instance
        self._idle[instance.settings] = [*self._idle.pop(instance.settings, ()), instance]  # now the last
        if sum(map(len, self._idle.values())) <= IDLE_IN_ALL:
            return None
        return self._pop(next(iter(self._idle)))

    def _pop(self, settings: InstanceSettings) -> Instance:
        idle = self._idle[settings]
        if len(idle) == 1:
            del self._idle[settings]
        return idle.pop()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle = [instance for instances in self._idle.values() for instance in instances]
            self._idle.clear()
        for instance in idle:
            instance.close()

    def _make(self, settings: InstanceSettings) -> Instance:
        return Instance(settings, self._spill_directory, self._engine)
