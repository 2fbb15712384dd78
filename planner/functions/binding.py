"""Binds a plan's function to the official implementation that it means, with arguments and result type.

`overloads` chooses the implementation, `result_types` has the result.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...proto.errors import PlanError, Problem
from .. import ir
from ..ir import types as t
from ..ir.types import Type
from . import aliases, registry
from . import function_names as names
from .aliases import Argument, type_of
from .argument_types import compared, convert, describe, expressions, ordered, together, type_of_choice
from .constructors import CONSTRUCTORS
from .function_options import choose
from .overloads import choose_overload
from .producer_meanings import means_otherwise
from .result_types import reconcile
from .templates import entry

_LONGEST_NAME: Final = 100
"""The longest name that similar ones are looked up for. No function has a longer one."""


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
    `dialect` is the producer whose meaning a name without one has, and a few names with one.

    Raises `PlanError` with one problem, which names the function, its arguments' types and the alternatives.
    """
    base, compound = names.split(name)
    file = names.extension_file(declared)
    meant_by = dialect if means_otherwise(dialect, base, declared) else ""
    best = choose_overload(kind, base, compound, file, arguments, output, meant_by)
    if best is None:
        raise PlanError(_unbound(kind, base, name, declared, arguments, plan_path))
    implementation = best.implementation
    derived = best.derived
    arranged = best.alias.arrange(arguments) if best.alias else arguments
    converted = tuple(map(convert, arranged or (), best.targets))
    if names.is_comparison(implementation.file, implementation.name):
        converted = compared(arranged or (), converted)
    elif names.is_ordering(implementation.file, implementation.name):
        converted = ordered(arranged or (), converted)
    if output is None and file is None and converted:
        derived = aliases.undeclared_result(implementation.name, type_of(converted[0]), derived)
    asked = {key.lower(): tuple(v.upper() for v in values) for key, values in (options or {}).items()}
    if best.alias:
        asked = {**best.alias.options, **asked}
    table_entry = entry(implementation.kind, implementation.file, implementation.name)
    official = file is not None or implementation.signature == compound
    choices = choose(implementation, asked, plan_path)
    if "NULL" in choices.values() or (table_entry is not None and table_entry.may_be_null):
        derived = t.nullable(derived)
    return Bound(
        function=implementation.function,
        arguments=converted,
        type=reconcile(implementation, derived, output, plan_path, official=official),
        options=asked,
        negated=best.alias is not None and best.alias.negated,
    )


def bind_scalar(
    name: str,
    declared: str | None,
    values: Sequence[ir.Expression | str],
    *,
    options: Mapping[str, Sequence[str]] | None = None,
    output: Type | None = None,
    dialect: str = "",
    plan_path: str = "",
) -> ir.Expression:
    """The expression of a scalar function's use: a call, its negation, or a value that a function name builds."""
    base, _ = names.split(name)
    if (construct := CONSTRUCTORS.get(base)) is not None:
        return construct(values, output, plan_path)
    bound = bind(
        ir.FunctionKind.SCALAR,
        name,
        declared,
        values,
        options=options,
        output=output,
        dialect=dialect,
        plan_path=plan_path,
    )
    arguments = expressions(bound.arguments)
    call = ir.Call(
        function=bound.function,
        arguments=arguments,
        type=type_of_choice(arguments, bound.type),
        options=bound.options,
        plan_path=plan_path,
    )
    if not bound.negated:
        return together(call, bound.type)
    return ir.Call(
        function=bind(ir.FunctionKind.SCALAR, "not", None, [call], plan_path=plan_path).function,
        arguments=(call,),
        type=bound.type,
        plan_path=plan_path,
    )


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
    known = registry.names(kind) | aliases.known(kind)
    near = difflib.get_close_matches(base, sorted(known), n=3, cutoff=0.5) if len(base) <= _LONGEST_NAME else ()
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return Problem(
        place=plan_path, reason="UNKNOWN_FUNCTION", message=f"there is no {kind.value} function {shown}{origin}{hint}"
    )
