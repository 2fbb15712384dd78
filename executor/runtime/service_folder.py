"""The folder that a service writes to, and the removal of folders that killed services have left behind.

The lock is the system's, by the standard library's `flock`. A package for file locks would wrap the same two calls.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...proto.errors import InvalidRequest

PREFIX: Final = "tidegate-"
_LOCK: Final = "in-use"


class ServiceFolder:
    """A new folder inside `parent`, locked until `release` or until this process ends.

    The system holds the lock, so the lock ends with the process, however the process ends. A Tidegate folder with a
    free lock has no owner; the next service that makes a folder beside it removes it.
    """

    def __init__(self, parent: Path) -> None:
        try:
            parent.mkdir(parents=True, exist_ok=True)
            _remove_leftovers(parent)
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent)).resolve()
            unlocked = self.path / "locking"
            self._lock: int | None = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise InvalidRequest(
                f"the service cannot write to {parent}, its folder for data that does not fit in memory: "
                f"{error.strerror}; name another folder (spill_directory, --spill)",
                reason="SPILL_DIRECTORY",
            ) from error
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unlocked.rename(self.path / _LOCK)  # no other service finds the lock free before this process holds it

    def release(self) -> None:
        """Remove the folder and release its lock. May be called more than once."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _remove_leftovers(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # the folder belongs to another service or another program, or is gone meanwhile
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
