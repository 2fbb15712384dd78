"""From what a client calls a split to the pieces that are read.

`expand` looks at names and sizes alone, when the split is accepted; `open_pieces` reads footers, when its epoch is
sealed or the split starts. Folders and patterns expand in one fixed order: by path, component by component, as
bytes. Names that begin with a dot or an underscore are skipped in them, as are the links that lead to nothing.

A path must lead (links and `..` followed) below one of the allowed roots. Folders named `key=value` between the root
and the file give columns.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow.fs import FileSystem, LocalFileSystem

from ..proto.errors import Exhausted, Forbidden, InvalidRequest, NotFound, SplitError, TidegateError
from ..proto.values import FileSplit
from .column import Column
from .file_relations import native_obstacle
from .file_versions import check_version
from .formats import Format, format_named, format_of
from .matching import describe
from .piece import FilePiece, FileVersion, InlinePiece, Piece

MAX_FILES: Final = 1_000_000

_HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_MAGIC: Final = frozenset("*?[")
#: What a row of a text file is taken to be long, where no format tells.
_TEXT_ROW_BYTES: Final = 64


def expand(
    split: FileSplit, roots: Sequence[str], origin: str, *, side: str = "on this machine"
) -> tuple[FilePiece, ...]:
    """The split's files, in order, not opened. In messages `origin` names the split, `side` where files are sought.

    Raises `Forbidden`, `NotFound` and `InvalidRequest`.
    """
    path = _local_path(split.path)
    allowed = tuple(sorted((os.path.realpath(root) for root in roots), key=len))
    named = format_named(split.format) if split.format else None
    if _is_pattern(path):
        _check_pattern(path, split, allowed)
    else:
        _check_allowed(path, split.path, allowed)
    try:
        if not _is_pattern(path) and not _exists(path):
            raise NotFound(f"{split.path} does not exist {side} ({origin})", reason="FILE_NOT_FOUND")
        found = _found(path)
    except PermissionError as error:
        raise Forbidden(
            f"{error.filename} may not be read {side}, permission denied ({origin})", reason="NO_PERMISSION"
        ) from error
    if not found:
        raise NotFound(f"{split.path} holds no files {side} ({origin})", reason="FILE_NOT_FOUND")
    if len(found) > MAX_FILES:
        raise Exhausted(f"{split.path} holds more than {MAX_FILES:,} files", reason="TOO_MANY_FILES")
    pieces = tuple(_piece(file, split, named, allowed, origin) for file in found)
    _check_ranges(split, pieces)
    return pieces


def files_of(path: str) -> list[str]:
    """The files that a path stands for as `expand` has them, each a path of its own; none where there are none.

    Raises `PermissionError` where a folder on the way may not be looked into: it is not left out in silence.
    """
    return _found(_local_path(path))


def _found(path: str) -> list[str]:
    if _is_pattern(path):
        return _pattern(path)
    if os.path.isdir(path):
        return _folder(path)
    return [path] if _exists(path) else []


def _exists(path: str) -> bool:
    try:
        os.stat(path)
    except PermissionError:
        raise
    except OSError:
        return False
    return True


def open_pieces(
    pieces: Sequence[Piece], columns: Sequence[Column] = (), *, filesystem: FileSystem | None = None
) -> tuple[Piece, ...]:
    """`pieces` with what their files tell without being read, cut into those that are read as a whole.

    `columns` are those the plan wants: what the files prove about them is noted. Raises `SplitError`.
    """
    opened: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, InlinePiece) or piece.schema is not None:
            opened.append(piece)
        else:
            filesystem = filesystem or LocalFileSystem(use_mmap=False)
            opened.extend(_open(piece, columns, filesystem))
    return tuple(opened)


def _open(piece: FilePiece, columns: Sequence[Column], filesystem: FileSystem) -> tuple[FilePiece, ...]:
    check_version(piece)
    try:
        return format_named(piece.format).open(piece, columns, filesystem)
    except TidegateError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SplitError(
            f"{describe(piece)} cannot be read as {piece.format}: {' '.join(str(error).split())}",
            reason="FILE_UNREADABLE",
        ) from error


def native(pieces: Sequence[Piece], columns: Sequence[Column]) -> bool:
    """Whether DuckDB can read all these (opened) pieces itself, exactly as the plan wants them."""
    return native_obstacle(pieces, columns) is None


def estimated_rows(pieces: Sequence[Piece]) -> int:
    """How many rows the pieces have; for formats that do not tell, a guess from their size alone."""
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
        raise InvalidRequest(f"{path!r} cannot be a path: it is not UTF-8")
    return os.path.abspath(local) if not _is_pattern(local) else os.path.join(os.getcwd(), local)


def _is_utf8(path: str) -> bool:
    """Whether names are text: neither DuckDB, nor Arrow, nor a message takes others."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_pattern(path: str) -> bool:
    return not _MAGIC.isdisjoint(path) and not os.path.lexists(path)


def _check_allowed(path: str, asked: str, allowed: Sequence[str]) -> str:
    """The path's real place, which must be below a root; returns the outermost root it is below."""
    root = _root_of(path, allowed)
    if root is None:
        raise Forbidden(f"{asked} is outside of the folders that this server may read")
    return root


def _root_of(path: str, allowed: Sequence[str]) -> str | None:
    real = os.path.realpath(path)
    return next((root for root in allowed if real == root or real.startswith(os.path.join(root, ""))), None)


def _named(path: str, split: FileSplit, allowed: Sequence[str]) -> str:
    """What a refusal of one of the split's files calls it: names of what lies outside of the roots are kept there."""
    if path == split.path:
        return path
    inside = _root_of(os.path.dirname(path), allowed) is not None
    return f"{path} (of {split.path})" if inside else f"a file that {split.path} leads to"


