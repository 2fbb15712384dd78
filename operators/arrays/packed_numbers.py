"""Lists of whole numbers in Parquet's encoding DELTA_BINARY_PACKED: the first number, and packed differences.

A few bytes may stand for any number of equal differences, so a list is looked through before it is unpacked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ...proto.arrow import thrift
from ...proto.arrow.thrift import Damaged
from ..core.interrupts import look

Counts = npt.NDArray[np.int64]

#: Numbers are packed in groups of so many.
_GROUP: Final = 8
#: What the numbers in a block, and in a part, are multiples of.
_BLOCK: Final = 128
_PART: Final = 32
_LOOK_AT: Final = 1 << 10
_WIDEST: Final = 64
_GROUPS_AT_A_TIME: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Packed:
    """A list of numbers in DELTA_BINARY_PACKED, up to `end`: the first one and the differences of all others, which are
    packed in parts of so many numbers. `least` is added to all differences of a block. `parts` are the numbers before
    each part and the position of its bits, by the bits of a number.
    """

    count: int
    first: int
    in_block: int
    in_part: int
    least: list[int]
    parts: dict[int, list[tuple[int, int]]]
    end: int


def packed(data: bytes, at: int, most: int) -> Packed:
    """The list of at most so many numbers from `at` on."""
    in_block, at = varint(data, at)
    parts, at = varint(data, at)
    count, at = varint(data, at)
    first, at = varint(data, at)
    if not 0 < parts <= in_block or in_block % _BLOCK or in_block % (parts * _PART):
        raise Damaged("the numbers of a page are not packed as they must be")
    if count > most:
        raise Damaged(f"a page of {most:,} values has {count:,} lengths")
    in_part = in_block // parts
    least: list[int] = []
    parts_by_width: dict[int, list[tuple[int, int]]] = {}
    for position in range(0, count - 1, in_block):
        number, at = varint(data, at)
        least.append(_signed(number))
        widths = data[at : at + parts]
        at += parts
        for width, start in zip(widths, range(position, count - 1, in_part), strict=False):
            parts_by_width.setdefault(width, []).append((start, at))
            at += width * in_part // _GROUP
        if at > len(data) or len(widths) < parts or max(parts_by_width) > _WIDEST:
            raise Damaged("the numbers of a page end before the last one")
        if len(least) % _LOOK_AT == 0:
            look()
    return Packed(count, _signed(first), in_block, in_part, least, parts_by_width, at)


def unpacked(data: bytes, numbers: Packed) -> Counts:
    """The numbers of a list."""
    if not numbers.count:
        return np.zeros(0, np.int64)
    values = np.repeat(np.array(numbers.least, np.int64), numbers.in_block)[: numbers.count - 1]
    for width, parts in numbers.parts.items():
        for start, unpacked_part in _positioned(data, width, numbers.in_part, parts, len(values)):
            values[start] += unpacked_part
    return np.cumsum(np.concatenate(([numbers.first], values)), dtype=np.int64)


def _positioned(
    data: bytes, width: int, count: int, parts: list[tuple[int, int]], end: int
) -> Iterator[tuple[Counts, Counts]]:
    """Positions below `end`, and their numbers, of parts of `count` numbers of so many bits."""
    firsts, offsets = np.array(parts).T
    groups = np.arange(-(-min(count, end) // _GROUP) if width else 0)
    positions = (firsts[:, None] + groups * _GROUP).ravel()
    starts = (offsets[:, None] + groups * width).ravel()
    read, weights = np.frombuffer(data, np.uint8), np.uint64(1) << np.arange(width, dtype=np.uint64)
    for at in range(0, len(positions), _GROUPS_AT_A_TIME):
        bytes_ = read[starts[at : at + _GROUPS_AT_A_TIME, None] + np.arange(width)]
        bits = np.unpackbits(bytes_, axis=1, bitorder="little").reshape(-1, _GROUP, width)
        where = (positions[at : at + _GROUPS_AT_A_TIME, None] + np.arange(_GROUP)).ravel()
        yield where[where < end], (bits @ weights).view(np.int64).ravel()[where < end]


def _signed(number: int) -> int:
    """A number that was written zigzag, of 64 bits."""
    number &= (1 << _WIDEST) - 1
    return number >> 1 if not number & 1 else -(number >> 1) - 1


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the position behind it."""
    try:
        return thrift.varint(data, at)
    except IndexError as error:
        raise Damaged("a page ends in the middle of a number") from error
