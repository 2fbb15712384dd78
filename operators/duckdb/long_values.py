"""Keeps long texts and binary values outside of DuckDB, which sees short names in their place.

DuckDB's sorts, windows, groups, set operations and joins hand out 2,048 rows at a time, so rows of 100 KB need hundreds
of megabytes, whatever the memory limit. Where a statement only passes the values of a column on, or asks whether they
are equal, it sees a name in place of each value of more than `LONG` bytes. The statement's rows get the values back,
some megabytes at a time.

A name has `LONG + 1` bytes, so no other value of the column is as long. The name of a value that is compared is a
digest of the value: equal values have equal names, and an order by hashes of names is the same in every run. Any other
name is the value's offset. Values are in memory up to a number of bytes, then in a file. Equal values that are compared
are kept once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..core.batches import batch_of
from ..core.sizes import BATCH_BYTES, row_bytes
from .held import SpillRoom

#: The most bytes of a value that the statement itself sees.
LONG: Final = 2 << 10

_NAME: Final = LONG + 1
_DIGEST: Final = 16
#: The hexadecimal digits of an offset, of a digest, and of a length.
_OFFSET_DIGITS, _DIGEST_DIGITS, _LENGTH_DIGITS = 12, 2 * _DIGEST, 8

_Numbers: TypeAlias = npt.NDArray[np.int64]
_Keys: TypeAlias = npt.NDArray[np.bytes_]


@dataclass(frozen=True, slots=True, kw_only=True)
class LongColumn:
    """A column whose long values the statement does not look at. `compared`: it asks whether values are equal. `kept`:
    values come out of it.
    """

    compared: bool
    kept: bool


class LongValues:
    """The long values of one run's inputs, up to `most` bytes in memory and the rest in a file of `room`. `close`
    removes the file.
    """

    def __init__(self, most: int, room: SpillRoom) -> None:
        self._most = most
        self._room = room
        self._memory = bytearray()
        self._file_bytes = 0
        self._path: str | None = None
        self._file = -1
        self._offsets = _Offsets()

    def named(self, batch: pa.RecordBatch, columns: Mapping[int, LongColumn]) -> pa.RecordBatch:
        """The rows with names in place of the long values of these columns."""
        arrays = [self._named(column, columns.get(at)) for at, column in enumerate(batch.columns)]
        return batch_of(arrays, batch.num_rows, batch.schema)

    def restored(self, batch: pa.RecordBatch, columns: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows with the values back in these columns, some megabytes of values at a time."""
        by_column = {at: self._replaced_in(batch.column(at)) for at in columns}
        by_column = {at: replaced for at, replaced in by_column.items() if replaced.rows.size}
        if not by_column:
            yield batch
            return
        sizes = row_bytes(batch)
        for replaced in by_column.values():
            sizes[replaced.rows] += replaced.lengths
        up_to = np.cumsum(sizes)
        start = 0
        while start < batch.num_rows:
            before = int(up_to[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(up_to, before + BATCH_BYTES, side="right")))
            part = batch.slice(start, stop - start)
            arrays = part.columns
            for at, replaced in by_column.items():
                arrays[at] = self._restored(arrays[at], replaced.between(start, stop))
            yield batch_of(arrays, part.num_rows, batch.schema)
            start = stop

    def close(self) -> None:
        self._memory = bytearray()
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
        path, self._path = self._path, None
        if path is not None:
            with suppress(FileNotFoundError):
                os.unlink(path)

    def _named(self, array: pa.Array, column: LongColumn | None) -> pa.Array:
        if column is None or not len(array):
            return array
        is_long = pc.greater(pc.binary_length(array), LONG).fill_null(False)
        count = is_long.true_count
        if not count:
            return array
        long = array if count == len(array) else array.filter(is_long)
        names = _array(self._names(long, column), array.type)
        return names if count == len(array) else pc.replace_with_mask(array, is_long, names)

    def _names(self, long: pa.Array, column: LongColumn) -> npt.NDArray[np.uint8]:
        offsets, data = _parts(long)
        lengths = np.diff(offsets)
        if column.compared:
            texts, digits = self._digests(offsets, data, kept=column.kept), _DIGEST_DIGITS
        elif column.kept:
            first = self._add(data[int(offsets[0]) : int(offsets[-1])])
            texts, digits = [b"%012x" % (first + int(at - offsets[0])) for at in offsets[:-1]], _OFFSET_DIGITS
        else:
            texts, digits = [b""] * len(long), 0
        names = np.full((len(long), _NAME), ord("0"), np.uint8)
        ends = b"".join(name + b"%08x" % int(length) for name, length in zip(texts, lengths, strict=True))
        width = digits + _LENGTH_DIGITS
        names[:, -width:] = np.frombuffer(ends, np.uint8).reshape(-1, width)
        return names

    def _digests(self, offsets: _Numbers, data: memoryview, *, kept: bool) -> list[bytes]:
        ends = offsets.tolist()
        digests = [blake2b(data[start:stop], digest_size=_DIGEST).digest() for start, stop in pairwise(ends)]
        if kept:
            keys, firsts = np.unique(_keys(digests), return_index=True)
            new = self._offsets.of(keys) < 0
            starts = [self._add(data[ends[at] : ends[at + 1]]) for at in firsts[new].tolist()]
            self._offsets.add(keys[new], np.array(starts, np.int64))
        return [digest.hex().encode() for digest in digests]

    def _add(self, data: memoryview) -> int:
        """Keep the bytes, and return their offset."""
        offset = len(self._memory) + self._file_bytes
        if self._path is None and offset + len(data) <= self._most:
            self._memory += data
            return offset
        if self._path is None:
            self._path = self._room.path()
            self._file = os.open(self._path, os.O_RDWR)
        self._room.take(len(data))
        written = 0
        while written < len(data):
            written += os.pwrite(self._file, data[written:], self._file_bytes + written)
        self._file_bytes += len(data)
        return offset

    def _replaced_in(self, array: pa.Array) -> _Replaced:
        """The names in a column of the statement's rows."""
        is_name = pc.greater(pc.binary_length(array), LONG).fill_null(False)
        rows = np.flatnonzero(is_name.to_numpy(zero_copy_only=False))
        if not rows.size:
            return _Replaced(rows, rows, rows)
        offsets, data = _parts(array.filter(is_name))
        return self._looked_up(rows, np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].reshape(-1, _NAME))

    def _looked_up(self, rows: _Numbers, names: npt.NDArray[np.uint8]) -> _Replaced:
        lengths = _numbers(names[:, -_LENGTH_DIGITS:])
        before = names[:, :-_LENGTH_DIGITS]
        if self._offsets:
            digests = [bytes.fromhex(digest.tobytes().decode()) for digest in before[:, -_DIGEST_DIGITS:]]
            offsets = self._offsets.of(_keys(digests))
            passed = offsets < 0
            offsets[passed] = _numbers(before[passed, -_OFFSET_DIGITS:])
        else:
            offsets = _numbers(before[:, -_OFFSET_DIGITS:])
        return _Replaced(rows, offsets, lengths)

    def _restored(self, array: pa.Array, replaced: _Replaced) -> pa.Array:
        if not replaced.rows.size:
            return array
        ends = np.concatenate(([0], np.cumsum(replaced.lengths)))
        data = np.empty(int(ends[-1]), np.uint8)
        for offset, (start, stop) in zip(replaced.offsets.tolist(), pairwise(ends.tolist()), strict=True):
            self._read(offset, memoryview(data.data)[start:stop])
        buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
        values = pa.Array.from_buffers(array.type, len(replaced.rows), buffers)
        if len(replaced.rows) == len(array):
            return values
        mask = np.zeros(len(array), np.bool_)
        mask[replaced.rows] = True
        return pc.replace_with_mask(array, pa.array(mask), values)

    def _read(self, offset: int, into: memoryview) -> None:
        if offset < len(self._memory):
            into[:] = self._memory[offset : offset + len(into)]
            return
        offset -= len(self._memory)
        while into:
            count = os.preadv(self._file, [into], offset)
            if not count:
                raise OSError(f"{self._path} ends before byte {offset}")
            into, offset = into[count:], offset + count