def _check_pattern(path: str, split: FileSplit, allowed: Sequence[str]) -> None:
    fixed = _fixed(path)
    if ".." in path[len(fixed) :].split(os.sep):
        raise Forbidden(f"{split.path}: '..' after a wildcard is not allowed")
    _check_allowed(fixed, split.path, allowed)


def _fixed(pattern: str) -> str:
    """The folder that all of its matches are below."""
    parts = pattern.split(os.sep)
    first = next(i for i, part in enumerate(parts) if not _MAGIC.isdisjoint(part))
    return os.sep.join(parts[:first]) or os.sep


def _pattern(path: str) -> list[str]:
    parts = path.split(os.sep)
    fixed = _fixed(path)
    found: set[str] = set()
    for match in _matches(fixed, parts[len(fixed.rstrip(os.sep).split(os.sep)) :]):
        if _is_folder(match):
            if parts[-1] != "**":
                found.update(_folder(match))
        elif not _skipped(os.path.basename(match)):
            found.add(match)
        if len(found) > MAX_FILES:
            break
    return sorted((file for file in found if _exists(file)), key=_order)


def _matches(folder: str, parts: Sequence[str]) -> Iterator[str]:
    """As `glob` has them, which leaves out what may not be looked into: that is a PermissionError here."""
    if not parts:
        yield folder
        return
    first, rest = parts[0], parts[1:]
    if first == "**":
        if _is_folder(folder):
            yield from _matches(folder, rest)
        for name in _names(folder):
            below = os.path.join(folder, name)
            if name.startswith("."):
                continue
            if _is_folder(below):
                yield from _matches(below, parts)
            elif not rest:
                yield below
    elif _MAGIC.isdisjoint(first):
        if _exists(below := os.path.join(folder, first)):
            yield from _matches(below, rest)
    else:
        for name in _names(folder):
            if fnmatchcase(name, first) and not (name.startswith(".") and not first.startswith(".")):
                yield from _matches(os.path.join(folder, name), rest)


def _names(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except PermissionError:
        raise
    except OSError:
        return []


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except PermissionError:
        raise
    except OSError:
        return False


def _folder(path: str) -> list[str]:
    """Every file below, sorted. Links to folders are followed once at most, so that a circle ends."""
    found: list[str] = []
    seen = {os.path.realpath(path)}
    for folder, folders, files in os.walk(path, onerror=_refuse, followlinks=True):
        folders[:] = sorted(name for name in folders if not _skipped(name) and _is_new(folder, name, seen))
        found.extend(os.path.join(folder, name) for name in files if not _skipped(name))
        if len(found) > MAX_FILES:
            break
    return sorted((file for file in found if os.path.exists(file)), key=_order)


def _refuse(error: OSError) -> None:
    if isinstance(error, PermissionError):
        raise error


def _is_new(folder: str, name: str, seen: set[str]) -> bool:
    real = os.path.realpath(os.path.join(folder, name))
    new = real not in seen
    seen.add(real)
    return new


def _skipped(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _order(path: str) -> tuple[bytes, ...]:
    return tuple(os.fsencode(part) for part in path.split(os.sep))


def _piece(path: str, split: FileSplit, named: Format | None, allowed: Sequence[str], origin: str) -> FilePiece:
    root = _check_allowed(path, _named(path, split, allowed), allowed)
    real = os.path.realpath(path)
    if not _is_utf8(path) or not _is_utf8(real):
        raise InvalidRequest(f"the name of a file is not UTF-8: {os.fsencode(path)!r} ({origin})")
    status = os.stat(real)
    if not stat.S_ISREG(status.st_mode):
        raise InvalidRequest(f"{path} is not a file ({origin})", reason="NOT_A_FILE")
    return FilePiece(
        path=real,
        format=(named or format_of(path)).name,
        version=FileVersion(size=status.st_size, modified_ns=status.st_mtime_ns),
        origin=origin,
        rows=split.rows,
        row_groups=split.row_groups,
        partition=tuple(_partition(path, root)),
        change_column=split.change_column,
    )


def _partition(path: str, root: str) -> Iterator[tuple[str, str | None]]:
    """The `key=value` folders of the path as it was given, from the root on."""
    below = os.path.relpath(path, root) if path.startswith(os.path.join(root, "")) else path
    for part in os.path.dirname(below).split(os.sep):
        key, equals, value = part.partition("=")
        if equals and key:
            yield unquote(key), None if value == _HIVE_NULL else unquote(value)


def _check_ranges(split: FileSplit, pieces: Sequence[FilePiece]) -> None:
    if split.rows is None and split.row_groups is None:
        return
    if split.rows is not None and split.row_groups is not None:
        raise InvalidRequest(f"{split.path}: give rows or row groups, not both")
    if len(pieces) > 1 or pieces[0].path != os.path.realpath(_local_path(split.path)):
        raise InvalidRequest(f"{split.path}: rows and row groups can be asked of a single file only")
    if not format_named(pieces[0].format).ranges:
        raise InvalidRequest(f"{split.path}: a {pieces[0].format} file can only be read as a whole")
    if split.rows is not None and not 0 <= split.rows[0] <= split.rows[1]:
        raise InvalidRequest(f"{split.path}: rows {split.rows[0]} to {split.rows[1]} are no range")
    groups = split.row_groups or ()
    if any(group < 0 for group in groups) or len(set(groups)) != len(groups):
        raise InvalidRequest(f"{split.path}: row groups count from 0, each at most once")


__all__ = ["MAX_FILES", "estimated_rows", "expand", "files_of", "native", "native_obstacle", "open_pieces"]
