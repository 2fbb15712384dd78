"""CSV with a header line, typed by the plan's columns: nothing is guessed from the data.

Fields are separated by commas (tabs in .tsv files) and may be quoted. An empty field is null, `""` an empty string. A
quote that is never closed is an error, not a long text. A piece is a whole file, which may be compressed.
"""

from __future__ import annotations

import csv
import io
import secrets
from collections.abc import Generator, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from ...core.column import Column
from ...core.piece import FilePiece
from ..file_versions import PieceFiles
from . import text_blocks
from .format import OpenedAnew, RowTooLarge, numbered
from .matching import Names
from .text_blocks import CheckedText, counted_from, last_line_end, longest_row, too_long

_LONGEST_LINE = 1 << 20
#: About the bytes that a column takes while a file is read, whether the plan reads the column or not.
_COLUMN_BYTES = 512
#: pyarrow is fastest where it parses so many bytes at a time.
_PART_BYTES = 1 << 20


class Csv(OpenedAnew):
    name = "csv"
    endings = (".csv", ".tsv")
    ranges = False
    compressed = True

    def open(self, piece: FilePiece, columns: Sequence[Column], filesystem: PieceFiles) -> tuple[FilePiece, ...]:  # noqa: ARG002
        """Return the piece as it is: a text file tells nothing before it is read."""
        return (piece,)

    def read(self, piece: FilePiece, columns: Sequence[Column], filesystem: PieceFiles) -> CsvReader:
        return CsvReader(piece, columns, filesystem)


class CsvReader:
    def __init__(self, piece: FilePiece, columns: Sequence[Column], filesystem: PieceFiles) -> None:
        self._piece = piece
        self._filesystem = filesystem
        self._delimiter = "\t" if ".tsv" in piece.path.lower().rsplit("/", 1)[-1] else ","
        self._longest = longest_row(filesystem.largest)
        self._open: CheckedText | None = None
        names, self._has_rows = self._header()
        if len(names) * _COLUMN_BYTES > filesystem.largest:
            raise RowTooLarge(
                f"its header names {len(names):,} columns; with a memory_limit of {filesystem.largest:,} there may be "
                f"{filesystem.largest // _COLUMN_BYTES:,}: raise memory_limit"
            )
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
        # Generated names, because the file's own names need not be distinct.
        names = [f"c{i}" for i in range(len(self.schema))]
        wanted = [names[i] for i in indices]
        at = 0
        for table in self._tables(names, wanted or names[:1]):
            for batch in table.to_batches():
                yield from numbered(at, batch.select(wanted))
                at += batch.num_rows

    def _tables(self, names: Sequence[str], wanted: Sequence[str]) -> Iterator[pa.Table]:
        """The rows of a block after the other. A line may end inside of quotes, so a block is parsed up to where a row
        seems to end, and the parser says whether one does.
        """
        text = self._open = CheckedText(self._stream())
        parser = _Parser(self._delimiter, names, wanted, self.schema.types)
        rest, more = b"", True
        while more:
            block, more = text.after(rest, self._longest, text_blocks.BLOCK_BYTES)
            for end in _row_ends(block) if more else (len(block),):
                table = parser.table(memoryview(block)[:end])
                if table is not None:
                    rest = block[end:]
                    del block
                    yield table
                    del table
                    break
            else:
                if not more:
                    raise pa.ArrowInvalid("a quote is not closed")
                if len(block) > self._longest:
                    raise too_long("a row, or a text whose quote is not closed,", self._longest)
                rest = block

    def _stream(self) -> pa.NativeFile:
        return self._filesystem.open_input_stream(self._piece.path)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()


class _Parser:
    """A parser of blocks of rows, in order. The first block begins with the header."""

    def __init__(
        self, delimiter: str, names: Sequence[str], wanted: Sequence[str], types: Sequence[pa.DataType]
    ) -> None:
        self._delimiter = delimiter
        self._names = names
        self._end = delimiter.join([secrets.token_hex(8)] * (len(names) + 1))
        self._convert = pc.ConvertOptions(
            column_types={name: type_ for name, type_ in zip(names, types, strict=True) if name in wanted},
            include_columns=wanted,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            check_utf8=False,  # the whole text is checked, and a field begins and ends beside an ASCII character
        )
        self._rows = 0
        self._header = 1

    def table(self, block: memoryview) -> pa.Table | None:
        """The rows of a block; None where it does not end with a row."""
        line_end = b"" if bytes(block[-1:]) in (b"", b"\n", b"\r") else b"\n"
        text = b"".join((block, line_end, self._end.encode()))
        parts = max(len(text) // _PART_BYTES, 1)
        end = _End(self._end)
        try:
            try:
                table = self._read(text, -(-len(text) // parts), end)
            except pa.ArrowInvalid as error:
                if parts == 1 or "straddling object" not in str(error):
                    raise
                end = _End(self._end)
                table = self._read(text, len(text) + 1, end)
            if end.seen and end.wrong:
                raise pa.ArrowInvalid(end.wrong)
        except pa.ArrowInvalid as error:
            if not end.seen:
                return None
            raise counted_from(error, self._rows + 1 - self._header) from error
        if not end.seen:
            return None
        self._header = 0
        self._rows += table.num_rows
        return table

    def _read(self, text: bytes, part: int, end: _End) -> pa.Table:
        return pc.read_csv(
            pa.BufferReader(text),
            read_options=pc.ReadOptions(
                use_threads=False,
                block_size=part,
                column_names=self._names,
                skip_rows_after_names=self._header,
            ),
            parse_options=pc.ParseOptions(
                delimiter=self._delimiter,
                newlines_in_values=True,
                ignore_empty_lines=len(self._names) > 1,
                invalid_row_handler=end.judge,
            ),
            convert_options=self._convert,
        )


class _End:
    """An added last line with one field too many, so that it is no row. pyarrow takes a quote that is open at the end
    of a text for closed. Where a quote is open, pyarrow does not see the added line as a line.
    """

    def __init__(self, line: str) -> None:
        self.line = line
        self.seen = False
        self.wrong = ""

    def judge(self, row: pc.InvalidRow) -> str:
        if row.text == self.line:
            self.seen = True
        elif not self.wrong:
            self.wrong = (
                f"CSV parse error: Row #{row.number}: Expected {row.expected_columns} columns, got "
                f"{row.actual_columns}: {row.text}"
            )
        return "skip"


def _row_ends(block: bytes) -> Iterator[int]:
    """The positions where the last whole row of a block may end, the likeliest first: the end of a line behind an even
    number of quotes, and the end of the last line, for quotes that are part of a text.
    """
    last = end = last_line_end(block)
    line_end = block[last - 1 : last]
    quotes = _quotes(block, 0, end)
    while end and quotes % 2:
        before = block.rfind(line_end, 0, block.rfind(b'"', 0, end)) + 1
        quotes -= _quotes(block, before, end)
        end = before
    if end:
        yield end
    if last not in (0, end):
        yield last


def _quotes(block: bytes, start: int, end: int) -> int:
    """The number of quotes; NumPy counts several times as fast as `bytes` does."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8, end - start, start) == ord('"')))


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    """The lines of a text, none beyond a bound: a file that is no text may have a first line of any length."""
    while line := text.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise pa.ArrowInvalid(f"its header line is longer than {_LONGEST_LINE:,} characters")
        yield line
