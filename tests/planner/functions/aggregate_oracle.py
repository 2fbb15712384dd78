"""Aggregates by their definitions, in plain Python and one value at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import and_, or_, xor
from typing import Any, Final, TypeAlias

from tidegate.planner.ir import types as t

ERROR: Final = "an error"
Rows: TypeAlias = Sequence[tuple[Any, ...]]
"""The rows that an aggregate sees, in its order: a value for each column that is an argument."""

Aggregate: TypeAlias = Callable[[Rows, t.Type], Any]


class OneOf(tuple[Any, ...]):
    """Answers of which each is right."""

    __slots__ = ()


def above(value: Any) -> Any:
    """The key that sorts values: not a number is the greatest."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def _values(rows: Rows) -> list[Any]:
    return [row[0] for row in rows if row[0] is not None]


def _pairs(rows: Rows) -> list[tuple[float, float]]:
    return [(y, x) for y, x in rows if y is not None and x is not None]


def _fitting(value: Any, type_: t.Type) -> Any:
    """The value, or an error if its type does not hold it."""
    match type_:
        case t.Integer(bits=bits, signed=signed):
            least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
            return value if least <= value <= most else ERROR
        case t.Decimal(precision=precision, scale=scale):
            return value if abs(value.scaleb(scale)) < 10**precision else ERROR
        case _:
            return value


def _some(of: Callable[[list[Any], t.Type], Any]) -> Aggregate:
    """An aggregate of values without nulls; null if there is none."""

    def aggregate(rows: Rows, type_: t.Type) -> Any:
        values = _values(rows)
        return of(values, type_) if values else None

    return aggregate


def _sum(values: list[Any], type_: t.Type) -> Any:
    return _fitting(sum(values[1:], values[0]), type_)


def _sum_or_zero(rows: Rows, type_: t.Type) -> Any:
    values = _values(rows)
    return _sum(values, type_) if values else _zero(type_)


def _zero(type_: t.Type) -> Any:
    return Decimal(0) if isinstance(type_, t.Decimal) else 0


def _average(values: list[Any], type_: t.Type) -> Any:
    match type_:
        case t.Integer():
            return math.trunc(Fraction(sum(values), len(values)))
        case t.Decimal(scale=scale):
            exact = sum(map(Fraction, values)) / len(values) * 10**scale
            away = math.floor(abs(exact) + Fraction(1, 2))
            return Decimal(away if exact >= 0 else -away).scaleb(-scale)
        case _:
            return sum(values) / len(values)


def _cut(exact: Fraction, type_: t.Type) -> Any:
    """The decimal without the digits behind its places."""
    assert isinstance(type_, t.Decimal)
    return Decimal(math.trunc(exact * 10**type_.scale)).scaleb(-type_.scale)


def _median_cut(values: list[Any], type_: t.Type) -> Any:
    low, high = _around_the_middle(values)
    return _cut((Fraction(low) + Fraction(high)) / 2, type_)


def _product(rows: Rows, type_: t.Type) -> Any:
    return _fitting(math.prod(_values(rows)), type_)


def _square_deviations(values: Sequence[float]) -> float:
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = sum(map(Fraction, values)) / len(values)
    exact = sum((Fraction(value) - mean) ** 2 for value in values)
    return float(exact) if exact < Fraction(2) ** 1023 else math.inf


def _variance(values: list[float], _: t.Type) -> Any:
    return _square_deviations(values) / (len(values) - 1) if len(values) > 1 else None


def _deviation(values: list[float], type_: t.Type) -> Any:
    variance = _variance(values, type_)
    return None if variance is None else math.sqrt(variance)


def _mode(values: list[Any], _: t.Type) -> Any:
    counts = Counter("NaN" if value != value else value for value in values)
    most = max(counts.values())
    return OneOf(math.nan if value == "NaN" else value for value, count in counts.items() if count == most)


def _around_the_middle(values: list[Any]) -> tuple[Any, Any]:
    ordered = sorted(values, key=above)
    return ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]


def _median(values: list[Any], type_: t.Type) -> Any:
    low, high = _around_the_middle(values)
    if isinstance(type_, t.Integer):
        return round(Fraction(low + high, 2))
    return low if low == high or above(low) == above(high) else low / 2 + high / 2


def _any_value(values: list[Any], _: t.Type) -> Any:
    return OneOf(values)


def _moment(of: Callable[[list[float], list[float]], Any], least: int) -> Aggregate:
    """An aggregate of pairs without nulls; null for fewer than `least`."""

    def aggregate(rows: Rows, _: t.Type) -> Any:
        pairs = _pairs(rows)
        return of([y for y, _ in pairs], [x for _, x in pairs]) if len(pairs) >= least else None

    return aggregate


