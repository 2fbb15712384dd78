"""Rows and files of clients, kept by the digest of their bytes for as long as a record of the journal names them.

Few bytes are a blob, written by the commit that has the record, so that a small epoch costs one sync. More are a file,
written and synced before the record is appended. Whatever no record names is removed: a blob by the commit that removes
the last record, a file after that commit, and either when the journal is opened.
"""

from __future__ import annotations

import hashlib
import itertools
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from ...proto.arrow.validation import validated
from ...proto.errors import SplitError
from ..checkpoints.disk import Disk
from ..ledger.split_digest import DIGEST_BYTES
from .group_commit import Journal, journal_failed
from .journal_database import JournalDatabase, Statement, delete_blob, insert_blob

SMALL_BYTES: Final = 64 << 10
"""The most bytes of a blob."""
_WRITING: Final = ".writing"


class Kept:
    """Kept bytes: implements `ledger.split_book.KeptSplit`."""

    __slots__ = ("_inserts", "_store", "digest")

    def __init__(self, store: KeptBytes, digest: bytes, inserts: tuple[Statement, ...] = ()) -> None:
        self._store = store
        self._inserts = inserts
        self.digest = digest

    def take_inserts(self) -> tuple[Statement, ...]:
        """The statements that insert a blob. They go with the record that names the digest, once."""
        inserts, self._inserts = self._inserts, ()
        return inserts

    def link(self, target: Path) -> None:
        """Give the kept file another name, or write the kept bytes to a file of this name."""
        self._store.link(self.digest, target)

    def rows(self) -> tuple[pa.Schema, tuple[pa.RecordBatch, ...]]:
        table = validated(pa.ipc.open_stream(self._store.read(self.digest)).read_all())
        return table.schema, tuple(table.to_batches())


class KeptBytes:
    """The kept bytes of a service. Thread-safe. `uses` counts the records that name each digest."""

    def __init__(
        self, journal: Journal, database: JournalDatabase, disk: Disk, folder: Path, uses: Counter[bytes]
    ) -> None:
        self._journal = journal
        self._database = database
        self._disk = disk
        self._folder = folder
        self._uses = uses
        self._files: set[bytes] = set()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        disk.make_folder(folder)

    def collect(self) -> None:
        """Find the kept files, and remove all kept bytes that no record names. Called once, before anything is kept."""
        for name in self._disk.sizes(self._folder):
            digest = _digest_in(name)
            if digest is not None and digest in self._uses:
                self._files.add(digest)
            else:
                self._disk.remove(self._folder / name)
        unused = [digest for digest in self._database.blob_digests() if digest not in self._uses]
        if unused:
            self._journal.append([delete_blob(digest) for digest in unused])

    # -------------------------------------------------------------------------------------------------- keeping

    def keep(self, data: pa.Buffer, digest: bytes) -> Kept:
        """Keep the bytes. The caller appends `take_inserts()` with the record that names the digest."""
        if data.size <= SMALL_BYTES:
            self._use(digest)
            return Kept(self, digest, (insert_blob(digest, data.to_pybytes()),))
        if not self._use(digest):
            self._write(digest, data)
        return Kept(self, digest)

    def keep_file(self, path: Path) -> Kept:
        """Keep a file, which does not change any more."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=DIGEST_BYTES)).digest()
        if not self._use(digest):
            self._write(digest, path)
        return Kept(self, digest)

    def _use(self, digest: bytes) -> bool:
        """Count one more use; True if there is a file of this digest."""
        with self._lock:
            self._uses[digest] += 1
            return digest in self._files

    def _write(self, digest: bytes, data: pa.Buffer | Path) -> None:
        temporary = self._folder / f"{next(self._numbers)}{_WRITING}"
        try:
            with suppress(FileNotFoundError):
                self._disk.remove(temporary)
            if isinstance(data, Path):
                self._disk.link(data, temporary)
            else:
                with self._disk.create(temporary) as sink:
                    sink.write(data)
                    self._disk.sync(sink)
            self._disk.rename(temporary, self._path(digest))
            self._disk.sync_names(self._folder)
        except OSError as error:
            with suppress(OSError):
                self._disk.remove(temporary)
            self.release([digest])
            raise journal_failed(error) from error
        with self._lock:
            self._files.add(digest)

    def release(self, digests: Iterable[bytes]) -> None:
        """Count one use less of each. The journal has the end of that use already. Never waits for the disk."""
        with self._lock:
            for digest in digests:
                self._uses[digest] -= 1
                if self._uses[digest]:
                    continue
                del self._uses[digest]
                if digest in self._files:
                    self._journal.append((), after=partial(self._remove, digest))
                else:
                    self._journal.append((delete_blob(digest),))

    def _remove(self, digest: bytes) -> None:
        """Remove the file, unless a record names the digest again."""
        with self._lock:
            if digest in self._files and digest not in self._uses:
                self._files.discard(digest)
                with suppress(OSError):  # the next start removes the file
                    self._disk.remove(self._path(digest))

    # -------------------------------------------------------------------------------------------------- reading

    def known(self, digest: bytes) -> Kept:
        """The kept bytes of a record that was read from the journal."""
        return Kept(self, digest)

    def read(self, digest: bytes) -> pa.Buffer:
        """The kept bytes, after checking that they are those that were kept."""
        try:
            blob = self._database.blob(digest)
            data = pa.py_buffer(blob) if blob is not None else self._disk.map(self._path(digest))
        except (OSError, sqlite3.Error) as error:
            raise _damaged(self._path(digest), f"cannot be read ({error})") from error
        if hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest() != digest:
            raise _damaged(self._path(digest), "differs from what was written")
        return data

    def link(self, digest: bytes, target: Path) -> None:
        """Give a kept file another name."""
        self.read(digest)
        try:
            self._disk.link(self._path(digest), target)
        except OSError as error:
            raise _damaged(self._path(digest), f"cannot be read ({error})") from error

    def _path(self, digest: bytes) -> Path:
        return self._folder / digest.hex()


def _digest_in(name: str) -> bytes | None:
    try:
        digest = bytes.fromhex(name)
    except ValueError:
        return None
    return digest if len(digest) == DIGEST_BYTES else None


def _damaged(path: Path, how: str) -> SplitError:
    return SplitError(
        f"the data folder is damaged: {path} {how}; put back a copy of the whole data folder, or delete the task",
        reason="DATA_DAMAGED",
    )
