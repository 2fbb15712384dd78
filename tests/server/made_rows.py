"""Rows of any schema, made up: few different values, many of them at the ends of their ranges."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

_ROWS: Final = (0, 1, 7, 40)
_TEXTS: Final = ("", "a", "b", "\0", "é", "%", "1", "1995-03-15", "x" * 2_000)
_FLOATS: Final = (0.0, -0.0, 1.5, -1e308, 1e308, 5e-324, float("nan"), float("inf"), float("-inf"))


def made_rows(schema: pa.Schema, draw: random.Random) -> pa.Table:
    """A table that mostly fits the schema: now and then a column is missing, of another type, or null."""
    rows = draw.choice(_ROWS)
    columns = {field.name: _column(field, rows, draw) for field in schema}
    if columns and draw.random() < 0.04:
        columns.pop(draw.choice(list(columns)))
    return pa.table(columns)


def _column(field: pa.Field, rows: int, draw: random.Random) -> pa.Array:
    if draw.random() < 0.01:
        return pa.array([draw.choice(_TEXTS) for _ in range(rows)])
    nullable = field.nullable or draw.random() < 0.01
    return array(field.type, rows, draw, nulls=0.2 if nullable else 0.0)


def array(kind: pa.DataType, rows: int, draw: random.Random, nulls: float = 0.2) -> pa.Array:
    mask = [draw.random() < nulls for _ in range(rows)]
    if pa.types.is_boolean(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = [None if null else _plain(kind, draw) for null in mask]
        return pa.array(values, kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        values = [None if null else draw.choice(_TEXTS) for null in mask]
        return pa.array(values, kind)
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([None if null else draw.randbytes(kind.byte_width) for null in mask], kind)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _lists(kind, mask, draw)
    if pa.types.is_struct(kind):
        children = [array(field.type, rows, draw, nulls if field.nullable else 0.0) for field in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array(mask, pa.bool_()))
    return _integers(kind, mask, draw)


def _plain(kind: pa.DataType, draw: random.Random) -> Any:
    if pa.types.is_boolean(kind):
        return draw.random() < 0.5
    if pa.types.is_decimal(kind):
        digits = draw.choice(((0,), (1,), (9,) * kind.precision))
        return Decimal((draw.randrange(2), digits, -kind.scale))
    return draw.choice(_FLOATS)


def _integers(kind: pa.DataType, mask: list[bool], draw: random.Random) -> pa.Array:
    """Integers, and times as integers: any of them, also what no clock shows."""
    if kind.id not in _WIDTHS and not pa.types.is_integer(kind):
        return pa.nulls(len(mask), kind)
    bits = kind.bit_width
    low, high = (0, 2**bits - 1) if pa.types.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    rare = draw.random() < 0.3
    near = (0, 1, 2, 3, 50, 100)
    values = [
        None if null else draw.choice((low, high, low + 1, *near)) if rare else draw.choice(near) for null in mask
    ]
    width = kind if pa.types.is_integer(kind) else pa.int32() if bits == 32 else pa.int64()
    return pa.array(values, width).view(kind)


_WIDTHS: Final = frozenset(
    kind.id
    for kind in (pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("us"), pa.duration("us"))
)


def _lists(kind: Any, mask: list[bool], draw: random.Random) -> pa.Array:
    sizes = [0 if null else draw.randrange(4) for null in mask]
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + size)
    starts = pa.array(
        [None if null else start for null, start in zip([*mask, False], offsets, strict=True)], pa.int32()
    )
    if pa.types.is_map(kind):
        keys = array(kind.key_type, offsets[-1], draw, 0.0)
        return pa.MapArray.from_arrays(starts, keys, array(kind.item_type, offsets[-1], draw), type=kind)
    return pa.ListArray.from_arrays(starts, array(kind.value_type, offsets[-1], draw), type=kind)
