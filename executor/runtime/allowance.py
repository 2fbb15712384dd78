"""How much an epoch may move between its channels, where rows may have to wait for their readers.

How much waits at one time depends on how many threads there are, and on timing: on one thread the second consumer of
an exchange finds all of its rows waiting, on many hardly any. What is moved depends on neither. So that counts, and an
epoch that may be run may be run on any number of threads.
"""

from __future__ import annotations

import threading

from ...proto.errors import Exhausted


class Allowance:
    """For all exchanges of an epoch whose rows may wait. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._moved = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """So many bytes more are moved. `Exhausted` where that is too much; the message says nothing of timing."""
        with self._lock:
            self._moved += size
            if self._moved <= self._limit:
                return
        raise Exhausted(
            f"the epoch moves more than {self._limit:,} bytes between its channels, which is what queue_bytes and "
            "spill_quota have room for should they have to wait; feed less in one epoch, use fewer channels, or raise "
            "spill_quota",
            reason="SPILL_QUOTA",
        )
