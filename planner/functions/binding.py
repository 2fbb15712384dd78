"""Binds a plan's function to the official implementation that it means, with arguments and result type.

The binder tries implementations in this order:

1. the one that the plan names outright (an official file and an official compound name), if the arguments fit;
2. those that the plan's producer means by a name without a file (`producer_meanings`);
3. those of that name in the file the plan names, then in every file;
4. the official forms of a producer's own name (`aliases`).

Within 2, 3 and 4 the best one narrows no argument, then gives the result type that the plan declares, then asks for the
cheapest conversions of its arguments, then says most about their types.

The plan's declared result type is kept: if it differs from the derived type, rendering casts to it, and a value that
does not fit is an error. The type may be a decimal of other digits, or another width of an integer that counts
something. Functions that the plan takes from no extension are their producer's own, and may have any type of the
derived type's family. Every other type is a problem.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from ...proto.errors import PlanError, Problem
from .. import ir
from ..ir import types as t
from ..ir.types import Type
from . import aliases, coercion, registry
from . import function_names as names
from .aliases import Alias, Argument, type_of
from .argument_types import convert, describe, expressions, fit, match_types
from .constructors import CONSTRUCTORS
from .derivation import READS_ARGUMENT, derive
from .function_options import choose
from .patterns import ArgumentType, Bindings, Signature
from .producer_meanings import meanings
from .registry import Implementation
from .templates import entry

_LAST_RESORT: Final = "functions_aggregate_decimal_output"  # the same names again, with decimals where i64 would do
_LONGEST_WORD: Final = 32  # longer than any name of a unit
_NUMBERS: Final = (t.Integer, t.Float, t.Decimal)
_TEXTS: Final = (t.String, t.VarChar, t.FixedChar)
_DATES: Final = (t.Date, t.Timestamp, t.TimestampTz)
_INTEGERS: Final = frozenset({"i8", "i16", "i32", "i64"})
_FAMILIES: Final[tuple[tuple[type[Type], ...], ...]] = (_NUMBERS, _TEXTS, _DATES, (t.Binary, t.FixedBinary))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A bound use of a function.

    `arguments` are the official function's, converted where the producer left a conversion out; `type` is the result's:
    declared by the plan, else derived. With `negated`, the plan means the call's opposite (`!~~`).
    """

    function: ir.Function
    arguments: tuple[Argument, ...]
    type: Type
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """An implementation, and the types of its arguments (`targets`): None for enums and lambdas."""

    implementation: Implementation
    targets: tuple[Type | None, ...]
    derived: Type
    alias: Alias | None
    rank: tuple[int, ...]


_CHOICES: Final[dict[tuple[object, ...], _Choice]] = {}
_MOST_CHOICES: Final = 4096


def bind(
    kind: ir.FunctionKind,
    name: str,
    declared: str | None,
    arguments: Sequence[Argument],
    *,
    options: Mapping[str, Sequence[str]] | None = None,
    output: Type | None = None,
    dialect: str = "",
    plan_path: str = "",
) -> Bound:
    """Binds one use of a function. `declared` is the URN or URI that the plan gives for the function, in any spelling;
    `dialect` is the producer whose meaning a name without one has.

    Raises `PlanError` with one problem, which names the function, its arguments' types and the alternatives.
    """
    base, compound = names.split(name)
    file = names.extension_file(declared)
    best = _choice(kind, base, compound, file, arguments, output, "" if declared else dialect)
    if best is None:
        raise PlanError(_unbound(kind, base, name, declared, arguments, plan_path))
    implementation = best.implementation
    derived = best.derived
    arranged = best.alias.arrange(arguments) if best.alias else arguments
    converted = tuple(map(convert, arranged or (), best.targets))
    if output is None and file is None and converted:
        derived = aliases.undeclared_result(implementation.name, type_of(converted[0]), derived)
    asked = {key.lower(): tuple(v.upper() for v in values) for key, values in (options or {}).items()}
    if best.alias:
        asked = {**best.alias.options, **asked}
    table_entry = entry(implementation.kind, implementation.file, implementation.name)
    choices = choose(implementation, asked, plan_path)
    if "NULL" in choices.values() or (table_entry is not None and table_entry.may_be_null):
        derived = t.nullable(derived)
    return Bound(
        function=ir.Function(
            urn=implementation.urn,
            name=implementation.name,
            signature=implementation.signature,
            kind=implementation.kind,
        ),
        arguments=converted,
        type=_reconcile(
            implementation,
            derived,
            output,
            plan_path,
            official=file is not None or implementation.signature == compound,
        ),
        options=asked,
        negated=best.alias is not None and best.alias.negated,
    )


