"""The parts of files that the statements of a DuckDB instance have read, from DuckDB's own log.

DuckDB writes each read of a file to its log, with the file's path, the first byte and the number of bytes. An instance
logs nothing else, and logs only while a statement asks for it. A statement's file has a path of its own while it is
held, so the log tells the reads of statements that run side by side apart.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final

from .byte_ranges import ByteRanges

#: Settings of an instance before it is locked. `enable_logging` stays adjustable.
LOG_SETTINGS: Final = {
    "logging_mode": "'ENABLE_SELECTED'",
    "enabled_log_types": "'FileSystem'",
    "logging_level": "'trace'",
}
_READ: Final = "READ"


class ReadLog:
    """The log of an instance, on which `execute` runs a statement and gives its rows. It is thread-safe."""

    def __init__(self, execute: Callable[[str], list[Any]]) -> None:
        self._execute = execute
        self._lock = threading.Lock()
        self._users = 0
        self._reads: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)

    def begin(self) -> None:
        """Log the reads of files that are opened from now on, until as many calls of `end`."""
        with self._lock:
            if not self._users:
                self._execute("SET GLOBAL enable_logging = true")
            self._users += 1

    def end(self, paths: Iterable[str]) -> dict[str, ByteRanges]:
        """The reads of the files by these paths, which the log forgets, since `begin`."""
        with self._lock:
            self._drain()
            reads = {path: ByteRanges(self._reads.pop(path, ())) for path in paths}
            self._users -= 1
            if not self._users:
                self._execute("SET GLOBAL enable_logging = false")
                self._reads.clear()
            return reads

    def _drain(self) -> None:
        messages = self._execute("SELECT message FROM duckdb_logs()")
        self._execute("CALL truncate_duckdb_logs()")
        for (message,) in messages:
            entry = json.loads(message)
            if entry["op"] == _READ:
                start = int(entry["pos"])
                self._reads[entry["path"]].append((start, start + int(entry["bytes"])))
