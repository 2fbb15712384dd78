"""Rows and files of clients, kept by the digest of their bytes for as long as a record of the journal names them.

Few bytes are a blob, written by the commit that has the record, so that a small epoch costs one sync. More are a file,
written and synced before the record is appended. The digest of a file is its fingerprint, which costs little; bytes
that have the fingerprint of other bytes are kept by the digest that blobs have. Whatever no record names is removed: a
blob by the commit that removes the last record, a file after that commit, and either when the journal is opened. Files
of other names stay. Some files that are removed wait for other rows, which are written over them.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa

from ..checkpoints.disk import Disk
from ..ledger.fingerprint import Fingerprint, fingerprint
from ..ledger.split_digest import RowsStream, bytes_digest
from .freed_files import FreedFiles
from .group_commit import Journal, journal_failed
from .journal_database import JournalDatabase, delete_blob, insert_blob
from .kept_reader import Kept, KeptReader, digest_in, is_small

_TEMPORARY: Final = ".temporary"
"""Ends the names of files that are being written, or removed."""
_AHEAD_BYTES: Final = 1 << 20
"""A block of a file. The disk begins to write it before the sync, and works while the next one is made. A block of
many small writes lets the interpreter change hands less often, too.
"""


class KeptBytes:
    """The kept bytes of a service. Thread-safe. `uses` counts the records that name each digest."""

    def __init__(
        self, journal: Journal, database: JournalDatabase, disk: Disk, folder: Path, uses: Counter[bytes]
    ) -> None:
        self._journal = journal
        self._database = database
        self._disk = disk
        self._reader = KeptReader(database.blob, disk, folder, self._lent)
        self._folder = folder
        self._uses = uses
        self._own: dict[bytes, int] = {}
        """The sizes of the files that this service has written, and that nobody has read or linked."""
        names = disk.sizes(folder)
        files = {digest_in(name): size for name, size in names.items()}
        self._sizes = database.blob_sizes() | {digest: size for digest, size in files.items() if digest is not None}
        self._files = {digest for digest in files if digest is not None}
        self._numbers = itertools.count(1 + max(map(_number, names), default=0))
        self._lock = threading.Lock()
        self._naming = threading.Lock()
        """Held while a file gets its name. Taken before `_lock`."""
        self._freed = FreedFiles()
        self._remover = ThreadPoolExecutor(1, "tidegate-kept")
        disk.make_folder(folder)
        journal.make_room = self._give_room

    def lost(self) -> bool:
        """True if there are no bytes of a digest that a record names."""
        return not self._sizes.keys() >= self._uses.keys()

    def tidy(self) -> None:
        """Remove files that were being written, or removed. Called once, before anything is kept."""
        for name in self._disk.sizes(self._folder):
            if name.endswith(_TEMPORARY):
                self._disk.remove(self._folder / name)

    def collect(self) -> None:
        """Remove all kept bytes that no record names. Called once, before anything is kept."""
        unused = [digest for digest in self._sizes if digest not in self._uses]
        for digest in unused:
            del self._sizes[digest]
            if digest in self._files:
                self._files.discard(digest)
                self._disk.remove(self._reader.path(digest))
        if unused:
            self._journal.append([delete_blob(digest) for digest in unused])

    def size(self, digests: Iterable[bytes]) -> int:
        """The bytes that are kept for these digests, each counted as often as it is named."""
        with self._lock:
            return sum(self._sizes.get(digest, 0) for digest in digests)

    def keep(self, rows: RowsStream) -> Kept:
        """Keep the rows. The caller appends `take_inserts()` with the record that names the digest."""
        if not is_small(rows):
            freed = self._freed.take(rows.size)
            write = self._write if freed is None else self._write_over
            return self._keep_file(partial(write, rows), rows.size, freed, own=True)
        data = rows.buffer()
        digest = bytes_digest(data)
        self._use(digest, data.size)
        return Kept(self._reader, digest, (insert_blob(digest, data.to_pybytes()),))

    def keep_file(self, path: Path) -> Kept:
        """Keep a file, which does not change any more."""
        size = path.stat().st_size
        return self._keep_file(partial(self._link, path), size, own=False)

    def _bytes(self, path: Path) -> pa.Buffer:
        """The bytes of a file. An empty file cannot be mapped."""
        return self._disk.map(path) if path.stat().st_size else pa.py_buffer(b"")

    def _write(self, rows: RowsStream, target: Path) -> bytes:
        with self._disk.create(target) as sink:
            return self._fill(sink, rows)

    def _write_over(self, rows: RowsStream, target: Path) -> bytes:
        with self._disk.rewrite(target) as sink:
            return self._fill(sink, rows)

    def _fill(self, sink: BinaryIO, rows: RowsStream) -> bytes:
        """Write the rows to a file, and sync it; their fingerprint."""
        ahead = _Ahead(sink, self._disk)
        rows.write(ahead)
        ahead.write_block()
        self._disk.sync(sink)
        return ahead.fingerprint()

    def _link(self, path: Path, target: Path) -> bytes:
        self._disk.link(path, target)
        return fingerprint(self._bytes(target))

    def _keep_file(self, write: Callable[[Path], bytes], size: int, freed: Path | None = None, *, own: bool) -> Kept:
        """Keep the file that `write` writes, by the digest that it returns.

        The file is a new one unless one that was `freed` is written over. It is our `own` if it has no other name.
        """
        temporary = freed or self._temporary()
        try:
            digest = write(temporary)
            return Kept(self._reader, self._name(temporary, digest, size, own=own))
        except OSError as error:
            self._free(temporary)
            self._give_room()  # the disk may be full
            raise journal_failed(error) from error

    def _name(self, temporary: Path, digest: bytes, size: int, *, own: bool) -> bytes:
        """Give a written file its name, and count the use; its digest. The file goes if there is one of its bytes."""
        with self._naming:
            there = self._use(digest, size)
            if there and not self._bytes(temporary).equals(self._bytes(self._reader.path(digest))):
                self.release([digest])
                digest = bytes_digest(self._bytes(temporary))
                there = self._use(digest, size)
            try:
                if there:
                    self._free(temporary)
                else:
                    self._disk.rename(temporary, self._reader.path(digest))
            except OSError:
                self.release([digest])
                raise
            with self._lock:
                self._files.add(digest)
                if own and not there:
                    self._own[digest] = size
        try:
            self._disk.sync_names(self._folder)
        except OSError:
            self.release([digest])
            raise
        return digest

    def _use(self, digest: bytes, size: int) -> bool:
        """Count one more use; True if there is a file of this digest."""
        with self._lock:
            self._uses[digest] += 1
            self._sizes.setdefault(digest, size)
            return digest in self._files

    def _temporary(self) -> Path:
        return self._folder / f"{next(self._numbers)}{_TEMPORARY}"

    def release(self, digests: Iterable[bytes]) -> None:
        """Count one use less of each. The journal has the end of that use already. Never waits for the disk."""
        with self._lock:
            for digest in digests:
                self._uses[digest] -= 1
                if self._uses[digest]:
                    continue
                del self._uses[digest]
                self._sizes.pop(digest, None)  # none of bytes that the folder lacks
                if digest in self._files:
                    self._journal.append((), after=partial(self._remove, digest))
                else:
                    self._journal.append((delete_blob(digest),))

    def _remove(self, digest: bytes) -> None:
        """Remove the file, unless a record names the digest again.

        The journal's thread calls this: it takes the name away at once, and leaves freeing the bytes to another thread.
        """
        unnamed = self._temporary()
        with self._lock:
            if digest not in self._files or digest in self._uses:
                return
            self._files.discard(digest)
            try:
                self._disk.rename(self._reader.path(digest), unnamed)
            except OSError:  # the next start removes the file
                self._own.pop(digest, None)
                return
            size = self._own.pop(digest, None)  # behind the renaming: whoever is lent the file now finds none
        if size is not None and self._freed.put(unnamed, size):
            return
        with suppress(RuntimeError):  # the process ends
            self._remover.submit(self._free, unnamed)

    def _lent(self, digest: bytes) -> None:
        """Never write over the file: its bytes may be in use for longer than its name."""
        with self._lock:
            self._own.pop(digest, None)

    def _free(self, unnamed: Path) -> None:
        with suppress(OSError):  # the next start removes the file
            self._disk.remove(unnamed)

    def close(self) -> None:
        """Wait until the files that nothing names are gone. Called after the journal is closed."""
        self._remover.shutdown()
        self._give_room()

    def _give_room(self) -> bool:
        """Remove the files that wait for other rows; True if there were some."""
        paths = self._freed.clear()
        for path in paths:
            self._free(path)
        return bool(paths)

    def known(self, digest: bytes) -> Kept:
        """The kept bytes of a record that was read from the journal."""
        return self._reader.known(digest)


def _number(name: str) -> int:
    """The number of a temporary file, which a killed service has left; 0 of another file."""
    number = name.removesuffix(_TEMPORARY)
    return int(number) if number != name and number.isdecimal() else 0


class _Ahead:
    """A file of a disk, which the disk gets ready for the sync while more is written.

    Bytes are written in blocks. The fingerprint is computed from a block just before, while it is in the core's cache.
    """

    closed = False

    def __init__(self, file: BinaryIO, disk: Disk) -> None:
        self._file = file
        self._disk = disk
        self._fingerprint = Fingerprint()
        self._block = np.empty(_AHEAD_BYTES, dtype=np.uint8)
        self._filled = self._written = 0

    def write(self, data: bytes) -> int:
        view = memoryview(data).cast("B")
        first = 0
        while first < len(view):
            taken = min(len(view) - first, _AHEAD_BYTES - self._filled)
            self._block[self._filled : self._filled + taken] = view[first : first + taken]
            self._filled += taken
            first += taken
            if self._filled == _AHEAD_BYTES:
                self.write_block()
        return len(view)

    def write_block(self) -> None:
        """Write the block that has been begun."""
        block = self._block.data[: self._filled]
        self._fingerprint.write(block)
        self._file.write(block)
        self._disk.start_sync(self._file, self._written, self._filled)
        self._written += self._filled
        self._filled = 0

    def fingerprint(self) -> bytes:
        """The fingerprint of what has been written."""
        return self._fingerprint.digest()

    def flush(self) -> None:
        """Do nothing: the sync writes what is buffered."""

    def close(self) -> None:
        """Do nothing: the file is still to be synced."""
