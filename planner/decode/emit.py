"""The last step of every relation: chooses and orders its columns."""

from __future__ import annotations

from .. import ir
from ..ir.building import project
from . import poison
from .encoding.message_nodes import Message
from .plan_path import PlanPath
from .problems import Problems
from .scope import column


def emit(relation: ir.Relation, common: Message, plan_path: PlanPath, problems: Problems) -> ir.Relation:
    """`relation` with the columns that `common.emit` lists, in that order."""
    if common.WhichOneof("emit_kind") != "emit" or relation is poison.RELATION:
        return relation
    mapping = tuple(common.emit.output_mapping)
    if mapping == tuple(range(len(relation.schema))):
        return relation
    expressions = []
    for position, index in enumerate(mapping):
        type_ = column(relation.schema, index)
        if type_ is None:
            problems.add(
                (plan_path / "common" / "emit").at("output_mapping", position),
                "OUT_OF_RANGE",
                f"there is no column {index}; the relation has {len(relation.schema)} columns, counted from 0",
            )
            type_ = poison.UNKNOWN
        expressions.append(ir.Field(index=index, type=type_))
    if isinstance(relation, ir.Project) and relation.plan_path == str(plan_path) and len(set(mapping)) == len(mapping):
        return _choose(relation, expressions)
    return project(relation, expressions, str(plan_path))


def _choose(below: ir.Project, fields: list[ir.Field]) -> ir.Project:
    """A projection that chooses among the expressions of the projection just made: one relation instead of two."""
    known = range(len(below.expressions))
    chosen = [below.expressions[f.index] if f.index in known else poison.EXPRESSION for f in fields]
    return project(below.input, chosen, below.plan_path)
