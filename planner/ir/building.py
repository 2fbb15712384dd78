"""Builds relations and expressions that passes add to a plan: their types follow from their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .. import ir
from . import types as t

INT64: Final = t.Integer(bits=64, nullable=False)


def int64(value: int) -> ir.Literal:
    """A whole number of 64 bits."""
    return ir.Literal(value=value, type=INT64)


def columns(schema: ir.Schema, first: int = 0) -> tuple[ir.Field, ...]:
    """References to columns of these types that stand side by side, the first one at the position `first`."""
    return tuple(ir.Field(index=at, type=type_) for at, type_ in enumerate(schema, first))


def project(relation: ir.Relation, expressions: Sequence[ir.Expression], plan_path: str | None = None) -> ir.Project:
    """The expressions over each row of the relation."""
    return ir.Project(
        input=relation,
        expressions=tuple(expressions),
        schema=tuple(expression.type for expression in expressions),
        plan_path=relation.plan_path if plan_path is None else plan_path,
    )


def filtered(relation: ir.Relation, condition: ir.Expression, plan_path: str | None = None) -> ir.Filter:
    """The rows of the relation that meet the condition."""
    return ir.Filter(
        input=relation,
        condition=condition,
        schema=relation.schema,
        plan_path=relation.plan_path if plan_path is None else plan_path,
    )
