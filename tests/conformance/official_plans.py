"""Official cases as whole plans: Substrait's bytes go in, Arrow comes out.

substrait-python looks a case's function up and derives the type of its result; the plan declares both. The answer's
values, Arrow type and nullability are compared.
"""

from __future__ import annotations

import base64
import decimal
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
from google.protobuf.json_format import MessageToDict, ParseDict
from substrait.dataframe import default_registry
from substrait.extension_registry.function_entry import FunctionEntry
from substrait.plan_pb2 import Plan
from substrait.type_pb2 import Type as TypeMessage

import tidegate
from tidegate.planner import ir
from tidegate.planner.functions.templates import TABLES
from tidegate.planner.ir import types as t
from tidegate.planner.ir.arrow_types import arrow_type
from tidegate.proto.errors import ExecutionError, PlanError, TaskFailed
from tidegate.proto.values import PlanBytes

from .official_answers import UNKNOWN_OPTIONS, alike, plain
from .official_cases import ERROR, UNDEFINED, Case, error_failure

Json: TypeAlias = dict[str, Any]

_UNSIGNED = "extension:io.substrait:unsigned_integers"
_KINDS = {
    t.Boolean: "bool",
    t.String: "string",
    t.VarChar: "varchar",
    t.FixedChar: "fixedChar",
    t.Binary: "binary",
    t.FixedBinary: "fixedBinary",
    t.Decimal: "decimal",
    t.Date: "date",
    t.Time: "precisionTime",
    t.Timestamp: "precisionTimestamp",
    t.TimestampTz: "precisionTimestampTz",
    t.IntervalYear: "intervalYear",
    t.IntervalDay: "intervalDay",
    t.IntervalCompound: "intervalCompound",
}


_NULL_IN_REQUIRED = frozenset(
    name for table in TABLES.values() for (_, name), entry in table.items() if entry.may_be_null
)
"""Functions that may give null where the extension's type says that they do not."""


