"""A file layer that knows what a power loss would forget: below SQLite, and below what the journal writes itself.

SQLite runs on a VFS that writes to the real file system and notes each operation in a log. A `Disk` notes its
operations in the same log. So every point of one run gives the states of the disk that a loss of power may leave there.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import itertools
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Self

import pyarrow as pa
import pytest

from tidegate.executor.checkpoints.disk import LocalDisk

_OK, _READONLY, _FULL, _IOERR_WRITE, _IOERR_FSYNC = 0, 8, 13, 10 | 3 << 8, 10 | 4 << 8
_NUMBERS = {_FULL: errno.ENOSPC, _READONLY: errno.EROFS}
_SLOW_SECONDS = 0.003
_VFS_NUMBERS = itertools.count(1)
_SECTOR = 512

_POINTER = ctypes.c_void_p
_IO = {
    "close": ctypes.CFUNCTYPE(ctypes.c_int, _POINTER),
    "write": ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _POINTER, ctypes.c_int, ctypes.c_int64),
    "truncate": ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, ctypes.c_int64),
    "sync": ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, ctypes.c_int),
}
_PLACES = {"close": 1, "write": 3, "truncate": 4, "sync": 5}
_METHODS = 19
_OPEN = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _POINTER, _POINTER, ctypes.c_int, _POINTER)
_DELETE = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, ctypes.c_char_p, ctypes.c_int)


class _Vfs(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int),
        ("file_size", ctypes.c_int),
        ("longest_path", ctypes.c_int),
        ("following", _POINTER),
        ("name", ctypes.c_char_p),
        ("data", _POINTER),
        ("open", _POINTER),
        ("delete", _POINTER),
        ("others", _POINTER * 14),
    ]


class _Methods(ctypes.Structure):
    _fields_ = [("version", ctypes.c_int), ("pad", ctypes.c_int), ("calls", _POINTER * (_METHODS - 1))]


@dataclass(frozen=True)
class Operation:
    """`kind`: write, truncate, sync, create, rename, link, remove or names (the names in a folder are synced)."""

    kind: str
    path: Path
    offset: int = 0
    data: bytes = b""
    other: Path | None = None


@dataclass
class Inode:
    synced: bytearray = field(default_factory=bytearray)
    unsynced: list[Operation] = field(default_factory=list)


class Failure(Exception):
    """An operation fails with this code of SQLite. A write that is `short` has written the first half of its bytes."""

    def __init__(self, code: int, *, short: bool = False) -> None:
        super().__init__(code)
        self.code, self.short = code, short


def full(_: Operation) -> None:
    raise Failure(_FULL)


def short(_: Operation) -> None:
    raise Failure(_FULL, short=True)


def read_only(_: Operation) -> None:
    raise Failure(_READONLY)


def slow(_: Operation) -> None:
    time.sleep(_SLOW_SECONDS)


def failing_sync(operation: Operation) -> None:
    raise Failure(_IOERR_FSYNC if operation.kind == "sync" else _IOERR_WRITE)


class Recorder:
    """The log of all operations. `fail_at` has the operation of this number call `failure`, and all that follow too
    unless it happens `once`.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.rewritten = 0
        """The files that were written over."""
        self.fail_at: int | None = None
        self.once = True
        self.failure: Callable[[Operation], None] = full
        self._tried = 0

    def note(self, operation: Operation) -> None:
        self._tried += 1
        if self.fail_at is not None and (self._tried == self.fail_at or (not self.once and self._tried > self.fail_at)):
            try:
                self.failure(operation)
            except Failure as failure:
                if failure.short and operation.kind == "write":
                    half = operation.data[: len(operation.data) // 2]
                    self.operations.append(replace(operation, data=half))
                raise
        self.operations.append(operation)

    def fail_from_here(self, failure: Callable[[Operation], None]) -> None:
        self.fail_at, self.once, self.failure = self._tried + 1, False, failure

    def works_again(self) -> None:
        self.fail_at = None


class RecordingVfs:
    """SQLite's file system, with a log: `below` puts it below the databases that are opened inside of the block."""

    def __init__(self, recorder: Recorder) -> None:
        library = sqlite_library()
        library.sqlite3_vfs_find.restype = _POINTER
        library.sqlite3_vfs_find.argtypes = [ctypes.c_char_p]
        library.sqlite3_vfs_register.argtypes = [_POINTER, ctypes.c_int]
        self._library = library
        self._recorder = recorder
        self._beneath = library.sqlite3_vfs_find(None)
        original = _Vfs.from_address(self._beneath)
        self._open_beneath = _OPEN(original.open)
        self._delete_beneath = _DELETE(original.delete)
        self.name = f"recording-{next(_VFS_NUMBERS)}"
        self._keep: list[Any] = []
        self._paths: dict[int, Path] = {}
        self._opened: set[Path] = set()
        self._patched: dict[int, _Methods] = {}
        self._beneath_of: dict[int, dict[str, Any]] = {}
        self._vfs = _Vfs.from_buffer_copy(original)
        self._vfs.name = self.name.encode()
        self._calls = (_OPEN(self._open), _DELETE(self._delete))
        self._vfs.open = ctypes.cast(self._calls[0], _POINTER).value
        self._vfs.delete = ctypes.cast(self._calls[1], _POINTER).value
        assert library.sqlite3_vfs_register(ctypes.addressof(self._vfs), 0) == _OK

    @contextmanager
    def below(self) -> Iterator[None]:
        self._library.sqlite3_vfs_register(ctypes.addressof(self._vfs), 1)
        try:
            yield
        finally:
            self._library.sqlite3_vfs_register(self._beneath, 1)

    def close(self) -> None:
        self._library.sqlite3_vfs_unregister.argtypes = [_POINTER]
        self._library.sqlite3_vfs_unregister(ctypes.addressof(self._vfs))

    def _open(self, _: int, name: int | None, file: int, flags: int, out: int) -> int:
        path = Path(ctypes.string_at(name).decode()) if name else None  # SQLite keeps the pointer
        new = path is not None and (not path.exists() or self._is_touched(path))
        result: int = self._open_beneath(self._beneath, name, file, flags, out)
        if result == _OK and path is not None:
            self._opened.add(path)
            if new:
                self._recorder.operations.append(Operation("create", path))
            self._patch(file, path)
        return result

    def _is_touched(self, path: Path) -> bool:
        """Tests whether somebody has just made an empty file for SQLite."""
        return path not in self._opened and not path.stat().st_size

    def _patch(self, file: int, path: Path) -> None:
        slot = ctypes.c_void_p.from_address(file)
        beneath = slot.value
        assert beneath is not None
        if beneath not in self._patched:
            original = _Methods.from_address(beneath)
            patched = _Methods.from_buffer_copy(original)
            self._beneath_of[beneath] = {kind: call(original.calls[_PLACES[kind] - 1]) for kind, call in _IO.items()}
            for kind, call in _IO.items():
                mine = call(partial(getattr(self, f"_{kind}"), beneath))
                self._keep.append(mine)
                patched.calls[_PLACES[kind] - 1] = ctypes.cast(mine, _POINTER).value
            self._patched[beneath] = patched
        slot.value = ctypes.addressof(self._patched[beneath])
        self._paths[file] = path

    def _note(self, operation: Operation) -> int:
        try:
            self._recorder.note(operation)
        except Failure as failure:
            return failure.code
        return _OK

    def _write(self, beneath: int, file: int, data: int, size: int, offset: int) -> int:
        try:
            self._recorder.note(Operation("write", self._paths[file], offset, ctypes.string_at(data, size)))
        except Failure as failure:
            if failure.short:
                self._beneath_of[beneath]["write"](file, data, size // 2, offset)
            return failure.code
        return int(self._beneath_of[beneath]["write"](file, data, size, offset))

    def _truncate(self, beneath: int, file: int, size: int) -> int:
        if code := self._note(Operation("truncate", self._paths[file], size)):
            return code
        return int(self._beneath_of[beneath]["truncate"](file, size))

    def _sync(self, beneath: int, file: int, flags: int) -> int:
        return self._note(Operation("sync", self._paths[file]))

    def _close(self, beneath: int, file: int) -> int:
        self._paths.pop(file, None)
        return int(self._beneath_of[beneath]["close"](file))

    def _delete(self, _: int, name: bytes, sync_names: int) -> int:
        if code := self._note(Operation("remove", Path(name.decode()))):
            return code
        return int(self._delete_beneath(self._beneath, name, sync_names))


def sqlite_library() -> ctypes.CDLL:
    """The library of Python's own `sqlite3`; skips the test where that is not a library that others can load."""
    name = ctypes.util.find_library("sqlite3")
    if name is None:
        pytest.skip("this Python has SQLite inside, so no file system can be put below it")
    library = ctypes.CDLL(name)
    library.sqlite3_libversion.restype = ctypes.c_char_p
    if library.sqlite3_libversion().decode() != sqlite3.sqlite_version:
        pytest.skip("this Python has another SQLite inside, so no file system can be put below it")
    return library


class _Sink:
    """A file that notes its writes, from its start on."""

    def __init__(self, file: BinaryIO, path: Path, recorder: Recorder) -> None:
        self.file, self.path, self._recorder = file, path, recorder

    def write(self, data: Any) -> int:
        try:
            _noted(self._recorder, Operation("write", self.path, self.file.tell(), bytes(data)))
        except OSError as error:
            if isinstance(error.__cause__, Failure) and error.__cause__.short:
                self.file.write(bytes(data)[: len(bytes(data)) // 2])
            raise
        return self.file.write(data)

    def tell(self) -> int:
        return self.file.tell()

    def flush(self) -> None:
        """Do nothing: `sync` alone is noted."""

    def close(self) -> None:
        self.file.close()

    @property
    def closed(self) -> bool:
        return self.file.closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


def _noted(recorder: Recorder, operation: Operation) -> None:
    try:
        recorder.note(operation)
    except Failure as failure:
        number = _NUMBERS.get(failure.code, errno.EIO)
        raise OSError(number, os.strerror(number)) from failure


class RecordingDisk(LocalDisk):
    """The real disk, with a log. Nothing waits for it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def create(self, path: Path) -> Any:
        _noted(self._recorder, Operation("create", path))
        return _Sink(super().create(path), path, self._recorder)

    def rewrite(self, path: Path) -> Any:
        self._recorder.rewritten += 1
        return _Sink(super().rewrite(path), path, self._recorder)

    def start_sync(self, file: Any, start: int, size: int) -> None:
        """Note nothing: what was written survives after the sync at the earliest."""

    def sync(self, file: Any) -> None:
        _noted(self._recorder, Operation("sync", file.path))

    def rename(self, old: Path, new: Path) -> None:
        _noted(self._recorder, Operation("rename", old, other=new))
        super().rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        _noted(self._recorder, Operation("create", new))
        _noted(self._recorder, Operation("write", new, 0, old.read_bytes()))
        _noted(self._recorder, Operation("sync", new))
        super().link(old, new)

    def sync_names(self, folder: Path) -> None:
        _noted(self._recorder, Operation("names", folder))

    def remove(self, path: Path) -> None:
        if path.exists():
            _noted(self._recorder, Operation("remove", path))
        super().remove(path)

    def map(self, path: Path) -> pa.Buffer:
        return pa.py_buffer(path.read_bytes())


class LossyDisk:
    """The files as a power loss may leave them after some operations."""

    def __init__(self) -> None:
        self.names: dict[Path, Inode] = {}
        self.durable: dict[Path, Inode] = {}

    def apply(self, operation: Operation) -> None:
        path = operation.path
        match operation.kind:
            case "create":
                self.names[path] = Inode()
            case "write" | "truncate":
                self.names[path].unsynced.append(operation)
            case "sync":
                inode = self.names[path]
                for one in inode.unsynced:
                    _do(inode.synced, one)
                inode.unsynced.clear()
                if path.name.endswith("-wal"):
                    self.durable[path] = inode  # SQLite syncs the folder with the first sync of a log
            case "rename":
                assert operation.other is not None
                self.names[operation.other] = self.names.pop(path)
            case "remove":
                self.names.pop(path, None)
            case "names":
                self._sync_names(path)
            case kind:
                raise AssertionError(kind)

    def _sync_names(self, folder: Path) -> None:
        for path in {*self.names, *self.durable}:
            if path.parent == folder:
                if path in self.names:
                    self.durable[path] = self.names[path]
                else:
                    self.durable.pop(path, None)

    def left(self, luck: random.Random | None) -> Mapping[Path, bytes]:
        """The files after the loss: what was synced alone, or with `luck` any of what was not as well."""
        if luck is None:
            return {path: bytes(inode.synced) for path, inode in self.durable.items()}
        files: dict[Path, bytes] = {}
        for path in sorted({*self.names, *self.durable}):
            inode = luck.choice([self.names, self.durable]).get(path)
            if inode is not None:
                content = bytearray(inode.synced)
                for operation in inode.unsynced:
                    for part in _sectors(operation):
                        if luck.random() < 0.5:
                            _do(content, part)
                files[path] = bytes(content)
        return files

    def all(self) -> Mapping[Path, bytes]:
        """The files after the end of the process alone: nothing is lost."""
        files = {}
        for path, inode in self.names.items():
            content = bytearray(inode.synced)
            for operation in inode.unsynced:
                _do(content, operation)
            files[path] = bytes(content)
        return files


def _sectors(operation: Operation) -> list[Operation]:
    if operation.kind == "truncate":
        return [operation]
    return [
        Operation("write", operation.path, operation.offset + at, operation.data[at : at + _SECTOR])
        for at in range(0, len(operation.data), _SECTOR)
    ]


def _do(content: bytearray, operation: Operation) -> None:
    if operation.kind == "truncate":
        del content[operation.offset :]
        content.extend(bytes(max(0, operation.offset - len(content))))
        return
    end = operation.offset + len(operation.data)
    content.extend(bytes(max(0, end - len(content))))
    content[operation.offset : end] = operation.data


def put(files: Mapping[Path, bytes], old: Path, new: Path) -> None:
    """Write the files of folder `old` to folder `new`."""
    new.mkdir(parents=True)
    for path, content in files.items():
        target = new / path.relative_to(old)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
