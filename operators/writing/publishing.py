"""Publishes the hidden files of an epoch by renaming them: one in one step, several with a log.

The log names all files before the first is renamed. If the process is killed in between, whoever writes into the table
next completes what the log says. Until the process has ended, nobody else does: it holds a lock on its log.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from .table_folder import OpenFolder

_LOG: Final = ".publishing"


def publish(folder: OpenFolder, written: Mapping[str, str], outgoing: Mapping[str, str], *, log: str | None) -> None:
    """Rename the hidden files `written` to their names, and then remove the `outgoing` ones; or leave all as it was.

    `outgoing` has the hidden name of each file until it is removed. With several files a `log` is needed.
    """
    before = set(folder.files())
    with _logged(folder, log, {**written, **outgoing}):
        moved: list[tuple[str, str]] = []
        try:
            for old, new in (*written.items(), *outgoing.items()):
                folder.rename(old, new)
                moved.append((old, new))
            folder.sync()
        except BaseException:
            if log is not None:
                folder.remove(log)  # first: nobody is to complete what is undone
            with suppress(OSError):
                for old, new in reversed(moved):
                    if old in outgoing:
                        folder.rename(new, old)
                    elif new not in before:
                        folder.remove(new)
            raise
        with suppress(OSError):  # the files that are left are hidden
            for name in outgoing.values():
                folder.remove(name)


@contextmanager
def _logged(folder: OpenFolder, log: str | None, renames: Mapping[str, str]) -> Iterator[None]:
    """A context whose renames are on the disk. The log goes with the context, unless the process does."""
    if log is None:
        yield
        return
    with folder.create(log) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(renames).encode())
        file.flush()
        os.fsync(file.fileno())
        folder.sync()
        yield
        with suppress(OSError):
            folder.remove(log)


def complete_published(folder: OpenFolder) -> None:
    """Complete what killed processes had begun to publish in the folder."""
    for log in folder.files():
        if not log.startswith(".") or not log.endswith(_LOG):
            continue
        with suppress(FileNotFoundError), folder.read(log) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # its process goes on
            _complete(folder, file.read())
            folder.remove(log)


def _complete(folder: OpenFolder, content: bytes) -> None:
    try:
        renames: dict[str, str] = json.loads(content)
    except ValueError:
        return  # the log was not complete, so no file was renamed
    for old, new in renames.items():
        with suppress(FileNotFoundError):
            folder.rename(old, new)
    folder.sync()
    for new in renames.values():
        if new.endswith(".replaced"):
            folder.remove(new)