def bind_scalar(
    name: str,
    declared: str | None,
    arguments: Sequence[ir.Expression | str],
    *,
    options: Mapping[str, Sequence[str]] | None = None,
    output: Type | None = None,
    dialect: str = "",
    plan_path: str = "",
) -> ir.Expression:
    """The expression of a scalar function's use: a call, its negation, or a value that a function name builds."""
    base, _ = names.split(name)
    if (construct := CONSTRUCTORS.get(base)) is not None:
        return construct(arguments, output, plan_path)
    bound = bind(
        ir.FunctionKind.SCALAR,
        name,
        declared,
        arguments,
        options=options,
        output=output,
        dialect=dialect,
        plan_path=plan_path,
    )
    call = ir.Call(
        function=bound.function,
        arguments=expressions(bound.arguments),
        type=bound.type,
        options=bound.options,
        plan_path=plan_path,
    )
    if not bound.negated:
        return call
    return ir.Call(
        function=bind(ir.FunctionKind.SCALAR, "not", None, [call], plan_path=plan_path).function,
        arguments=(call,),
        type=bound.type,
        plan_path=plan_path,
    )


def derived_type(function: ir.Function, arguments: Sequence[Argument]) -> Type:
    """The result type that a bound function derives from its converted arguments, before the plan's own declaration."""
    constants = tuple(_constants(implementation_of(function), arguments).items())
    return _derived(function, tuple(type_of(argument) for argument in arguments), constants)


@lru_cache(maxsize=4096)
def _derived(
    function: ir.Function, types: tuple[ArgumentType | None, ...], constants: tuple[tuple[str, int], ...]
) -> Type:
    implementation = implementation_of(function)
    bindings = match_types(implementation, types)
    if bindings is None:
        raise ValueError(f"{function.signature} does not take {', '.join(map(str, types))}")
    return _result(implementation, types, bindings, dict(constants))


@lru_cache(maxsize=1024)
def implementation_of(function: ir.Function) -> Implementation:
    """The official implementation behind a bound function."""
    file = function.urn.rpartition(":")[2]
    for implementation in registry.implementations(function.kind, function.name, file):
        if implementation.signature == function.signature:
            return implementation
    raise ValueError(f"{function.urn} has no {function.signature}")


# ------------------------------------------------------------------------------------------------- candidates


def _choice(
    kind: ir.FunctionKind,
    base: str,
    compound: str | None,
    file: str | None,
    arguments: Sequence[Argument],
    output: Type | None,
    dialect: str,
) -> _Choice | None:
    """The best candidate, remembered: plans repeat themselves, and trying twenty overloads takes a millisecond."""
    reads = _reads(kind, base, dialect)
    kinds = tuple(_kind_of_argument(argument, reads) for argument in arguments)
    key = (kind, base, compound, file, kinds, output, dialect)
    known = _CHOICES.get(key)
    if known is None:
        candidates = list(_candidates(kind, base, compound, file, arguments, output, dialect))
        if not candidates:
            return None
        known = min(candidates, key=lambda candidate: candidate.rank)
        if len(_CHOICES) >= _MOST_CHOICES:
            _CHOICES.clear()
        _CHOICES[key] = known
    return known


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reads:
    """The values of literals that a choice depends on: of integers, where a result type has one in it, and of texts,
    where a producer's own function has a word in it. Elsewhere calls with other values share a choice.
    """

    integers: bool
    texts: bool


@lru_cache(maxsize=1024)
def _reads(kind: ir.FunctionKind, base: str, dialect: str) -> _Reads:
    others = (*meanings(dialect, kind, base), *aliases.aliases(kind, base))
    results = (
        implementation.result
        for name in (base, *(alias.name for alias in others))
        for implementation in registry.implementations(kind, name)
    )
    return _Reads(integers=any(READS_ARGUMENT in result for result in results), texts=bool(others))


def _kind_of_argument(argument: Argument, reads: _Reads) -> object:
    """The part of an argument that a choice depends on: its type, and for a literal also its value or its kind."""
    if not isinstance(argument, ir.Literal):
        return argument if isinstance(argument, str) else type_of(argument)
    match argument.value:
        case None:
            return argument.type, None
        case int(value):
            return argument.type, value if reads.integers else len(str(abs(value)))
        case str(text) if reads.texts:
            return argument.type, text[:_LONGEST_WORD]
        case _:
            return argument.type, True


def _candidates(
    kind: ir.FunctionKind,
    base: str,
    compound: str | None,
    file: str | None,
    arguments: Sequence[Argument],
    output: Type | None,
    dialect: str,
) -> Iterator[_Choice]:
    meant = list(_renamed(meanings(dialect, kind, base), kind, arguments, output))
    if meant:
        yield from meant
        return
    named = registry.implementations(kind, base, file) if file else ()
    outright = [implementation for implementation in named if implementation.signature == compound]
    for implementations in (outright, named, registry.implementations(kind, base)):
        fitting = list(_fitting(implementations, arguments, compound, output, None))
        if fitting:
            yield from fitting
            return
    yield from _renamed(aliases.aliases(kind, base), kind, arguments, output)


def _renamed(
    forms: Iterable[Alias], kind: ir.FunctionKind, arguments: Sequence[Argument], output: Type | None
) -> Iterator[_Choice]:
    for alias in forms:
        arranged = alias.arrange(arguments)
        if arranged is not None:
            yield from _fitting(registry.implementations(kind, alias.name), arranged, None, output, alias)


