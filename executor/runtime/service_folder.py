"""The folder that a service writes to, and what services that were killed have left behind."""

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
    """A new folder inside `parent`, locked for as long as this process lives or until `release`.

    The lock is the system's, so it ends with the process however that ends: a folder of ours whose lock is free is
    nobody's, and is removed when the next one is made beside it.
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
                f"the service writes what does not fit in memory to {parent}, which it cannot: {error.strerror} "
                "(spill_directory, --spill)",
                reason="SPILL_DIRECTORY",
            ) from error
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unlocked.rename(self.path / _LOCK)  # nobody ever finds the lock free before it is held

    def release(self) -> None:
        """Remove the folder, and let go of it. More than once is harmless."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _remove_leftovers(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another service's, somebody else's, or gone meanwhile
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
