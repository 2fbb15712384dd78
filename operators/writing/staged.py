"""The files of an epoch: hidden while they are written, the table's own once they are published."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa

from .folder import OpenFolder
from .formats import WriteFormat, Writer

_VISIBLE: Final = re.compile(r"part-[0-9a-f]{16}-\d{8,}-\d{5,}\.(parquet|arrow|csv)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What an epoch has added to a table."""

    files: int = 0
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNames:
    """`part-<writer>-<epoch>-<number>.<format>`: the same for the same epoch of the same writer, and nobody else's.

    `writer` is 16 hexadecimal digits.
    """

    writer: str
    epoch: int
    ending: str

    @property
    def _stem(self) -> str:
        return f"part-{self.writer}-{self.epoch:08d}-"

    def part(self, number: int) -> str:
        return f"{self._stem}{number:05d}{self.ending}"

    def of_epoch(self, name: str) -> bool:
        """Whether a file is this epoch's, hidden or not."""
        return name.removeprefix(".").startswith(self._stem)

    def of_writer(self, name: str) -> bool:
        return name.startswith(f"part-{self.writer}-")

    @staticmethod
    def hidden(name: str) -> str:
        """What a file is called before it is the table's: no pattern of a reader, `*.parquet`, say, fits it."""
        return f".{name}.writing"

    def aside(self, name: str) -> str:
        """What a file is called while this epoch's take its place."""
        return f".{self.part(0)}.replaces.{name}.replaced"


def is_written(name: str) -> bool:
    """Whether a file is one that `Write` has written."""
    return _VISIBLE.fullmatch(name) is not None


class Staged:
    """One epoch's files, in the order of its rows: each is ended at the first block that makes it `file_bytes` long."""

    def __init__(
        self, folder: OpenFolder, names: FileNames, format_: WriteFormat, schema: pa.Schema, file_bytes: int
    ) -> None:
        self._folder = folder
        self._names = names
        self._format = format_
        self._schema = schema
        self._file_bytes = file_bytes
        self._parts: list[str] = []
        self._sink: BinaryIO | None = None
        self._writer: Writer | None = None
        self._rows = 0
        self._bytes = 0
        for name in folder.files():
            if name.startswith(".") and names.of_epoch(name):
                folder.remove(name)

    @property
    def empty(self) -> bool:
        return not self._parts

    def add(self, block: pa.RecordBatch) -> None:
        writer = self._writer or self._next()
        writer.write(block)
        self._rows += block.num_rows
        if self._sink is not None and self._sink.tell() >= self._file_bytes:
            self._end_file()

    def add_no_rows(self) -> None:
        """A file without rows, which says what columns the table has."""
        self._next()

    def finish(self) -> None:
        """Every file is complete and on the disk."""
        self._end_file()

    def _next(self) -> Writer:
        name = self._names.part(len(self._parts))
        self._sink = self._folder.create(self._names.hidden(name))
        self._parts.append(name)
        self._writer = self._format.open(self._sink, self._schema)
        return self._writer

    def _end_file(self) -> None:
        writer, sink = self._writer, self._sink
        self._writer = self._sink = None
        if writer is None or sink is None:
            return
        with sink:
            writer.close()
            sink.flush()
            os.fsync(sink.fileno())
            self._bytes += sink.tell()

    def publish(self, replaced: Collection[str]) -> Written:
        """The files are the table's and those replaced are gone, or, where that fails, all is as it was."""
        folder, names = self._folder, self._names
        there = folder.files()
        stale = [name for name in there if not name.startswith(".") and names.of_epoch(name)]
        outgoing = sorted({*replaced, *stale} - set(self._parts))
        moved: list[str] = []
        shown: list[str] = []
        try:
            for name in outgoing:
                folder.rename(name, names.aside(name))
                moved.append(name)
            for name in self._parts:
                folder.rename(names.hidden(name), name)
                shown.append(name)
            folder.sync()
        except BaseException:
            with suppress(OSError):
                for name in shown:
                    if name not in there:
                        folder.remove(name)
                for name in moved:
                    folder.rename(names.aside(name), name)
            raise
        with suppress(OSError):  # what is left is hidden
            for name in moved:
                folder.remove(names.aside(name))
        return Written(files=len(self._parts), rows=self._rows, bytes=self._bytes)

    def drop(self) -> None:
        """Remove what was not published."""
        with suppress(Exception):  # a writer that failed may fail again at its end
            if self._writer is not None:
                self._writer.close()
        self._writer = None
        with suppress(OSError):
            if self._sink is not None:
                self._sink.close()
            self._sink = None
        with suppress(OSError):
            for name in self._parts:
                self._folder.remove(self._names.hidden(name))
