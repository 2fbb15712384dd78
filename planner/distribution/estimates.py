"""Estimates the number of rows of a relation: roughly, but the same on every run.

Sources' sizes are known. The rows of filters and joins are guessed by rules that suit keys and their references: if two
relations meet in an equality, the smaller source is taken to have each value once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from .. import ir
from ..analysis.selective_tests import SELECTIVE
from ..ir import types as t
from ..ir.boolean import conjuncts
from ..ir.visit import is_column

_EQUALITY, _CHOICE, _RANGE, _OTHERS, _LEAST = 0.1, 0.2, 0.4, 0.9, 0.02
_GROUPS: Final = 0.1
_PAIRS: Final = 0.5
_ANTI: Final = 0.5
_CROSSED: Final = 0.1


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate: `rows`, and `base`, the rows of the largest source they come from.

    `long` are the bytes of a value of a text, list or other column without a fixed size, beyond those of short values;
    `wide` are the bytes of all such columns of a row.
    """

    rows: float
    base: float
    long: float = 0.0
    wide: float = 0.0


_SHORT: Final = 32
"""Bytes of a column's value that the costs of rows and values include."""
_FIXED: Final = (t.Boolean, t.Integer, t.Float, t.Decimal, t.Date, t.Time, t.Timestamp, t.TimestampTz, t.Uuid)


def long_columns(schema: Sequence[t.Type]) -> int:
    return sum(not isinstance(type_, _FIXED) for type_ in schema)


def with_bytes(estimate: Estimate, schema: Sequence[t.Type], size: int) -> Estimate:
    """The estimate of a source whose rows have these columns and so many bytes together."""
    wide = max(0.0, size / max(estimate.rows, 1.0) - _SHORT * len(schema))
    columns = long_columns(schema)
    return replace(estimate, long=wide / columns, wide=wide) if columns else estimate


def with_width_of(estimate: Estimate, schema: Sequence[t.Type], below: Sequence[Estimate]) -> Estimate:
    """The estimate of rows with these columns, whose values come from rows of these estimates."""
    long = max((other.long for other in below), default=0.0)
    return replace(estimate, long=long, wide=long * long_columns(schema))


def filtered(below: Estimate, condition: ir.Expression) -> Estimate:
    kept = 1.0
    for term in conjuncts(condition):
        kept *= _kept(term)
    return Estimate(below.rows * max(kept, _LEAST), below.base)


def _kept(term: ir.Expression) -> float:
    match term:
        case ir.OneOf():
            return _CHOICE
        case ir.Call(function=function) if function.name in SELECTIVE:
            return _EQUALITY
        case ir.Call(function=function, arguments=((ir.Call() | ir.OneOf()) as inner,)) if function.name == "not":
            return max(1 - _kept(inner), _RANGE)
        case ir.Call(function=function) if function.name == "not_equal":
            return _OTHERS
        case _:
            return _RANGE


def grouped(below: Estimate, keys: Sequence[ir.Expression]) -> Estimate:
    """The groups of these keys. Pairs of integers are mostly pairs of references, which rarely come twice."""
    if not keys:
        return Estimate(1.0, 1.0)
    pairs = sum(is_column(key) and isinstance(key.type, t.Integer) for key in keys) > 1
    rows = max(1.0, below.rows * (_PAIRS if pairs else _GROUPS))
    return Estimate(rows, rows)


def joined(type_: ir.JoinType, left: Estimate, right: Estimate, *, equal: bool) -> Estimate:
    base = max(left.base, right.base)
    match type_:
        case ir.JoinType.LEFT_SEMI:
            return Estimate(left.rows * _met_by(right), left.base)
        case ir.JoinType.RIGHT_SEMI:
            return Estimate(right.rows * _met_by(left), right.base)
        case ir.JoinType.LEFT_ANTI:
            return Estimate(left.rows * _ANTI, left.base)
        case ir.JoinType.RIGHT_ANTI:
            return Estimate(right.rows * _ANTI, right.base)
        case ir.JoinType.LEFT_MARK | ir.JoinType.LEFT_SINGLE:
            return left
        case ir.JoinType.RIGHT_MARK | ir.JoinType.RIGHT_SINGLE:
            return right
    inner = _inner(left, right, equal=equal)
    match type_:
        case ir.JoinType.LEFT:
            return Estimate(max(inner, left.rows), base)
        case ir.JoinType.RIGHT:
            return Estimate(max(inner, right.rows), base)
        case ir.JoinType.OUTER:
            return Estimate(max(inner, left.rows, right.rows), base)
        case _:
            return Estimate(inner, base)


def _inner(left: Estimate, right: Estimate, *, equal: bool) -> float:
    if not equal:
        return left.rows * right.rows * _CROSSED
    return left.rows * right.rows / max(min(left.base, right.base), 1.0)


def _met_by(other: Estimate) -> float:
    return min(1.0, other.rows / max(other.base, 1.0))
