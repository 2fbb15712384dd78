"""Keeps long texts and binary values outside of DuckDB, which sees short names in their place.

DuckDB's sorts, windows, groups, set operations and joins hand out 2,048 rows at a time, so rows of 100 KB need hundreds
of megabytes, whatever the memory limit. Where a statement only passes the values of a column on, asks whether they are
equal, or which of them is the lesser, it sees a name in place of each value of more than `LONG` bytes. The statement's
rows get the values back, some megabytes at a time.

A name has more than `LONG` bytes, so no other value of the column is as long. The name of a value that is compared is a
digest of the value: equal values have equal names, and an order by hashes of names is the same in every run. The name
of a value that is ordered is the value's beginning, its rank among the values that begin alike, and the digest: names
have the order of their values, also among short values. Any other name is the value's offset. Values are in memory up
to a number of bytes, then in a file. Equal values that are compared are kept once.

Ranks are known once all values are: rows behind the first ordered long value wait for the end of the inputs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...proto.arrow.spill_buffer import SpillRoom
from ..core.batches import batch_of
from ..core.sizes import BATCH_BYTES, row_bytes
from .value_ranks import ValueRanks

#: The most bytes of a value that the statement itself sees.
LONG: Final = 2 << 10

_NAME: Final = LONG + 1
_DIGEST: Final = 16
#: The hexadecimal digits of an offset, of a digest, and of a length.
_OFFSET_DIGITS, _DIGEST_DIGITS, _LENGTH_DIGITS = 12, 2 * _DIGEST, 8
#: The end of a name, which leads to its value: a digest or an offset, and a length.
_END: Final = _DIGEST_DIGITS + _LENGTH_DIGITS
#: A name that is ordered begins with so many bytes of the value: no character is cut, so that the name is a text.
_BEGINNING: Final = LONG + 3
_RANK_DIGITS: Final = 8

_Numbers: TypeAlias = npt.NDArray[np.int64]
_Keys: TypeAlias = npt.NDArray[np.bytes_]


@dataclass(frozen=True, slots=True, kw_only=True)
class LongColumn:
    """A column whose long values the statement does not look at. `compared`: it asks whether values are equal.
    `ordered`: it also asks which is the lesser. `kept`: values come out of it.
    """

    compared: bool
    kept: bool
    ordered: bool = False


def _never() -> None:
    pass


class LongValues:
    """The long values of one run's inputs, up to `most` bytes in memory and the rest in a file of `room`. `close`
    removes the file. `check` is called again and again where values are put in order, and may raise.
    """

    def __init__(self, most: int, room: SpillRoom, check: Callable[[], None] = _never) -> None:
        self.room = room
        self._most = most
        self._memory = bytearray()
        self._file_bytes = 0
        self._path: str | None = None
        self._file = -1
        self._offsets = _Offsets()
        self._ranks = ValueRanks(self._read, check)
        self._rest: list[Callable[[SpillRoom], None]] = []

    def before_ranks(self, take: Callable[[SpillRoom], None]) -> None:
        """Call `take` before values are ranked: it names the rest of an input's rows, and keeps them in the room."""
        self._rest.append(take)

    def named(self, batch: pa.RecordBatch, columns: Mapping[int, LongColumn]) -> pa.RecordBatch:
        """The rows with names in place of the long values of these columns."""
        arrays = [self._named(column, columns.get(at)) for at, column in enumerate(batch.columns)]
        return batch_of(arrays, batch.num_rows, batch.schema)

    def ordered(self, batch: pa.RecordBatch, columns: Mapping[int, LongColumn]) -> pa.RecordBatch:
        """The rows that `named` gave, with the names of those of these columns that are ordered."""
        arrays = batch.columns
        for at, column in columns.items():
            if column.ordered and (replaced := self._replaced_in(arrays[at])).rows.size:
                arrays[at] = self._in_order(arrays[at], replaced)
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
        if column is None or not _may_be_long(array):
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
            texts, digits = self._digests(offsets, data, column), _DIGEST_DIGITS
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

    def _digests(self, offsets: _Numbers, data: memoryview, column: LongColumn) -> list[bytes]:
        ends = offsets.tolist()
        digests = [blake2b(data[start:stop], digest_size=_DIGEST).digest() for start, stop in pairwise(ends)]
        if column.kept or column.ordered:
            keys, firsts = np.unique(_keys(digests), return_index=True)
            new = self._offsets.of(keys) < 0
            starts = [self._add(data[ends[at] : ends[at + 1]]) for at in firsts[new].tolist()]
            self._offsets.add(keys[new], np.array(starts, np.int64))
            if column.ordered:
                parts = [blake2b(data[ends[at] : ends[at] + LONG], digest_size=8).digest() for at in firsts.tolist()]
                beginnings = np.frombuffer(b"".join(parts), np.int64)
                self._ranks.add(beginnings, self._offsets.of(keys), np.diff(offsets)[firsts])
        return [digest.hex().encode() for digest in digests]

    def _in_order(self, array: pa.Array, replaced: _Replaced) -> pa.Array:
        """The column with names that have the order of their values."""
        while self._rest:
            self._rest.pop()(self.room)
        ranks = b"".join(b"%08x" % rank for rank in self._ranks.of(replaced.offsets).tolist())
        names = np.full((len(replaced.rows), _BEGINNING + _RANK_DIGITS + _END), ord("0"), np.uint8)
        is_text = pa.types.is_string(array.type)
        for row, (offset, length) in enumerate(zip(replaced.offsets.tolist(), replaced.lengths.tolist(), strict=True)):
            beginning = bytearray(min(length, _BEGINNING if is_text else LONG))
            self._read(offset, memoryview(beginning))
            end = _whole_characters(beginning) if is_text else LONG
            names[row, :end] = np.frombuffer(beginning, np.uint8)[:end]
        names[:, _BEGINNING:-_END] = np.frombuffer(ranks, np.uint8).reshape(-1, _RANK_DIGITS)
        names[:, -_END:] = replaced.ends
        return _with_values(array, replaced.rows, _array(names, array.type))

    def _add(self, data: memoryview) -> int:
        """Keep the bytes, and return their offset."""
        offset = len(self._memory) + self._file_bytes
        if self._path is None and offset + len(data) <= self._most:
            self._memory += data
            return offset
        if self._path is None:
            self._path = self.room.path()
            self._file = os.open(self._path, os.O_RDWR)
        self.room.take(len(data))
        written = 0
        while written < len(data):
            written += os.pwrite(self._file, data[written:], self._file_bytes + written)
        self._file_bytes += len(data)
        return offset

    def _replaced_in(self, array: pa.Array) -> _Replaced:
        """The names in a column of the statement's rows."""
        if not _may_be_long(array):
            nothing = np.zeros(0, np.int64)
            return _Replaced(nothing, nothing, nothing, np.zeros((0, _END), np.uint8))
        is_name = pc.greater(pc.binary_length(array), LONG).fill_null(False)
        rows = np.flatnonzero(is_name.to_numpy(zero_copy_only=False))
        if not rows.size:
            return _Replaced(rows, rows, rows, np.zeros((0, _END), np.uint8))
        offsets, data = _parts(array.filter(is_name))
        return self._looked_up(rows, np.frombuffer(data, np.uint8)[offsets[1:, None] + np.arange(-_END, 0)])

    def _looked_up(self, rows: _Numbers, ends: npt.NDArray[np.uint8]) -> _Replaced:
        lengths = _numbers(ends[:, -_LENGTH_DIGITS:])
        before = ends[:, :-_LENGTH_DIGITS]
        if self._offsets:
            digests = [bytes.fromhex(digest.tobytes().decode()) for digest in before]
            offsets = self._offsets.of(_keys(digests))
            passed = offsets < 0
            offsets[passed] = _numbers(before[passed, -_OFFSET_DIGITS:])
        else:
            offsets = _numbers(before[:, -_OFFSET_DIGITS:])
        return _Replaced(rows, offsets, lengths, ends)

    def _restored(self, array: pa.Array, replaced: _Replaced) -> pa.Array:
        if not replaced.rows.size:
            return array
        ends = np.concatenate(([0], np.cumsum(replaced.lengths)))
        data = np.empty(int(ends[-1]), np.uint8)
        for offset, (start, stop) in zip(replaced.offsets.tolist(), pairwise(ends.tolist()), strict=True):
            self._read(offset, memoryview(data.data)[start:stop])
        buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
        return _with_values(array, replaced.rows, pa.Array.from_buffers(array.type, len(replaced.rows), buffers))

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
    """Rows of a column that have names, with the offsets and lengths of their values, and the ends of the names."""

    rows: _Numbers
    offsets: _Numbers
    lengths: _Numbers
    ends: npt.NDArray[np.uint8]

    def between(self, start: int, stop: int) -> _Replaced:
        first, last = np.searchsorted(self.rows, (start, stop))
        part = slice(first, last)
        return _Replaced(self.rows[part] - start, self.offsets[part], self.lengths[part], self.ends[part])


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


