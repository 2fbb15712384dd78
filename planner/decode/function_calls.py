"""Uses of functions: their declarations, their arguments, their bindings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ...proto.errors import PlanError
from .. import functions, ir
from ..functions.argument_types import expressions
from ..ir import tree
from ..ir.types import Float, Integer, Type, types_inside
from ..sql.expression_writer import check
from . import poison
from .declarations.extensions import Declared
from .declarations.habits import Habits
from .decoder import Decoder, Steps
from .encoding.message_nodes import Malformed, Message
from .plan_path import PlanPath
from .poison import is_unknown
from .scope import Scope

Argument: TypeAlias = ir.Expression | str
Options: TypeAlias = Mapping[str, tuple[str, ...]]
_KNOWN_INSIDE: Final = Declared("known_inside", "extension:io.tidegate:functions_lists")
IS_NULL: Final = Declared("is_null", "extension:io.substrait:functions_comparison")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bound:
    """The official function, its arguments with the conversions that producers leave out, and the result's type."""

    function: ir.Function
    arguments: tuple[Argument, ...]
    type: Type
    options: Options


def declared_function(decoder: Decoder, reference: int, plan_path: PlanPath) -> Declared | None:
    """The plan's declaration for a function's anchor; None, once reported, if the plan declares no such function."""
    function = decoder.extensions.functions.get(reference)
    if function is None:
        decoder.problems.add(
            plan_path / "function_reference", "UNKNOWN_ANCHOR", f"the plan declares no function with anchor {reference}"
        )
    return function


def read_options(decoder: Decoder, message: Message, plan_path: PlanPath) -> Options:
    options: dict[str, tuple[str, ...]] = {}
    for index, option in enumerate(message.options):
        if not option.name or not option.preference:
            problem = "an option needs a name and at least one preferred value"
            decoder.problems.add(plan_path.at("options", index), "BAD_OPTION", problem)
        options[option.name] = tuple(option.preference)
    return options


def read_arguments(
    decoder: Decoder,
    message: Message,
    plan_path: PlanPath,
    scope: Scope,
    *,
    has_old: bool = True,
    untyped: bool = False,
) -> Steps[tuple[Argument, ...]]:
    """The arguments, in the present form and, before 0.93, as plain expressions (`args`). With `untyped`, nulls without
    a type are `poison.NULL`.
    """
    arguments: list[Argument] = []
    for index, argument in enumerate(message.arguments):
        at = plan_path.at("arguments", index)
        match argument.WhichOneof("arg_type"):
            case "value":
                arguments.append((yield from decoder.argument(argument.value, at / "value", scope, untyped=untyped)))
            case "enum":
                arguments.append(argument.enum)
            case "type":
                problem = "type arguments are not supported: no function that Tidegate knows has one"
                decoder.problems.add(at / "type", "UNSUPPORTED_ARGUMENT", problem)
                arguments.append(poison.EXPRESSION)
            case _:
                arguments.append(decoder.missing_expression(at))
    if has_old and not arguments:
        for index, number in enumerate(message.args):
            at = plan_path.at("args", index)
            arguments.append(
                _old_enum(decoder, number) or (yield from decoder.argument(number, at, scope, untyped=untyped))
            )
    return tuple(arguments)


def _old_enum(decoder: Decoder, number: int) -> str | None:
    """The value of an enum that is written as an expression; None for everything else, broken or not."""
    try:
        message = decoder.nodes.peek(number) if number else None
    except Malformed:
        return None
    if message is None or message.WhichOneof("rex_type") != "enum":
        return None
    return str(message.enum.specified) or None


