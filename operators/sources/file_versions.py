"""Reads a file only if it is unchanged since its split was accepted.

A file is opened once: component by component from the root of the file system on, without following a link, even if the
path has changed since it was checked. On Linux a reader opens the same file again by its descriptor (`OpenFile.path`).
On other systems, and where the process may not have that many files open, the reader opens the file by its path. After
the read, the descriptor and the path must still lead to the same unchanged file.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
import threading
import time
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol, Self, TypeAlias

import pyarrow as pa
from pyarrow.fs import LocalFileSystem

from ...proto.compressed_files import without_codec
from ...proto.errors import SplitError
from ..core.piece import FilePiece, FileVersion

_DESCRIPTORS: Final = "/proc/self/fd"
_BY_DESCRIPTOR: Final = os.path.isdir(_DESCRIPTORS)
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Nothing that is put in the file's place, such as a pipe, may block the open call.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ANOTHER: Final = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO)
#: The largest row of a reader without a limit.
UNLIMITED: Final = 1 << 62
#: A change so long after another one has another time, by the clock of the file system: the coarsest known one, that of
#: FAT, has steps of 2 seconds.
_SETTLED_NS: Final = 4_000_000_000
#: Statements may hold a quarter of the files that the process may have open.
_HELD: Final = 4


State: TypeAlias = "tuple[Identity, int]"
"""A file's identity, and the time at which anything of it was last changed, which no caller can set."""


class Files(Protocol):
    """The interface by which formats open files; `pyarrow.fs.FileSystem` has it."""

    def open_input_file(self, path: str) -> pa.NativeFile: ...


class Identity(NamedTuple):
    """The identity of a file, with its size and the time of its last change."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class _Opened:
    """A descriptor that is open, or is -1."""

    _descriptor = -1

    def close(self) -> None:
        """Close it. A second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class OpenFile(_Opened):
    """A piece's file, open. Raises `SplitError` where the file is gone, is another one, or is no longer where its path
    led.
    """

    def __init__(self, piece: FilePiece, folder: int | None = None) -> None:
        self._piece = piece
        self._descriptor = _opened(piece, folder)
        try:
            status = os.fstat(self._descriptor)
            self.identity = Identity.of(status)
            self.state = self.identity, status.st_ctime_ns
            now = FileVersion(size=status.st_size, modified_ns=status.st_mtime_ns)
            if not stat.S_ISREG(status.st_mode) or now != piece.version:
                raise _changed(piece)
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> str:
        """The path by which a reader opens this very file again."""
        return f"{_DESCRIPTORS}/{self._descriptor}" if _BY_DESCRIPTOR else self._piece.path

    @property
    def descriptor(self) -> int:
        """The file's descriptor, to be sent to another process. `close` closes it."""
        return self._descriptor

    def check(self) -> None:
        """Raise `SplitError` where the file has been written to, or its path leads to another file."""
        if Identity.of(os.fstat(self._descriptor)) != self.identity:
            raise _changed(self._piece)
        _check_path(self._piece, self.identity)


def is_settled(state: State) -> bool:
    """True if each change of the file from now on gives it another state."""
    _, changed_ns = state
    return time.time_ns() - changed_ns > _SETTLED_NS


def settled_state(piece: FilePiece) -> State | None:
    """The state of what is at the piece's path, which is not opened. None where it is another file than the piece's,
    or a link, or where its state is not settled. Links among the folders of the path are not looked at.
    """
    try:
        status = os.stat(piece.path, follow_symlinks=False)
    except OSError:
        return None
    state = Identity.of(status), status.st_ctime_ns
    now = FileVersion(size=status.st_size, modified_ns=status.st_mtime_ns)
    return state if stat.S_ISREG(status.st_mode) and now == piece.version and is_settled(state) else None


class PieceFiles:
    """`Files` in which a piece's path leads to the open file, its descriptor, and the most bytes that a decoded row may
    have. `are_local` says whether the descriptor leads to the same bytes.
    """

    def __init__(self, file: OpenFile, path: str, files: Files, largest: int = UNLIMITED) -> None:
        self.largest: Final = largest
        self.descriptor: Final = file.descriptor
        self.state: Final = file.state
        self.are_local: Final = isinstance(files, LocalFileSystem)
        self._file = file
        self._path = path
        self._files = files
        self._streamed: pa.NativeFile | None = None

    @property
    def position(self) -> int:
        """The bytes of the file that its open stream has read; 0 without an open stream."""
        return 0 if self._streamed is None or self._streamed.closed else int(self._streamed.tell())

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self._files.open_input_file(self._real(path))

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """A stream of the file, decompressed if the ending of the path says that the file is compressed."""
        self._streamed = self.open_input_file(path)
        _, codec = without_codec(path)  # a descriptor has no ending
        return self._streamed if codec is None else pa.CompressedInputStream(self._streamed, codec)

    def _real(self, path: str) -> str:
        return self._file.path if path == self._path else path


