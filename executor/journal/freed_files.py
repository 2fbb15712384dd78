"""Files whose bytes no record names any more, so that other bytes are written over them.

A disk takes much less time for a file that is written over than for a new one, because it finds no room, keeps no list
of what has changed, and gives nothing back. The files go with the service.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

FREED_BYTES: Final = 64 << 20
"""The most bytes of all freed files."""


class FreedFiles:
    """The freed files of a service, at most `limit` bytes of them. Thread-safe.

    A file never gets shorter: another process that has mapped it would be ended by the system.
    """

    def __init__(self, limit: int = FREED_BYTES) -> None:
        self._limit = limit
        self._files: deque[tuple[int, Path]] = deque()
        self._lock = threading.Lock()

    def put(self, path: Path, size: int) -> bool:
        """Take a file of this size that nobody has mapped and nothing names; False if there is no room for it."""
        with self._lock:
            if sum(known for known, _ in self._files) + size > self._limit:
                return False
            self._files.append((size, path))
            return True

    def take(self, size: int) -> Path | None:
        """The largest file of at most `size` bytes, for the caller to write over from its start to that size."""
        with self._lock:
            fitting = max((file for file in self._files if file[0] <= size), default=None)
            if fitting is None:
                return None
            self._files.remove(fitting)
            return fitting[1]

    def clear(self) -> Sequence[Path]:
        """All files, for the caller to remove."""
        with self._lock:
            paths = [path for _, path in self._files]
            self._files.clear()
            return paths
