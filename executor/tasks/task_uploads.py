"""Files of clients, kept in the task's folder and counted against its quota until the task is deleted.

Files of a group go earlier: once the epoch of the split that names them is acknowledged, or if no split names them for
an hour.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final, TypeAlias

from ...operators.core.piece import FileVersion
from ...proto.errors import Exhausted, InvalidRequest, NotFound
from ...proto.values import FileSplit, Split
from ..ledger.split_book import AcceptedSplit, KeptSplit
from ..runtime.batch_store import Quota, SpillFiles

UNNAMED_SECONDS: Final = 3600.0
"""Seconds that a group's files stay after the last upload to the group and the last split that names one of them."""

FILE_BYTES: Final = 4096
"""The least size that a file counts with, because a file without bytes takes room, too."""

_UPLOAD: Final = re.compile(r"[0-9a-f]+\.upload(\..*)?", re.DOTALL)
_LONGEST_ENDING: Final = 32
_LONGEST_GROUP: Final = 200
_SHOWN: Final = 100

CallLater: TypeAlias = Callable[[float, Callable[[], None]], object]


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A complete file of a client.

    `size` counts against quotas. `content` identifies the file by its bytes and its suffixes.
    """

    path: str
    size: int
    content: str


class Reception:
    """A file that a client is sending, chunk by chunk.

    The caller finishes and keeps it, or drops it. Dropping it again, or after it was kept, changes nothing. `kept` is
    called with a kept file, and `over` when the upload is over. `room` says in refusals what the quota bounds.
    """

    def __init__(
        self,
        files: SpillFiles,
        quota: Quota,
        name: str,
        kept: Callable[[UploadedFile], None] | None = None,
        over: Callable[[], None] | None = None,
        room: str = "the task's spill_quota",
    ) -> None:
        self._ending = _ending_of(name)
        self._files = files
        self._quota = quota
        self._name = name
        self._kept = kept
        self._over = over
        self._room = room
        self._digest = hashlib.blake2b(digest_size=16)
        self._written = 0
        self._size = 0
        self._open = True
        self._lock = threading.Lock()
        self._path = files.new_path(f".upload{self._ending}")
        self._grow(FILE_BYTES)
        try:
            with _on_disk(name):
                self._sink = self._path.open("xb")
        except BaseException:
            quota.give(self._size)
            raise

    def write(self, chunk: bytes) -> None:
        """Take the next bytes. If that fails, the file is removed."""
        with self._lock:
            self._check_open()
            try:
                self._take(chunk)
            except BaseException:
                self._drop()
                raise

    def _take(self, chunk: bytes) -> None:
        self._written += len(chunk)
        self._grow(self._written)
        with _on_disk(self._name):
            self._sink.write(chunk)
        self._digest.update(chunk)

    def _grow(self, size: int) -> None:
        """Count the file with `size` bytes, if it counts with fewer."""
        more = size - self._size
        if more <= 0:
            return
        if not self._quota.take(more):
            raise Exhausted(
                f"the upload of {self._name!r} does not fit in {self._room} ({self._quota.limit} bytes)",
                reason="UPLOAD_TOO_LARGE",
            )
        self._size = size

    def finish(self) -> None:
        """Close the file: all bytes have come."""
        with self._lock:
            self._check_open()
            try:
                with _on_disk(self._name):
                    self._sink.close()
                self._files.check_kept()
            except BaseException:
                self._drop()
                raise

    def keep(self) -> str:
        """Keep the finished file; its path. Never waits."""
        with self._lock:
            self._check_open()
            self._open = False
            self._quota.keep(self._size)
        content = f"upload {self._digest.hexdigest()}{self._ending}"
        if self._kept is not None:
            self._kept(UploadedFile(str(self._path), self._size, content))
        self._tell_over()
        return str(self._path)

    def _check_open(self) -> None:
        if not self._open:
            raise NotFound(f"the upload of {self._name!r} has ended: upload the file again", reason="UPLOAD_GONE")

    def drop(self) -> None:
        """Remove the file, unless it is kept."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if not self._open:
            return
        self._open = False
        with suppress(OSError):  # the bytes that the file buffered do not fit either
            self._sink.close()
        self._path.unlink(missing_ok=True)
        self._quota.give(self._size)
        self._tell_over()

    def _tell_over(self) -> None:
        if self._over is not None:
            self._over()

    def receive(self, chunks: Iterable[bytes]) -> str:
        """Take all chunks, and keep the file."""
        try:
            for chunk in chunks:
                self.write(chunk)
            self.finish()
            return self.keep()
        except BaseException:
            self.drop()
            raise


def _ending_of(name: str) -> str:
    """The suffixes that tell a file's format."""
    ending = "".join(PurePosixPath(name.replace("\\", "/")).suffixes[-2:])
    plain = all(character.isalnum() or character == "." for character in ending)
    if not plain or len(ending.encode()) > _LONGEST_ENDING:
        raise InvalidRequest(
            f"an uploaded file's name must end in a plain suffix such as .parquet, of at most {_LONGEST_ENDING} "
            f"letters, not {name[:_SHOWN]!r}"
        )
    return ending