class HeldFiles:
    """The files of a statement's pieces, open for as long as it reads them."""

    def __init__(self, pieces: Iterable[FilePiece]) -> None:
        self.paths: dict[str, str] = {}
        """The path by which the statement opens each file."""
        self.identities: dict[str, Identity] = {}
        self._files: list[OpenFile] = []
        self._by_path: list[FilePiece] = []
        try:
            self._open(pieces)
        except BaseException:
            self.close()
            raise

    def _open(self, pieces: Iterable[FilePiece]) -> None:
        versions: dict[str, FileVersion] = {}
        with _Folder() as folder:
            for piece in pieces:
                if versions.get(piece.path) == piece.version:
                    continue
                file = OpenFile(piece, folder.of(piece))
                versions[piece.path] = piece.version
                self.paths[piece.path] = piece.path
                self.identities[piece.path] = file.identity
                if _BY_DESCRIPTOR and _room.take():
                    self._files.append(file)
                    self.paths[piece.path] = file.path
                else:
                    self._by_path.append(piece)
                    file.close()

    def check(self) -> None:
        """Check each file as `OpenFile.check` does."""
        for file in self._files:
            file.check()
        for piece in self._by_path:
            _check_path(piece, self.identities[piece.path])

    def named(self, text: str) -> str:
        """A message of the reader, with the files' own names in place of descriptors' paths."""
        for path, alias in self.paths.items():
            text = text.replace(f'"{alias}"', f'"{path}"')
        return text

    def close(self) -> None:
        while self._files:
            self._files.pop().close()
            _room.give()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _Room:
    """A count of the files that statements hold, in the whole process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held = 0

    def take(self) -> bool:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        with self._lock:
            if self._held >= soft // _HELD:
                return False
            self._held += 1
            return True

    def give(self) -> None:
        with self._lock:
            self._held -= 1


_room: Final = _Room()


class _Folder(_Opened):
    """The folder of the last piece, kept open because many files are in one folder."""

    def __init__(self) -> None:
        self._path = ""

    def of(self, piece: FilePiece) -> int:
        path = os.path.dirname(piece.path)
        if path != self._path or self._descriptor < 0:
            self.close()
            self._descriptor = _opened_folder(piece)
            self._path = path
        return self._descriptor


def _opened(piece: FilePiece, folder: int | None) -> int:
    own = _opened_folder(piece) if folder is None else folder
    try:
        return os.open(os.path.basename(piece.path), _FILE, dir_fd=own)
    except OSError as error:
        raise _not_there(piece, error) from error
    finally:
        if folder is None:
            os.close(own)


def _opened_folder(piece: FilePiece) -> int:
    try:
        folder = os.open(os.sep, _FOLDER)
        for name in os.path.dirname(piece.path).split(os.sep)[1:]:
            if name:
                try:
                    inner = os.open(name, _FOLDER, dir_fd=folder)
                finally:
                    os.close(folder)
                folder = inner
    except OSError as error:
        raise _not_there(piece, error) from error
    return folder


def _check_path(piece: FilePiece, identity: Identity) -> None:
    try:
        now = Identity.of(os.stat(piece.path, follow_symlinks=False))
    except OSError as error:
        raise _changed(piece) from error
    if now != identity:
        raise _changed(piece)


def _not_there(piece: FilePiece, error: OSError) -> SplitError:
    if error.errno in _ANOTHER:
        return _changed(piece)
    return SplitError(
        f"{piece.path} ({piece.origin}) cannot be read any more on the machine of the task: {error.strerror}",
        reason="FILE_MISSING",
    )


def _changed(piece: FilePiece) -> SplitError:
    return SplitError(
        f"{piece.path} ({piece.origin}) has changed since its split was accepted: add the file again in a new split",
        reason="FILE_CHANGED",
    )
