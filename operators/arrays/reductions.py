"""The simplest aggregates of groups of neighbouring rows, in NumPy: bit for bit DuckDB's result, or none.

DuckDB finds each row's group through a hash table. Where the rows of a group stand together no table is needed, and
counting, adding and comparing are several times as fast. Where NumPy's result could differ from DuckDB's (a sum that
may overflow, NaN, zeros of both signs), `reduce` returns None, and DuckDB computes the aggregate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from .layout import Flags, Places, Values, dtype_of, flags, take
from .layout import values as values_of

_LARGEST: Final = 2**63 - 1
_NARROW_BYTES: Final = 4
_NARROW: Final = 2**32
#: Floats are added row by row, for all groups at once, which is no gain where groups are long.
_LONGEST_OF_FLOATS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """The aggregate `function` of the column at this position. A count without a column counts rows. `first` is the
    first row's value, null or not.
    """

    function: Literal["count", "sum", "min", "max", "first"]
    column: int | None = None


def reducible(reduction: Reduction, schema: pa.Schema, output: pa.DataType) -> bool:
    """True where `reduce` may have an answer of the type `output` for rows of `schema`."""
    if reduction.column is None:
        return reduction.function == "count" and kinds.is_int64(output)
    type_ = schema.field(reduction.column).type
    match reduction.function:
        case "count":
            return bool(kinds.is_int64(output))
        case "first":
            return bool(type_.equals(output))
        case "min" | "max":
            return bool(type_.equals(output)) and dtype_of(type_) is not None
        case "sum" if kinds.is_decimal(type_):
            return dtype_of(type_) is not None and bool(output.equals(pa.decimal128(38, type_.scale)))
        case "sum" if kinds.is_integer(type_):
            return bool(kinds.is_int64(output))
        case "sum":
            return bool((kinds.is_float32(type_) or kinds.is_float64(type_)) and kinds.is_float64(output))


def reduce(
    reduction: Reduction, rows: pa.RecordBatch, begins: Places, lengths: Places, output: pa.DataType
) -> pa.Array | None:
    """A value for each group; the groups together are all of `rows`. None where DuckDB has to compute the values."""
    if reduction.column is None:
        return _array(lengths, output, None)
    column = rows.column(reduction.column)
    if reduction.function == "first":
        return take(column, pa.array(begins))
    valid = flags(column.is_valid()) if column.null_count else None
    counts = lengths if valid is None else np.add.reduceat(valid, begins, dtype=np.int64)
    if reduction.function == "count":
        return _array(counts, output, None)
    values = values_of(column)
    if reduction.function != "sum":
        reduced = _extremes(values, valid, begins, smallest=reduction.function == "min")
    elif values.dtype.kind == "f":
        reduced = _sums_of_floats(values, valid, begins, lengths)
    else:
        reduced = _sums(values, valid, begins, int(np.maximum.reduce(lengths)))
    return None if reduced is None else _array(reduced, output, None if valid is None else counts > 0)


def _sums(values: Values, valid: Flags | None, begins: Places, longest: int) -> Values | None:
    """The sum of each group; None where a sum could leave 64 bits."""
    if valid is not None:
        values = np.where(valid, values, 0)
    if _magnitude(values) * longest > _LARGEST:
        return None
    return np.add.reduceat(values, begins, dtype=np.int64)


def _magnitude(values: Values) -> int:
    """An upper bound of the values' magnitudes: in one pass where no value is negative, without a pass where the type
    is narrow.
    """
    if values.dtype.itemsize <= _NARROW_BYTES:
        return _NARROW
    bits = int(np.bitwise_or.reduce(values))
    return bits if bits >= 0 else max(-int(values.min()), int(values.max()))


def _sums_of_floats(values: Values, valid: Flags | None, begins: Places, lengths: Places) -> Values | None:
    """The sum of each group, from 0.0 on, row after row: the order of additions shows in the last bits."""
    if int(lengths.max()) > _LONGEST_OF_FLOATS:
        return None
    values = values.astype(np.float64)
    if valid is not None:
        values = np.where(valid, values, 0.0)
    longest_first = np.argsort(-lengths, kind="stable")
    at = begins[longest_first]
    longer = len(lengths) - np.cumsum(np.bincount(lengths))
    totals = np.zeros(len(begins))
    with np.errstate(over="ignore", invalid="ignore"):  # a sum that is not finite is left to the caller
        for position, groups in enumerate(longer[:-1].tolist()):
            totals[:groups] += values[at[:groups] + position]
    sums = np.empty_like(totals)
    sums[longest_first] = totals
    return sums if bool(np.isfinite(sums).all()) else None


def _extremes(values: Values, valid: Flags | None, begins: Places, *, smallest: bool) -> Values | None:
    floats = values.dtype.kind == "f"
    if valid is not None:
        limits = np.finfo if floats else np.iinfo
        last = limits(values.dtype).max if smallest else limits(values.dtype).min
        values = np.where(valid, values, values.dtype.type((np.inf if smallest else -np.inf) if floats else last))
    extremes: Values = (np.minimum if smallest else np.maximum).reduceat(values, begins)
    if floats and (np.isnan(extremes).any() or (not extremes.all() and np.signbit(values[values == 0]).any())):
        return None
    return extremes


def _array(values: Values, type_: pa.DataType, valid: Flags | None) -> pa.Array:
    if kinds.is_decimal128(type_):
        values = np.stack([values, values >> 63], axis=1)
    bitmap = None if valid is None else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(type_, len(values), [bitmap, pa.py_buffer(values)])
