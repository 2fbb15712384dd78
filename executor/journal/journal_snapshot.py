"""Reads a journal and changes nothing in its folder: beside the service that owns it, or where nothing may be written.

SQLite keeps an index of the log in a file beside it (`-shm`), and makes the file if there is none. A service that runs
has it. If it is not there, or cannot be written, a copy of the journal and of its log is read.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote

from ...proto.errors import InvalidRequest, Refused
from .journal_database import UNREADABLE, log_of, unusable

_BUSY_SECONDS: Final = 10.0
_ATTEMPTS: Final = 10
_HEADER: Final = 32
_NOT_READABLE: Final = "cannot be read now ({}): try again, and look whether another program than the service uses it"

_State: TypeAlias = tuple[bytes, int, int, int]


@contextmanager
def snapshot(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that reads, and sees the journal as it is now. This process may read the journal and its log.

    Raises `Refused` if the journal is damaged, and `InvalidRequest` if it cannot be read here.
    """
    with ExitStack() as stack:
        readable = path.resolve() if _has_index(path) else _copied(path, stack)
        try:
            uri = f"file:{quote(str(readable))}?mode=ro"
            connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_SECONDS)
            with closing(connection):
                connection.execute("BEGIN")
                yield connection
        except UNREADABLE as error:
            raise unusable(path, error, _NOT_READABLE) from error


def _has_index(path: Path) -> bool:
    """True if SQLite can read the journal without making a file."""
    index = path.with_name(f"{path.name}-shm")
    return index.exists() and all(os.access(file, os.W_OK) for file in (path.parent, index))


def _copied(path: Path, stack: ExitStack) -> Path:
    """A copy that is there until the end of the stack."""
    try:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-"))
        return _copy(path, Path(folder))
    except OSError as error:
        raise InvalidRequest(
            f"{path} cannot be copied to the temporary folder, as it is if nothing may be written beside it "
            f"({error.filename or 'temporary folder'}: {error.strerror}): set TMPDIR to a folder with room for it, and "
            "run this as the user of the service",
            reason="DATA_FOLDER",
        ) from error


def _copy(path: Path, folder: Path) -> Path:
    """Copy the journal, then its log, as often as another part of the log has begun meanwhile.

    While it has not, the log has all pages that were moved from it into the journal: they are whole in the copy of the
    log, whatever the copy of the journal has of them.
    """
    copy = folder / path.name
    for _ in range(_ATTEMPTS):
        before = _state(path)
        shutil.copyfile(path, copy)
        log_of(copy).unlink(missing_ok=True)
        if before[0]:
            with suppress(FileNotFoundError):  # the service has just ended, and removed it
                shutil.copyfile(log_of(path), log_of(copy))
        if _state(path) == before:
            return copy
    raise Refused(
        f"a service writes to {path} faster than it can be copied: run this where the folder can be written, or once "
        "the service has ended",
        reason="DATA_IN_USE",
    )


def _state(path: Path) -> _State:
    """What differs once the log was begun anew. Without a log, what differs once the journal was written."""
    status = path.stat()
    try:
        with log_of(path).open("rb") as log:
            header = log.read(_HEADER)
    except FileNotFoundError:
        header = b""
    return (header, status.st_ino, 0, 0) if header else (b"", status.st_ino, status.st_size, status.st_mtime_ns)