@dataclass(frozen=True, slots=True, eq=False)
class _Replaced:
    """Rows of a column that have names, with the offsets and lengths of their values."""

    rows: _Numbers
    offsets: _Numbers
    lengths: _Numbers

    def between(self, start: int, stop: int) -> _Replaced:
        first, last = np.searchsorted(self.rows, (start, stop))
        return _Replaced(self.rows[first:last] - start, self.offsets[first:last], self.lengths[first:last])


class _Offsets:
    """The offsets of values by their digests: sorted runs, merged as they grow."""

    def __init__(self) -> None:
        self._runs: list[tuple[_Keys, _Numbers]] = []

    def __bool__(self) -> bool:
        return bool(self._runs)

    def of(self, keys: _Keys) -> _Numbers:
        """The offset of each digest, -1 where there is none."""
        offsets_found = np.full(len(keys), -1, np.int64)
        for known, offsets in self._runs:
            at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            offsets_found = np.where(known[at] == keys, offsets[at], offsets_found)
        return offsets_found

    def add(self, keys: _Keys, offsets: _Numbers) -> None:
        """Add digests that are sorted and new."""
        if not len(keys):
            return
        self._runs.append((keys, offsets))
        while len(self._runs) > 1 and len(self._runs[-2][0]) <= 2 * len(self._runs[-1][0]):
            one, other = self._runs.pop(), self._runs.pop()
            together = np.concatenate((one[0], other[0]))
            order = np.argsort(together)
            self._runs.append((together[order], np.concatenate((one[1], other[1]))[order]))


def _keys(digests: Sequence[bytes]) -> _Keys:
    return np.frombuffer(b"".join(digests), f"S{_DIGEST}")


def _numbers(digits: npt.NDArray[np.uint8]) -> _Numbers:
    return np.array([int(digit.tobytes(), 16) for digit in digits], np.int64)


def _parts(array: pa.Array) -> tuple[_Numbers, memoryview]:
    """The offsets of a text array's values, and the bytes that they lead into."""
    _, offsets, data = array.buffers()
    return np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64), memoryview(
        data
    )


def _array(names: npt.NDArray[np.uint8], type_: pa.DataType) -> pa.Array:
    offsets = (np.arange(len(names) + 1) * _NAME).astype(np.int32)
    return pa.Array.from_buffers(type_, len(names), [None, pa.py_buffer(offsets), pa.py_buffer(names)])
