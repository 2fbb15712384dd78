"""Cuts a client's split into the pieces that operators read.

`expand` looks at names and sizes alone, when the split is accepted. `open_pieces` reads footers, when the epoch is
sealed or the split starts. Folders and patterns expand in the order of `listing`.

A path must lead (links and `..` followed) below one of the allowed roots. Folders named `key=value` between the root
and the file give columns.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Final, NamedTuple, TypeGuard
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow.fs import FileSystem, LocalFileSystem

from ...proto.current_call import elsewhere
from ...proto.errors import Forbidden, InvalidRequest, NotFound, Refused, SplitError, TidegateError
from ...proto.values import FileSplit
from ..core.column import Column
from ..core.piece import FilePiece, FileVersion, Piece
from .file_relations import native_obstacle
from .file_versions import OpenFile, PieceFiles
from .formats import Format, format_named, format_of
from .formats.format import TooLarge
from .formats.matching import describe
from .listing import files_below, fixed_part, is_pattern, status_of

_HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
#: The assumed bytes of a row of a text file, where no format tells.
_TEXT_ROW_BYTES: Final = 64
_ENDING_BYTES: Final = 64 << 10


class _Real(NamedTuple):
    """A file by its path without links, with its status."""

    path: str
    status: os.stat_result


def expand(
    split: FileSplit, roots: Sequence[str], origin: str, *, side: str = "on this machine"
) -> tuple[FilePiece, ...]:
    """The split's files as pieces, in order, not opened. In messages `origin` names the split, and `side` the machine
    on which files are looked for.

    Raises `Forbidden`, `NotFound`, `InvalidRequest`, and `Refused` for another version of a file.
    """
    with elsewhere():
        return _expanded(split, roots, origin, side)


def _expanded(split: FileSplit, roots: Sequence[str], origin: str, side: str) -> tuple[FilePiece, ...]:
    path = _local_path(split.path)
    allowed = tuple(sorted((os.path.realpath(root) for root in roots), key=len))
    named = format_named(split.format) if split.format else None
    try:
        alone = None if is_pattern(path) else _real_file(path, split, allowed, origin, side)
        if alone is not None:
            pieces: tuple[FilePiece, ...] = (_piece(path, alone, split, named, allowed, origin),)
        else:
            pieces = _of_several(path, split, named, allowed, origin)
    except FileNotFoundError as error:
        raise NotFound(
            f"{error.filename} was removed while the files of {split.path} were listed {side} ({origin})",
            reason="FILE_NOT_FOUND",
        ) from error
    except PermissionError as error:
        raise Forbidden(
            f"{error.filename} cannot be read {side}: permission denied ({origin})", reason="NO_PERMISSION"
        ) from error
    if not pieces:
        raise NotFound(f"{split.path} has no files {side} ({origin})", reason="FILE_NOT_FOUND")
    _check_ranges(split, pieces, is_file=alone is not None)
    return pieces


def _real_file(path: str, split: FileSplit, allowed: Sequence[str], origin: str, side: str) -> _Real | None:
    """The file at a path; None for a folder. Its links are followed once, because one may be exchanged meanwhile."""
    real = os.path.realpath(path)
    _check_allowed(real, split.path, allowed)
    status = status_of(real)
    if status is None:
        raise NotFound(f"{split.path} does not exist {side} ({origin})", reason="FILE_NOT_FOUND")
    return None if stat.S_ISDIR(status.st_mode) else _Real(real, status)


def _of_several(
    path: str, split: FileSplit, named: Format | None, allowed: Sequence[str], origin: str
) -> tuple[FilePiece, ...]:
    """The pieces of the files below a folder, or of those that match a pattern."""
    if is_pattern(path):
        _check_pattern(path, split, allowed)
    files = files_below(path, may_enter=lambda folder: _root_of(folder, allowed) is not None)
    return tuple(_piece(file, None, split, named, allowed, origin) for file in files)


def files_of(path: str) -> list[str]:
    """The paths of the files that `expand` finds for a path; empty where there are none.

    Raises `PermissionError` where the process may not read a folder on the way: no folder is left out in silence.
    """
    return files_below(_local_path(path))


def open_pieces(
    pieces: Sequence[Piece], columns: Sequence[Column] = (), *, filesystem: FileSystem | None = None
) -> tuple[Piece, ...]:
    """`pieces` with the metadata of their files, cut into pieces that are read as a whole.

    `columns` are those that the plan wants: the pieces note what the files prove about these columns. Raises
    `SplitError`.
    """
    if not any(map(_is_unopened, pieces)):
        return tuple(pieces)
    with elsewhere():
        return _opened(pieces, columns, filesystem or LocalFileSystem(use_mmap=False))


def _is_unopened(piece: Piece) -> TypeGuard[FilePiece]:
    return isinstance(piece, FilePiece) and piece.schema is None


def _opened(pieces: Sequence[Piece], columns: Sequence[Column], filesystem: FileSystem) -> tuple[Piece, ...]:
    def opened(piece: Piece) -> tuple[Piece, ...]:
        return _open(piece, columns, filesystem) if _is_unopened(piece) else (piece,)

    if len(pieces) < _MANY_FILES:
        return tuple(chain.from_iterable(map(opened, pieces)))
    with ThreadPoolExecutor(_OPENERS) as threads:
        try:
            return tuple(chain.from_iterable(threads.map(opened, pieces)))
        finally:
            threads.shutdown(wait=False, cancel_futures=True)  # after an error nobody needs the rest


_MANY_FILES: Final = 32
_OPENERS: Final = 8
"""Files of a shared file system are opened at the same time: most of the time goes by while it answers."""


def _open(piece: FilePiece, columns: Sequence[Column], filesystem: FileSystem) -> tuple[FilePiece, ...]:
    before = _opened_before(piece, columns) if isinstance(filesystem, LocalFileSystem) else None
    if before is not None:
        return before
    with OpenFile(piece) as file:
        try:
            file_pieces = format_named(piece.format).open(piece, columns, PieceFiles(file, piece.path, filesystem))
        except TidegateError:
            raise
        except TooLarge as error:
            raise SplitError(f"{describe(piece)}: {error}", reason=error.reason) from error
        except (pa.ArrowException, OSError, ValueError) as error:
            file.check()
            raise SplitError(
                f"{describe(piece)} cannot be read as {piece.format}: {' '.join(str(error).split())}",
                reason="FILE_UNREADABLE",
            ) from error
        file.check()
        return file_pieces


def _opened_before(piece: FilePiece, columns: Sequence[Column]) -> tuple[FilePiece, ...] | None:
    """The pieces of a file that was opened before, if its format keeps what the file told; its reader opens it."""
    try:
        return format_named(piece.format).opened_before(piece, columns)
    except (SplitError, ValueError):
        return None  # the file is opened, and the error is said as always


def piece_rows(file: FilePiece) -> tuple[tuple[int, int], ...]:
    """The rows of each piece that a file is cut into; empty if its format does not tell, or if it cannot be opened."""
    try:
        return tuple(piece.rows for piece in open_pieces([file]) if isinstance(piece, FilePiece) and piece.rows)
    except SplitError:
        return ()


def ending_digest(file: FilePiece) -> str:
    """A digest of the file's last bytes; empty if it cannot be opened."""
    try:
        with OpenFile(file) as opened:
            first = max(0, file.version.size - _ENDING_BYTES)
            return hashlib.sha256(os.pread(opened.descriptor, _ENDING_BYTES, first)).hexdigest()[:32]
    except (SplitError, OSError):
        return ""


