"""Datasets whose rows can be looked up: by the hash of their key, or sorted by it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...operators.arrays.hashing import channel_of, hash_columns
from ...operators.core.row_reader import RowReader
from ...proto.dataset import Hashed, KeyedDataset, Ranged
from ...proto.errors import InvalidRequest
from .dataset_files import DatasetFile, DatasetFiles
from .stored_dataset import KeptDataset


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounded:
    """A file of sorted rows, with its least and its greatest key that is not null; none if all keys are null.

    With `open`, there are NaNs above the greatest key.
    """

    file: DatasetFile
    least: pa.Scalar | None
    most: pa.Scalar | None
    open: bool
    nulls: bool


class _Keyed(KeptDataset, KeyedDataset):
    """A Dataset with a key. `columns` are the names of the key's columns."""

    def __init__(
        self,
        schema: pa.Schema,
        store: DatasetFiles,
        files: Sequence[DatasetFile],
        columns: Sequence[str],
    ) -> None:
        super().__init__(schema, store, files)
        self._columns = tuple(columns)

    def lookup(self, *key: Any) -> pa.Table:
        self._check()
        values = self._values(key)
        batches = (batch for file in self._with(values) for batch in self._store.read(file))
        rows = (_equal(batch, self._columns, values) for batch in batches)
        return pa.Table.from_batches([batch for batch in rows if batch.num_rows], self.schema)

    @abstractmethod
    def _with(self, values: Sequence[pa.Scalar]) -> Iterator[DatasetFile]:
        """The files that may have rows with this key, in order."""

    def _values(self, key: Sequence[Any]) -> list[pa.Scalar]:
        if len(key) != len(self._columns):
            names = ", ".join(self._columns)
            raise InvalidRequest(
                f"a key of this Dataset must have values for {names}; this key has {len(key)} values",
                reason="KEY_VALUE",
            )
        return [self._value(column, value) for column, value in zip(self._columns, key, strict=True)]

    def _value(self, column: str, value: Any) -> pa.Scalar:
        type_ = self.schema.field(column).type
        try:
            return pa.scalar(value, type_)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            text = f"{value!r} is not a value of column {column!r}, whose type is {type_}"
            raise InvalidRequest(text, reason="KEY_VALUE") from error


class HashedDataset(_Keyed):
    """A Dataset whose rows are dealt by the hash of their key. `partitions` has the files of each partition."""

    def __init__(
        self,
        schema: pa.Schema,
        store: DatasetFiles,
        partitions: Sequence[Sequence[DatasetFile]],
        keyed: Hashed,
    ) -> None:
        super().__init__(schema, store, [file for some in partitions for file in some], keyed.columns)
        self.keyed = keyed
        self._partitions = tuple(tuple(some) for some in partitions)

    def partitions(self) -> Sequence[Sequence[pa.RecordBatch]]:
        self._check()
        return [self._batches_of(some) for some in self._partitions]

    def readers(self) -> Sequence[tuple[int, RowReader]]:
        self._check()
        return [self._reader(some) for some in self._partitions]

    def partition_files(self) -> Sequence[Sequence[str]]:
        self._check()
        return [self._paths(some) for some in self._partitions]

    def _with(self, values: Sequence[pa.Scalar]) -> Iterator[DatasetFile]:
        arrays = [pa.repeat(value, 1) for value in values]
        [home] = channel_of(hash_columns(arrays), len(self._partitions))
        return iter(self._partitions[int(home)])

    def range(self, low: Any = None, high: Any = None) -> pa.Table:  # noqa: ARG002 - it has none
        raise InvalidRequest(
            f"this Dataset is partitioned by the hash of {', '.join(self._columns)}, which keeps no order: for "
            "ranges, make a Dataset with tidegate.Ranged",
            reason="KEY_VALUE",
        )


class RangedDataset(_Keyed):
    """A Dataset whose rows are sorted by their key. Each file has its bounds."""

    def __init__(
        self,
        schema: pa.Schema,
        store: DatasetFiles,
        bounded: Sequence[Bounded],
        keyed: Ranged,
    ) -> None:
        super().__init__(schema, store, [bounded_file.file for bounded_file in bounded], (keyed.column,))
        self.keyed = keyed
        self._bounded = tuple(bounded)

    def _with(self, values: Sequence[pa.Scalar]) -> Iterator[DatasetFile]:
        [value] = values
        for bounded_file in self._bounded:
            if not value.is_valid:
                wanted = bounded_file.nulls
            elif _is_nan(value):
                wanted = bounded_file.open
            else:
                wanted = _reaches(bounded_file, value) and not _begins_above(bounded_file, value)
            if wanted:
                yield bounded_file.file

    def range(self, low: Any = None, high: Any = None) -> pa.Table:
        self._check()
        column = self._columns[0]
        least = None if low is None else self._value(column, low)
        limit = None if high is None else self._value(column, high)
        batches: list[pa.RecordBatch] = []
        for bounded_file in self._bounded:
            if least is not None and not (bounded_file.open or _reaches(bounded_file, least)):
                continue
            if limit is not None and _begins_above(bounded_file, limit):
                break
            batches += [_between(batch, column, least, limit) for batch in self._store.read(bounded_file.file)]
        return pa.Table.from_batches([batch for batch in batches if batch.num_rows], self.schema)


def _reaches(bounded_file: Bounded, value: pa.Scalar) -> bool:
    """True if the file has a key of at least this value, apart from NaNs."""
    return bounded_file.most is not None and bool(pc.greater_equal(bounded_file.most, value).as_py())


def _begins_above(bounded_file: Bounded, value: pa.Scalar) -> bool:
    return bounded_file.least is not None and bool(pc.greater(bounded_file.least, value).as_py())


def _equal(batch: pa.RecordBatch, columns: Sequence[str], values: Sequence[pa.Scalar]) -> pa.RecordBatch:
    mask: pa.Array | None = None
    for column, value in zip(columns, values, strict=True):
        array = batch.column(column)
        if not value.is_valid:
            mine = pc.is_null(array)
        elif _is_nan(value):
            mine = pc.is_nan(array)
        else:
            mine = pc.equal(array, value)
        mask = mine if mask is None else pc.and_(mask, mine)
    return batch.filter(mask)


def _between(batch: pa.RecordBatch, column: str, least: pa.Scalar | None, limit: pa.Scalar | None) -> pa.RecordBatch:
    """The rows with keys in this range. NaN is above all numbers."""
    array = batch.column(column)
    mask = pc.is_valid(array)
    if least is not None:
        above = pc.greater_equal(array, least)
        if pa.types.is_floating(array.type):
            above = pc.or_(above, pc.is_nan(array))
        mask = pc.and_(mask, above)
    if limit is not None:
        mask = pc.and_(mask, pc.less(array, limit))
    return batch.filter(mask)


def _is_nan(value: pa.Scalar) -> bool:
    return pa.types.is_floating(value.type) and value.is_valid and math.isnan(value.as_py())


def bounded(file: DatasetFile, keys: pa.ChunkedArray) -> Bounded:
    """The file with its bounds. `keys` are sorted: numbers, then NaNs, then nulls."""
    valid = len(keys) - keys.null_count
    nans = pc.sum(pc.is_nan(keys)).as_py() or 0 if pa.types.is_floating(keys.type) else 0
    some = valid > nans
    return Bounded(
        file=file,
        least=keys[0] if some else None,
        most=keys[valid - nans - 1] if some else None,
        open=nans > 0,
        nulls=keys.null_count > 0,
    )
