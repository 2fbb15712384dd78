"""The decoder's view of the function registry, so that the decoder can be given another registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from .. import functions, ir
from ..functions.argument_types import expressions
from ..ir import tree
from ..ir.types import Type
from ..sql.expression_writer import check


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bound:
    """The official function, its arguments with the conversions that producers leave out, and the result's type."""

    function: ir.Function
    arguments: tuple[ir.Expression | str, ...]
    type: Type
    options: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Use:
    """A function as the plan uses it.

    `source` is the URN or URI that the plan gives for the function, if any; a string among the arguments is an enum
    argument; `output` is the result type that the plan states, if any; `dialect` is the producer whose meaning names
    without a source have.
    """

    name: str
    source: str | None
    arguments: Sequence[ir.Expression | str]
    options: Mapping[str, tuple[str, ...]]
    output: Type | None
    plan_path: str
    dialect: str = ""


class Binder(Protocol):
    """Binds functions. Both methods raise `PlanError`."""

    def bind(self, kind: ir.FunctionKind, use: Use) -> Bound:
        """Binds an aggregate or window function."""

    def bind_scalar(self, use: Use) -> ir.Expression:
        """The expression that a use of a scalar function stands for."""


class Registry:
    """Binds to the official extensions, and refuses functions without SQL: a plan that decodes can be rendered."""

    def bind(self, kind: ir.FunctionKind, use: Use) -> Bound:
        bound = functions.bind(
            kind,
            use.name,
            use.source,
            use.arguments,
            options=use.options,
            output=use.output,
            dialect=use.dialect,
            plan_path=use.plan_path,
        )
        arguments = expressions(bound.arguments)
        kinds = ir.Measure if kind is ir.FunctionKind.AGGREGATE else ir.WindowCall
        check(kinds(function=bound.function, arguments=arguments, type=bound.type, options=bound.options))
        return Bound(function=bound.function, arguments=arguments, type=bound.type, options=bound.options)

    def bind_scalar(self, use: Use) -> ir.Expression:
        bound = functions.bind_scalar(
            use.name,
            use.source,
            use.arguments,
            options=use.options,
            output=use.output,
            dialect=use.dialect,
            plan_path=use.plan_path,
        )
        arguments = set(use.arguments)
        pending = [bound]
        while pending:  # the call, and the expressions that binding has put around it or between it and its arguments
            expression = pending.pop()
            if expression not in arguments:
                if isinstance(expression, ir.Call):
                    check(expression)
                pending.extend(tree.operands(expression))
        return bound
