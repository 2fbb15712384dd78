"""Kernels for small inputs of a fragment, in place of DuckDB: filters, projections and groups, one above the other,
over a single stream.

A function is here only if its kernel gives, for every value of the types listed, the result of DuckDB's expression, or
notices that it might not.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
from pyarrow import types as kinds

from ...operators import kernels as k
from ...operators.arrays.reductions import Reduction, reducible
from .. import ir
from ..analysis.sliced_columns import slice_beginning
from ..ir import types as t
from ..ir.arrow_types import arrow_schema, arrow_type
from ..ir.boolean import is_connective, terms
from ..ir.types import Type
from ..ir.visit import is_column
from .reduced import reducing

_Computed: TypeAlias = ir.Filter | ir.Project | ir.Aggregate

_PARTS: Final = 64
"""The most parts of all expressions, columns left out: each part takes about ten microseconds, and a statement takes as
long as a hundred parts.
"""

_CONSTANT_BYTES: Final = 256
"""The most bytes of all constant texts: a kernel makes a copy of a constant for every row, which nothing counts."""

_KEYS: Final = tuple(type_ for type_ in t.IN_ORDER if type_ is not t.Float)
_CONSTANTS: Final = (t.Boolean, t.Integer, t.Float, t.Decimal, t.String, t.VarChar, t.Binary, t.Date)
_NUMBERS: Final = (t.Integer, t.Float)
_TIMES: Final = (t.Date, t.Time, t.Timestamp, t.TimestampTz)
_OPTIONS: Final = {"overflow", "rounding"}
"""Options with any value: kernels answer only if nothing overflows, and floats are rounded in one way."""

_FUNCTIONS: Final[Mapping[tuple[str, str], tuple[k.Function, tuple[type, ...]]]] = {
    ("functions_comparison", "equal"): (k.Function.EQUAL, t.IN_ORDER),
    ("functions_comparison", "not_equal"): (k.Function.NOT_EQUAL, t.IN_ORDER),
    ("functions_comparison", "lt"): (k.Function.LESS, t.IN_ORDER),
    ("functions_comparison", "lte"): (k.Function.LESS_EQUAL, t.IN_ORDER),
    ("functions_comparison", "gt"): (k.Function.GREATER, t.IN_ORDER),
    ("functions_comparison", "gte"): (k.Function.GREATER_EQUAL, t.IN_ORDER),
    ("functions_comparison", "is_null"): (k.Function.IS_NULL, t.IN_ORDER),
    ("functions_comparison", "is_not_null"): (k.Function.IS_VALID, t.IN_ORDER),
    ("functions_datetime", "lt"): (k.Function.LESS, _TIMES),
    ("functions_datetime", "lte"): (k.Function.LESS_EQUAL, _TIMES),
    ("functions_datetime", "gt"): (k.Function.GREATER, _TIMES),
    ("functions_datetime", "gte"): (k.Function.GREATER_EQUAL, _TIMES),
    ("functions_boolean", "not"): (k.Function.NOT, (t.Boolean,)),
    ("functions_arithmetic", "add"): (k.Function.ADD, _NUMBERS),
    ("functions_arithmetic", "subtract"): (k.Function.SUBTRACT, _NUMBERS),
    ("functions_arithmetic", "multiply"): (k.Function.MULTIPLY, _NUMBERS),
}
_CONNECTIVES: Final = {"and": k.Function.AND, "or": k.Function.OR}


class _Unknown(Exception):
    """An expression without a kernel."""


def kernels(
    root: ir.Relation, source: Callable[[ir.Relation], Sequence[tuple[int, pa.DataType]] | None]
) -> tuple[k.Step, ...] | None:
    """The steps from the fragment's one stream to its rows. For the stream's relation, `source` gives the positions and
    types of its columns in the stream; for other relations it gives None.
    """
    above: list[_Computed] = []
    relation = root
    while (columns := source(relation)) is None:
        if not isinstance(relation, _Computed):
            return None
        above.append(relation)
        relation = relation.input
    if any(arrow != arrow_type(type_) for (_, arrow), type_ in zip(columns, relation.schema, strict=True)):
        return None
    if any(_has_entries(arrow) for _, arrow in columns):
        return None  # inside statements structs have fields of other names, and maps keys that differ
    making = _Making([at for at, _ in columns])
    try:
        for parent in reversed(above):
            making.add(parent)
    except _Unknown:
        return None
    return making.steps(root)


def _has_entries(type_: pa.DataType) -> bool:
    """Tests whether the type contains structs or maps."""
    if kinds.is_struct(type_) or kinds.is_map(type_):
        return True
    return any(_has_entries(type_.field(at).type) for at in range(type_.num_fields))


def has_kernels(root: ir.Relation, edges: Container[ir.Relation]) -> bool:
    """Tests whether kernels can compute `root` from `edges`, if the input is fed as one stream."""

    def source(relation: ir.Relation) -> Sequence[tuple[int, pa.DataType]] | None:
        ends = isinstance(relation, ir.Read | ir.LocalFiles) or (relation is not root and relation in edges)
        return list(enumerate(map(arrow_type, relation.schema))) if ends else None

    return isinstance(root, _Computed) and kernels(root, source) is not None


class _Making:
    """The steps being made. `positions` has the positions of the last relation's columns in the rows after the steps so
    far.
    """

    def __init__(self, positions: Sequence[int]) -> None:
        self._positions = positions
        self._steps: list[k.Step] = []
        self._parts = 0
        self._constant_bytes = 0

    def add(self, relation: _Computed) -> None:
        match relation:
            case ir.Filter(condition=condition):
                self._steps.append(k.Filtered(self._expression(condition)))
            case ir.Project(expressions=expressions):
                projected = tuple(map(self._expression, expressions))
                self._put(k.Projected(projected, arrow_schema(relation.schema)))
            case ir.Aggregate():
                self._put(self._grouped(relation))

    def steps(self, root: ir.Relation) -> tuple[k.Step, ...]:
        """The steps, ending in the columns of the relation last added and nothing else."""
        if self._positions != range(len(root.schema)):
            self._put(k.Projected(tuple(map(k.Column, self._positions)), arrow_schema(root.schema)))
        return tuple(self._steps)

    def _put(self, step: k.Projected | k.Grouped) -> None:
        self._steps.append(step)
        self._positions = range(len(step.schema))

    def _grouped(self, relation: ir.Aggregate) -> k.Grouped:
        if relation.grouping_sets != (tuple(range(len(relation.keys))),):
            raise _Unknown
        if not all(isinstance(type_, _KEYS) for type_ in relation.schema[: len(relation.keys)]):
            raise _Unknown
        arguments: list[k.Expression] = []
        types: list[pa.Field] = []
        reductions = []
        for measure in relation.measures:
            reduced = reducing(measure)
            if reduced is None:
                raise _Unknown
            function, argument = reduced
            column = None
            if argument is not None:
                column = len(arguments)
                arguments.append(self._expression(argument))
                types.append(pa.field(str(column), arrow_type(argument.type)))
            reductions.append(Reduction(function=function, column=column))
        schema = pa.schema(types)
        for reduction, measure in zip(reductions, relation.measures, strict=True):
            if not reducible(reduction, schema, arrow_type(measure.type)):
                raise _Unknown
        keys = tuple(map(self._expression, relation.keys))
        return k.Grouped(keys, tuple(arguments), tuple(reductions), arrow_schema(relation.schema))

    def _expression(self, expression: ir.Expression) -> k.Expression:
        if is_column(expression):
            return k.Column(self._positions[expression.index])
        self._parts += 1
        if self._parts > _PARTS:
            raise _Unknown
        match expression:
            case ir.Literal(value=value, type=type_) if isinstance(type_, _CONSTANTS):
                return self._constant(value, type_)
            case ir.Call() if is_connective(expression):
                return self._connected(expression)
            case ir.Call(function=ir.Function(name="slice_start")):
                return self._moment(expression)
            case ir.Call():
                return self._call(expression)
            case ir.Cast(operand=operand, type=type_) if expression.on_failure is not ir.CastFailure.CLAMPED:
                return self._cast(operand, type_)
            case ir.IfThen(clauses=clauses, otherwise=otherwise, type=type_):
                chosen = k.Constant(None, arrow_type(type_)) if otherwise is None else self._of(otherwise, type_)
                for condition, result in reversed(clauses):
                    arguments = (self._expression(condition), self._of(result, type_), chosen)
                    chosen = k.Apply(k.Function.CHOOSE, arguments, arrow_type(type_))
                return chosen
            case _:
                raise _Unknown

    def _constant(self, value: object, type_: Type) -> k.Constant:
        match value:
            case str():
                self._constant_bytes += len(value.encode())
            case bytes():
                self._constant_bytes += len(value)
        if self._constant_bytes > _CONSTANT_BYTES:
            raise _Unknown
        return k.Constant(value, arrow_type(type_))

    def _of(self, expression: ir.Expression, type_: Type) -> k.Expression:
        """The kernel of an expression of exactly this type."""
        if t.required(expression.type) != t.required(type_) or not isinstance(type_, t.IN_ORDER):
            raise _Unknown
        return self._expression(expression)

    def _connected(self, call: ir.Call) -> k.Expression:
        function = _CONNECTIVES[call.function.name]
        layer = [self._expression(term) for term in terms(call)]
        if not layer:
            raise _Unknown
        while len(layer) > 1:
            pairs = [layer[at : at + 2] for at in range(0, len(layer), 2)]
            layer = [pair[0] if len(pair) == 1 else k.Apply(function, tuple(pair), pa.bool_()) for pair in pairs]
        return layer[0]

    def _call(self, call: ir.Call) -> k.Expression:
        file = call.function.urn.rpartition(":")[2]
        known = _FUNCTIONS.get((file, call.function.name))
        if known is None or not call.options.keys() <= _OPTIONS:
            raise _Unknown
        function, types = known
        arguments = [argument for argument in call.arguments if not isinstance(argument, str)]
        kinds = {_kind(argument.type) for argument in arguments}
        if len(arguments) != len(call.arguments) or len(kinds) != 1:
            raise _Unknown
        [kind] = kinds
        if not isinstance(kind, types) or (types is _NUMBERS and kind != _kind(call.type)):
            raise _Unknown
        operands = tuple(self._expression(argument) for argument in arguments)
        return k.Apply(function, operands, arrow_type(call.type))

    def _moment(self, call: ir.Call) -> k.Expression:
        beginning = slice_beginning(call)
        if beginning is None:
            raise _Unknown
        number = self._expression(beginning.number)
        return k.Moment(number, beginning.size, beginning.origin, beginning.farthest, arrow_type(call.type))

    def _cast(self, operand: ir.Expression, type_: Type) -> k.Expression:
        converted = self._expression(operand)
        if t.required(operand.type) == t.required(type_):
            return converted
        if not _holds(type_, operand.type):
            raise _Unknown
        return k.Apply(k.Function.CAST, (converted,), arrow_type(type_))


def _kind(type_: Type) -> Type:
    """The part of a type that decides about values: all text compares alike, except text padded with blanks."""
    return t.String(nullable=False) if isinstance(type_, t.VarChar) else t.required(type_)


def _holds(wide: Type, narrow: Type) -> bool:
    """Tests whether a type has all values of the other type, or the nearest float of each."""
    match wide, narrow:
        case t.Integer(bits=more, signed=True), t.Integer(bits=bits, signed=signed):
            return more > bits or (more == bits and signed)
        case t.Float(bits=64), t.Integer() | t.Float(bits=32):
            return True
        case _:
            return False
