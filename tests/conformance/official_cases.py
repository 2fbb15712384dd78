"""Substrait's official function cases, read with their own grammar into expressions.

A case has a place in its file (`line 12`), so that a failure can be looked up.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from antlr4 import CommonTokenStream, InputStream
from substrait_antlr.func_test_case.FuncTestCaseLexer import FuncTestCaseLexer
from substrait_antlr.func_test_case.FuncTestCaseParser import FuncTestCaseParser

import tidegate
from tidegate.planner import ir
from tidegate.planner.functions import Signature, bind_scalar
from tidegate.planner.functions.patterns import Bindings, Pattern, fill, parse
from tidegate.planner.ir import types as t

ROOT = Path(str(resources.files("substrait_extensions.testcases")))
ERROR, UNDEFINED = "<!ERROR>", "<!UNDEFINED>"

_SHORT = {
    "bool": "boolean",
    "str": "string",
    "dec": "decimal<38,0>",
    "pts": "precision_timestamp<6>",
    "ptstz": "precision_timestamp_tz<6>",
    "pt": "precision_time<6>",
    "iday": "interval_day<6>",
    "iyear": "interval_year",
    "icompound": "interval_compound<6>",
    "vchar": "varchar",
    "fchar": "fixedchar",
    "fbin": "fixedbinary",
    "vbin": "binary",
    "u8": "u!u8",
    "u16": "u!u16",
    "u32": "u!u32",
    "u64": "u!u64",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """`arguments` are expressions and enum values; an aggregate's read columns of `rows`. `expected` is a literal, a
    list of literals (a window's answer), `ERROR` or `UNDEFINED`.
    """

    line: int
    text: str
    kind: ir.FunctionKind
    urn: str
    name: str
    arguments: tuple[ir.Expression | str, ...]
    options: dict[str, list[str]]
    expected: ir.Literal | list[ir.Literal] | str
    rows: tuple[tuple[ir.Literal, ...], ...] = ()
    columns: tuple[t.Type, ...] = ()


ERRORS: Final[Mapping[str, str]] = {
    "overflow": r"(?i)overflow|out of range",
    "division by zero": r"(?i)division by zero",
    "domain": r"outside its domain|of a negative number",
    "logarithm of zero": r"of zero$",
    "complex result": r"with a complex result",
}
"""The kinds of errors that cases want, and what an error of the kind says."""

_KIND_OF_OPTION: Final = {
    "overflow": "overflow",
    "on_division_by_zero": "division by zero",
    "on_domain_error": "domain",
    "on_log_zero": "logarithm of zero",
    "complex_number_result": "complex result",
}
_KIND_OF_CASE: Final = {
    r"modulus\(5::i8, 0::i8\)": "division by zero",  # all that is outside its domain
    r"factorial\(34::dec": "overflow",
    r"factorial\(-1::dec": "domain",
    r"sqrt\(-[\d.]+::dec": "domain",
}
"""The kinds of cases whose options do not say it."""


def error_kind(case: Case) -> str:
    """The kind of error that a case wants: that of the option whose value is ERROR, or of the table of cases."""
    if kind := next((kind for pattern, kind in _KIND_OF_CASE.items() if re.match(pattern, case.text)), None):
        return kind
    [option] = [name for name, values in case.options.items() if values == ["ERROR"]]
    return _KIND_OF_OPTION[option]


def error_failure(case: Case, error: Exception) -> str | None:
    """The reason why an error is not what the case expects; None where it is, or the case leaves the answer open."""
    message = str(error).partition(", in split ")[0].partition("\n")[0]
    if case.expected == UNDEFINED:
        return None
    if case.expected != ERROR:
        return f"failed: {error}"
    kind = error_kind(case)
    return None if re.search(ERRORS[kind], message) else f"an error other than {kind}: {message}"


class Unreadable(Exception):
    """A case whose values or types have no counterpart here (user-defined types)."""


def files() -> list[str]:
    """The case files, by their path below `testcases`."""
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.test"))


@functools.cache
def read(file: str) -> tuple[tuple[int, str, Case | Unreadable], ...]:
    """The cases of a file: line, text, and the case or why it cannot be read."""
    return tuple(_read(file))


def _read(file: str) -> Iterator[tuple[int, str, Case | Unreadable]]:
    text = (ROOT / file).read_text(encoding="utf-8")
    lines = text.splitlines()
    parser = FuncTestCaseParser(CommonTokenStream(FuncTestCaseLexer(InputStream(text))))
    document = parser.doc()
    assert parser.getNumberOfSyntaxErrors() == 0
    urn = re.search(r"extension:[\w.]+:\w+", text).group()
    for group in document.testGroup():
        for method, reader in (
            ("testCase", _scalar_case),
            ("aggFuncTestCase", _aggregate_case),
            ("windowFuncTestCase", _window_case),
        ):
            for context in getattr(group, method, list)():
                line = context.stop.line
                if "AGGREGATE_TEST" in lines[0] and method == "testCase":
                    reader = _unsigned_column
                try:
                    result: Case | Unreadable = reader(context, urn, line, lines[line - 1])
                except Unreadable as problem:
                    result = problem
                yield line, lines[line - 1], result


def _unsigned_column(context, urn, line, text):
    """`sum(('1', '2')::u!u8)`: the grammar takes such a column for a scalar's argument."""
    values, type_text = context.arguments().argument(0).getText().rsplit("::", 1)
    type_ = t.nullable(type_of(type_text))
    return Case(
        line=line,
        text=text,
        kind=ir.FunctionKind.AGGREGATE,
        urn=urn,
        name=context.identifier().getText(),
        arguments=(ir.Field(index=0, type=type_),),
        options=_options(context.funcOptions()),
        expected=_expected(context.result()),
        rows=tuple((_literal(value, type_),) for value in values.strip("()").split(",") if value),
        columns=(type_,),
    )


def _scalar_case(context, urn, line, text):
    return Case(
        line=line,
        text=text,
        kind=ir.FunctionKind.SCALAR,
        urn=urn,
        name=context.identifier().getText(),
        arguments=tuple(_argument(a) for a in context.arguments().argument()) if context.arguments() else (),
        options=_options(context.funcOptions()),
        expected=_expected(context.result()),
    )


def _aggregate_case(context, urn, line, text):
    call = context.aggFuncCall()
    columns: tuple[t.Type, ...]
    if hasattr(call, "dataColumn"):
        column = call.dataColumn()
        columns = (t.nullable(type_of(column.dataType().getText())),)
        rows = [(literal,) for literal in _values(column.columnValues(), columns[0])]
        arguments: list[ir.Expression | str] = [ir.Field(index=0, type=columns[0])]
    elif hasattr(call, "tableRows"):
        measure_arguments = call.aggregateFuncArgs().aggregateFuncArg() if call.aggregateFuncArgs() else []
        arguments = []
        types: dict[int, t.Type] = {}
        for argument in measure_arguments:
            if argument.argument() is not None:
                arguments.append(_argument(argument.argument()))
                continue
            column_name, type_text = argument.getText().split("::", 1)
            index = int(column_name.removeprefix("col"))
            types[index] = type_of(type_text)
            arguments.append(ir.Field(index=index, type=types[index]))
        columns = tuple(types[i] for i in sorted(types))
        rows = _rows(call.tableRows(), columns)
    else:
        raise AssertionError(call.getText())
    return Case(
        line=line,
        text=text,
        kind=ir.FunctionKind.AGGREGATE,
        urn=urn,
        name=call.identifier().getText(),
        arguments=tuple(arguments),
        options=_options(context.funcOptions()),
        expected=_expected(context.result()),
        rows=tuple(rows),
        columns=columns,
    )


def _window_case(context, urn, line, text):
    call = context.windowFuncCall()
    table = call.tableData()
    columns = tuple(t.nullable(type_of(d.getText())) for d in table.dataType())
    arguments: list[ir.Expression | str] = []
    for argument in call.windowFuncArgs().windowFuncArg() if call.windowFuncArgs() else ():
        if argument.argument() is not None:
            arguments.append(_argument(argument.argument()))
        else:
            index = int(argument.getText().removeprefix("col"))
            arguments.append(ir.Field(index=index, type=columns[index]))
    column = context.windowResult().dataColumn()
    return Case(
        line=line,
        text=text,
        kind=ir.FunctionKind.WINDOW,
        urn=urn,
        name=call.identifier().getText(),
        arguments=tuple(arguments),
        options=_options(context.funcOptions()),
        expected=_values(column.columnValues(), type_of(column.dataType().getText())),
        rows=tuple(_rows(table.tableRows(), columns)),
        columns=columns,
    )


def _rows(context, columns) -> list[tuple[ir.Literal, ...]]:
    return [
        tuple(_literal(v.getText(), type_) for v, type_ in zip(row.literal(), columns, strict=True))
        for row in context.columnValues()
        if row.literal()  # `(())` is no row
    ]


def _values(context, type_) -> list[ir.Literal]:
    texts = [value.getText() for value in context.literal()]
    return [_literal(text, type_) for text in texts]


def _options(context) -> dict[str, list[str]]:
    if context is None:
        return {}
    return {o.optionName().getText().lower(): [o.optionValue().getText().upper()] for o in context.funcOption()}


def _expected(context) -> ir.Literal | str:
    if context.substraitError() is not None:
        return context.substraitError().getText()
    return _argument(context.argument())


def _argument(context, parameters: Sequence[str] = (), types: Sequence[t.Type] = ()) -> ir.Expression | str:
    """A literal, an enum value (plain text), a lambda, a call, or inside a lambda one of its parameters."""
    lambda_ = context.lambdaArg()
    if lambda_ is not None:
        return _lambda(lambda_)
    call = context.funcCallArg()
    if call is not None:
        return _call(call, parameters, types)
    text = context.getText()
    if text in parameters:
        index = parameters.index(text)
        return ir.Parameter(index=index, type=types[index])
    value, type_text = text.rsplit("::", 1)
    if type_text == "enum":
        return value
    if context.listArg() is not None:
        return _list(context.listArg().literalList(), type_of(type_text))
    return _literal(value, type_of(type_text))


def _lambda(context) -> ir.Lambda:
    *types, _ = _pattern(context.funcType().getText()).parameters
    literal = context.literalLambda()
    parameters = re.findall(r"\w+", literal.lambdaParameters().getText())
    parameter_types = tuple(_filled(p) for p in types)
    body = _call(literal.lambdaBody(), parameters, parameter_types)
    return ir.Lambda(parameters=parameter_types, body=body, type=body.type)


def _call(context, parameters, types) -> ir.Expression:
    arguments = [_argument(a, parameters, types) for a in context.arguments().argument()]
    return bind_scalar(context.identifier().getText(), None, arguments)


def _list(context, type_: t.List) -> ir.Literal:
    values = [_literal(item.getText(), type_.element).value for item in context.compoundLiteral()]
    return ir.Literal(value=tuple(values), type=type_)


# ------------------------------------------------------------------------------------------- types and values


def _pattern(text: str) -> Pattern:
    def long(match: re.Match[str]) -> str:
        name, mark, parameters = match.group(1), match.group(2), match.group(3)
        known = _SHORT.get(name.lower(), name)
        if parameters:
            known = known.partition("<")[0]
        base, _, rest = known.partition("<")
        return f"{base}{mark}{'<' + rest if rest else ''}{parameters}"

    return parse(re.sub(r"([A-Za-z_]\w*(?:![\w]+)?)(\??)(<?)", long, text.replace("u!", "u!")))


def type_of(text: str) -> t.Type:
    return _filled(_pattern(text))


def _filled(pattern: Pattern) -> t.Type:
    try:
        return fill(pattern, Bindings(), {})
    except tidegate.PlanError:
        raise Unreadable(f"type {pattern.name!r}") from None


def _literal(text: str, type_: t.Type) -> ir.Literal:
    value = None if text.lower() == "null" else _value(text, type_)
    return ir.Literal(value=value, type=t.nullable(type_) if value is None else type_)


_INTERVAL = re.compile(r"P(?:(\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?[\d.]+)S)?)?")


def _value(text: str, type_: t.Type) -> object:
    match type_:
        case t.Boolean():
            return text.lower() == "true"
        case t.Integer():
            return int(text.strip("()'"))
        case t.Float():
            return float(text)
        case t.Decimal():
            return decimal.Decimal(text)
        case t.String() | t.VarChar() | t.FixedChar():
            return text[1:-1]
        case t.Date():
            return (dt.date.fromisoformat(text.strip("'")) - dt.date(1970, 1, 1)).days
        case t.Time(precision=precision):
            moment = dt.datetime.fromisoformat(f"1970-01-01T{text}+00:00")
            return _units(moment, precision)
        case t.Timestamp(precision=precision):
            return _units(dt.datetime.fromisoformat(text + "+00:00"), precision)
        case t.TimestampTz(precision=precision):
            return _units(dt.datetime.fromisoformat(text), precision)
        case t.IntervalYear() | t.IntervalDay() | t.IntervalCompound():
            return _interval(text)
        case _:
            raise Unreadable(f"a literal of type {type_}")


def _units(moment: dt.datetime, precision: int) -> int:
    elapsed = moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return elapsed // dt.timedelta(microseconds=1) * 10**precision // 10**6


def _interval(text: str) -> tuple[int, int, int]:
    years, months, days, hours, minutes, seconds = _INTERVAL.fullmatch(text.strip("'")).groups(default="0")
    whole = (int(hours) * 60 + int(minutes)) * 60
    return int(years) * 12 + int(months), int(days), int((whole + decimal.Decimal(seconds)) * 10**6)


__all__ = [
    "ERROR",
    "ERRORS",
    "UNDEFINED",
    "Case",
    "Signature",
    "Unreadable",
    "error_failure",
    "error_kind",
    "files",
    "read",
]
