"""Fingerprints of many bytes: 16 bytes that are computed as fast as memory is read.

A fingerprint finds damage, and equal bytes. It is not proof against somebody who looks for other bytes of the same
fingerprint: whoever takes two things for one compares their bytes.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

_WORD: Final = 8
_ROW: Final = 512
"""The words of a row, which are multiplied by different numbers: so few numbers stay close to a core."""
_ROWS_AT_ONCE: Final = 128
"""Half a mebibyte, which stays close to a core. Each call of NumPy lets other threads have the interpreter."""
_WORDS_AT_ONCE: Final = _ROWS_AT_ONCE * _ROW
_MODULUS: Final = 1 << 64
_SUMS: Final = 2
_WEIGHTS: Final = (np.random.PCG64(20_261_128).random_raw(_SUMS * _ROW) | np.uint64(1)).reshape(_SUMS, _ROW)
_ROW_FACTORS: Final = (0x9E3779B97F4A7C15, 0xD1342543DE82EF95)
_WEIGHTS_FROM: Final = np.concatenate((_WEIGHTS, _WEIGHTS * np.array(_ROW_FACTORS, dtype=np.uint64)[:, None]), axis=1)
"""The numbers of a row's words and of those of the next row, so that those of any `_ROW` neighbours lie together."""
_ROW_WEIGHTS: Final = np.array(
    [[pow(factor, row, _MODULUS) for row in range(_ROWS_AT_ONCE)] for factor in _ROW_FACTORS], dtype=np.uint64
)
_SIZE_FACTORS: Final = (0xAF251AF3B0F025B5, 0xB564EF22EC7AECE5)


class Fingerprint:
    """A file to write to, of which the fingerprint alone is kept. It does not depend on how writes cut the bytes.

    Two sums, each over all words of eight bytes: a word counts as often as the numbers of its row and of its place in
    the row, say. A bit of a word reaches only the bits above it in a sum, so the second sum takes the bytes of each
    word the other way round.
    """

    closed = False

    def __init__(self) -> None:
        self._rest = b""
        """The bytes of a word that is not complete."""
        self._words = 0
        self._sums = [0] * _SUMS
        self._swapped = np.empty(_WORDS_AT_ONCE, dtype="<u8")

    def write(self, data: bytes | memoryview) -> int:
        view = memoryview(data).cast("B")
        size = len(view)
        if self._rest:
            missing = _WORD - len(self._rest)
            self._rest += view[:missing]
            view = view[missing:]
            if len(self._rest) == _WORD:
                self._add(np.frombuffer(self._rest, "<u8"))
                self._rest = b""
        whole = len(view) - len(view) % _WORD
        if whole:
            self._add(np.frombuffer(view[:whole], "<u8"))
        if whole < len(view):
            self._rest = bytes(view[whole:])
        return size

    def _add(self, words: np.ndarray) -> None:
        self._sums = self._sums_with(words)
        self._words += len(words)

    def _sums_with(self, words: np.ndarray) -> list[int]:
        """The sums with these words behind those that were written."""
        sums = list(self._sums)
        for first in range(0, len(words), _WORDS_AT_ONCE):
            some = words[first : first + _WORDS_AT_ONCE]
            swapped = self._swapped[: len(some)]
            np.copyto(swapped, some.view(">u8"))
            row, position = divmod(self._words + first, _ROW)
            for at, values in enumerate((some, swapped)):
                sums[at] += _weighted(values, at, position) * pow(_ROW_FACTORS[at], row, _MODULUS)
        return sums

    def digest(self) -> bytes:
        """The fingerprint of what has been written."""
        size = self._words * _WORD + len(self._rest)
        rest = np.frombuffer(self._rest.ljust(_WORD, b"\0") if self._rest else b"", "<u8")
        sums = (
            (total + (size + 1) * factor) % _MODULUS
            for total, factor in zip(self._sums_with(rest), _SIZE_FACTORS, strict=True)
        )
        return b"".join(total.to_bytes(_WORD, "little") for total in sums)

    def flush(self) -> None:
        """Do nothing: no bytes are buffered."""

    def close(self) -> None:
        """Do nothing: more may be written."""


def _weighted(values: np.ndarray, at: int, position: int) -> int:
    """The sum of these words, of which the first one is at this position of row 0."""
    weights = _WEIGHTS_FROM[at, position : position + _ROW]
    rows, rest = divmod(len(values), _ROW)
    total = 0
    if rows:
        of_rows = np.einsum("ij,j->i", values[: rows * _ROW].reshape(rows, _ROW), weights)
        total = int(np.dot(of_rows, _ROW_WEIGHTS[at, :rows]))
    if rest:
        total += int(np.dot(values[rows * _ROW :], weights[:rest])) * int(_ROW_WEIGHTS[at, rows])
    return total


def fingerprint(data: bytes | pa.Buffer) -> bytes:
    sink = Fingerprint()
    sink.write(data)
    return sink.digest()


class Same:
    """A file to write to that compares what is written with `data`."""

    closed = False

    def __init__(self, data: pa.Buffer) -> None:
        self._data = data
        self._at = 0
        self._same = True

    def write(self, data: bytes) -> int:
        size = memoryview(data).nbytes
        if self._same:
            self._same = self._at + size <= self._data.size and self._data.slice(self._at, size).equals(
                pa.py_buffer(data)
            )
        self._at += size
        return size

    def __bool__(self) -> bool:
        """True if exactly the data was written."""
        return self._same and self._at == self._data.size

    def flush(self) -> None:
        """Do nothing: no bytes are buffered."""

    def close(self) -> None:
        """Do nothing: more may be written."""
