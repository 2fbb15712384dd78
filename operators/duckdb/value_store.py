"""Bytes of values at offsets: in memory up to a number of bytes, and all of them in a file where there are more.

Values that lie side by side are written, and read, in one call.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...proto.arrow.spill_buffer import SpillRoom

_Numbers: TypeAlias = npt.NDArray[np.int64]


class ValueStore:
    """The bytes: in memory, or, once there are more than `most`, in a file of `room`. `close` removes the file."""

    def __init__(self, most: int, room: SpillRoom) -> None:
        self._room = room
        self._most = most
        self._memory = bytearray()
        self._file_bytes = 0
        self._path: str | None = None
        self._file = -1

    def add(self, data: memoryview) -> int:
        """Keep the bytes, and return the offset of the first one."""
        offset = len(self._memory) + self._file_bytes
        if self._path is None and offset + len(data) <= self._most:
            self._memory += data
            return offset
        if self._path is None:
            self._path = self._room.path()
            self._file = os.open(self._path, os.O_RDWR)
            memory, self._memory = self._memory, bytearray()  # beside it the statement takes all that it may
            self._write(memoryview(memory))
        self._write(data)
        return offset

    def values(self, offsets: _Numbers, lengths: _Numbers, type_: pa.DataType) -> pa.Array:
        """The values at these offsets, in this order. Values are apart from each other, or at the same offset."""
        offsets, firsts, at = np.unique(offsets, return_index=True, return_inverse=True)
        lengths = lengths[firsts]
        bounds = np.concatenate(([0], np.cumsum(lengths)))
        data = pa.allocate_buffer(int(bounds[-1]))
        ends = offsets + lengths
        starts = [0, *(np.flatnonzero(offsets[1:] != ends[:-1]) + 1).tolist(), len(offsets)] if len(offsets) else [0]
        view, cuts = memoryview(data).cast("B"), bounds[starts].tolist()
        for offset, (start, stop) in zip(offsets[starts[:-1]].tolist(), pairwise(cuts), strict=True):
            self._read(offset, view[start:stop])
        buffers = [None, pa.py_buffer(bounds.astype(np.int32)), data]
        values = pa.Array.from_buffers(type_, len(offsets), buffers)
        is_in_order = len(at) == len(offsets) and bool((at == np.arange(len(at))).all())
        return values if is_in_order else values.take(pa.array(at))

    def close(self) -> None:
        self._memory = bytearray()
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
        path, self._path = self._path, None
        if path is not None:
            with suppress(FileNotFoundError):
                os.unlink(path)

    def _write(self, data: memoryview) -> None:
        self._room.take(len(data))
        while data:
            written = os.pwrite(self._file, data, self._file_bytes)
            self._file_bytes += written
            data = data[written:]

    def _read(self, offset: int, into: memoryview) -> None:
        if self._path is None:
            with memoryview(self._memory) as memory:  # a slice of the bytes themselves would be one copy more
                into[:] = memory[offset : offset + len(into)]
            return
        while (count := os.preadv(self._file, [into], offset)) < len(into):
            if not count:
                raise OSError(f"{self._path} ends before byte {offset}")
            into, offset = into[count:], offset + count
