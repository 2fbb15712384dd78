"""Lists the files of a folder or a pattern: in one fixed order, within bounds, and only while the caller waits.

Paths are ordered component by component, as bytes. In folders, names that begin with a dot or an underscore are
skipped, and so are links that lead to nothing. A folder that the process may not read raises `PermissionError`.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from ...proto.current_call import caller_has_left
from ...proto.errors import Exhausted, Forbidden, InvalidRequest, Unavailable

MAGIC: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of one listing. A listing beyond them is refused with TOO_MANY_FILES."""

    files: int = 1_000_000
    folders: int = 100_000
    depth: int = 100
    seconds: float = 30.0


BOUNDS: Final = Bounds()
_FILES_A_LOOK: Final = 1_000


def files_below(path: str, bounds: Bounds = BOUNDS, may_enter: Callable[[str], bool] = lambda _: True) -> list[str]:
    """The files that an absolute path stands for: the file itself, all files below a folder, or all matches of a
    pattern. Raises `Forbidden` at a link to a folder that it may not enter, before it looks into the folder.
    """
    return Listing(path, bounds, may_enter).files()


def is_pattern(path: str) -> bool:
    """True where the path has a wildcard, and no file or folder has the path as its name."""
    return not MAGIC.isdisjoint(path) and not os.path.lexists(path)


def fixed_part(pattern: str) -> str:
    """The folder that all matches of the pattern are below."""
    parts = pattern.split(os.sep)
    first = next(i for i, part in enumerate(parts) if not MAGIC.isdisjoint(part))
    return os.sep.join(parts[:first]) or os.sep


def exists(path: str) -> bool:
    """True where a file or folder exists at the path. A link that leads to nothing does not count."""
    return status_of(path) is not None


class Listing:
    """One listing of all files below a path. It counts the folders that it looks into."""

    def __init__(self, path: str, bounds: Bounds, may_enter: Callable[[str], bool] = lambda _: True) -> None:
        self._path = path
        self._bounds = bounds
        self._may_enter = may_enter
        self._folders = 0
        self._ends = time.monotonic() + bounds.seconds

    def files(self) -> list[str]:
        if is_pattern(self._path):
            return self._in_order(set(self._pattern()))
        if _is_folder(self._path):
            return self._in_order(self._folder(self._path))
        return [self._path] if exists(self._path) else []

    def _in_order(self, files: set[str] | list[str]) -> list[str]:
        ordered = []
        for ordinal, file in enumerate(files):
            if ordinal % _FILES_A_LOOK == 0:
                self._check_time()
            if exists(file):
                ordered.append(file)
        return sorted(ordered, key=_order)

    def _pattern(self) -> set[str]:
        fixed = fixed_part(self._path)
        parts = self._path.split(os.sep)[len(fixed.rstrip(os.sep).split(os.sep)) :]
        if len(parts) > self._bounds.depth:
            raise InvalidRequest(
                f"{self._path}: the pattern has too many parts; at most {self._bounds.depth} are allowed"
            )
        files: set[str] = set()
        for match in self.matches(fixed, parts, 0):
            if _is_folder(match):
                if parts[-1] != "**":
                    files.update(self._folder(match))
            elif not _skipped(os.path.basename(match)):
                files.add(match)
            self._check_files(len(files))
        return files

    def matches(self, folder: str, parts: Sequence[str], depth: int) -> Iterator[str]:
        """The matches of a pattern, as `glob` finds them, except that `glob` leaves out folders that it may not
        read.
        """
        if not parts:
            yield folder
            return
        if depth > self._bounds.depth:
            raise self._too_much(f"folders more than {self._bounds.depth} deep")
        self._enter(folder)
        first, rest = parts[0], parts[1:]
        if first == "**":
            yield from self._at_any_depth(folder, rest, depth)
        elif MAGIC.isdisjoint(first):
            if exists(below := os.path.join(folder, first)):
                yield from self.matches(below, rest, depth + 1)
        else:
            for name in self._names(folder):
                if fnmatchcase(name, first) and not (name.startswith(".") and not first.startswith(".")):
                    yield from self.matches(os.path.join(folder, name), rest, depth + 1)

    def _at_any_depth(self, folder: str, rest: Sequence[str], depth: int) -> Iterator[str]:
        if _is_folder(folder):
            yield from self.matches(folder, rest, depth + 1)
        for name in self._names(folder):
            below = os.path.join(folder, name)
            if name.startswith("."):
                continue
            if _is_folder(below):
                yield from self.matches(below, ("**", *rest), depth + 1)
            elif not rest:
                yield below

    def _names(self, folder: str) -> list[str]:
        self._look()
        try:
            with os.scandir(folder) as entries:
                return [entry.name for entry in entries]
        except PermissionError:
            raise
        except OSError:
            return []

    def _folder(self, path: str) -> list[str]:
        """Every file below a folder. A link to a folder is followed once at most, so that a circle of links ends."""
        self._enter(path)
        paths: list[str] = []
        seen = {os.path.realpath(path)}
        for folder, folders, files in os.walk(path, onerror=_refuse, followlinks=True):
            self._look()
            if folder.count(os.sep) - path.count(os.sep) > self._bounds.depth:
                raise self._too_much(f"folders more than {self._bounds.depth} deep")
            folders[:] = sorted(name for name in folders if not _skipped(name) and _is_new(folder, name, seen))
            for name in folders:
                self._enter(os.path.join(folder, name))
            paths.extend(os.path.join(folder, name) for name in files if not _skipped(name))
            self._check_files(len(paths))
        return paths

    def _enter(self, folder: str) -> None:
        if os.path.islink(folder) and not self._may_enter(folder):
            raise Forbidden(
                f"{self._path} has a link to a folder outside of those that this server may read (tidegate serve "
                "--root DIR): name the folders beside the link"
            )

    def _look(self) -> None:
        """Count a folder, before it is looked into, against the bounds."""
        self._folders += 1
        if self._folders > self._bounds.folders:
            raise self._too_much(f"more than {self._bounds.folders:,} folders")
        self._check_time()

    def _check_time(self) -> None:
        if time.monotonic() > self._ends:
            raise self._too_much(f"more files than can be listed in {self._bounds.seconds:g} s")
        if caller_has_left():
            raise Unavailable(f"the caller has disconnected while {self._path} was listed")

    def _check_files(self, count: int) -> None:
        if count > self._bounds.files:
            raise self._too_much(f"more than {self._bounds.files:,} files")

    def _too_much(self, what: str) -> Exhausted:
        return Exhausted(
            f"{self._path} has {what}: name its folders or files in several splits", reason="TOO_MANY_FILES"
        )


def status_of(path: str) -> os.stat_result | None:
    """The status of what a path leads to; None where it leads to nothing. Raises `PermissionError`."""
    try:
        return os.stat(path)
    except PermissionError:
        raise
    except OSError:
        return None


def _is_folder(path: str) -> bool:
    status = status_of(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


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
