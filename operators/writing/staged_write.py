"""The files of one epoch: hidden until they are published, all of them or none."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa

from ...proto.errors import ExecutionError, Exhausted
from ...proto.values import ResultFile
from .formats import WriteFormat, Writer
from .publishing import complete_published, publish
from .table_folder import OpenFolder, TableFolder

_VISIBLE: Final = re.compile(r"part-(?P<writer>[0-9a-f]{16})-(?P<epoch>\d{8,})(-\d{4,}-\d{4,})?\.(parquet|arrow|csv)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The files, rows and bytes that an epoch has added to a table. `results` are files with the epoch's own rows."""

    files: int = 0
    rows: int = 0
    bytes: int = 0
    results: tuple[ResultFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNames:
    """The names of an epoch's files: always the same for one epoch of one writer, and used by no other.

    A file is called `part-<writer>-<epoch>.<format>`, or `part-<writer>-<epoch>-<pipeline>-<channel>.<format>` if each
    channel writes a file. `writer` is 16 hexadecimal digits.
    """

    writer: str
    epoch: int
    ending: str

    @property
    def file(self) -> str:
        return f"{self._beginning}{self.ending}"

    def part(self, pipeline: int, channel: int) -> str:
        """The name of a channel's file. The names sort by pipeline and channel."""
        return f"{self._beginning}-{pipeline:04d}-{channel:04d}{self.ending}"

    @property
    def _beginning(self) -> str:
        return f"part-{self.writer}-{self.epoch:08d}"

    @property
    def log(self) -> str:
        """The name of the file that says which files are being published."""
        return f".{self._beginning}.publishing"

    def aside(self, name: str) -> str:
        """The name under which a file is kept that this epoch's files replace."""
        return f".{self.file}.replaces.{name}.replaced"

    def of_writer(self, name: str) -> bool:
        """True where a file is of any epoch of the writer, hidden or not."""
        return name.removeprefix(".").startswith(f"part-{self.writer}-")

    def of_earlier_epoch(self, name: str) -> bool:
        """True where a file is visible, and one of this writer's epochs before this one."""
        matched = _VISIBLE.fullmatch(name)
        return matched is not None and matched["writer"] == self.writer and int(matched["epoch"]) < self.epoch

    def of_epoch(self, name: str) -> bool:
        """True where a file is one of this epoch's, and visible."""
        return name.startswith((f"{self._beginning}.", f"{self._beginning}-"))


@dataclass(frozen=True, slots=True)
class WriteQuota:
    """The most `bytes` of a task's files. Files of earlier epochs have `used` some of them."""

    bytes: int
    used: int = 0

    def check(self, table: str, epoch: int, more: int) -> None:
        """Raise `Exhausted` if the epoch has more bytes than are left."""
        if self.used + more > self.bytes:
            raise Exhausted(
                f"table {table!r}: epoch {epoch} makes the task write more than its write_quota, {self.bytes:,} bytes "
                f"({self.used:,} of them in earlier epochs); raise write_quota, or continue in another task",
                reason="WRITE_QUOTA",
            )


@contextmanager
def naming(table: str) -> Iterator[None]:
    """A context that names the table in errors of a disk that is full or fails."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise ExecutionError(
            f"table {table!r} cannot be written: {' '.join(str(error).split())}", reason="WRITE_FAILED"
        ) from error


def opened(folder: TableFolder) -> OpenFolder:
    """The folder, open, with all of the files that a killed process had begun to publish."""
    open_folder = folder.open()
    try:
        complete_published(open_folder)
    except BaseException:
        open_folder.close()
        raise
    return open_folder


def hidden(name: str, attempt: str = "") -> str:
    """A file's name before it belongs to the table. No reader's pattern, such as `*.parquet`, matches it.

    Two attempts at a file must not have the same name.
    """
    return f".{name}{attempt and '.'}{attempt}.writing"


def writer_of(name: str) -> str | None:
    """The writer of a file; None where `Write` has not written the file."""
    matched = _VISIBLE.fullmatch(name)
    return None if matched is None else matched["writer"]


class HiddenFile:
    """A file that belongs to no table yet. It is made with its first block."""

    def __init__(self, folder: OpenFolder, name: str, format_: WriteFormat, schema: pa.Schema) -> None:
        self.name = name
        self.exists = False
        self.rows = 0
        self._folder = folder
        self._format = format_
        self._schema = schema
        self._sink: BinaryIO | None = None
        self._writer: Writer | None = None
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """The bytes so far; all bytes once the file is finished."""
        return self._bytes if self._sink is None else self._sink.tell()

    def add(self, block: pa.RecordBatch) -> None:
        writer = self._writer or self.start()
        writer.write(block)
        self.rows += block.num_rows

    def start(self) -> Writer:
        """Make the file. Without rows it only tells the table's columns."""
        self._sink = self._folder.create(self.name)
        self.exists = True
        self._writer = self._format.open(self._sink, self._schema)
        return self._writer

    def finish(self) -> None:
        """Complete the file and put it on the disk."""
        writer, sink = self._writer, self._sink
        self._writer = self._sink = None
        if writer is None or sink is None:
            return
        with sink:
            writer.close()
            sink.flush()
            os.fsync(sink.fileno())
            self._bytes = sink.tell()

    def drop(self) -> None:
        """Remove the file."""
        with suppress(Exception):  # a writer that failed may fail again at its end
            if self._writer is not None:
                self._writer.close()
        self._writer = None
        with suppress(OSError):
            if self._sink is not None:
                self._sink.close()
            self._sink = None
        with suppress(OSError):
            if self.exists:
                self._folder.remove(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPart:
    """A hidden file that another process has finished: its name, the name that it will have, its rows and bytes."""

    hidden: str
    name: str
    rows: int
    bytes: int


class Staged:
    """One epoch's files: one that is written here, or those that other processes have written.

    Files that a killed run of the writer has left are removed.
    """

    def __init__(self, folder: OpenFolder, names: FileNames, format_: WriteFormat, schema: pa.Schema) -> None:
        self._folder = folder
        self._names = names
        self._own = HiddenFile(folder, hidden(names.file), format_, schema)
        self._parts: tuple[WrittenPart, ...] = ()
        self._remove_hidden()

    @property
    def empty(self) -> bool:
        return not self._own.exists and not self._parts

    @property
    def bytes(self) -> int:
        """The bytes so far; all bytes once the files are finished."""
        return self._own.bytes + sum(part.bytes for part in self._parts)

    def add(self, block: pa.RecordBatch) -> None:
        self._own.add(block)

    def add_no_rows(self) -> None:
        """Make a file without rows, which only tells the table's columns."""
        self._own.start()

    def adopt(self, parts: Sequence[WrittenPart]) -> str | None:
        """Take over finished files; the name of one that is not in the folder as it was written, if there is one."""
        self._parts = tuple(parts)
        return next((part.hidden for part in parts if self._folder.size(part.hidden) != part.bytes), None)

    def finish(self) -> None:
        """Complete the file and put it on the disk."""
        self._own.finish()

    def added(self) -> Sequence[str]:
        """The names of the files that the table does not have yet, and will have once they are published."""
        before = {*self._folder.files()}
        return [name for name in self._written().values() if name not in before]

    def _written(self) -> dict[str, str]:
        """The hidden names of the files, and the names that they will have."""
        own = {self._own.name: self._names.file} if self._own.exists else {}
        return {**own, **{part.hidden: part.name for part in self._parts}}

    def publish(self, replaced: Collection[str]) -> Written:
        """Add the files to the table, then remove the replaced files; or leave all as it was."""
        written = self._written()
        before = {name for name in self._folder.files() if self._names.of_epoch(name)}
        outgoing = sorted({*replaced, *before} - set(written.values()))
        publish(
            self._folder,
            written,
            {name: self._names.aside(name) for name in outgoing},
            log=self._names.log if len(written) > 1 else None,
        )
        with suppress(OSError):
            self._remove_hidden()  # of attempts that do not count
        rows = self._own.rows + sum(part.rows for part in self._parts)
        return Written(files=len(written), rows=rows, bytes=self.bytes)

    def drop(self) -> None:
        """Remove the files that were not published, also those of attempts that other processes gave up."""
        self._own.drop()
        with suppress(OSError):
            self._remove_hidden()

    def _remove_hidden(self) -> None:
        for name in self._folder.files():
            if name.startswith(".") and self._names.of_writer(name):
                self._folder.remove(name)
