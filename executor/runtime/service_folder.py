"""The folder that a service writes to, and the removal of folders that killed services have left behind.

A folder that several machines share names its machine, because locks do not reach other machines on all file systems:
its service marks it every minute, and other machines remove it only if it was not marked for an hour.

The lock is the system's, by the standard library's `flock`. A package for file locks would wrap the same two calls.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...proto.errors import InvalidRequest

PREFIX: Final = "tidegate-"
_LOCK: Final = "in-use"
_SPILL: Final = ("data that does not fit in memory", "spill_directory, --spill")
_SHARED: Final = ("rows that Spark's executors see", "spark_staging, --spark-staging")
_MARK_SECONDS: Final = 60.0
_UNMARKED_SECONDS: Final = 3600.0


class ServiceFolder:
    """A new folder inside `parent`, locked until `release` or until this process ends. No other user may enter it.

    The system holds the lock, so the lock ends with the process, however the process ends. A Tidegate folder with a
    free lock has no owner; the next service that makes a folder beside it removes it. A `parent` that does not exist is
    made, also for this user alone. `shared` is for a parent that other machines write to, too.
    """

    def __init__(self, parent: Path, *, shared: bool = False) -> None:
        try:
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_leftovers(parent)
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent)).resolve()
            unlocked = self.path / "locking"
            self._lock: int | None = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            what, options = _SHARED if shared else _SPILL
            raise InvalidRequest(
                f"the service cannot write to {parent}, its folder for {what}: {error.strerror}; name another folder "
                f"({options})",
                reason="SPILL_DIRECTORY",
            ) from error
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._released = threading.Event()
        if shared:
            os.write(self._lock, socket.gethostname().encode())
        unlocked.rename(self.path / _LOCK)  # no other service finds the lock free before this process holds it
        if shared:
            threading.Thread(target=self._mark, name="staging-mark", daemon=True).start()

    def release(self) -> None:
        """Remove the folder and release its lock. May be called more than once."""
        self._released.set()
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _mark(self) -> None:
        while not self._released.wait(_MARK_SECONDS):
            with suppress(OSError):
                os.utime(self.path / _LOCK)


def _remove_leftovers(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # the folder belongs to another service or another program, or is gone meanwhile
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_judged_here(lock, parent):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _is_judged_here(lock: int, parent: Path) -> bool:
    """True if a free lock is of this machine, or of one that has not marked its folder for long."""
    host = os.read(lock, 1024).decode(errors="replace")
    if host in ("", socket.gethostname()):
        return True
    with tempfile.TemporaryFile(dir=parent) as now:  # its time is that of the file system, whatever the clock here
        return os.fstat(now.fileno()).st_mtime - os.fstat(lock).st_mtime > _UNMARKED_SECONDS
