"""Lowers loops to operators on changes."""

from __future__ import annotations

from typing import Final

from ...operators.changes.network.network_graph import Limits, OnLimit
from .. import ir
from ..ir.arrow_types import arrow_schema
from .change_nodes import ChangeNode, LoopNode, SelectNode

ROUNDS: Final = 10_000
"""The most rounds of a loop that sets no limit."""

_AT_LIMIT: Final = {ir.AtLimit.ERROR: OnLimit.ERROR, ir.AtLimit.RETURN: OnLimit.RETURN}


def lower_iterate(
    relation: ir.Iterate, body: ChangeNode, entering: ChangeNode | None, max_rows: int, max_seconds: float
) -> ChangeNode:
    return LoopNode(
        loop=relation.loop,
        name=relation.name,
        body=body,
        entering=entering,
        limits=Limits(
            rounds=ROUNDS if relation.max_rounds is None else relation.max_rounds,
            on_rounds=_AT_LIMIT[relation.at_limit],
            rows=max_rows,
            seconds=max_seconds or None,
        ),
        schema=arrow_schema(relation.schema),
        plan_path=relation.plan_path,
    )


def lower_unreferenced(relation: ir.Iterate, body: ChangeNode, entering: ChangeNode | None) -> ChangeNode:
    """A loop without references: it is at rest after one round."""
    schema = arrow_schema(relation.schema)
    inputs = (body,) if entering is None else (body, entering)
    return SelectNode(inputs=inputs, columns=tuple(range(len(schema))), schema=schema, plan_path=relation.plan_path)
