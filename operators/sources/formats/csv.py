"""CSV with a header line, typed by the plan's columns: nothing is guessed from the data.

Fields are separated by commas (tabs in .tsv files) and may be quoted. An empty field is null, `""` an empty string. A
quote that is never closed is an error, not a long text. A piece is a whole file, which may be compressed.
"""

from __future__ import annotations

import csv
import io
import secrets
from collections.abc import Generator, Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.csv as pc

from ....proto.arrow.validation import each_validated
from ...core.column import Column
from ...core.piece import FilePiece
from ..file_versions import Files
from .matching import Names
from .text_blocks import CheckedText, within_blocks

_BLOCK_BYTES = 4 << 20
_TOO_LONG = "a row is longer than 4 MiB, or a quote is not closed"
_LONGEST_LINE = 1 << 20


class Csv:
    name = "csv"
    endings = (".csv", ".tsv")
    ranges = False
    compressed = True

    def open(self, piece: FilePiece, columns: Sequence[Column], filesystem: Files) -> tuple[FilePiece, ...]:  # noqa: ARG002
        """Return the piece as it is: a text file tells nothing before it is read."""
        return (piece,)

    def read(self, piece: FilePiece, columns: Sequence[Column], filesystem: Files) -> CsvReader:
        return CsvReader(piece, columns, filesystem)


class CsvReader:
    def __init__(self, piece: FilePiece, columns: Sequence[Column], filesystem: Files) -> None:
        self._piece = piece
        self._filesystem = filesystem
        self._delimiter = "\t" if ".tsv" in piece.path.lower().rsplit("/", 1)[-1] else ","
        self._open: pa.NativeFile | None = None
        names, self._has_rows = self._header()
        names_ = Names(names)
        types = {names_.position(column.name): column.type for column in columns}
        self.schema = pa.schema([(name, types.get(i, pa.string())) for i, name in enumerate(names)])

    def _header(self) -> tuple[list[str], bool]:
        """The column names, and whether any row follows."""
        with self._stream() as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
            try:
                names = next(csv.reader(_lines(text), delimiter=self._delimiter), None)
            except csv.Error as error:
                raise pa.ArrowInvalid(f"its header line: {error}") from error
            if not names:
                raise pa.ArrowInvalid("there is no header line")
            return names, text.read(1) != ""

    def batches(self, indices: Sequence[int]) -> Generator[tuple[int, pa.RecordBatch]]:
        if not self._has_rows:
            return
        names = [f"c{i}" for i in range(len(self.schema))]
        wanted = [names[i] for i in indices] or names[:1]
        end = _End(self._delimiter.join([secrets.token_hex(8)] * (len(names) + 1)))
        self._open = pa.PythonFile(_Ended(CheckedText(self._stream()), end), mode="r")
        reader = partial(
            pc.open_csv,
            self._open,
            # Generated names, because the file's own names need not be distinct.
            read_options=pc.ReadOptions(
                use_threads=False, block_size=_BLOCK_BYTES, column_names=names, skip_rows_after_names=1
            ),
            parse_options=pc.ParseOptions(
                delimiter=self._delimiter,
                newlines_in_values=True,
                ignore_empty_lines=len(names) > 1,
                invalid_row_handler=end.judge,
            ),
            convert_options=pc.ConvertOptions(
                column_types={name: self.schema.field(i).type for i, name in enumerate(names)},
                include_columns=wanted,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        at = 0
        for batch in each_validated(within_blocks(reader, _TOO_LONG)):
            yield at, batch.select([names[i] for i in indices])
            at += batch.num_rows
        if not end.seen:
            raise pa.ArrowInvalid("a quote is not closed")

    def _stream(self) -> pa.NativeFile:
        return self._filesystem.open_input_stream(self._piece.path, compression="detect")

    def close(self) -> None:
        if self._open is not None:
            self._open.close()


class _End:
    """An added last line with one field too many, so that it is no row. pyarrow takes a quote that is open at the end
    of a file for closed. Where a quote is open, pyarrow does not see the added line as a line.
    """

    def __init__(self, line: str) -> None:
        self.line = line
        self.seen = False

    def judge(self, row: pc.InvalidRow) -> str:
        self.seen = self.seen or row.text == self.line
        return "skip" if row.text == self.line else "error"


class _Ended:
    """A stream with the added last line. The line is in one block with the text before it, because every block must
    have an end of a row.
    """

    closed = False

    def __init__(self, stream: CheckedText, end: _End) -> None:
        self._stream = stream
        self._rest = end.line.encode()
        self._last = b""
        self._ended = False

    def read(self, size: int) -> bytes:
        data = b"" if self._ended else self._stream.read(size)
        if len(data) < size and not self._ended:
            self._ended = True
            last = data[-1:] or self._last
            self._rest = self._rest if last in b"\r\n" else b"\n" + self._rest
        self._last = data[-1:]
        room = size - len(data)
        held, self._rest = self._rest[:room], self._rest[room:]
        return data + held

    def close(self) -> None:
        self._stream.close()


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    """The lines of a text, none beyond a bound: a file that is no text may have a first line of any length."""
    while line := text.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise pa.ArrowInvalid(f"its header line is longer than {_LONGEST_LINE:,} characters")
        yield line
