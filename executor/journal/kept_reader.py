"""Reads kept bytes by their digest, and checks that they are those that were kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from ...operators.core.row_reader import reader_of
from ...proto.arrow.validation import each_validated
from ...proto.errors import Exhausted, SplitError
from ..checkpoints.disk import Disk
from ..ledger.fingerprint import Same, fingerprint
from ..ledger.split_book import SplitRows
from ..ledger.split_digest import DIGEST_BYTES, RowsStream, bytes_digest
from .journal_database import Statement

SMALL_BYTES: Final = 64 << 10
"""The most bytes of a blob."""


class Kept:
    """Kept bytes: implements `ledger.split_book.KeptSplit`."""

    __slots__ = ("_inserts", "_reader", "digest")

    def __init__(self, reader: KeptReader, digest: bytes, inserts: tuple[Statement, ...] = ()) -> None:
        self._reader = reader
        self._inserts = inserts
        self.digest = digest

    def take_inserts(self) -> tuple[Statement, ...]:
        """The statements that insert a blob. They go with the record that names the digest, once."""
        inserts, self._inserts = self._inserts, ()
        return inserts

    def link(self, target: Path) -> None:
        """Give the kept file another name, or copy it to a file of this name."""
        self._reader.link(self.digest, target)

    def has(self, rows: RowsStream) -> bool:
        """True if these rows are kept here, byte for byte."""
        if is_small(rows):  # this digest belongs to no other bytes, and the blob may not be committed yet
            return bytes_digest(rows.buffer()) == self.digest
        same = Same(self._reader.unchecked(self.digest))
        rows.write(same)
        return bool(same)

    def rows(self) -> SplitRows:
        """The rows, whose bytes are checked now. Their file is mapped only while it is read."""
        with pa.ipc.open_stream(self._reader.read(self.digest)) as stream:
            return SplitRows(stream.schema, sum(batch.num_rows for batch in stream), self._between)

    def _between(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_stream(self._reader.unchecked(self.digest)) as stream:
            yield from each_validated(reader_of(list(stream))(start, end))


class KeptReader:
    """Reads the kept bytes in a folder. `blob` finds those that the journal has. `lent` is called before a file is
    mapped or gets another name.
    """

    def __init__(
        self,
        blob: Callable[[bytes], bytes | None],
        disk: Disk,
        folder: Path,
        lent: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        self._blob = blob
        self._disk = disk
        self._folder = folder
        self._lent = lent

    def known(self, digest: bytes) -> Kept:
        """The kept bytes of a record that was read from the journal."""
        return Kept(self, digest)

    def read(self, digest: bytes) -> pa.Buffer:
        """The kept bytes, after checking that they are those that were kept."""
        data = self.unchecked(digest)
        if digest != fingerprint(data) and digest != bytes_digest(data):
            raise _damaged(self.path(digest), "differs from what was written")
        return data

    def unchecked(self, digest: bytes) -> pa.Buffer:
        """The kept bytes, without this check."""
        try:
            blob = self._blob(digest)
            if blob is not None:
                return pa.py_buffer(blob)
            self._lent(digest)
            return self._disk.map(self.path(digest))
        except (OSError, sqlite3.Error) as error:
            raise _damaged(self.path(digest), f"cannot be read ({error})") from error

    def link(self, digest: bytes, target: Path) -> None:
        """Give a kept file another name, or copy it where it has another file system."""
        self.read(digest)
        try:
            self._disk.link(self.path(digest), target)
        except OSError as error:  # of the copy: the file itself has just been read
            message = f"the kept file {self.path(digest)} cannot be copied into the spill folder: {error}"
            raise Exhausted(message, reason="SPILL_FAILED") from error

    def path(self, digest: bytes) -> Path:
        return self._folder / digest.hex()


def is_small(rows: RowsStream) -> bool:
    """True for rows that are kept as a blob."""
    return rows.size <= SMALL_BYTES


def digest_in(name: str) -> bytes | None:
    """The digest in the name of a kept file; None in other names."""
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
