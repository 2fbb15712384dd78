"""Files that clients send for static tables before their task exists. The task that names a file takes it over."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ...proto.errors import Exhausted, NotFound
from ...proto.values import FileSplit, Split
from ..runtime.batch_store import Quota, SpillFiles, SpillSpace
from ..runtime.timers import Timers
from ..tasks.task_uploads import Reception, UploadedFile, check_there

KEPT_SECONDS: Final = 600.0

Tables = Mapping[str, Sequence[Split]]


@dataclass(frozen=True, slots=True)
class _Staged:
    owner: str
    size: int


class Staging:
    """Uploaded files, at most `limit` bytes of each owner.

    Files that no task of their owner has taken for ten minutes go. Their names tell an owner nothing of the files of
    others.
    """

    def __init__(self, folder: Path, limit: int, timers: Timers) -> None:
        self._files = SpillFiles(folder, unguessable=True)
        self._limit = limit
        self._quotas: dict[str, Quota] = {}
        self._timers = timers
        self._staged: dict[str, _Staged] = {}
        self._lock = threading.Lock()

    def begin_upload(self, owner: str, name: str) -> Reception:
        with self._lock:
            quota = self._quotas.setdefault(owner, Quota(self._limit))
        room = "what the server keeps of your uploads until their tasks are made"
        return Reception(self._files, quota, name, lambda kept: self._keep(kept, owner), room=room)

    def _keep(self, kept: UploadedFile, owner: str) -> None:
        with self._lock:
            self._staged[kept.path] = _Staged(owner, kept.size)
        self._timers.call_later(KEPT_SECONDS, lambda: self._drop(kept.path))

    def take(self, owner: str, tables: Tables, space: SpillSpace) -> Tables:
        """Move the owner's uploaded files in these tables to a task's folder; the tables with their new paths.

        Raises `Exhausted` beyond the task's quota, and `NotFound` for an uploaded file that is gone.
        """
        paths = {
            split.path: f"a split of table {name!r}"
            for name, splits in tables.items()
            for split in splits
            if isinstance(split, FileSplit)
        }
        with self._lock:
            known = {path: self._staged[path] for path in paths.keys() & self._staged.keys()}
        named = {path: staged.size for path, staged in known.items() if staged.owner == owner}
        for path in paths.keys() - named.keys():
            check_there(path, self._files.folder, paths[path], foreign=True)
        total = sum(named.values())
        if not space.quota.take(total):
            message = (
                f"the uploaded tables have {total} bytes, more than the task's spill_quota ({space.quota.limit} "
                "bytes): raise spill_quota"
            )
            raise Exhausted(message, reason="UPLOAD_TOO_LARGE")
        space.quota.keep(total)
        moved = {path: self._move(path, space.files) for path in named}
        return {name: [_moved(split, moved) for split in splits] for name, splits in tables.items()}

    def _move(self, path: str, files: SpillFiles) -> str:
        target = files.new_path("".join(Path(path).suffixes))
        if not self._forget(path):
            raise NotFound(
                "an uploaded table has been taken by another task: upload the table again", reason="UPLOAD_GONE"
            )
        os.replace(path, target)
        return str(target)

    def _drop(self, path: str) -> None:
        if self._forget(path):
            Path(path).unlink(missing_ok=True)

    def _forget(self, path: str) -> bool:
        with self._lock:
            staged = self._staged.pop(path, None)
        if staged is not None:
            self._quotas[staged.owner].give(staged.size)
        return staged is not None


def _moved(split: Split, moved: Mapping[str, str]) -> Split:
    return replace(split, path=moved[split.path]) if isinstance(split, FileSplit) and split.path in moved else split