def _fitting(
    implementations: Iterable[Implementation],
    arguments: Sequence[Argument],
    compound: str | None,
    output: Type | None,
    alias: Alias | None,
) -> Iterator[_Choice]:
    for order, implementation in enumerate(implementations):
        fitted = fit(implementation, arguments)
        if fitted is None:
            continue
        targets, cost = fitted
        types = tuple(target or type_of(argument) for target, argument in zip(targets, arguments, strict=True))
        bindings = match_types(implementation, types)
        if bindings is None:
            continue
        derived = _result(implementation, types, bindings, _constants(implementation, arguments))
        rank = (
            cost >= coercion.NARROWING,
            _distance(derived, output),
            cost,
            implementation.file == _LAST_RESORT,
            implementation.signature != compound,
            sum(p.pattern is not None and p.pattern.is_any for p in implementation.parameters),
            order,
        )
        yield _Choice(implementation=implementation, targets=targets, derived=derived, alias=alias, rank=rank)


# ----------------------------------------------------------------------------------------------------- results


def _result(
    implementation: Implementation,
    types: Sequence[ArgumentType | None],
    bindings: Bindings,
    constants: Mapping[str, int],
) -> Type:
    derived = derive(implementation.result, bindings, constants)
    if implementation.nullability == "MIRROR" and any(
        type_.nullable for type_ in types if type_ is not None and not isinstance(type_, Signature)
    ):
        return t.nullable(derived)
    return derived


def _constants(implementation: Implementation, arguments: Sequence[Argument]) -> dict[str, int]:
    """The values of whole-number literals, by argument name. Some result types depend on such a value."""
    constants: dict[str, int] = {}
    for index, argument in enumerate(arguments):
        if isinstance(argument, ir.Cast):
            argument = argument.operand  # noqa: PLW2901  # a literal converted to the parameter's type
        if isinstance(argument, ir.Literal) and isinstance(argument.value, int):
            constants[implementation.parameter(index).name] = argument.value
    return constants


def _distance(derived: Type, output: Type | None) -> int:
    if output is None or coercion.same(derived, output):
        return 0
    if isinstance(derived, t.Decimal) and isinstance(output, t.Decimal):
        return 0
    return 1 if castable(derived, output) else 2


def castable(source: Type, target: Type) -> bool:
    """Tests whether a result of one type may be declared as the other: both numbers, texts, dates or bytes."""
    return any(isinstance(source, family) and isinstance(target, family) for family in _FAMILIES) or (
        type(source) is type(target)
    )


def _reconcile(
    implementation: Implementation, derived: Type, output: Type | None, plan_path: str, *, official: bool
) -> Type:
    """The plan's declared type if there is one, nullable also if the derived type is. `official` says that the plan
    means this implementation, not a function of its producer.
    """
    if output is None:
        return derived
    if not (_may_be_declared(implementation, derived, output) if official else castable(derived, output)):
        raise PlanError(
            Problem(
                place=plan_path,
                reason="WRONG_RESULT_TYPE",
                message=f"{implementation.signature} gives {derived}, but the plan declares {output}",
            )
        )
    return t.nullable(output) if derived.nullable else output


def _may_be_declared(implementation: Implementation, derived: Type, output: Type) -> bool:
    """Tests whether a plan may declare the implementation's result as another type of the same kind: decimals and
    texts of any size, and any width of an integer that counts something and is not made of integers.
    """
    if isinstance(derived, t.Decimal) or not isinstance(derived, _NUMBERS):
        return castable(derived, output) and isinstance(output, t.Decimal) is isinstance(derived, t.Decimal)
    if isinstance(derived, t.Integer) and isinstance(output, t.Integer) and _counts(implementation):
        return True
    return coercion.same(derived, output)


def _counts(implementation: Implementation) -> bool:
    patterns = (parameter.pattern for parameter in implementation.parameters)
    return implementation.result.strip().rstrip("?") in _INTEGERS and not any(
        pattern is not None and pattern.name in _INTEGERS for pattern in patterns
    )


# ---------------------------------------------------------------------------------------------------- messages


def _unbound(
    kind: ir.FunctionKind,
    base: str,
    name: str,
    declared: str | None,
    arguments: Sequence[Argument],
    plan_path: str,
) -> Problem:
    shown = f"{name}({', '.join(describe(argument) for argument in arguments)})"
    overloads = registry.implementations(kind, base)
    origin = f" of {declared}" if declared else ""
    if overloads or aliases.aliases(kind, base):
        targets = [base, *(alias.name for alias in aliases.aliases(kind, base))]
        have = dict.fromkeys(o.signature for target in targets for o in registry.implementations(kind, target))
        return Problem(
            place=plan_path,
            reason="NO_MATCHING_FUNCTION",
            message=f"there is no {kind.value} function {shown}{origin}; there are: {', '.join(have)}",
        )
    near = difflib.get_close_matches(base, sorted(registry.names(kind) | aliases.known(kind)), n=3, cutoff=0.5)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return Problem(
        place=plan_path, reason="UNKNOWN_FUNCTION", message=f"there is no {kind.value} function {shown}{origin}{hint}"
    )