def bind_scalar(
    decoder: Decoder,
    declared: Declared,
    arguments: Sequence[Argument],
    plan_path: PlanPath,
    *,
    options: Options | None = None,
    output: Type | None = None,
) -> ir.Expression:
    """The expression that a use of a scalar function stands for; poison, once reported, if there is no such
    function.
    """
    if _poisoned(arguments, output):
        return poison.EXPRESSION
    declared, arguments = _as_meant(decoder.habits, declared, arguments, output)
    if functions.orders_nulls_inside(decoder.habits.dialect, declared.name.partition(":")[0]) and not declared.source:
        arguments = [one if isinstance(one, str) else known_inside(decoder, one, plan_path) for one in arguments]
    try:
        bound = functions.bind_scalar(
            declared.name,
            declared.source,
            arguments,
            options=options,
            output=_output(decoder, output),
            dialect=decoder.habits.dialect,
            plan_path=str(plan_path),
        )
        _check_calls(bound, set(arguments))
    except PlanError as error:
        _report(decoder, error, plan_path)
        return poison.EXPRESSION
    return bound


def known_inside(decoder: Decoder, value: ir.Expression, plan_path: PlanPath) -> ir.Expression:
    """The value; an error if it is a list or struct with a null inside."""
    if not _may_have_null_inside(value.type):
        return value
    return bind_scalar(decoder, _KNOWN_INSIDE, [value], plan_path)


def _may_have_null_inside(type_: Type) -> bool:
    return any(inside.nullable or _may_have_null_inside(inside) for inside in types_inside(type_))


def bind(
    decoder: Decoder,
    kind: ir.FunctionKind,
    declared: Declared,
    arguments: Sequence[Argument],
    plan_path: PlanPath,
    *,
    options: Options,
    output: Type | None,
) -> Bound | None:
    """An aggregate or window function with its arguments; None, once reported, if there is no such function."""
    if _poisoned(arguments, output):
        return None
    declared, arguments = _as_meant(decoder.habits, declared, arguments, output)
    try:
        bound = functions.bind(
            kind,
            declared.name,
            declared.source,
            arguments,
            options=options,
            output=_output(decoder, output),
            dialect=decoder.habits.dialect,
            plan_path=str(plan_path),
        )
        converted = expressions(bound.arguments)
        use = ir.Measure if kind is ir.FunctionKind.AGGREGATE else ir.WindowCall
        check(use(function=bound.function, arguments=converted, type=bound.type, options=bound.options))
    except PlanError as error:
        _report(decoder, error, plan_path)
        return None
    return Bound(function=bound.function, arguments=converted, type=bound.type, options=bound.options)


def _as_meant(
    habits: Habits, declared: Declared, arguments: Sequence[Argument], output: Type | None
) -> tuple[Declared, Sequence[Argument]]:
    """The call, and its arguments as floats where the producer's function is one of floats."""
    name = declared.name.partition(":")[0]
    if name not in habits.floats_of_integers or not isinstance(output, Float):
        return declared, arguments
    numbers = [one for one in arguments if not isinstance(one, str) and isinstance(one.type, Integer)]
    if len(numbers) < len(arguments):
        return declared, arguments
    floats = [ir.Cast(operand=one, type=Float(bits=64, nullable=one.type.nullable)) for one in numbers]
    return replace(declared, name=name), floats


def _output(decoder: Decoder, output: Type | None) -> Type | None:
    """The result type that the plan states, if its producer is right about result types."""
    return None if decoder.habits.output_types_wrong else output


def _check_calls(bound: ir.Expression, arguments: set[Argument]) -> None:
    """Refuses functions without SQL in what binding has made: the call, and the expressions that binding has put around
    it or between it and its arguments. So a plan that decodes can be rendered.
    """
    pending = [bound]
    while pending:
        expression = pending.pop()
        if expression not in arguments:
            if isinstance(expression, ir.Call):
                check(expression)
            pending.extend(tree.operands(expression))


def _poisoned(arguments: Sequence[Argument], output: Type | None) -> bool:
    if output is not None and is_unknown(output):
        return True
    return any(is_unknown(argument.type) for argument in arguments if not isinstance(argument, str))


def _report(decoder: Decoder, error: PlanError, plan_path: PlanPath) -> None:
    for problem in error.problems:
        decoder.problems.add(plan_path, problem.reason, problem.message)
