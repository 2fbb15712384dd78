"""Keeps long texts and binary values outside of DuckDB, which sees short names in their place.

DuckDB's sorts, windows, groups, set operations and joins hand out 2,048 rows at a time, so rows of 100 KB need hundreds
of megabytes, whatever the memory limit. Where a statement only passes the values of a column on, asks whether they are
equal, or which of them is the lesser, it sees a name in place of each long value. The statement's
rows get the values back, some megabytes at a time. The values may be inside of lists, structs and maps.

A name is long itself, and no other long value is left in the column. The name of a value that is compared is a
digest of the value: equal values have equal names, and an order by hashes of names is the same in every run. The name
of a value that is ordered is the value's beginning, its rank among the values that begin alike, and the digest: names
have the order of their values, also among short values. Any other name is the value's offset. Values are in memory up
to a number of bytes, then in a file. Equal values that are compared are kept once.

Ranks are known once all values are: rows behind the first ordered long value wait for the end of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...proto.arrow.spill_buffer import SpillBuffer, SpillRoom
from ..arrays.digest_offsets import DIGEST_BYTES, DigestOffsets, Digests, different, digests_of
from ..arrays.hashing import hash_array
from ..arrays.texts_inside import texts_in, with_texts
from ..arrays.value_ranks import ValueRanks
from ..core.batches import batch_of
from ..core.blocks import BLOCK_ROWS
from ..core.sizes import BATCH_BYTES, Sizes, batch_bytes, text_bytes, value_bytes
from ..core.wide_rows import PassingRows, taken
from .value_store import ValueStore

#: The most bytes of a value that a statement sees where its memory is large.
LONG: Final = 2 << 10
#: The bytes that every statement sees.
LEAST_LONG: Final = 64

#: A sort that spills merges so many rows at a time, and holds all of them. Windows and the ordered form of joins have
#: sorts inside.
_MERGED_ROWS: Final = 122_880
#: Merged rows may take one part in so many of the memory. Runs on their way in and out take the rest.
_SHARE: Final = 8
#: Inputs that are one part in so many of the memory are sorted without spilling.
_SMALL_SHARE: Final = 8

#: The hexadecimal digits of an offset, of a digest, and of a length.
_OFFSET_DIGITS, _DIGEST_DIGITS, _LENGTH_DIGITS = 16, 2 * DIGEST_BYTES, 8
#: The end of a name, which leads to its value: a digest or an offset, and a length.
_END: Final = _DIGEST_DIGITS + _LENGTH_DIGITS
#: The bytes of a character beyond its first.
_REST_OF_CHARACTER: Final = 3
_RANK_DIGITS: Final = 8
#: The bytes in memory of what is known about values until they are ranked.
_WAITING_BYTES: Final = 4 << 20
_NAMES_AT_ONCE: Final = 8_192

_Numbers: TypeAlias = npt.NDArray[np.int64]


def sortable_text_bytes(memory_limit: int) -> int:
    """The bytes that the texts of a row may have in a sort that spills."""
    return memory_limit // (_SHARE * _MERGED_ROWS)


def unspilled_bytes(memory_limit: int) -> int:
    """The bytes of all rows up to which no sort of them spills."""
    return memory_limit // _SMALL_SHARE


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
    """The long values of one run's inputs, those of more than `long` bytes: up to `most` bytes in memory and the rest
    in a file of `room`. `close` removes the file. `check` is called again and again where values are put in order, and
    may raise.
    """

    def __init__(self, most: int, room: SpillRoom, check: Callable[[], None] = _never, *, long: int = LONG) -> None:
        self.room = room
        self._long = long
        self._store = ValueStore(most, room)
        self._offsets = DigestOffsets()
        self._passing = PassingRows(2 * BATCH_BYTES)
        waiting = SpillBuffer(room, _WAITING_BYTES)
        self._ranks = ValueRanks(partial(self._store.values, type_=pa.binary()), check, waiting)
        self._rest: list[Callable[[SpillRoom], None]] = []

    def before_ranks(self, take: Callable[[SpillRoom], None]) -> None:
        """Call `take` before values are ranked: it names the rest of an input's rows, and keeps them in the room."""
        self._rest.append(take)

    def named(self, batch: pa.RecordBatch, columns: Mapping[int, LongColumn]) -> pa.RecordBatch:
        """The rows with names in place of the long values of these columns."""
        self._passing.add(batch)
        arrays = batch.columns
        for at, column in columns.items():
            arrays[at] = with_texts(arrays[at], partial(self._named, column=column))
        named = batch_of(arrays, batch.num_rows, batch.schema)
        if 2 * batch_bytes(named) > batch_bytes(batch):
            return named
        # All columns of a batch may lie in one buffer, or in one mapped file: each of them would keep the long values.
        return taken(named, pa.array(np.arange(named.num_rows)))

    def ordered(self, batch: pa.RecordBatch, columns: Mapping[int, LongColumn]) -> pa.RecordBatch:
        """The rows that `named` gave, with the names of those of these columns that are ordered."""
        arrays = batch.columns
        for at, column in columns.items():
            if column.ordered:
                arrays[at] = with_texts(arrays[at], self._in_order)
        return batch_of(arrays, batch.num_rows, batch.schema)

    def restored(self, batch: pa.RecordBatch, columns: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows with the values back in these columns, some megabytes of values at a time."""
        if not any(self._may_be_long(texts) for at in columns for texts in texts_in(batch.column(at))):
            yield batch
            return
        sizes = np.zeros(batch.num_rows, np.int64)
        for at, column in enumerate(batch.columns):
            sizes += value_bytes(column, self._restored_bytes if at in columns else text_bytes)
        up_to = np.cumsum(sizes)
        start = 0
        while start < batch.num_rows:
            before = int(up_to[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(up_to, before + BATCH_BYTES, side="right")))
            part = batch.slice(start, stop - start)
            arrays = part.columns
            for at in columns:
                arrays[at] = with_texts(arrays[at], self._restored)
            whole = batch_of(arrays, part.num_rows, batch.schema)
            self._passing.add(whole)
            yield whole
            start = stop

    def close(self) -> None:
        self._store.close()
        self._ranks.close()

    def _may_be_long(self, array: pa.Array) -> bool:
        """False where no value is long. A look at the offsets alone, for the many columns without long values: at so
        few of them at once that they stay close to a core.
        """
        if not len(array):
            return False
        offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
        rows = range(0, len(array), BLOCK_ROWS)
        return any(np.diff(offsets[first : first + BLOCK_ROWS + 1]).max() > self._long for first in rows)

    def _named(self, array: pa.Array, column: LongColumn) -> pa.Array:
        if not self._may_be_long(array):
            return array
        is_long = pc.greater(pc.binary_length(array), self._long).fill_null(False)
        count = is_long.true_count
        if not count:
            return array
        long = array if count == len(array) else array.filter(is_long)
        names = _array(self._names(long, column), array.type)
        return names if count == len(array) else pc.replace_with_mask(array, is_long, names)

    def _names(self, long: pa.Array, column: LongColumn) -> npt.NDArray[np.uint8]:
        offsets, data = _parts(long)
        lengths = np.diff(offsets)
        names = np.full((len(long), self._long + 1), ord("0"), np.uint8)
        names[:, -_LENGTH_DIGITS:] = _digits(lengths, _LENGTH_DIGITS)
        before = names[:, -_END:-_LENGTH_DIGITS]
        if column.compared:
            digests = self._digests(long, column)
            before[:] = np.frombuffer(digests.hex().encode(), np.uint8).reshape(before.shape)
        elif column.kept:
            first = self._store.add(data[int(offsets[0]) : int(offsets[-1])])
            before[:, -_OFFSET_DIGITS:] = _digits(first + offsets[:-1] - offsets[0], _OFFSET_DIGITS)
        return names

    def _digests(self, long: pa.Array, column: LongColumn) -> bytes:
        ends, data = _parts(long)
        digests = b"".join(
            [blake2b(data[start:stop], digest_size=DIGEST_BYTES).digest() for start, stop in pairwise(ends.tolist())]
        )
        if column.kept or column.ordered:
            digest_rows = digests_of(digests)
            rows = different(digest_rows)
            offsets = self._kept_at(long, digest_rows[rows], rows)
            if column.ordered:
                beginnings = hash_array(pc.binary_slice(_as_bytes(long), 0, self._long)).view(np.int64)
                self._ranks.add(beginnings[rows], offsets, np.diff(ends)[rows])
        return digests

    def _kept_at(self, long: pa.Array, digests: Digests, rows: _Numbers) -> _Numbers:
        """The offsets of the values of these rows, which have these digests; new values are kept."""
        offsets = self._offsets.of(digests)
        is_new = offsets < 0
        if is_new.any():
            values = long if len(long) == is_new.sum() else long.take(pa.array(rows[is_new]))
            ends, data = _parts(values)
            first = self._store.add(data[int(ends[0]) : int(ends[-1])])
            offsets[is_new] = first + ends[:-1] - ends[0]
            self._offsets.add(digests[is_new], offsets[is_new])
        return offsets

    def _in_order(self, array: pa.Array) -> pa.Array:
        """The column with names that have the order of their values."""
        replaced = self._replaced_in(array)
        if not replaced.rows.size:
            return array
        while self._rest:
            self._rest.pop()(self.room)
        self._passing.add_bytes(len(replaced.rows) * self._long)
        names = np.full((len(replaced.rows), self._long + _REST_OF_CHARACTER + _RANK_DIGITS + _END), ord("0"), np.uint8)
        is_text = pa.types.is_string(array.type)
        for first in range(0, len(names), _NAMES_AT_ONCE):
            part = slice(first, first + _NAMES_AT_ONCE)
            self._begin(names[part], replaced.offsets[part], replaced.lengths[part], is_text=is_text)
        names[:, -_END:] = replaced.ends
        return _with_values(array, replaced.rows, _array(names, array.type))

    def _begin(self, names: npt.NDArray[np.uint8], offsets: _Numbers, lengths: _Numbers, *, is_text: bool) -> None:
        """Write the values' beginnings, in whole characters, and their ranks into the names."""
        least, most = self._long, self._long + _REST_OF_CHARACTER
        widths = np.minimum(lengths, most if is_text else least)
        for width in np.unique(widths).tolist():
            rows = np.flatnonzero(widths == width)
            beginnings = self._store.values(offsets[rows], widths[rows], pa.binary())
            names[rows, :width] = np.frombuffer(beginnings.buffers()[2], np.uint8).reshape(len(rows), width)
        if is_text:
            _keep_whole_characters(names[:, least:most])
        names[:, most : most + _RANK_DIGITS] = _digits(self._ranks.of(offsets), _RANK_DIGITS)

    def _names_in(self, array: pa.Array) -> tuple[_Numbers, npt.NDArray[np.uint8]]:
        """The rows of a column of the statement's rows that have names, and the ends of the names."""
        rows = np.zeros(0, np.int64)
        if self._may_be_long(array):
            is_name = pc.greater(pc.binary_length(array), self._long).fill_null(False)
            rows = np.flatnonzero(is_name.to_numpy(zero_copy_only=False))
        if not rows.size:
            return rows, np.zeros((0, _END), np.uint8)
        offsets, data = _parts(array if len(rows) == len(array) else array.filter(is_name))
        first, last = int(offsets[0]), int(offsets[-1])
        names = np.frombuffer(data, np.uint8)[first:last].reshape(len(rows), -1)  # all names of a column are as long
        return rows, names[:, -_END:]

    def _replaced_in(self, array: pa.Array) -> _Replaced:
        """The names in a column of the statement's rows."""
        rows, ends = self._names_in(array)
        before = ends[:, :-_LENGTH_DIGITS]
        if self._offsets:
            offsets = self._offsets.of(digests_of(bytes.fromhex(before.tobytes().decode())))
            passed = offsets < 0
            offsets[passed] = _numbers(before[passed, -_OFFSET_DIGITS:])
        else:
            offsets = _numbers(before[:, -_OFFSET_DIGITS:])
        return _Replaced(rows, offsets, _lengths(ends), ends)

    def _restored_bytes(self, array: pa.Array) -> Sizes:
        sizes = text_bytes(array)
        rows, ends = self._names_in(array)
        sizes[rows] = _lengths(ends)
        return sizes

    def _restored(self, array: pa.Array) -> pa.Array:
        replaced = self._replaced_in(array)
        if not replaced.rows.size:
            return array
        values = self._store.values(replaced.offsets, replaced.lengths, array.type)
        return _with_values(array, replaced.rows, values)


@dataclass(frozen=True, slots=True, eq=False)
class _Replaced:
    """Rows of a column that have names, with the offsets and lengths of their values, and the ends of the names."""

    rows: _Numbers
    offsets: _Numbers
    lengths: _Numbers
    ends: npt.NDArray[np.uint8]


def _digits(numbers: _Numbers, count: int) -> npt.NDArray[np.uint8]:
    """The last hexadecimal digits of each number."""
    digits = np.frombuffer(numbers.astype(">i8").tobytes().hex().encode(), np.uint8)
    return digits.reshape(len(numbers), -1)[:, -count:]


def _numbers(digits: npt.NDArray[np.uint8]) -> _Numbers:
    """The number of each row of 8 or 16 hexadecimal digits."""
    numbers = np.frombuffer(bytes.fromhex(digits.tobytes().decode()), f">u{digits.shape[1] // 2}")
    return numbers.astype(np.int64)


def _lengths(ends: npt.NDArray[np.uint8]) -> _Numbers:
    """The lengths of the values whose names end so."""
    return _numbers(ends[:, -_LENGTH_DIGITS:])


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


def _keep_whole_characters(rests: npt.NDArray[np.uint8]) -> None:
    """Put zeros in place of all bytes, of up to three each, that do not go on with the character before them."""
    goes_on = np.ones(len(rests), np.bool_)
    for at in range(rests.shape[1]):
        goes_on &= (rests[:, at] & 0xC0) == 0x80
        rests[~goes_on, at] = ord("0")


def _as_bytes(array: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), len(array), array.buffers(), offset=array.offset)
