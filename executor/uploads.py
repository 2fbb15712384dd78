"""Clients' files, kept in the task's folder and counted against its quota until the task is deleted; those of a
group go once the epoch of the split that names them is acknowledged, or if none names them for an hour.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final, TypeAlias

from ..proto.errors import Exhausted, InvalidRequest
from ..proto.values import FileSplit, Split
from .source import AcceptedSplit
from .store import Quota, SpillFiles

UNNAMED_SECONDS: Final = 3600.0
"""How long a group stays of which nothing is uploaded, and nothing given as a split, any more."""

CallLater: TypeAlias = Callable[[float, Callable[[], None]], None]


def keep_upload(files: SpillFiles, quota: Quota, name: str, chunks: Iterable[bytes]) -> str:
    """Write the chunks to a file of the task; its path ends as `name` does, so that its format shows."""
    return _keep(files, quota, name, chunks).path


@dataclass(frozen=True, slots=True)
class _Kept:
    path: str
    size: int
    content: str
    """What is in it and how its name ends, the same for the same file sent twice."""


def _keep(files: SpillFiles, quota: Quota, name: str, chunks: Iterable[bytes]) -> _Kept:
    ending = "".join(PurePosixPath(name.replace("\\", "/")).suffixes[-2:])
    if not all(character.isalnum() or character == "." for character in ending):
        raise InvalidRequest(f"an uploaded file's name must end in a plain suffix such as .parquet, not {name!r}")
    path = files.new_path(f".upload{ending}")
    digest = hashlib.blake2b(digest_size=16)
    taken = 0
    try:
        with path.open("xb") as sink:
            for chunk in chunks:
                if not quota.take(len(chunk)):
                    raise Exhausted(
                        f"the upload of {name!r} does not fit in the task's spill_quota ({quota.limit} bytes)",
                        reason="UPLOAD_TOO_LARGE",
                    )
                taken += len(chunk)
                sink.write(chunk)
                digest.update(chunk)
    except BaseException:
        quota.give(taken)
        path.unlink(missing_ok=True)
        raise
    quota.keep(taken)
    files.check_kept()
    return _Kept(str(path), taken, f"upload {digest.hexdigest()}{ending}")


class PassingUploads:
    """Those of one task that have a group. A split that names one has it until it is forgotten; what no split has goes
    when its group is dropped, or has been left alone for `UNNAMED_SECONDS`: its sender may have been killed.
    """

    def __init__(self, files: SpillFiles, quota: Quota, call_later: CallLater) -> None:
        self._files = files
        self._quota = quota
        self._known: dict[str, tuple[str, _Kept]] = {}
        self._users: dict[AcceptedSplit, str] = {}
        self._touched: dict[str, int] = {}
        """How often something was done with a group, while it is watched."""
        self._call_later = call_later
        self._lock = threading.Lock()

    def keep(self, name: str, chunks: Iterable[bytes], group: str) -> str:
        kept = _keep(self._files, self._quota, name, chunks)
        with self._lock:
            self._known[kept.path] = (group, kept)
            watched = group in self._touched
            self._touched[group] = touched = self._touched.get(group, 0) + 1
        if not watched:
            self._watch(group, touched)
        return kept.path

    def _watch(self, group: str, touched: int) -> None:
        alive = weakref.ref(self)  # which a timer does not keep

        def expire() -> None:
            if (uploads := alive()) is not None:
                uploads._expire(group, touched)

        self._call_later(UNNAMED_SECONDS, expire)

    def _expire(self, group: str, touched: int) -> None:
        with self._lock:
            now = self._touched[group]
            if now == touched:
                del self._touched[group]
                self._drop(group)
        if now != touched:
            self._watch(group, now)

    def told(self, split: Split) -> Split:
        """The split as a digest tells it from others: by what is in the file, which a retry sends again."""
        if not isinstance(split, FileSplit) or (known := self._known.get(split.path)) is None:
            return split
        group, kept = known
        with self._lock:
            if group in self._touched:
                self._touched[group] += 1
        return replace(split, path=kept.content)

    def used_by(self, accepted: AcceptedSplit, split: Split) -> None:
        """The split has been added, and may name one."""
        if isinstance(split, FileSplit) and split.path in self._known:
            with self._lock:
                self._users[accepted] = split.path

    def forget(self, splits: Iterable[AcceptedSplit]) -> None:
        """The splits' epoch is acknowledged."""
        if not self._users:
            return
        with self._lock:
            self._remove([self._users.pop(split) for split in splits if split in self._users])

    def drop(self, group: str) -> None:
        with self._lock:
            self._drop(group)

    def _drop(self, group: str) -> None:
        self._remove([path for path, (of, _) in self._known.items() if of == group])

    def _remove(self, paths: Iterable[str]) -> None:
        """Those that no split has."""
        used = set(self._users.values())
        for path in dict.fromkeys(paths):
            if path not in used:
                _, kept = self._known.pop(path)
                Path(path).unlink(missing_ok=True)
                self._quota.keep(-kept.size)
                self._quota.give(kept.size)