def native(pieces: Sequence[Piece], columns: Sequence[Column]) -> bool:
    """True where DuckDB can read all these (opened) pieces itself, exactly as the plan wants them."""
    return native_obstacle(pieces, columns) is None


def estimated_rows(pieces: Sequence[Piece]) -> int:
    """The number of rows of the pieces; for formats that do not tell, a guess from the files' sizes."""
    return sum(_rows(piece) for piece in pieces)


def _rows(piece: Piece) -> int:
    if piece.row_count is not None:
        return piece.row_count
    assert isinstance(piece, FilePiece)
    return -(-piece.version.size // _TEXT_ROW_BYTES)


def _local_path(path: str) -> str:
    scheme = path.split("://", 1)[0] if "://" in path else ""
    if scheme not in ("", "file"):
        raise InvalidRequest(
            f"{path}: files are read from the server's own file system; {scheme}:// is not supported",
            reason="UNSUPPORTED_SCHEME",
        )
    local = unquote(urlsplit(path).path) if scheme else path
    if not local or "\x00" in local:
        raise InvalidRequest("a split's path is empty or has a NUL character")
    if not _is_utf8(local):
        raise InvalidRequest(f"{path!r} cannot be a path: a path must be UTF-8")
    return os.path.abspath(local) if not is_pattern(local) else os.path.join(os.getcwd(), local)


def _is_utf8(path: str) -> bool:
    """True where the path is UTF-8: neither DuckDB, nor Arrow, nor a message takes another name."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_allowed(real: str, asked: str, allowed: Sequence[str]) -> str:
    """The outermost allowed root above a path without links. Raises `Forbidden` where there is none."""
    root = _root_above(real, allowed)
    if root is None:
        raise Forbidden(f"{asked} is outside of the folders that this server may read (tidegate serve --root DIR)")
    return root


def _root_of(path: str, allowed: Sequence[str]) -> str | None:
    return _root_above(os.path.realpath(path), allowed)


def _root_above(real: str, allowed: Sequence[str]) -> str | None:
    return next((root for root in allowed if real == root or real.startswith(os.path.join(root, ""))), None)


def _named(path: str, split: FileSplit, allowed: Sequence[str]) -> str:
    """The name of a split's file in a refusal. It reveals no names outside of the roots."""
    if path == split.path:
        return path
    inside = _root_of(os.path.dirname(path), allowed) is not None
    return f"{path} (of {split.path})" if inside else f"a file that {split.path} leads to"


def _check_pattern(path: str, split: FileSplit, allowed: Sequence[str]) -> None:
    fixed = fixed_part(path)
    if ".." in path[len(fixed) :].split(os.sep):
        raise Forbidden(f"{split.path}: '..' must not come after a wildcard")
    _check_allowed(os.path.realpath(fixed), split.path, allowed)


def _piece(
    path: str, file: _Real | None, split: FileSplit, named: Format | None, allowed: Sequence[str], origin: str
) -> FilePiece:
    real = os.path.realpath(path) if file is None else file.path  # once, because a link may be exchanged meanwhile
    root = _root_above(real, allowed) or _check_allowed(real, _named(path, split, allowed), allowed)
    if not _is_utf8(path) or not _is_utf8(real):
        raise InvalidRequest(f"the name of a file is not UTF-8: {os.fsencode(path)!r} ({origin})")
    status = os.stat(real) if file is None else file.status
    if not stat.S_ISREG(status.st_mode):
        raise InvalidRequest(f"{path} is not a file ({origin})", reason="NOT_A_FILE")
    version = FileVersion(size=status.st_size, modified_ns=status.st_mtime_ns)
    if split.version is not None and split.version != version.text:
        raise Refused(
            f"{path} has changed since its version {split.version} was listed; it is {version.text} now: list the file "
            f"again ({origin})",
            reason="FILE_CHANGED",
        )
    return FilePiece(
        path=real,
        format=(named or format_of(path)).name,
        version=version,
        origin=origin,
        rows=split.rows,
        row_groups=split.row_groups,
        partition=tuple(_partition(path, root)),
        change_column=split.change_column,
        missing_columns=split.missing_columns,
        number=split.number,
    )


def _partition(path: str, root: str) -> Iterator[tuple[str, str | None]]:
    """The `key=value` folders of the path as the split has it, from the root on."""
    below = os.path.relpath(path, root) if path.startswith(os.path.join(root, "")) else path
    for part in os.path.dirname(below).split(os.sep):
        key, equals, value = part.partition("=")
        if equals and key:
            yield unquote(key), None if value == _HIVE_NULL else unquote(value)


def _check_ranges(split: FileSplit, pieces: Sequence[FilePiece], *, is_file: bool) -> None:
    if split.rows is None and split.row_groups is None:
        return
    if split.rows is not None and split.row_groups is not None:
        raise InvalidRequest(f"{split.path}: give rows or row groups, not both")
    if not is_file:
        raise InvalidRequest(f"{split.path}: rows and row groups can be given for a single file only")
    if not format_named(pieces[0].format).ranges:
        raise InvalidRequest(f"{split.path}: a {pieces[0].format} file can only be read as a whole")
    if split.rows is not None and not 0 <= split.rows[0] <= split.rows[1]:
        raise InvalidRequest(f"{split.path}: rows {split.rows[0]} to {split.rows[1]} are not a range")
    groups = split.row_groups or ()
    if any(group < 0 for group in groups) or len(set(groups)) != len(groups):
        raise InvalidRequest(f"{split.path}: row_groups must have numbers from 0 on, each at most once")


__all__ = ["estimated_rows", "expand", "files_of", "native", "native_obstacle", "open_pieces"]
