"""Relations that Substrait has no message for, as messages to put into plans.

Such a relation is the `detail` of an extension relation: `rel.extension_single.detail.Pack(Unnest(columns=[1]))`, or
`rel.extension_multi.detail.Pack(IndexLookupJoin(...))`. Each message documents its meaning and its result.
`tidegate.plans.iterate` is an easier way to make loops.
"""

from __future__ import annotations

from .proto.tidegate.v1.relations_pb2 import (
    DeclaredOrder,
    Final,
    IndexLookupJoin,
    IterationReferenceReadRelation,
    IterationRelation,
    LateRows,
    RowCount,
    Span,
    Unnest,
    UserOperator,
    Watermark,
    WindowAggregate,
)

__all__ = [
    "DeclaredOrder",
    "Final",
    "IndexLookupJoin",
    "IterationReferenceReadRelation",
    "IterationRelation",
    "LateRows",
    "RowCount",
    "Span",
    "Unnest",
    "UserOperator",
    "Watermark",
    "WindowAggregate",
]
