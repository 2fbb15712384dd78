"""The start of threads where the system may have none left: at a limit of processes, or without memory for a stack.

A server then goes on with the threads that it has. Whoever starts a thread for work that waits has to keep the work.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

_log = logging.getLogger("tidegate.threads")

_BETWEEN: Final = 60.0
"""The seconds between two lines of the log: a busy server may ask for a thread thousands of times in a second."""
_lock = threading.Lock()
_logged_at = -_BETWEEN


def has_started(thread: threading.Thread) -> bool:
    """Start the thread. False where the system has no thread left, which is logged once a minute."""
    global _logged_at  # noqa: PLW0603  # one line a minute for the whole process
    try:
        thread.start()
    except RuntimeError as error:
        with _lock:
            is_due = time.monotonic() - _logged_at >= _BETWEEN
            if is_due:
                _logged_at = time.monotonic()
        if is_due:
            threads = threading.active_count()
            _log.warning("the system starts no thread beside %d others (%s): work waits for them", threads, error)
        return False
    return True
