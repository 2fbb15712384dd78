"""The data folder of a service: who owns it, and where its parts are."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ...proto.errors import InvalidRequest, Refused

_OWNER: Final = "owner"
_LONGEST: Final = 1_000
NO_FOLDERS: Final[Mapping[str, Path | None]] = {}
_open: weakref.WeakSet[DataFolder] = weakref.WeakSet()
"""The folders that this process owns."""


class DataFolder:
    """The folder at `path`, owned by one service until `release` or until this process ends.

    The system holds the locks, so they end with the process, however the process ends, and a copy of the folder has
    none. One is on the folder itself, because somebody may remove the file `owner`; the other one, on that file, is the
    only one that services of older versions know. A process that this one forks does not hold them: it may live on
    after this one was killed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._locks: list[int] = []
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_private(self.path)
            self._locks.append(os.open(self.path / _OWNER, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            self._locks.append(os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        except OSError as error:
            self.release()
            raise InvalidRequest(
                f"the service cannot write to {path}, its data folder: {error.strerror}; name another folder (data, "
                "--data)",
                reason="DATA_FOLDER",
            ) from error
        self._take(*self._locks)
        _open.add(self)

    def _take(self, owner_file: int, folder: int) -> None:
        try:
            for lock in (owner_file, folder):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(owner_file, _LONGEST, 0).decode(errors="replace") or "another service"
            self.release()
            raise Refused(
                f"the data folder {self.path} belongs to {owner}: stop that service, or name another folder",
                reason="DATA_IN_USE",
            ) from None
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        os.ftruncate(owner_file, 0)
        os.pwrite(owner_file, f"process {os.getpid()} on {socket.gethostname()}, since {since}".encode(), 0)

    @property
    def journal(self) -> Path:
        return journal_in(self.path)

    @property
    def rows(self) -> Path:
        return rows_in(self.path)

    @property
    def checkpoints(self) -> Path:
        return checkpoints_in(self.path)

    def release(self) -> None:
        """Let another service have the folder. May be called more than once."""
        while self._locks:
            os.close(self._locks.pop())


def _let_go() -> None:
    """Close the files of the locks in a forked process. The process that forked it keeps the locks."""
    for folder in _open:
        folder.release()


os.register_at_fork(after_in_child=_let_go)


def _check_private(folder: Path) -> None:
    """Raise `InvalidRequest` if another user could change what is in the folder. Groups may, if its owner lets them."""
    status = folder.stat()
    user = os.geteuid()
    if status.st_uid not in (user, 0):
        raise InvalidRequest(
            f"{folder}, the data folder, belongs to user {status.st_uid}, who could change tasks and rows in it: start "
            f"the service as that user, give the folder to user {user}, or name another folder (data, --data)",
            reason="DATA_FOLDER",
        )
    if status.st_mode & stat.S_IWOTH:
        raise InvalidRequest(
            f"every user may write to {folder}, the data folder, and could change tasks and rows in it: take that "
            "right away (chmod o-w), or name another folder (data, --data)",
            reason="DATA_FOLDER",
        )


def check_apart(data: Path, others: Mapping[str, Path | None]) -> None:
    """Raise `InvalidRequest` if one of the `others`, by their names, is in a part of the data folder that the service
    tidies: at its start it removes there whatever no task of its journal names.
    """
    for name, other in others.items():
        for part in (rows_in(data), checkpoints_in(data)):
            if other is not None and other.resolve().is_relative_to(part.resolve()):
                raise InvalidRequest(
                    f"{name} {other} is in {part}, from which the service removes what its journal does not name: name "
                    "a folder outside of the data folder",
                    reason="DATA_FOLDER",
                )


def journal_in(folder: Path) -> Path:
    return folder / "journal.sqlite"


def rows_in(folder: Path) -> Path:
    return folder / "rows"


def checkpoints_in(folder: Path) -> Path:
    return folder / "checkpoints"