class CasePlan:
    """The plan of a case: a scalar function over literals, or a measure or window call over the table `t`. `declared`
    says whether substrait-python knows the function for these types, and `nullable` is then its verdict on the result.
    Where the function may give null by an option, both verdicts will do. So does the case's own: of `any1?` in
    DECLARED_OUTPUT substrait-python loses the question mark.
    """

    def __init__(self, case: Case) -> None:
        self._functions: dict[tuple[str, str], int] = {}
        self._types: dict[str, int] = {}
        self._rows = list(case.rows)
        self._columns = list(case.columns)
        known = self._known(case.urn, case.name, case.arguments)
        self.declared = known is not None
        self.nullable = (True, False) if known is None or _gives_null(known[0]) else (_is_nullable(known[1]),)
        call = self._call(case.urn, case.name, case.arguments, case.options)
        relation = self._relation(case.kind, call)
        extensions = [
            {"extensionFunction": {"extensionUrnReference": urn, "functionAnchor": anchor, "name": name}}
            for urn, name, anchor in self._named(self._functions)
        ]
        extensions += [
            {"extensionType": {"extensionUrnReference": 1, "typeAnchor": anchor, "name": name}}
            for name, anchor in self._types.items()
        ]
        document = {
            "version": {"minorNumber": 106, "producer": "official cases"},
            "extensionUrns": [{"extensionUrnAnchor": at, "urn": urn} for urn, at in self._urns().items()],
            "extensions": extensions,
            "relations": [{"root": {"names": ["answer"], "input": relation}}],
        }
        self.plan = PlanBytes(binary=ParseDict(document, Plan()).SerializeToString())
        self.tables = {"t": self._table()} if self._columns else {}

    def _urns(self) -> dict[str, int]:
        urns = dict.fromkeys((_UNSIGNED, *(urn for urn, _ in self._functions)))
        return {urn: at for at, urn in enumerate(urns, 1)}

    def _named(self, functions: Mapping[tuple[str, str], int]) -> Iterator[tuple[int, str, int]]:
        urns = self._urns()
        for (urn, name), anchor in functions.items():
            yield urns[urn], name, anchor

    def _relation(self, kind: ir.FunctionKind, call: Json) -> Json:
        if kind is ir.FunctionKind.SCALAR:
            return self._projected({"scalarFunction": call})
        call["phase"] = "AGGREGATION_PHASE_INITIAL_TO_RESULT"
        if kind is ir.FunctionKind.AGGREGATE:
            return {"aggregate": {"input": self._read(), "measures": [{"measure": call}]}}
        call["sorts"] = [{"expr": _column(0), "direction": "SORT_DIRECTION_ASC_NULLS_LAST"}]
        call["lowerBound"] = call["upperBound"] = {"unbounded": {}}
        call["boundsType"] = "BOUNDS_TYPE_ROWS"
        return self._projected({"windowFunction": call})

    def _projected(self, expression: Json) -> Json:
        width = max(len(self._columns), 1)
        common = {"emit": {"outputMapping": [width]}}
        return {"project": {"common": common, "input": self._read(), "expressions": [expression]}}

    def _read(self) -> Json:
        if not self._columns:
            row = {"fields": [{"literal": {"i32": 0}}]}
            struct = {"types": [self._type(t.Integer(bits=32, nullable=False))], "nullability": "NULLABILITY_REQUIRED"}
            return {"read": {"baseSchema": {"names": ["z"], "struct": struct}, "virtualTable": {"expressions": [row]}}}
        names = [f"c{at}" for at in range(len(self._columns))]
        struct = {"types": [self._type(type_) for type_ in self._columns], "nullability": "NULLABILITY_REQUIRED"}
        return {"read": {"baseSchema": {"names": names, "struct": struct}, "namedTable": {"names": ["t"]}}}

    def _table(self) -> pa.Table:
        fields = [pa.field(f"c{at}", arrow_type(type_), type_.nullable) for at, type_ in enumerate(self._columns)]
        columns = [
            _array([row[at].value for row in self._rows], type_.type) for at, type_ in enumerate(pa.schema(fields))
        ]
        return pa.table(columns, schema=pa.schema(fields))

    def _call(
        self, urn: str, name: str, arguments: Sequence[ir.Expression | str], options: Mapping[str, Sequence[str]]
    ) -> Json:
        known = self._known(urn, name, arguments)
        call: Json = {
            "functionReference": self._function(urn, str(known[0]) if known else name),
            "arguments": [
                {"enum": argument} if isinstance(argument, str) else {"value": self._expression(argument)}
                for argument in arguments
            ],
            "options": [
                {"name": option, "preference": list(values)}
                for option, values in options.items()
                if option not in UNKNOWN_OPTIONS
            ],
        }
        if known:
            call["outputType"] = MessageToDict(known[1])
        return call

    def _known(
        self, urn: str, name: str, arguments: Sequence[ir.Expression | str]
    ) -> tuple[FunctionEntry, TypeMessage] | None:
        """The function and its result's type, if substrait-python knows the function for these types."""
        signature = [argument if isinstance(argument, str) else self._message(argument.type) for argument in arguments]
        return None if None in signature else default_registry().lookup_function(urn, name, signature)

    def _function(self, urn: str, name: str) -> int:
        return self._functions.setdefault((urn, name), len(self._functions) + 1)

    def _message(self, type_: t.Type) -> TypeMessage | None:
        if isinstance(type_, t.Integer) and not type_.signed:
            return None
        return ParseDict(self._type(type_), TypeMessage())

    def _expression(self, expression: ir.Expression) -> Json:
        match expression:
            case ir.Field(index=index):
                return _column(index)
            case ir.Literal(type=t.Integer(signed=False)):
                return self._unsigned(expression)
            case ir.Literal():
                return {"literal": self._literal(expression)}
            case ir.Lambda():
                types = [self._type(type_) for type_ in expression.parameters]
                struct = {"types": types, "nullability": "NULLABILITY_REQUIRED"}
                return {"lambda": {"parameters": struct, "body": self._expression(expression.body)}}
            case ir.Parameter(index=index):
                direct = {"structField": {"field": index}}
                return {"selection": {"directReference": direct, "lambdaParameterReference": {}}}
            case ir.Call():
                call = self._call(expression.function.urn, expression.function.name, expression.arguments, {})
                return {"scalarFunction": call}
            case _:
                raise AssertionError(expression)

    def _unsigned(self, literal: ir.Literal) -> Json:
        """A column: there are no literals of unsigned integers."""
        self._columns.append(literal.type)
        self._rows = [(*(self._rows[0] if self._rows else ()), literal)]
        return _column(len(self._columns) - 1)

    def _type(self, type_: t.Type) -> Json:
        body: Json = {"nullability": "NULLABILITY_NULLABLE" if type_.nullable else "NULLABILITY_REQUIRED"}
        match type_:
            case t.Integer(bits=bits, signed=True):
                return {f"i{bits}": body}
            case t.Integer(bits=bits):
                return {"userDefined": {**body, "typeReference": self._types.setdefault(f"u{bits}", bits)}}
            case t.Float(bits=bits):
                return {f"fp{bits}": body}
            case t.Decimal(precision=precision, scale=scale):
                return {"decimal": {**body, "precision": precision, "scale": scale}}
            case t.VarChar(length=length) | t.FixedChar(length=length) | t.FixedBinary(length=length):
                return {_KINDS[type(type_)]: {**body, "length": length}}
            case t.List(element=element):
                return {"list": {**body, "type": self._type(element)}}
            case t.IntervalDay() | t.IntervalCompound() | t.Time() | t.Timestamp() | t.TimestampTz():
                return {_KINDS[type(type_)]: {**body, "precision": type_.precision}}
            case _:
                return {_KINDS[type(type_)]: body}

    def _literal(self, literal: ir.Literal) -> Json:
        value: Any = literal.value
        nullable = {"nullable": True} if literal.type.nullable else {}
        if value is None:
            return {"null": self._type(literal.type)}
        match literal.type:
            case t.Boolean():
                return {"boolean": value, **nullable}
            case t.Integer(bits=bits):
                return {f"i{bits}": value, **nullable}
            case t.Float(bits=bits):
                return {f"fp{bits}": _json_float(value), **nullable}
            case t.Decimal(precision=precision, scale=scale):
                unscaled = int(value.scaleb(scale, decimal.Context(prec=60))).to_bytes(16, "little", signed=True)
                body: Any = {"value": base64.b64encode(unscaled).decode(), "precision": precision, "scale": scale}
                return {"decimal": body, **nullable}
            case t.VarChar(length=length):
                return {"varChar": {"value": value, "length": length}, **nullable}
            case t.Time(precision=p) | t.Timestamp(precision=p) | t.TimestampTz(precision=p):
                return {_KINDS[type(literal.type)]: {"value": value, "precision": p}, **nullable}
            case t.IntervalYear() | t.IntervalDay() | t.IntervalCompound():
                return {**_interval(value, literal.type), **nullable}
            case t.List(element=element) if value:
                items = [self._literal(ir.Literal(value=item, type=_of(element, item))) for item in value]
                return {"list": {"values": items}, **nullable}
            case t.List():
                return {"emptyList": self._type(literal.type)["list"]}
            case _:
                return {_KINDS[type(literal.type)]: value, **nullable}


