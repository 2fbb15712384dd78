"""The folder of a table, below the one folder where tables may be written.

The folder is opened component by component, without following a link, and every operation in it is relative to the open
folder. So nothing outside is ever touched, even if another process changes the path meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import BinaryIO, Final, Self

from ...proto.errors import Forbidden, InvalidRequest

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST: Final = 255
_MOST_PARTS: Final = 8


class TableFolder:
    """The location of the table of this name, below `root`. Each part of the name is a folder in the one before.

    Raises `InvalidRequest` for a name that no table can have, and `Forbidden` where a link stands in the way.
    """

    def __init__(self, root: str, table: Sequence[str]) -> None:
        if not 1 <= len(table) <= _MOST_PARTS:
            raise InvalidRequest(
                f"the name of a written table must have 1 to {_MOST_PARTS} parts, not {len(table)}",
                reason="BAD_TABLE_NAME",
            )
        for part in table:
            _check(part)
        self.name = ".".join(table)
        self._root = root
        self._parts = tuple(table)
        self._look()

    def open(self, *, make: bool = True) -> OpenFolder:
        """Open the folder. If there is none, make it, or without `make` raise `FileNotFoundError`."""
        new_folders: list[tuple[int, str]] = []
        folder = os.open(self._root, _FOLDER)
        try:
            for part in self._parts:
                new = False
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                        new = True
                inner = self._enter(folder, part)
                if new:
                    new_folders.append((folder, part))
                else:
                    os.close(folder)
                folder = inner
        except BaseException:
            os.close(folder)
            for above, _ in new_folders:
                os.close(above)
            raise
        return OpenFolder(folder, new_folders)

    def _look(self) -> None:
        """Check that the components of the path that exist are folders."""
        with ExitStack() as stack, suppress(FileNotFoundError):
            folder = os.open(self._root, _FOLDER)
            stack.callback(os.close, folder)
            for part in self._parts:
                folder = self._enter(folder, part)
                stack.callback(os.close, folder)

    def _enter(self, folder: int, part: str) -> int:
        try:
            return os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            raise Forbidden(
                f"table {self.name!r} cannot be written: {part!r} exists and is not a folder (links are not followed)"
            ) from error


class OpenFolder:
    """An open folder. Names are those of files directly in it. `new_folders` are the folders that were made for it."""

    def __init__(self, descriptor: int, new_folders: Sequence[tuple[int, str]] = ()) -> None:
        self._descriptor = descriptor
        self._made = list(new_folders)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def files(self) -> list[str]:
        """The regular files, hidden ones too, in order."""
        return sorted(name for name in os.listdir(self._descriptor) if self._is_file(name))

    def _is_file(self, name: str) -> bool:
        try:
            return stat.S_ISREG(os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def create(self, name: str) -> BinaryIO:
        """Create a file that does not exist yet."""
        return os.fdopen(os.open(name, _NEW_FILE, 0o666, dir_fd=self._descriptor), "wb")

    def read(self, name: str) -> BinaryIO:
        """Open an existing file."""
        return os.fdopen(os.open(name, _OLD_FILE, dir_fd=self._descriptor), "rb")

    def rename(self, old: str, new: str) -> None:
        """Rename a file. A file that has the new name is replaced."""
        os.replace(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def size(self, name: str) -> int | None:
        """The bytes of a file; None where there is no such file."""
        try:
            return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_size
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def sync(self) -> None:
        """Put the names in the folder on the disk, and the folder's own name where it was made."""
        os.fsync(self._descriptor)
        for above, _ in self._made:
            os.fsync(above)

    def forget(self) -> None:
        """Remove the folders that were made for this one, as far as they are empty."""
        with suppress(OSError):
            for above, part in reversed(self._made):
                os.rmdir(part, dir_fd=above)

    def close(self) -> None:
        """Close the folder. A second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        while self._made:
            above, _ = self._made.pop()
            os.close(above)


def _check(part: str) -> None:
    if not part or part.startswith((".", "_")) or "/" in part or "\x00" in part:
        raise InvalidRequest(
            f"a table cannot be named {part!r}: the name must not contain '/' or NUL, nor begin with '.' or '_'",
            reason="BAD_TABLE_NAME",
        )
    try:
        encoded = os.fsencode(part)
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{part!r} cannot be a folder's name: {error.reason}", reason="BAD_TABLE_NAME") from error
    if len(encoded) > _LONGEST:
        raise InvalidRequest(
            f"the table's name has {len(encoded)} bytes; at most {_LONGEST} are allowed", reason="BAD_TABLE_NAME"
        )
