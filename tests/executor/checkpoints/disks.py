"""A disk in memory that can crash: what was not synced may be there afterwards, or not."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa


class Crash(BaseException):
    """The process is gone: nothing it does from here on has any effect."""


@dataclass(eq=False)
class Inode:
    written: bytes = b""
    synced: bytes = b""


class Sink(io.BytesIO):
    def __init__(self, disk: CrashingDisk, inode: Inode) -> None:
        super().__init__()
        self.disk, self.inode = disk, inode

    def write(self, data: object) -> int:
        self.disk.operation()
        size = super().write(data)
        self.inode.written = self.getvalue()
        return size


@dataclass
class CrashingDisk:
    """Crashes at its operation number `crash_at`, and at every one from there on."""

    crash_at: int | None = None
    operations: int = 0
    names: dict[Path, Inode] = field(default_factory=dict)
    durable: dict[Path, Inode] = field(default_factory=dict)

    def operation(self) -> None:
        self.operations += 1
        if self.crash_at is not None and self.operations >= self.crash_at:
            raise Crash

    def make_folder(self, folder: Path) -> None:
        self.operation()

    def create(self, path: Path) -> Sink:
        self.operation()
        assert path not in self.names
        inode = self.names[path] = Inode()
        return Sink(self, inode)

    def sync(self, file: Sink) -> None:
        self.operation()
        file.inode.synced = file.inode.written

    def rename(self, old: Path, new: Path) -> None:
        self.operation()
        self.names[new] = self.names.pop(old)

    def sync_names(self, folder: Path) -> None:
        self.operation()
        self.durable = dict(self.names)

    def sizes(self, folder: Path) -> Mapping[str, int]:
        return {path.name: len(inode.written) for path, inode in self.names.items() if path.parent == folder}

    def read(self, path: Path) -> pa.Buffer:
        if path not in self.names:
            raise FileNotFoundError(path)
        return pa.py_buffer(self.names[path].written)

    def remove(self, path: Path) -> None:
        self.operation()
        self.names.pop(path, None)

    def after_the_crash(self, luck: random.Random) -> CrashingDisk:
        """Each name that was not synced is as it was or as it is; so are the bytes of each file, cut anywhere."""
        names: dict[Path, Inode] = {}
        for path in {*self.names, *self.durable}:
            file = luck.choice([self.names, self.durable]).get(path)
            if file is not None:
                extra = file.written[len(file.synced) :]
                bytes_ = file.synced + extra[: luck.randint(0, len(extra))]
                names[path] = Inode(bytes_, bytes_)
        return CrashingDisk(names=names, durable=dict(names))
