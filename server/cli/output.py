"""Outputs of `tidegate run`: a file, a folder with a file for each epoch, or the first rows on the screen.

A column that the format cannot hold is an `InvalidRequest`. Every other failure is an `OSError` with a sentence.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol

import pyarrow as pa

from ...operators.writing.formats import WRITE_FORMATS
from ...proto.arrow.shown_values import shown

SHOWN_ROWS: Final = 20
FOLDER_FORMAT: Final = ".parquet"


class Output(AbstractContextManager["Output"], Protocol):
    """A writer of epochs. The context gives the output its name when it ends, or removes the output after an error."""

    def epoch(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Write the next epoch's batches, and return their number of rows."""
        ...


_FORMATS: Final = {format_.ending: format_ for format_ in WRITE_FORMATS.values()}


def writable(text: str) -> Path:
    """The path, checked: its ending names a format, or it is a folder and has none."""
    path = Path(text)
    if path.suffix not in _FORMATS and (path.suffix and not path.is_dir()):
        raise ValueError(f"{text} has an unknown format: name a file that ends in {', '.join(_FORMATS)}, or a folder")
    if path.suffix in _FORMATS and not path.parent.is_dir():
        raise FileNotFoundError(f"{text} cannot be written: there is no folder {path.parent}")
    return path


def open_output(path: Path | None, schema: pa.Schema, epochs_before: int = 0) -> Output:
    if path is None:
        return Screen(schema)
    _FORMATS.get(path.suffix, _FORMATS[FOLDER_FORMAT]).check(schema)
    if path.suffix in _FORMATS and not path.is_dir():
        return File(path, schema)
    return Folder(path, schema, epochs_before)


class File(Output):
    """All epochs in one file, which gets its name when it is complete."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._partial = path.with_name(f"{path.name}.partial")
        with ExitStack() as undo, _writing(path):
            undo.callback(self._partial.unlink, missing_ok=True)
            self._sink = self._partial.open("wb")
            self._writer = _FORMATS[path.suffix].open(self._sink, schema)
            undo.pop_all()

    def epoch(self, batches: Iterable[pa.RecordBatch]) -> int:
        rows = 0
        for batch in batches:
            with _writing(self._path):
                self._writer.write(batch)
            rows += batch.num_rows
        return rows

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as ends, _writing(self._path):
            ends.callback(self._partial.unlink, missing_ok=True)
            with self._sink:
                self._writer.close()
            if kind is None:
                os.replace(self._partial, self._path)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Adds the name of the output to errors."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        said = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise OSError(f"{path} cannot be written: {' '.join(said.split())}") from error


class Folder(Output):
    """A folder with a Parquet file for each epoch."""

    def __init__(self, path: Path, schema: pa.Schema, epochs_before: int) -> None:
        self._path = path
        self._schema = schema
        self._epochs = epochs_before
        with _writing(path):
            path.mkdir(parents=True, exist_ok=True)

    def epoch(self, batches: Iterable[pa.RecordBatch]) -> int:
        self._epochs += 1
        with File(self._path / f"epoch-{self._epochs:06d}{FOLDER_FORMAT}", self._schema) as file:
            return file.epoch(batches)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: the file of every epoch is complete already."""


class Screen(Output):
    """The first rows of each epoch, in columns. Rows without columns are only counted."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def epoch(self, batches: Iterable[pa.RecordBatch]) -> int:
        if not len(self._schema):
            return sum(batch.num_rows for batch in batches)
        shown: list[list[str]] = [self._schema.names]
        rows = 0
        for batch in batches:
            first = batch.slice(0, max(0, SHOWN_ROWS + 1 - len(shown)))
            columns = [[_cell(value) for value in column] for column in first.columns]
            shown += [[column[i] for column in columns] for i in range(first.num_rows)]
            rows += batch.num_rows
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        for row in shown:
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            sys.stdout.write(line.rstrip() + "\n")
        if rows > SHOWN_ROWS:
            sys.stdout.write(f"... {rows - SHOWN_ROWS:,} more rows; --output writes all rows\n")
        return rows

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: nothing is kept."""


def _cell(value: pa.Scalar) -> str:
    text = "null" if not value.is_valid else shown(value, str)
    text = text.replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= 60 else text[:57] + "..."
