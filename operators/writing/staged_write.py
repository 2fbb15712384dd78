"""The file of one epoch: hidden until it is published, in one step."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa

from .formats import WriteFormat, Writer
from .table_folder import OpenFolder

_VISIBLE: Final = re.compile(r"part-([0-9a-f]{16})-\d{8,}\.(parquet|arrow|csv)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The files, rows and bytes that an epoch has added to a table."""

    files: int = 0
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNames:
    """The name of an epoch's file, `part-<writer>-<epoch>.<format>`: always the same for one epoch of one writer, and
    used by no other.

    `writer` is 16 hexadecimal digits.
    """

    writer: str
    epoch: int
    ending: str

    @property
    def file(self) -> str:
        return f"part-{self.writer}-{self.epoch:08d}{self.ending}"

    @property
    def hidden(self) -> str:
        """The file's name before it belongs to the table. No reader's pattern, such as `*.parquet`, matches it."""
        return f".{self.file}.writing"

    def aside(self, name: str) -> str:
        """The name under which a file is kept that this epoch's file replaces."""
        return f".{self.file}.replaces.{name}.replaced"

    def of_writer(self, name: str) -> bool:
        """True where a file is of any epoch of the writer, hidden or not."""
        return name.removeprefix(".").startswith(f"part-{self.writer}-")


def writer_of(name: str) -> str | None:
    """The writer of a file; None where `Write` has not written the file."""
    matched = _VISIBLE.fullmatch(name)
    return None if matched is None else matched[1]


class Staged:
    """One epoch's file, made with its first block. Files that a killed run of the writer has left are removed."""

    def __init__(self, folder: OpenFolder, names: FileNames, format_: WriteFormat, schema: pa.Schema) -> None:
        self._folder = folder
        self._names = names
        self._format = format_
        self._schema = schema
        self._sink: BinaryIO | None = None
        self._writer: Writer | None = None
        self._rows = 0
        self._bytes = 0
        self._made = False
        for name in folder.files():
            if name.startswith(".") and names.of_writer(name):
                folder.remove(name)

    @property
    def empty(self) -> bool:
        return not self._made

    @property
    def bytes(self) -> int:
        """The bytes so far; all bytes once the file is finished."""
        return self._bytes if self._sink is None else self._sink.tell()

    def add(self, block: pa.RecordBatch) -> None:
        writer = self._writer or self._start()
        writer.write(block)
        self._rows += block.num_rows

    def add_no_rows(self) -> None:
        """Make a file without rows, which only tells the table's columns."""
        self._start()

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

    def _start(self) -> Writer:
        self._sink = self._folder.create(self._names.hidden)
        self._made = True
        self._writer = self._format.open(self._sink, self._schema)
        return self._writer

    def publish(self, replaced: Collection[str]) -> Written:
        """Add the file to the table by one rename, then remove the replaced files; or leave all as it was."""
        folder, names = self._folder, self._names
        before = names.file in folder.files()
        outgoing = sorted(replaced) if self._made or not before else [*sorted(replaced), names.file]
        moved: list[str] = []
        try:
            if self._made:
                folder.rename(names.hidden, names.file)
            for name in outgoing:
                folder.rename(name, names.aside(name))
                moved.append(name)
            folder.sync()
        except BaseException:
            with suppress(OSError):
                for name in moved:
                    folder.rename(names.aside(name), name)
                if self._made and not before:
                    folder.remove(names.file)
            raise
        with suppress(OSError):  # the files that are left are hidden
            for name in moved:
                folder.remove(names.aside(name))
        return Written(files=int(self._made), rows=self._rows, bytes=self._bytes)

    def drop(self) -> None:
        """Remove a file that was not published."""
        with suppress(Exception):  # a writer that failed may fail again at its end
            if self._writer is not None:
                self._writer.close()
        self._writer = None
        with suppress(OSError):
            if self._sink is not None:
                self._sink.close()
            self._sink = None
        with suppress(OSError):
            if self._made:
                self._folder.remove(self._names.hidden)
