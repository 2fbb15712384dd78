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
    types = []
    for position, index in enumerate(mapping):
        type_ = column(relation.schema, index)
        if type_ is None:
            problems.add(
                (plan_path / "common" / "emit").at("output_mapping", position),
                "OUT_OF_RANGE",
                f"there is no column {index}; the relation has {len(relation.schema)} columns, counted from 0",
            )
            type_ = poison.UNKNOWN
        types.append(type_)
    if isinstance(relation, ir.Project) and relation.plan_path == str(plan_path) and len(set(mapping)) == len(mapping):
        # One relation instead of two: it chooses among the expressions of the projection just made.
        known = range(len(relation.expressions))
        chosen = [relation.expressions[index] if index in known else poison.EXPRESSION for index in mapping]
        return project(relation.input, chosen, relation.plan_path)
    fields = [ir.Field(index=index, type=type_) for index, type_ in zip(mapping, types, strict=True)]
    return project(relation, fields, str(plan_path))
