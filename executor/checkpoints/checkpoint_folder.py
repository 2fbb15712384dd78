"""The checkpoints of one task: files named by the digest of their bytes, and a manifest for each checkpoint.

A file is written under another name, synced and renamed, so a file with its final name is complete. A checkpoint exists
once its manifest does, which is written last. Files that no manifest names are removed. A crash at any moment leaves
either what there was before, or that and the new checkpoint.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa

from ...proto.arrow.validation import validated
from ...proto.errors import InvalidRequest, NotFound
from ..ledger.fingerprint import Fingerprint, fingerprint
from .disk import Disk
from .manifest import Manifest, Part, damaged, decode, digest, encode

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_MANIFEST: Final = ".json"
_WRITING: Final = ".writing"


class CheckpointFolder:
    """A folder of checkpoints. One task writes it, on one thread at a time; others may read."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._sizes: dict[str, int] | None = None
        self._needed: dict[str, frozenset[str]] | None = None
        self._numbers = itertools.count(1)

    # -------------------------------------------------------------------------------------------------- reading

    def names(self) -> list[str]:
        """The names of the checkpoints in the folder."""
        return sorted(name.removesuffix(_MANIFEST) for name in self._disk.sizes(self._path) if is_manifest(name))

    def manifest(self, name: str) -> Manifest:
        what = self._what(name)
        try:
            data = self._disk.read(self._path / f"{name}{_MANIFEST}")
        except FileNotFoundError as error:
            raise unknown(what, self.names()) from error
        except OSError as error:
            raise damaged(what, f"its manifest cannot be read ({error})") from error
        return decode(data.to_pybytes(), what)

    def table(self, manifest: Manifest, part: Part) -> pa.Table:
        """The rows of a part, after checking that its bytes are those that were written."""
        what = self._what(manifest.name)
        try:
            data = self._disk.read(self._path / part.file)
        except FileNotFoundError as error:
            raise damaged(what, f"its file {part.file} is missing") from error
        except OSError as error:
            raise damaged(what, f"its file {part.file} cannot be read ({error})") from error
        if data.size != part.size:
            raise damaged(what, f"its file {part.file} has {data.size} bytes instead of {part.size}")
        if not _is_as_written(data, part):
            raise damaged(what, f"the bytes of its file {part.file} differ from the bytes that were written")
        try:
            return validated(pa.ipc.open_file(data).read_all())
        except (pa.ArrowException, OSError, ValueError) as error:
            raise damaged(what, f"its file {part.file} has no valid rows ({error})") from error

    # -------------------------------------------------------------------------------------------------- writing

    def has(self, part: Part) -> bool:
        return self._known().get(part.file) == part.size

    def put(self, table: pa.Table) -> Part:
        """Write the table as a part of this folder.

        The part survives a crash once a manifest that names it is committed.
        """
        written = _Written()
        write_table(table, written)
        part = written.part(table.num_rows)
        if not self.has(part):
            self._write(lambda: part.file, lambda sink: write_table(table, sink))
        return part

    def add(self, table: pa.Table) -> Part:
        """Write the table as a part, in one pass: for a table that is unlikely to be in the folder already."""
        written = _Written()

        def fill(sink: BinaryIO) -> None:
            written.sink = sink
            write_table(table, written)

        self._write(lambda: written.part(table.num_rows).file, fill)
        return written.part(table.num_rows)

    def commit(self, manifest: Manifest) -> None:
        """Write the manifest, all of whose parts have been put. It replaces another checkpoint of its name."""
        needed, self._needed = self._needed, None  # if this fails half-way, only the disk knows which files are needed
        self._disk.make_folder(self._path)
        self._disk.sync_names(self._path)
        data = encode(manifest)
        self._write(lambda: f"{manifest.name}{_MANIFEST}", lambda sink: sink.write(data))
        self._disk.sync_names(self._path)
        if needed is not None:
            self._needed = {**needed, manifest.name: _files(manifest)}

    def adopt(self, other: CheckpointFolder, manifest: Manifest) -> None:
        """Have a checkpoint of another folder here too, under the name in the manifest. The folders share its files
        where they are on one disk.
        """
        self._disk.make_folder(self._path)
        for part in set(manifest.parts):
            if not self.has(part):
                temporary = self._path / f"{next(self._numbers)}{_WRITING}"
                self._disk.link(other._path / part.file, temporary)
                self._disk.rename(temporary, self._path / part.file)
                self._known()[part.file] = part.size
        self.commit(manifest)

    def remove(self, name: str) -> None:
        """Remove a checkpoint. `collect` removes the files that it alone had."""
        self._disk.remove(self._path / f"{name}{_MANIFEST}")
        if self._needed is not None:
            self._needed.pop(name, None)

    def collect(self) -> None:
        """Remove files that are in no checkpoint: of an unfinished checkpoint, or of one that was replaced."""
        if self._needed is None:
            self._needed = {name: _files(self.manifest(name)) for name in self.names()}
        needed: frozenset[str] = frozenset().union(*self._needed.values())
        for name in tuple(self._known()):
            if name not in needed and not is_manifest(name):
                self._disk.remove(self._path / name)
                self._known().pop(name)

    def _write(self, named: Callable[[], str], fill: Callable[[BinaryIO], object]) -> None:
        """Write a file that appears under its name once it is complete and synced.

        `named` gives the name after `fill`.
        """
        self._disk.make_folder(self._path)
        temporary = self._path / f"{next(self._numbers)}{_WRITING}"
        with suppress(FileNotFoundError):
            self._disk.remove(temporary)
        try:
            with self._disk.create(temporary) as sink:
                fill(sink)
                self._disk.sync(sink)
                size = sink.tell()
            name = named()
            self._disk.rename(temporary, self._path / name)
        except BaseException:
            with suppress(OSError):
                self._disk.remove(temporary)
            raise
        self._known()[name] = size

    def _known(self) -> dict[str, int]:
        if self._sizes is None:
            self._sizes = dict(self._disk.sizes(self._path))
        return self._sizes

    def _what(self, name: str) -> str:
        return f"'{self._path.name}/{name}'"


