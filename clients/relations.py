"""Relations that Substrait has no message for, to put into plans.

One is the `detail` of an extension relation: `rel.extension_single.detail.Pack(Unnest(columns=[1]))`, or
`rel.extension_multi.detail.Pack(IndexLookupJoin(...))`. The messages themselves say what they mean and give. Loops are
more easily made with `tidegate.plans.iterate`.
"""

from __future__ import annotations

from .proto.tidegate.v1.relations_pb2 import (
    DeclaredOrder,
    IndexLookupJoin,
    IterationReferenceReadRelation,
    IterationRelation,
    Unnest,
    UserOperator,
)

__all__ = [
    "DeclaredOrder",
    "IndexLookupJoin",
    "IterationReferenceReadRelation",
    "IterationRelation",
    "Unnest",
    "UserOperator",
]
