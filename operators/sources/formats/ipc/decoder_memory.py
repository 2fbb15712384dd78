"""The memory of a decoder, by the headers of what it decodes.

A decoder keeps the last bytes that it has decoded: of zstd as many as a frame's window, of LZ4 two blocks. The header
of a frame states both, and may state much more than the frame needs. A buffer may be several frames.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

_HEAD: Final = 19
#: Frames with more blocks than one for so many decoded bytes, and some, are not walked through.
_BLOCK_BYTES: Final = 1 << 12
_FEW_BLOCKS: Final = 1 << 10

_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_CONTENT: Final = (0, 2, 4, 8)
_ZSTD_DICTIONARY: Final = (0, 1, 2, 4)
_ZSTD_RUN: Final = 1
#: The library refuses frames with a larger window.
_ZSTD_MOST: Final = 128 << 20

_LZ4: Final = b"\x04\x22\x4d\x18"
_LZ4_MOST: Final = 4 << 20


def window_bytes(file: pa.NativeFile, offset: int, stored: int, length: int, codec: str) -> int:
    """The decoded bytes that a decoder keeps for a buffer of `stored` bytes at `offset`, which has `length` bytes."""
    return min(_WINDOWS[codec](file, offset, offset + stored, length), length)


def _zstd(file: pa.NativeFile, at: int, end: int, length: int) -> int:
    window, left = 0, length // _BLOCK_BYTES + _FEW_BLOCKS
    while at < end:
        head = bytes(file.read_at(_HEAD, at)).ljust(_HEAD, b"\0")
        if head[:4] != _ZSTD:
            return _ZSTD_MOST
        flags = head[4]
        has_window, has_checksum = not flags & 32, flags & 4
        size_at = 5 + has_window + _ZSTD_DICTIONARY[flags & 3]
        size_bytes = _ZSTD_CONTENT[flags >> 6] or int(not has_window)
        content = int.from_bytes(head[size_at : size_at + size_bytes], "little") + (256 if size_bytes == 2 else 0)
        window = max(window, _zstd_window(head[5]) if has_window else content)
        if size_bytes and content == length:
            return window  # the frame is all that is decoded of the buffer
        at += size_at + size_bytes
        is_last = False
        while not is_last:
            left -= 1
            if not left:
                return _ZSTD_MOST
            block = int.from_bytes(file.read_at(3, at), "little")
            is_last, kind = bool(block & 1), block >> 1 & 3
            at += 3 + (1 if kind == _ZSTD_RUN else block >> 3)
        at += 4 if has_checksum else 0
    return window


def _zstd_window(descriptor: int) -> int:
    base = 1 << (10 + (descriptor >> 3))
    return base + base // 8 * (descriptor & 7)


def _lz4(file: pa.NativeFile, at: int, end: int, length: int) -> int:
    largest, left = 0, length // _BLOCK_BYTES + _FEW_BLOCKS
    while at < end:
        head = bytes(file.read_at(_HEAD, at)).ljust(_HEAD, b"\0")
        if head[:4] != _LZ4:
            return 2 * _LZ4_MOST
        flags = head[4]
        has_content, has_dictionary, has_checksum, has_block_checksums = flags & 8, flags & 1, flags & 4, flags & 16
        largest = max(largest, min(1 << (8 + 2 * (head[5] >> 4 & 7)), _LZ4_MOST))
        if has_content and int.from_bytes(head[6:14], "little") == length:
            return 2 * largest  # the frame is all that is decoded of the buffer
        at += 7 + (8 if has_content else 0) + (4 if has_dictionary else 0)
        while size := int.from_bytes(file.read_at(4, at), "little") & 0x7FFF_FFFF:
            left -= 1
            if not left:
                return 2 * _LZ4_MOST
            at += 4 + size + (4 if has_block_checksums else 0)
        at += 4 + (4 if has_checksum else 0)
    return 2 * largest


_WINDOWS: Final[Mapping[str, Callable[[pa.NativeFile, int, int, int], int]]] = {"zstd": _zstd, "lz4": _lz4}
