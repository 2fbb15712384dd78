"""The memory that a file may take in the process that decodes it. On Linux; other systems do not bound it.

While several rows are decoded at a time, the system refuses memory beyond the bound. The library then ends the process,
as it does on damage. While one row is decoded at a time, the process watches what it takes and ends itself with the
status `OUT_OF_MEMORY` beyond the bound: so a row that is too large is told from damage.
"""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from .orc_frames import MEMORY, OUT_OF_MEMORY

_STATM: Final = Path("/proc/self/statm")
_WATCH_SECONDS: Final = 0.001


def limit_process() -> None:
    """A length that is not one must not take the machine's memory. No file is worth a dump of it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if _STATM.exists():
        _set(resource.RLIMIT_AS, _sizes()[0] + MEMORY)


@contextmanager
def refused_beyond(size: int) -> Iterator[None]:
    """The system refuses more than `size` bytes beside what the process has."""
    if not _STATM.exists():
        yield
        return
    _set(resource.RLIMIT_DATA, _sizes()[5] + size)
    try:
        yield
    finally:
        _set(resource.RLIMIT_DATA, resource.RLIM_INFINITY)


@contextmanager
def watched(size: int) -> Iterator[None]:
    """The process ends itself when more than `size` bytes are resident beside those that are now."""
    if not _STATM.exists():
        yield
        return
    most, ended = _resident() + size, threading.Event()

    def watch() -> None:
        while not ended.wait(_WATCH_SECONDS):
            if _resident() > most:
                os._exit(OUT_OF_MEMORY)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _sizes() -> list[int]:
    """The process in bytes: all, resident, of files, code, 0, data."""
    return [int(pages) * resource.getpagesize() for pages in _STATM.read_text().split()]


def _resident() -> int:
    """Resident bytes that are not of files."""
    _, resident, of_files, *_ = _sizes()
    return resident - of_files


def _set(limit: int, size: int) -> None:
    _, hard = resource.getrlimit(limit)
    unlimited = hard == resource.RLIM_INFINITY
    resource.setrlimit(limit, (size if unlimited or 0 <= size < hard else hard, hard))
