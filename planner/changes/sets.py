"""Set operations on changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...operators.changes.distinct_or_set_op import Weighing
from .. import ir
from ..ir.arrow_types import arrow_schema
from .change_nodes import ChangeNode, DistinctOrSetOpNode, SelectNode

_WEIGHINGS: Final = {
    ir.SetOperation.UNION_DISTINCT: Weighing.DISTINCT,
    ir.SetOperation.MINUS_PRIMARY: Weighing.EXCEPT_ANY,
    ir.SetOperation.MINUS_PRIMARY_ALL: Weighing.EXCEPT_ALL,
    ir.SetOperation.MINUS_MULTISET: Weighing.EXCEPT_EACH,
    ir.SetOperation.INTERSECTION_PRIMARY: Weighing.INTERSECT_ANY,
    ir.SetOperation.INTERSECTION_MULTISET: Weighing.INTERSECT_EACH,
    ir.SetOperation.INTERSECTION_MULTISET_ALL: Weighing.INTERSECT_ALL,
}
_ALL_OF_ONE: Final = (
    ir.SetOperation.UNION_ALL,
    ir.SetOperation.MINUS_PRIMARY_ALL,
    ir.SetOperation.MINUS_MULTISET,
    ir.SetOperation.INTERSECTION_MULTISET_ALL,
)


def lower_set(relation: ir.Set, inputs: Sequence[ChangeNode]) -> ChangeNode:
    """The set operation. Over a single input, an operation that counts copies keeps all rows; any other keeps the
    different rows.
    """
    schema = arrow_schema(relation.schema)
    if relation.operation is ir.SetOperation.UNION_ALL or (len(inputs) == 1 and relation.operation in _ALL_OF_ONE):
        return SelectNode(
            inputs=tuple(inputs), columns=tuple(range(len(schema))), schema=schema, plan_path=relation.plan_path
        )
    weighing = Weighing.DISTINCT if len(inputs) == 1 else _WEIGHINGS[relation.operation]
    return DistinctOrSetOpNode(inputs=tuple(inputs), weighing=weighing, schema=schema, plan_path=relation.plan_path)


def distinct(*inputs: ChangeNode, plan_path: str) -> DistinctOrSetOpNode:
    """The different rows of inputs with the same columns."""
    return DistinctOrSetOpNode(inputs=inputs, weighing=Weighing.DISTINCT, schema=inputs[0].schema, plan_path=plan_path)
