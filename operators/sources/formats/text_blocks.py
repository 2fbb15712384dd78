"""Text in blocks: a row has to lie within two neighbouring blocks, and all text has to be UTF-8.

Columns that the plan does not read have to be UTF-8, too: a file that is not UTF-8 is another kind of file than its
name says.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from ....proto.arrow.validation import is_ascii


def within_blocks(reader: Callable[[], Iterable[pa.RecordBatch]], otherwise: str) -> Iterator[pa.RecordBatch]:
    """The batches of a reader of text, which reads its first block when it is made. The reader's own advice on longer
    rows is for programmers, so the error says `otherwise` instead.
    """
    try:
        yield from reader()
    except pa.ArrowInvalid as error:
        if "straddling object" not in str(error):
            raise
        raise pa.ArrowInvalid(otherwise) from error


class CheckedText:
    """A stream of text as a Python file, for `pa.PythonFile`. Text that is not UTF-8, or has one of the `refused`
    bytes, raises `pa.ArrowInvalid`. A read returns fewer bytes than asked for only at the end.
    """

    closed = False

    def __init__(self, stream: pa.NativeFile, refused: bytes = b"") -> None:
        self._stream = stream
        self._refused = refused
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._at = 0

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
                raise pa.ArrowInvalid(f"byte {self._at + at:,} is {byte}, which no text has")
        if not self._decoder.getstate()[0] and is_ascii(np.frombuffer(data, np.uint8)):
            return
        try:
            self._decoder.decode(data, ended)
        except UnicodeDecodeError as error:
            raise pa.ArrowInvalid(f"it is not UTF-8 near byte {self._at + error.start:,}: {error.reason}") from error

    def close(self) -> None:
        self._stream.close()