def unknown(what: str, names: Sequence[str]) -> NotFound:
    there = ", ".join(names) or "none"
    return NotFound(f"there is no checkpoint {what}; the task's checkpoints are: {there}", reason="UNKNOWN_CHECKPOINT")


def check_name(name: str) -> str:
    """The name itself, if a checkpoint can have it."""
    if NAME.fullmatch(name) is None:
        raise InvalidRequest(
            f"{name!r} cannot be a checkpoint's name: a name must be 1 to 100 letters, digits, - and _, and begin "
            "with a letter or digit",
            reason="CHECKPOINT_NAME",
        )
    return name


def is_manifest(name: str) -> bool:
    return name.endswith(_MANIFEST) and NAME.fullmatch(name.removesuffix(_MANIFEST)) is not None


def _files(manifest: Manifest) -> frozenset[str]:
    return frozenset(part.file for part in manifest.parts)


def _is_as_written(data: pa.Buffer, part: Part) -> bool:
    if part.fingerprint:
        return fingerprint(data).hex() == part.fingerprint
    return digest(data).hexdigest() == part.digest


def write_table(table: pa.Table, sink: object) -> None:
    """Write the rows as a file of a checkpoint. The same rows in the same batches give the same bytes."""
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


class _Written:
    """A file that computes the part of the written bytes, and passes them on to `sink` if there is one."""

    closed = False

    def __init__(self) -> None:
        self.sink: BinaryIO | None = None
        self._digest = digest()
        self._fingerprint = Fingerprint()
        self._size = 0

    def part(self, rows: int) -> Part:
        """The written bytes as a part. No more are written."""
        return Part(
            digest=self._digest.hexdigest(),
            rows=rows,
            size=self._size,
            fingerprint=self._fingerprint.digest().hex(),
        )

    def write(self, data: bytes) -> int:
        if self.sink is not None:
            self.sink.write(data)
        self._digest.update(data)
        self._fingerprint.write(data)
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Do nothing: no bytes are buffered."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
