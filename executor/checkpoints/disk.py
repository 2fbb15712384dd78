"""What checkpoints ask of the file system, and no more: the one place that would change for another kind of store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa


class Disk(Protocol):
    """A file's bytes outlive a crash once `sync` has returned, its name once `sync_names` of its folder has.

    Every call may raise OSError; FileNotFoundError where there is no such file or folder.
    """

    def make_folder(self, folder: Path) -> None:
        """Make it and those above it, if they are not there."""
        ...

    def create(self, path: Path) -> BinaryIO:
        """A file that was not there, to write to."""
        ...

    def sync(self, file: BinaryIO) -> None: ...

    def rename(self, old: Path, new: Path) -> None:
        """At once; what `new` was before is gone."""
        ...

    def sync_names(self, folder: Path) -> None: ...

    def sizes(self, folder: Path) -> Mapping[str, int]:
        """The files in a folder; none where there is no folder."""
        ...

    def read(self, path: Path) -> pa.Buffer:
        """All of it, in memory: what happens to the file later does not matter."""
        ...

    def remove(self, path: Path) -> None: ...


class LocalDisk:
    """Folders of this machine."""

    def make_folder(self, folder: Path) -> None:
        missing = [folder, *folder.parents]
        missing = missing[: next(at for at, each in enumerate(missing) if each.is_dir())]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for each in missing:
            self.sync_names(each.parent)

    def create(self, path: Path) -> BinaryIO:
        return path.open("xb")

    def sync(self, file: BinaryIO) -> None:
        file.flush()
        os.fsync(file.fileno())

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def sync_names(self, folder: Path) -> None:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def sizes(self, folder: Path) -> Mapping[str, int]:
        try:
            with os.scandir(folder) as found:
                return {each.name: each.stat().st_size for each in found if each.is_file(follow_symlinks=False)}
        except FileNotFoundError:
            return {}

    def read(self, path: Path) -> pa.Buffer:
        return pa.py_buffer(path.read_bytes())

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
