"""Expressions over the columns of a batch, and their computation."""

from __future__ import annotations

import enum
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ..arrays.layout import Values
from ..arrays.layout import values as values_of

Value: TypeAlias = Any  # pyarrow's: an array with a value for each row, or a scalar that holds for all rows
Compute: TypeAlias = Callable[[pa.RecordBatch], Value]


class Declined(Exception):
    """The kernel declines: DuckDB has to compute the rows."""


class Function(enum.Enum):
    EQUAL = "equal"
    NOT_EQUAL = "not_equal"
    LESS = "less"
    LESS_EQUAL = "less_equal"
    GREATER = "greater"
    GREATER_EQUAL = "greater_equal"
    IS_NULL = "is_null"
    IS_VALID = "is_valid"
    AND = "and_kleene"
    OR = "or_kleene"
    NOT = "invert"
    ADD = "add_checked"
    SUBTRACT = "subtract_checked"
    MULTIPLY = "multiply_checked"
    CHOOSE = "if_else"
    """The second argument where the first is true; the third where the first is false or null."""
    CAST = "cast"
    """A cast to a type that holds all values of the argument's type, or to the nearest floats."""


@dataclass(frozen=True, slots=True)
class Column:
    index: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant: `value` as `pyarrow.scalar` takes it."""

    value: object
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of arguments; `type` is the type of the result."""

    function: Function
    arguments: tuple[Expression, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Moment:
    """Moments `number` * `size` + `origin`, in units of `type`. Declined where there is no number, or a moment is more
    than `farthest` units from 0.
    """

    number: Expression
    size: int
    origin: int
    farthest: int
    type: pa.DataType


Expression: TypeAlias = Column | Constant | Apply | Moment


def compiled(expression: Expression) -> Compute:
    """The function that computes an expression. It raises `Declined` for rows that it must not decide, and
    `pyarrow.ArrowInvalid` on overflow.
    """
    match expression:
        case Column(index=index):
            return lambda rows: rows.column(index)
        case Constant(value=value, type=type_):
            constant = pa.scalar(value, type_)
            return lambda _: constant
        case Apply(function=Function.CAST, arguments=(operand,), type=type_):
            inner, cast = compiled(operand), pc.get_function("cast")
            options = pc.CastOptions.unsafe(type_)
            return lambda rows: cast.call([inner(rows)], options)
        case Moment():
            return _moments(expression)
        case Apply(function=function, arguments=arguments):
            return _applied(function, tuple(map(compiled, arguments)))
        case _:
            assert_never(expression)


def _moments(moment: Moment) -> Compute:
    number = compiled(moment.number)
    word = np.dtype(f"i{moment.type.bit_width // 8}")
    repeated = _Repeated(word)

    def computed(rows: pa.RecordBatch) -> Value:
        column = column_of(number(rows), rows)
        if column.null_count:
            raise Declined
        numbers = values_of(column)
        ends = (int(numbers.min()), int(numbers.max())) if len(numbers) else ()
        if any(abs(end * moment.size + moment.origin) > moment.farthest for end in ends):
            raise Declined
        if ends and ends[0] == ends[1]:
            moments = repeated.of(ends[0] * moment.size + moment.origin, len(numbers))
        else:
            moments = (numbers * moment.size + moment.origin).astype(word, copy=False)
        return pa.Array.from_buffers(moment.type, len(moments), [None, pa.py_buffer(moments)])

    return computed


class _Repeated:
    """Arrays of one number. Neighbouring batches of rows often have the same one, and then share an array, as long as a
    reader has one of these batches.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._last: Callable[[], Values | None] = lambda: None

    def of(self, number: int, rows: int) -> Values:
        last = self._last()
        if last is None or len(last) < rows or last[0] != number:
            last = np.full(rows, number, self._dtype)
            self._last = weakref.ref(last)
        return last[:rows]


def _applied(function: Function, arguments: tuple[Compute, ...]) -> Compute:
    kernel = pc.get_function(function.value)
    check = _CHECKS.get(function)
    if check is None:
        return lambda rows: kernel.call([argument(rows) for argument in arguments])

    def checked(rows: pa.RecordBatch) -> Value:
        return check(kernel, [argument(rows) for argument in arguments])

    return checked


def _compared(kernel: pc.Function, arguments: list[Value]) -> Value:
    """A comparison, or `Declined` where a value is NaN: for DuckDB NaN equals itself and is the largest value, for
    Arrow it is neither.
    """
    for argument in arguments:
        if kinds.is_floating(argument.type) and _any(np.isnan, argument):
            raise Declined
    return kernel.call(arguments)


def _calculated(kernel: pc.Function, arguments: list[Value]) -> Value:
    result = kernel.call(arguments)
    if kinds.is_floating(result.type) and _any(_not_finite, result):
        raise Declined
    return result


def _chosen(kernel: pc.Function, arguments: list[Value]) -> Value:
    condition, then, otherwise = arguments
    return kernel.call([pc.fill_null(condition, False), then, otherwise])


def _any(test: Callable[[Any], Any], value: Value) -> bool:
    """True where a value passes the test. The value below a null counts as well."""
    if isinstance(value, pa.Scalar):
        return value.is_valid and bool(test(value.as_py()))
    return bool(test(values_of(value)).any())


def _not_finite(values: Any) -> Any:
    return ~np.isfinite(values)


_CHECKS: Final[Mapping[Function, Callable[[pc.Function, list[Value]], Value]]] = {
    **dict.fromkeys(
        (
            Function.EQUAL,
            Function.NOT_EQUAL,
            Function.LESS,
            Function.LESS_EQUAL,
            Function.GREATER,
            Function.GREATER_EQUAL,
        ),
        _compared,
    ),
    **dict.fromkeys((Function.ADD, Function.SUBTRACT, Function.MULTIPLY), _calculated),
    Function.CHOOSE: _chosen,
}


def column_of(value: Value, rows: pa.RecordBatch) -> pa.Array:
    """The value as an array, with a value for each of the rows."""
    return pa.repeat(value, rows.num_rows) if isinstance(value, pa.Scalar) else value
