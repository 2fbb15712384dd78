"""Text in blocks of whole rows. All text has to be UTF-8.

A block has about `BLOCK_BYTES` (of JSON half as much), more where a row is longer. Nothing is read ahead of the block
that is asked for.

Columns that the plan does not read have to be UTF-8, too: a file that is not UTF-8 is another kind of file than its
name says. So the text is checked as a whole, once, and the values that a parser makes of it are not checked again: they
begin and end beside ASCII characters, and Arrow's parser of JSON refuses escapes that are no characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from ....proto.arrow.utf8 import is_utf8
from .format import RowTooLarge

BLOCK_BYTES: Final = 4 << 20
_ALWAYS: Final = 4 << 20
#: A parser takes so many times the bytes of a row, and of a row with lists, whose items may have two bytes.
_TIMES: Final = 16
_TIMES_LISTS: Final = 32
_LONGEST: Final = 512 << 20
_LONGEST_CHARACTER: Final = 4
_ROW: Final = re.compile(r"(?<=\bRow #)\d+|(?<=\bin row )\d+")


def longest_row(largest: int, *, lists: bool = False) -> int:
    """The bytes that a row of text may have where a decoded row may have `largest`."""
    return min(max(_ALWAYS, largest // (_TIMES_LISTS if lists else _TIMES)), _LONGEST)


def too_long(what: str, longest: int) -> RowTooLarge:
    """The error for a row of more bytes than `longest_row`."""
    return RowTooLarge(
        f"{what} is longer than {longest:,} bytes. A row of text may have a sixteenth of the task's memory_limit, "
        f"half of that where columns are lists or structs, but at least {_ALWAYS:,} and at most {_LONGEST:,} bytes"
    )


def line_blocks(text: CheckedText, longest: int) -> Iterator[bytes]:
    """Blocks of whole lines, none of which is empty or blank."""
    rest, more = b"", True
    while more:
        block, more = text.after(rest, longest, BLOCK_BYTES // 2)
        end = last_line_end(block) if more else len(block)
        if not end and len(block) > longest:
            raise too_long("a row", longest)
        rest = block[end:]
        if end and not (lines := block[:end]).isspace():
            yield lines


def last_line_end(block: bytes) -> int:
    """The position behind the last end of a line; 0 where there is none."""
    return block.rfind(b"\n") + 1 or block.rfind(b"\r") + 1


def counted_from(error: pa.ArrowInvalid, first: int) -> pa.ArrowInvalid:
    """A parser's error about a block whose first row is row `first` of the file."""
    return pa.ArrowInvalid(_ROW.sub(lambda matched: str(int(matched[0]) + first), str(error)))


class CheckedText:
    """A stream of text. Text that is not UTF-8, or has one of the `refused` bytes, raises `pa.ArrowInvalid`. A read
    returns fewer bytes than asked for only at the end.
    """

    def __init__(self, stream: pa.NativeFile, refused: bytes = b"") -> None:
        self._stream = stream
        self._refused = refused
        self._cut = b""  # the beginning of a character that is cut
        self._at = 0

    def after(self, rest: bytes, longest: int, size: int) -> tuple[bytes, bool]:
        """`rest` with about `size` bytes of text behind it, and whether more may follow. Twice a longer `rest`, up to
        `longest`, so that a long row is not copied again and again.
        """
        asked = max(size, min(len(rest), longest - len(rest)))
        more = self.read(asked)
        return rest + more if rest else more, len(more) == asked

    def read(self, size: int) -> bytes:
        data = bytes(self._stream.read(size))
        while len(data) < size and (more := self._stream.read(size - len(data))):
            data += more
        self._check(data, ended=len(data) < size)
        self._at += len(data)
        return data

    def _check(self, data: bytes, *, ended: bool) -> None:
        for byte in self._refused:
            if (at := data.find(byte)) >= 0:
                raise pa.ArrowInvalid(f"byte {self._at + at:,} is {byte}, which text cannot have")
        text = self._cut + data
        end = len(text) if ended else _last_character(text)
        if not is_utf8(np.frombuffer(text, np.uint8, end)):
            raise self._not_text(text)
        self._cut = text[end:]

    def _not_text(self, text: bytes) -> pa.ArrowInvalid:
        try:
            text.decode()
        except UnicodeDecodeError as error:
            at = self._at - len(self._cut) + error.start
            return pa.ArrowInvalid(f"the file is not UTF-8 near byte {at:,}: {error.reason}")
        return pa.ArrowInvalid(f"the file is not UTF-8 near byte {self._at:,}")

    def close(self) -> None:
        self._stream.close()


def _last_character(text: bytes) -> int:
    """The position where the last character of a text begins. The text may end inside of the character."""
    for at in range(len(text) - 1, max(len(text) - 1 - _LONGEST_CHARACTER, -1), -1):
        if text[at] & 0xC0 != 0x80:
            return at
    return len(text)
