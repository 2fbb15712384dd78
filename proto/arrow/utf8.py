"""Check that bytes are UTF-8, a block at a time.

Arrow and Python decide byte by byte. NumPy compares many bytes at once, and takes half of their time or less where
much of a text is not ASCII.

A character has one first byte, which says how many bytes follow. So a byte follows exactly where one of the three bytes
before it is the first one of a character that is long enough. In addition, some bytes are in no text, and four first
bytes allow only half, or less, of the second ones: others would write a character longer than it need be, half of a
pair, or a character beyond the last one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_Bytes = NDArray[np.uint8]

_BLOCK: Final = 128 << 10
"""Bytes that are checked at a time. With what is computed of them they stay in the cache."""
_NOT_ASCII: Final = 0x80
_NOT_ASCII_WORD: Final = 0x8080808080808080
_WORD: Final = 8
#: The first bytes of characters of two, three and four bytes and more.
_FIRST_BYTES: Final = (0xC0, 0xE0, 0xF0)
_BEFORE: Final = len(_FIRST_BYTES)
_NEVER: Final = (0xC0, 0xC1)
_LAST: Final = 0xF4
_AFTER_FOLLOWING: Final = np.int8(-0x40)
"""Bytes that follow are below this, taken as signed numbers."""
#: First bytes of which the second one has a least value, or has to be below one.
_RESTRICTED: Final = (
    (0xE0, np.less, 0xA0),
    (0xED, np.greater_equal, 0xA0),
    (0xF0, np.less, 0x90),
    (0xF4, np.greater_equal, 0x90),
)


def ascii_bytes(data: _Bytes) -> int:
    """The number of bytes at the beginning that are ASCII, in whole blocks."""
    for start in range(0, len(data), _BLOCK):
        if not _is_ascii(data[start : start + _BLOCK]):
            return start
    return len(data)


def is_utf8(data: _Bytes) -> bool:
    """True where the bytes are UTF-8."""
    for before, first in enumerate(_FIRST_BYTES, 1):
        if len(data) >= before and data[-before] >= first:
            return False  # the last character is cut
    beginning = ascii_bytes(data)
    work = np.empty((3, min(len(data) - beginning, _BLOCK)), np.bool_)
    for start in range(beginning, len(data), _BLOCK):
        block = data[max(start - _BEFORE, 0) : start + _BLOCK]
        if not start:
            block = np.concatenate((np.zeros(_BEFORE, np.uint8), block))
        if not _is_right(block, work):
            return False
    return True


def _is_right(block: _Bytes, work: NDArray[np.bool_]) -> bool:
    """True where the bytes behind the first three are right."""
    raw = block.tobytes()  # which is searched for a byte faster than NumPy compares
    if raw.isascii():
        return True
    greatest = int(block.max())
    if greatest > _LAST or any(byte in raw for byte in _NEVER):
        return False
    second, first = block[_BEFORE:], block[_BEFORE - 1 : -1]
    follows, expected, matches = work[:, : len(second)]
    np.less(second.view(np.int8), _AFTER_FOLLOWING, out=follows)
    np.greater_equal(first, np.uint8(_FIRST_BYTES[0]), out=expected)
    for before, least in enumerate(_FIRST_BYTES[1:], 2):
        if greatest >= least:
            expected |= np.greater_equal(block[_BEFORE - before : -before], np.uint8(least), out=matches)
    if np.not_equal(follows, expected, out=matches).any():
        return False
    for byte, is_wrong, bound in _RESTRICTED:
        if byte in raw:
            np.equal(first, np.uint8(byte), out=expected)
            expected &= is_wrong(second, np.uint8(bound), out=matches)
            if expected.any():
                return False
    return True


def _is_ascii(data: _Bytes) -> bool:
    words = len(data) // _WORD * _WORD
    high_bits = int(np.bitwise_or.reduce(data[:words].view(np.uint64))) & _NOT_ASCII_WORD
    return not high_bits and not (data[words:] >= _NOT_ASCII).any()
