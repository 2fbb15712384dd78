"""Sends files of the client's machine for use in splits."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from ..proto.errors import NotFound, TidegateError, Unavailable
from ..proto.service import Service
from ..proto.values import FileSplit, Split
from ..splits import Upload

A = TypeVar("A")

MOST_TIMES: Final = 20
"""How often the files of a call are sent again, because the server started again before the call named them."""


@dataclass(slots=True)
class _Sent:
    """A file that was sent, and its path on the server now."""

    name: str
    data: Upload
    path: str


class Sending:
    """Sends files for the splits of one call: as a group of the `task`, or for the tables of a task that is to be made.

    Each file of a group is removed once its epoch is acknowledged. The files of a call that is refused, or that changes
    nothing, are removed at once. `before` is called before the first file, to make room.
    """

    def __init__(self, service: Service, task: str = "", before: Callable[[], None] | None = None) -> None:
        self._service = service
        self._task = task
        self._before = before
        self._group = ""
        self._sent: dict[str, _Sent] = {}
        """The files by the paths that they had at first."""
        self._folders: dict[Path, tempfile.TemporaryDirectory[str]] = {}
        """The folders of files that may have to be sent again."""

    def __call__(self, name: str, data: Upload) -> str:
        if not self._group:
            self._group = secrets.token_hex(16)
            if self._before is not None:
                self._before()
        path = self._send(name, data)
        self._sent[path] = _Sent(name, data, path)
        return path

    def _send(self, name: str, data: Upload) -> str:
        return self._service.upload(self._task, name, data, group=self._group if self._task else "")

    def new_folder(self) -> Path:
        folder = tempfile.TemporaryDirectory(prefix="tidegate-split-")
        path = Path(folder.name)
        self._folders[path] = folder
        return path

    def held_bytes(self, split: Split) -> int:
        """The bytes of the split's file, if they are in a folder of this object until a call has named the file."""
        known = self._of(split)
        held = known is not None and known.data.path.parent in self._folders
        return known.data.path.stat().st_size if known is not None and held else 0

    def call(self, splits: Sequence[Split], make: Callable[[Sequence[Split]], A]) -> A:
        """The answer of a call that `make` makes with the splits. If the server has lost files of theirs, because it
        started again, they are sent once more.
        """
        if not self._sent:
            return make(splits)
        files = [known for split in splits if (known := self._of(split)) is not None]
        answer = self._answer(splits, files, make)
        for known in files:
            if (folder := self._folders.pop(known.data.path.parent, None)) is not None:
                folder.cleanup()
        return answer

    def _answer(self, splits: Sequence[Split], files: Sequence[_Sent], make: Callable[[Sequence[Split]], A]) -> A:
        for _ in range(MOST_TIMES):
            try:
                return make(self._there_now(splits))
            except NotFound as error:
                if not are_lost(error, [known.path for known in files]):
                    raise
                for known in files:
                    known.path = self._send(known.name, known.data)
        return make(self._there_now(splits))

    def _of(self, split: Split) -> _Sent | None:
        return self._sent.get(split.path) if isinstance(split, FileSplit) else None

    def _there_now(self, splits: Sequence[Split]) -> Sequence[Split]:
        return [self._there(split) for split in splits]

    def _there(self, split: Split) -> Split:
        known = self._of(split)
        return replace(split, path=known.path) if isinstance(split, FileSplit) and known is not None else split

    def drop(self) -> None:
        """Remove the files that no split names."""
        if self._group and self._task:
            self._service.drop_uploads(self._task, self._group)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for folder in self._folders.values():
            folder.cleanup()
        if error is not None and not isinstance(error, Unavailable):
            with contextlib.suppress(TidegateError):  # the caller should see the error that ended the call
                self.drop()


def are_lost(error: TidegateError, files: Iterable[str]) -> bool:
    """True if the error says that a server has one of the files not any more, because it started again."""
    return error.reason == "UPLOAD_GONE" and any(path in error.message for path in files)