def _may_be_long(array: pa.Array) -> bool:
    """False where no value is long. A look at the offsets alone, for the many columns without long values."""
    if not len(array):
        return False
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    return bool((offsets[1:] - offsets[:-1]).max() > LONG)


def _parts(array: pa.Array) -> tuple[_Numbers, memoryview]:
    """The offsets of a text array's values, and the bytes that they lead into."""
    _, offsets, data = array.buffers()
    return np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64), memoryview(
        data
    )


def _array(names: npt.NDArray[np.uint8], type_: pa.DataType) -> pa.Array:
    offsets = (np.arange(len(names) + 1) * names.shape[1]).astype(np.int32)
    return pa.Array.from_buffers(type_, len(names), [None, pa.py_buffer(offsets), pa.py_buffer(names)])


def _with_values(array: pa.Array, rows: _Numbers, values: pa.Array) -> pa.Array:
    """The column with these values in these rows."""
    if len(rows) == len(array):
        return values
    mask = np.zeros(len(array), np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(array, pa.array(mask), values)


def _whole_characters(beginning: bytearray) -> int:
    """The bytes of a text's beginning, from `LONG` on, that are whole characters."""
    end = LONG
    while end < len(beginning) and beginning[end] & 0xC0 == 0x80:
        end += 1
    return end