def _defined(of: Callable[[list[float], list[float]], Any], least: int) -> Aggregate:
    """A moment that is null where it is not a number."""
    moment = _moment(of, least)

    def aggregate(rows: Rows, type_: t.Type) -> Any:
        value = moment(rows, type_)
        return None if value is None or math.isnan(value) else value

    return aggregate


def _products(ys: list[float], xs: list[float]) -> float:
    """The sum of the products of the deviations."""
    if not all(map(math.isfinite, (*ys, *xs))):
        return math.nan
    my, mx = sum(map(Fraction, ys)) / len(ys), sum(map(Fraction, xs)) / len(xs)
    return float(sum((Fraction(y) - my) * (Fraction(x) - mx) for y, x in zip(ys, xs, strict=True)))


def _squares(values: list[float]) -> float:
    """The sum of the squared deviations: a single value has none, whatever it is."""
    return _products(values, values) if len(values) > 1 else 0.0


def _quotient(upper: float, lower: float) -> float | None:
    return upper / lower if lower else None


def _correlation(ys: list[float], xs: list[float]) -> float | None:
    return _quotient(_products(ys, xs), math.sqrt(_products(ys, ys)) * math.sqrt(_products(xs, xs)))


def _slope(ys: list[float], xs: list[float]) -> float | None:
    return _quotient(_products(ys, xs), _products(xs, xs))


def _intercept(ys: list[float], xs: list[float]) -> float | None:
    slope = _slope(ys, xs)
    return None if slope is None else sum(ys) / len(ys) - slope * sum(xs) / len(xs)


def _determination(ys: list[float], xs: list[float]) -> float | None:
    if _products(xs, xs) == 0 or _products(ys, ys) == 0:
        return None
    return _products(ys, xs) ** 2 / (_products(ys, ys) * _products(xs, xs))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


AGGREGATES: Final[Mapping[str, Aggregate]] = {
    "sum": _some(_sum),
    "sum0": _sum_or_zero,
    "avg": _some(_average),
    "avg_cut": _some(lambda values, type_: _fitting(_cut(sum(map(Fraction, values)) / len(values), type_), type_)),
    "median_decimal": _some(_median_cut),
    "min": _some(lambda values, _: min(values, key=above)),
    "max": _some(lambda values, _: max(values, key=above)),
    "product": _product,
    "std_dev": _some(_deviation),
    "variance": _some(_variance),
    "mode": _some(_mode),
    "median": _some(_median),
    "any_value": _some(_any_value),
    "bool_and": _some(lambda values, _: all(values)),
    "bool_or": _some(lambda values, _: any(values)),
    "bit_and": _some(lambda values, _: reduce(and_, values)),
    "bit_or": _some(lambda values, _: reduce(or_, values)),
    "bit_xor": _some(lambda values, _: reduce(xor, values)),
    "string_agg": _some(lambda values, _: "%Y-%m-%d".join(values)),
    "count": lambda rows, _: sum(not row or row[0] is not None for row in rows),
    "approx_count_distinct": lambda rows, _: len(set(map(repr, _values(rows)))),
    "array_agg": lambda rows, _: [row[0] for row in rows] or None,
    "first_value": lambda rows, _: rows[0][0] if rows else None,
    "last_value": lambda rows, _: rows[-1][0] if rows else None,
    "nth_value": lambda rows, _: rows[3][0] if len(rows) > 3 else None,
    "percentile_cont": _some(lambda values, _: _median(values, t.Float(bits=64))),
    "corr": _moment(lambda ys, xs: math.nan if (value := _correlation(ys, xs)) is None else value, 1),
    "corr_or_null": _defined(_correlation, 1),
    "covar_pop": _moment(lambda ys, xs: _products(ys, xs) / len(ys), 1),
    "covar_samp": _moment(lambda ys, xs: _products(ys, xs) / (len(ys) - 1), 2),
    "regr_avgx": _moment(lambda _, xs: _mean(xs), 1),
    "regr_avgy": _moment(lambda ys, _: _mean(ys), 1),
    "regr_count": lambda rows, _: len(_pairs(rows)),
    "regr_slope": _moment(_slope, 2),
    "regr_intercept": _moment(_intercept, 2),
    "regr_r2": _moment(_determination, 2),
    "regr_sxx": _moment(lambda _, xs: _squares(xs), 1),
    "regr_sxy": _moment(_products, 1),
    "regr_syy": _moment(lambda ys, _: _squares(ys), 1),
}
