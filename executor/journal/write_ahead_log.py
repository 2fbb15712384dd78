"""Checks SQLite's write-ahead log for damage that SQLite passes over in silence.

SQLite reads the log up to the first frame whose checksum is wrong. That is right after a loss of power: the frames of
the last commit may be there in part. But if a frame in the middle is damaged, SQLite drops all commits behind it, and
says nothing. So this module looks behind the first bad frame.

A frame's checksum continues that of the frame before it. With `synchronous=FULL`, a commit is synced before the next
commit writes its first frame. So a frame that continues a commit proves that this commit was complete. If both stand
behind a bad frame, the log is damaged. Otherwise all frames from the bad one on may belong to one commit that was cut
off: damage of the last commit alone cannot be told from a loss of power.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

_HEADER: Final = 32
_FRAME_HEADER: Final = 24
_SUMMED: Final = 8  # of a frame's header, the page number and the size of the database
_MAGIC: Final = 0x377F0682
_PAGE_BYTES: Final = 4096
_PAGE_SIZES: Final = frozenset(1 << power for power in range(9, 17))
_SUMMED_OF_HEADER: Final = 24
_FRAMES_AT_ONCE: Final = 256
_ORDERS: Final = ("<u4", ">u4")
"""The orders of bytes in a word of a checksum: that of the machine that wrote the log."""

Words: TypeAlias = npt.NDArray[np.uint32]
Flags: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheck:
    """The whole frames of a log, and how many of them SQLite reads before the first bad one."""

    frames: int
    read: int
    damaged: bool


_EMPTY: Final = LogCheck(frames=0, read=0, damaged=False)


def check_log(path: Path) -> LogCheck:
    """Check the log in the file `path`. A log that does not exist, or has no frame, is not damaged.

    The log may be written meanwhile. A frame that is not there yet when it is read, and commits that are, look like
    damage. So a log is damaged if two reads find the same frame bad: a commit never changes the frames before it.
    """
    before: tuple[bytes, LogCheck] | None = None
    while True:
        try:
            with path.open("rb") as file:
                header = file.read(_HEADER)
                checked = _check(header, file.read())
                file.seek(0)
                is_same = file.read(_HEADER) == header
        except FileNotFoundError:
            return _EMPTY
        if is_same and not checked.damaged:
            return checked
        if is_same and before is not None and (before[0], before[1].read) == (header, checked.read):
            return checked
        before = header, checked


def _check(header: bytes, body: bytes) -> LogCheck:
    if len(header) < _HEADER:
        return _EMPTY
    words = np.frombuffer(header, ">u4").astype(np.uint32)
    order = _ORDERS[words[0] & 1]
    sums = _sums(
        np.frombuffer(header[:_SUMMED_OF_HEADER], order).astype(np.uint32)[None, :], np.zeros((1, 2), np.uint32)
    )
    if words[0] | 1 == _MAGIC | 1 and (sums[0] == words[6:8]).all() and int(words[2]) in _PAGE_SIZES:
        return _check_frames(_frames(body, int(words[2])), words[4:], order)
    for order in _ORDERS:
        check = _check_frames(_frames(body, _PAGE_BYTES), None, order)
        if check.damaged:
            return check
    return _EMPTY


def _frames(body: bytes, page: int) -> npt.NDArray[np.uint8]:
    count = len(body) // (_FRAME_HEADER + page)
    return np.frombuffer(body, np.uint8, count * (_FRAME_HEADER + page)).reshape(count, _FRAME_HEADER + page)


def _check_frames(frames: npt.NDArray[np.uint8], header: Words | None, order: str) -> LogCheck:
    """Check the frames. `header` are the salts and the checksum of the log's header; None if the header is damaged."""
    if not len(frames):
        return _EMPTY
    fields = np.ascontiguousarray(frames[:, :_FRAME_HEADER]).view(">u4").astype(np.uint32)
    salts, start = (fields[0, 2:4], fields[0, 4:6]) if header is None else (header[:2], header[2:])
    ours = (fields[:, 2:4] == salts).all(axis=1)
    continues = ours & _continues(frames, fields, np.concatenate([start[None, :], fields[:-1, 4:6]]), order)
    continues[0] &= header is not None
    read = int(np.argmin(continues)) if not continues.all() else len(continues)
    proofs = continues[1:] & ours[:-1] & (fields[:-1, 1] != 0)
    return LogCheck(frames=len(frames), read=read, damaged=bool(proofs[read:].any()))


def _continues(frames: npt.NDArray[np.uint8], fields: Words, before: Words, order: str) -> Flags:
    """True for each frame whose checksum continues the one before it."""
    parts = []
    for start in range(0, len(frames), _FRAMES_AT_ONCE):
        rows = frames[start : start + _FRAMES_AT_ONCE]
        summed = np.concatenate([rows[:, :_SUMMED], rows[:, _FRAME_HEADER:]], axis=1)
        sums = _sums(summed.view(order).astype(np.uint32), before[start : start + _FRAMES_AT_ONCE])
        parts.append((sums == fields[start : start + _FRAMES_AT_ONCE, 4:6]).all(axis=1))
    return np.concatenate(parts)


def _sums(words: Words, before: Words) -> Words:
    """The checksum of each row of words, begun with the row's two numbers in `before`.

    SQLite takes two words at a time: s0 += x0 + s1, then s1 += x1 + s0. That is linear in all words, modulo 2**32.
    """
    of_words, of_before = _factors(words.shape[1])
    return words @ of_words + before @ of_before


@cache
def _factors(words: int) -> tuple[Words, Words]:
    """The factors of each word, and of the two numbers that the sum begins with, in both numbers of the sum."""
    of_words = np.zeros((words, 2), np.uint32)
    power = np.eye(2, dtype=np.uint32)  # of the steps behind the current one
    step = np.array([[1, 1], [1, 2]], np.uint32)
    for pair in range(words - 2, -1, -2):
        of_words[pair] = power.sum(axis=1, dtype=np.uint32)  # x0 is added to both numbers
        of_words[pair + 1] = power[:, 1]
        power = power @ step
    return of_words, power.T.copy()
