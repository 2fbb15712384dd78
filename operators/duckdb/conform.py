"""Conversion of DuckDB's rows to exactly the schema that the plan promises, or an error that names the value that does
not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from ...proto.arrow.without_rows import no_values
from ...proto.errors import ExecutionError, InternalError
from ..arrays.casts import LossyCast, cast, castable, plain
from ..core.batches import batch_of

Convert: TypeAlias = Callable[[pa.Array], pa.Array]

_NO_UUID = "0" * 32
_DAY_US = 86_400_000_000
_INTERVAL = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])


class Conform:
    """A converter to batches of `schema`. Columns go by position: names inside a statement mean nothing outside of
    it.
    """

    def __init__(self, schema: pa.Schema, plan_path: str) -> None:
        self._schema = schema
        self._plan_path = plan_path
        self._converts: tuple[Convert | None, ...] | None = None
        self._required = tuple(i for i, field in enumerate(schema) if not field.nullable)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not len(
            self._schema
        ):  # SQL has no rows without columns, so the statement has given a column that stands for none
            return batch_of((), batch.num_rows, self._schema)
        if self._converts is None:
            self._converts = self._plan(batch.schema)
        if not self._required and not any(self._converts) and batch.schema.equals(self._schema, check_metadata=True):
            return batch
        columns = batch.columns
        for i, convert in enumerate(self._converts):
            if convert is not None:
                columns[i] = self._convert(i, convert, columns[i])
        for i in self._required:
            if columns[i].null_count:
                raise ExecutionError(
                    f"{self._plan_path}: column {self._schema.field(i).name!r} of the result is required, and has a "
                    "null",
                    reason="NULL_IN_REQUIRED_COLUMN",
                )
        return batch_of(columns, batch.num_rows, self._schema)

    def taken_from(self, schema: pa.Schema) -> pa.Schema:
        """The schema in which rows of `schema` are best made: that of this converter, where no value is converted or
        checked.
        """
        return schema if self._required or schema.types != self._schema.types else self._schema

    def _plan(self, schema: pa.Schema) -> tuple[Convert | None, ...]:
        if len(schema) != len(self._schema):
            raise InternalError(
                f"{self._plan_path}: the statement gives {len(schema)} columns, not {len(self._schema)}"
            )
        return tuple(self._choose(f.type, t) for f, t in zip(schema, self._schema, strict=True))

    def _choose(self, source: pa.DataType, field: pa.Field) -> Convert | None:
        target = field.type
        if source.equals(target):
            return None
        if positional(_own(no_values(source), target).type, target):
            return lambda array: cast(_renamed(_own(array, target), target), target)
        raise ExecutionError(
            f"{self._plan_path}: column {field.name!r} of the result is {source}, which cannot be converted to "
            f"{target}",
            reason="UNSUPPORTED_TYPE",
        )

    def _convert(self, index: int, convert: Convert, array: pa.Array) -> pa.Array:
        try:
            return convert(array)
        except LossyCast as error:
            name = self._schema.field(index).name
            raise ExecutionError(
                f"{self._plan_path}: column {name!r} of the result: {error}", reason="VALUE_LOST"
            ) from error


def positional(source: pa.DataType, target: pa.DataType) -> bool:
    """True where lossless casts turn `source` into `target`, with structs' fields matched by position and not by
    name.
    """
    return castable(_names_of(source, target), target)


def _renamed(array: pa.Array, target: pa.DataType) -> pa.Array:
    """`array` with the names that its structs, at any depth, have in `target`. Values are not copied."""
    wanted = _names_of(array.type, target)
    return array if array.type.equals(wanted) else array.view(wanted)


def _names_of(source: pa.DataType, target: pa.DataType) -> pa.DataType:
    target = plain(target)
    if source.num_fields != target.num_fields:
        return source
    if kinds.is_struct(source) and kinds.is_struct(target):
        pairs = [(source.field(i), target.field(i)) for i in range(source.num_fields)]
        return pa.struct([s.with_name(t.name).with_type(_names_of(s.type, t.type)) for s, t in pairs])
    if kinds.is_list(source) and kinds.is_list(target):
        return pa.list_(source.value_field.with_type(_names_of(source.value_type, target.value_type)))
    if kinds.is_map(source) and kinds.is_map(target):
        key, item = _names_of(source.key_type, target.key_type), _names_of(source.item_type, target.item_type)
        return pa.map_(source.key_field.with_type(key), source.item_field.with_type(item))
    return source


def _own(array: pa.Array, target: pa.DataType) -> pa.Array:
    """`array` with durations in place of intervals, and UUIDs in place of texts, where `target` has them at any depth:
    Arrow has no casts for these. Everything else stays as it is.
    """
    source = array.type
    if kinds.is_interval(source) and kinds.is_duration(target):
        return _durations(array, target)
    if kinds.is_string(source) and isinstance(target, pa.UuidType):
        return _uuids(array, target)
    if source.num_fields != target.num_fields:
        return array
    if kinds.is_struct(source) and kinds.is_struct(target):
        fields = [_own(array.field(at), target.field(at).type) for at in range(source.num_fields)]
        return _over_fields(array, fields)
    if kinds.is_map(source) and kinds.is_map(target):
        entries = _own(array.keys, target.key_type), _own(array.items, target.item_type)
        return _over_entries(array, *entries)
    if kinds.is_list(source) and kinds.is_list(target):
        return _over_items(array, _own(array.values, target.value_type))
    return array


def _over_fields(array: pa.StructArray, fields: list[pa.Array]) -> pa.Array:
    if all(field.type.equals(child.type) for field, child in zip(fields, array.type, strict=True)):
        return array
    named = [child.with_type(field.type) for field, child in zip(fields, array.type, strict=True)]
    return pa.StructArray.from_arrays(fields, fields=named, mask=array.is_null() if array.null_count else None)


def _over_items(array: pa.ListArray, items: pa.Array) -> pa.Array:
    type_ = array.type
    if items.type.equals(type_.value_type):
        return array
    target = pa.list_(type_.value_field.with_type(items.type))
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], array.null_count, array.offset, [items])


def _over_entries(array: pa.MapArray, keys: pa.Array, items: pa.Array) -> pa.Array:
    type_ = array.type
    if keys.type.equals(type_.key_type) and items.type.equals(type_.item_type):
        return array
    target = pa.map_(type_.key_field.with_type(keys.type), type_.item_field.with_type(items.type))
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], array.null_count, array.offset, [entries])


def _durations(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Intervals without months as durations. A day is 24 hours."""
    words = array.buffers()[1] if len(array) else b""  # a buffer may end with half an interval
    parts = np.frombuffer(words, _INTERVAL, len(array), array.offset * _INTERVAL.itemsize if len(array) else 0)
    valid = array.is_valid()
    months = np.flatnonzero((parts["months"] != 0) & valid.to_numpy(zero_copy_only=False))
    if months.size:
        raise LossyCast(int(months[0]), pa.scalar(f"{parts['months'][months[0]]} months"), target)
    micros = parts["days"].astype(np.int64) * _DAY_US + parts["nanoseconds"] // 1_000
    spans = pa.array(micros, mask=~valid.to_numpy(zero_copy_only=False)).cast(pa.duration("us"))
    return cast(spans, target)


def _uuids(array: pa.Array, target: pa.DataType) -> pa.Array:
    """UUIDs from texts of 36 characters, as DuckDB gives them."""
    texts = [text or _NO_UUID for text in array.to_pylist()]  # a text that a null hides may be empty
    packed = pa.py_buffer(bytes.fromhex("".join(texts).replace("-", "")))
    stored = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(array), [_validity(array), packed])
    return pa.ExtensionArray.from_storage(target, stored)


def _validity(array: pa.Array) -> pa.Buffer | None:
    if not array.null_count:
        return None
    return pa.array(array.is_valid().to_numpy(zero_copy_only=False)).buffers()[1]