@contextmanager
def _on_disk(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Exhausted(
            f"the upload of {name!r} cannot be kept: {error.strerror}; the service's spill folder needs room",
            reason="SPILL_FAILED",
        ) from error


def check_there(path: str, folder: Path, origin: str, *, foreign: bool = False) -> None:
    """Raise `NotFound` for a path that an upload to a folder of this name was answered with, and that is gone. If what
    is in `folder` is `foreign`, it is gone, too, however the path is spelled: the caller learns nothing of it.

    Each run of a service has a folder of its own.
    """
    file = Path(path)
    was_uploaded = file.parent.name == folder.name and _UPLOAD.fullmatch(file.name) is not None
    hidden = foreign and os.path.exists(file) and os.path.realpath(file.parent) == os.path.realpath(folder)
    if was_uploaded and (hidden or not os.path.exists(file)):
        raise NotFound(
            f"{path} was uploaded, and is not there any more ({origin}): the server has started again since, or no "
            "call named the file in time; upload the file again",
            reason="UPLOAD_GONE",
        )


def uploaded_again(kept: KeptSplit, path: str, files: SpillFiles) -> Path:
    """A new path of a kept file, as if a client had uploaded the file again that it had uploaded to `path`."""
    target = files.new_path("".join(PurePosixPath(path).suffixes))
    kept.link(target)
    return target


class PassingUploads:
    """The uploads of one task that have a group.

    A split that names a file uses it until the split is forgotten. A file without such a split goes when its group is
    dropped, or when the group was not used for `UNNAMED_SECONDS`, because the sender may have been killed.
    """

    def __init__(self, files: SpillFiles, quota: Quota, call_later: CallLater) -> None:
        self._files = files
        self._quota = quota
        self._known: dict[str, tuple[str, UploadedFile]] = {}
        self._users: dict[AcceptedSplit, str] = {}
        self._touched: dict[str, int] = {}
        """The number of uses of each group, while the group is watched."""
        self._call_later = call_later
        self._lock = threading.Lock()

    def begin(self, name: str, group: str, over: Callable[[], None] | None = None) -> Reception:
        """Begin an upload. A file without a group stays for the task's life."""
        if len(group) > _LONGEST_GROUP:
            raise InvalidRequest(
                f"a group of uploads has a name of at most {_LONGEST_GROUP} characters, not of {len(group):,}"
            )
        if not group:
            return Reception(self._files, self._quota, name, over=over)
        return Reception(self._files, self._quota, name, lambda kept: self._keep(kept, group), over)

    def _keep(self, kept: UploadedFile, group: str) -> None:
        with self._lock:
            self._known[kept.path] = (group, kept)
            watched = group in self._touched
            self._touched[group] = touched = self._touched.get(group, 0) + 1
        if not watched:
            self._watch(group, touched)

    def _watch(self, group: str, touched: int) -> None:
        alive = weakref.ref(self)  # the timer must not keep the uploads alive

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

    def with_content_digest(self, split: Split) -> Split:
        """The split for its digest, with the file's content in place of its path, so that a retry is equal."""
        if not isinstance(split, FileSplit) or (known := self._known.get(split.path)) is None:
            return split
        group, kept = known
        with self._lock:
            if group in self._touched:
                self._touched[group] += 1
        return replace(split, path=kept.content)

    def check_there(self, split: FileSplit, origin: str) -> None:
        """Raise `NotFound` if the split names a file that was uploaded to this task and is gone."""
        check_there(split.path, self._files.folder, origin)

    def used_by(self, accepted: AcceptedSplit, split: Split) -> None:
        """Record that an added split uses a file, if it names one."""
        if isinstance(split, FileSplit) and split.path in self._known:
            with self._lock:
                self._users[accepted] = split.path

    def take_back(self, split: AcceptedSplit) -> None:
        """Have the uploaded file of a split again, after a restart of the service."""
        if split.kept is None or not split.files:
            return
        path = uploaded_again(split.kept, split.files[0].path, self._files)
        status = path.stat()
        version = FileVersion(size=status.st_size, modified_ns=status.st_mtime_ns)
        split.files = tuple(replace(piece, path=str(path), version=version) for piece in split.files)
        size = max(FILE_BYTES, status.st_size)
        self._quota.take(size)
        self._quota.keep(size)
        with self._lock:
            self._known[str(path)] = ("", UploadedFile(str(path), size, ""))
            self._users[split] = str(path)

    def forget(self, splits: Iterable[AcceptedSplit]) -> None:
        """Remove the files of these splits, whose epoch is acknowledged."""
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
        """Remove the files that no split uses."""
        used = set(self._users.values())
        for path in dict.fromkeys(paths):
            if path not in used:
                _, kept = self._known.pop(path)
                Path(path).unlink(missing_ok=True)
                self._quota.keep(-kept.size)
                self._quota.give(kept.size)