def _of(element: t.Type, item: object) -> t.Type:
    return t.nullable(element) if item is None else element


def _interval(value: tuple[int, int, int], type_: t.IntervalYear | t.IntervalDay | t.IntervalCompound) -> Json:
    months, days, subseconds = value
    seconds, rest = divmod(abs(subseconds), 10**6)
    sign = -1 if subseconds < 0 else 1
    year = {"years": int(months / 12), "months": int(math.fmod(months, 12))}
    precision = 6 if isinstance(type_, t.IntervalYear) else type_.precision
    parts = int(decimal.Decimal(sign * rest).scaleb(precision - 6))
    day = {"days": days, "seconds": sign * seconds, "subseconds": parts, "precision": precision}
    match type_:
        case t.IntervalYear():
            return {"intervalYearToMonth": year}
        case t.IntervalDay():
            return {"intervalDayToSecond": day}
        case _:
            return {"intervalCompound": {"intervalYearToMonth": year, "intervalDayToSecond": day}}


def _gives_null(entry: FunctionEntry) -> bool:
    """Tests whether the function may give null where its type says that it does not: by an option, or by its text."""
    options = (entry.impl.options or {}).values()
    return entry.name in _NULL_IN_REQUIRED or any({"NULL", "NONE"} & set(option.values) for option in options)


def _is_nullable(type_: TypeMessage) -> bool:
    nullability = getattr(type_, type_.WhichOneof("kind")).nullability
    return bool(nullability == TypeMessage.NULLABILITY_NULLABLE)


def _json_float(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    return ("Infinity" if value > 0 else "-Infinity") if math.isinf(value) else value


def _column(index: int) -> Json:
    return {"selection": {"directReference": {"structField": {"field": index}}, "rootReference": {}}}


def _array(values: list[object], type_: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(type_) and not pa.types.is_interval(type_):
        return pa.array(values, pa.int32() if type_.bit_width == 32 else pa.int64()).cast(type_)
    return pa.array(values, type_)


plan_of: Final = functools.cache(CasePlan)


def failure(case: Case, client: tidegate.Client) -> str | None:
    """The reason why the case fails; None where it passes."""
    written = plan_of(case)
    try:
        answer = client.query(written.plan, written.tables)
    except PlanError as error:
        return f"refused: {error}"
    except (ExecutionError, TaskFailed) as error:
        return f"failed: {error}" if "INTERNAL" in str(error) else error_failure(case, error)
    if case.expected == UNDEFINED:
        return None
    got, field = plain(answer.column(0)), answer.schema.field(0)
    if case.expected == ERROR:
        return f"no error but {got}"
    expected = case.expected if isinstance(case.expected, list) else [case.expected]
    if not expected:
        return None if got == [] else f"{got}, not nothing"
    type_ = expected[0].type
    if field.nullable not in (*written.nullable, type_.nullable):
        return f"nullable: {field.nullable}, and the extension's type says {written.nullable}"
    if field.type != arrow_type(type_):
        return f"type {field.type}, not {arrow_type(type_)}"
    wanted = [value.value for value in expected]
    return None if alike(got, wanted, type_) else f"{got}, not {wanted}"
