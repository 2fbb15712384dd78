"""The file system calls of checkpoints and of kept rows: the one module to replace for another kind of store."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import pyarrow as pa

_NO_LINK: Final = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP)
_COPIED_BYTES: Final = 1 << 20
_STARTS_WRITING: Final = hasattr(os, "posix_fadvise")
"""The advice that pages are not needed makes Linux write them. Kept files are read after a restart at the earliest."""


class Disk(Protocol):
    """A file system. A file's bytes survive a crash after `sync`; its name survives after `sync_names` of its folder.

    Every call may raise OSError; FileNotFoundError if there is no such file or folder.
    """

    def make_folder(self, folder: Path) -> None:
        """Make the folder and those above it, if they do not exist."""
        ...

    def create(self, path: Path) -> BinaryIO:
        """Create a new file and open it for writing."""
        ...

    def rewrite(self, path: Path) -> BinaryIO:
        """Open a file that is there, to write over its bytes from the start. Its size stays unless more is written."""
        ...

    def start_sync(self, file: BinaryIO, start: int, size: int) -> None:
        """Let the disk begin to write these bytes of the file, and do not wait. Only `sync` makes them survive."""
        ...

    def sync(self, file: BinaryIO) -> None: ...

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file atomically. A file with the new name is replaced."""
        ...

    def link(self, old: Path, new: Path) -> None:
        """Give a file another name, after a sync. Copies the file where the two names are on different disks."""
        ...

    def sync_names(self, folder: Path) -> None: ...

    def sizes(self, folder: Path) -> Mapping[str, int]:
        """The sizes of the files in a folder; empty if there is no folder."""
        ...

    def read(self, path: Path) -> pa.Buffer:
        """The whole file, in memory: later changes of the file do not matter."""
        ...

    def map(self, path: Path) -> pa.Buffer:
        """The whole file, mapped: the file must not change while the buffer is used."""
        ...

    def remove(self, path: Path) -> None: ...

    def folders(self, folder: Path) -> Sequence[str]:
        """The names of the folders in a folder; empty if there is no folder."""
        ...

    def remove_folder(self, folder: Path) -> None:
        """Remove a folder with its files, if it exists."""
        ...


class LocalDisk:
    """Folders of this machine."""

    def make_folder(self, folder: Path) -> None:
        missing = [folder, *folder.parents]
        missing = missing[: next(at for at, ancestor in enumerate(missing) if ancestor.is_dir())]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for ancestor in missing:
            self.sync_names(ancestor.parent)

    def create(self, path: Path) -> BinaryIO:
        return open(path, "xb", opener=_for_owner)

    def rewrite(self, path: Path) -> BinaryIO:
        return path.open("r+b")

    def start_sync(self, file: BinaryIO, start: int, size: int) -> None:
        file.flush()
        if _STARTS_WRITING:  # of these bytes alone: pages that are to be written over should stay in memory
            os.posix_fadvise(file.fileno(), start, size, os.POSIX_FADV_DONTNEED)

    def sync(self, file: BinaryIO) -> None:
        file.flush()
        _sync_bytes(file.fileno())

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def link(self, old: Path, new: Path) -> None:
        with old.open("rb") as file:
            os.fsync(file.fileno())
            try:
                os.link(old, new)
            except OSError as error:
                if error.errno not in _NO_LINK:
                    raise
                with self.create(new) as copy:
                    shutil.copyfileobj(file, copy, _COPIED_BYTES)
                    self.sync(copy)

    def sync_names(self, folder: Path) -> None:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def sizes(self, folder: Path) -> Mapping[str, int]:
        sizes = dict[str, int]()
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # another process has just removed it
                    if entry.is_file(follow_symlinks=False):
                        sizes[entry.name] = entry.stat().st_size
        return sizes

    def read(self, path: Path) -> pa.Buffer:
        _check_regular(path)
        return pa.py_buffer(path.read_bytes())

    def map(self, path: Path) -> pa.Buffer:
        _check_regular(path)
        with pa.memory_map(str(path)) as file:
            return file.read_buffer()

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def folders(self, folder: Path) -> Sequence[str]:
        try:
            with os.scandir(folder) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return ()

    def remove_folder(self, folder: Path) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)


_sync_bytes: Final = getattr(os, "fdatasync", os.fsync)
"""Syncs the bytes and the size of a file. Its times may be lost."""


def _for_owner(path: str, flags: int) -> int:
    """Open a new file that no other user may read."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _check_regular(path: Path) -> None:
    """Raise OSError for a link, a pipe or a device: opening one may lead elsewhere, or never return."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
