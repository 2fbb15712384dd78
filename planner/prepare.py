"""From a decoded plan to one that can be run: checked, rewritten, divided; pipelines are then made per shape."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from ..proto.errors import PlanError, Problem
from ..proto.values import Explanation, TaskOptions
from . import ir
from .cut import Division, Output, cut, divide
from .explain import explain
from .pipelines import PhysicalPlan, Shape
from .rewrite import rewrite
from .sources import PlannedSource, check, sources
from .sql import types as sql_types


class Decoded(Protocol):
    """What decoding gives: the plan, and what it wants a person to know."""

    @property
    def plan(self) -> ir.Plan: ...

    @property
    def warnings(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """A plan ready to be run for any shape of its sources. Immutable; `physical` is pure and linear in the plan."""

    plan: ir.Plan
    options: TaskOptions
    schema: pa.Schema
    sources: tuple[PlannedSource, ...]
    warnings: tuple[str, ...]
    division: Division
    output: Output

    def physical(self, shape: Shape) -> PhysicalPlan:
        """Pipelines for an epoch whose sources have this shape. `shape` has every source of the plan."""
        columns = {source.name: {column.name: column for column in source.columns} for source in self.sources}
        return cut(self.division, columns, shape, self.output)

    def explain(self) -> Explanation:
        """For people and for programs: relations, pipelines, fragments, and why."""
        return explain(self.plan, self.division, self.sources, self.output, self.options)


def prepare(decoded: Decoded | ir.Plan, options: TaskOptions, static: Collection[str] = ()) -> Prepared:
    """`static` names the sources that are bound for the task's life, as the plan spells them; files that the plan
    names itself always are. Raises `PlanError`.
    """
    plan, warnings = (decoded, ()) if isinstance(decoded, ir.Plan) else (decoded.plan, decoded.warnings)
    check(plan)
    if not plan.root.schema:
        raise PlanError(Problem(place=plan.root.place, reason="NO_COLUMNS", message="the result has no columns"))
    names = frozenset(static)

    def is_static(read: ir.Read) -> bool:
        return read.source in names

    rewritten = rewrite(plan)
    output = _output(rewritten)
    return Prepared(
        plan=rewritten,
        options=options,
        schema=output.schema,
        sources=sources(rewritten, is_static),
        warnings=tuple(warnings),
        division=divide(rewritten, is_static),
        output=output,
    )


def _output(plan: ir.Plan) -> Output:
    left = iter(plan.names)
    types = []
    for type_ in plan.root.schema:
        next(left)
        types.append(sql_types.named(type_, left))
    return Output(schema=sql_types.schema(plan.root.schema, plan.names), types=tuple(types))
