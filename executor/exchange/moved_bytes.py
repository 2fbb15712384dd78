"""Limits the bytes that an epoch moves between its channels, because rows may have to wait for their readers.

The bytes that wait at one moment depend on the number of threads and on timing: on one thread the second consumer of an
exchange finds all of its rows waiting, on many threads hardly any. The bytes that are moved depend on neither. The
limit therefore counts moved bytes, so an epoch that runs on some number of threads runs on any number of threads.
"""

from __future__ import annotations

import threading

from ...proto.errors import Exhausted


class Allowance:
    """The bytes that all exchanges of an epoch may move, where their rows may wait. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._moved = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Count `size` more bytes as moved.

        Raises `Exhausted` beyond the limit; the message does not depend on timing.
        """
        with self._lock:
            self._moved += size
            if self._moved <= self._limit:
                return
        raise Exhausted(
            f"the epoch moves more than {self._limit:,} bytes between its channels, and queue_bytes and spill_quota "
            "have no room for more rows that wait: feed less in one epoch, use fewer channels, or raise spill_quota",
            reason="SPILL_QUOTA",
        )
