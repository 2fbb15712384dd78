"""Decodes `ConsistentPartitionWindowRel`: the input's columns and then one column for each function."""

from __future__ import annotations

from ... import ir
from .. import poison
from ..decoder import Decoder, Steps
from ..encoding import limits
from ..encoding.message_nodes import Message
from ..expressions.window_function import convert_call
from ..plan_path import PlanPath
from ..scope import Scope
from ..sorting import convert_sorts


def convert_window(decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None) -> Steps[ir.Relation]:
    below = yield from decoder.relation(message.input, plan_path / "input", outer)
    scope = decoder.scope([below], message, outer)
    partitions = yield from decoder.expressions(
        message.partition_expressions, plan_path, "partition_expressions", scope
    )
    sorts = yield from convert_sorts(decoder, message.sorts, plan_path, scope)
    decoder.count(limits.WINDOW_ORDERS, plan_path)
    calls: list[ir.WindowCall | None] = []
    for index, function in enumerate(message.window_functions):
        at = plan_path.at("window_functions", index)
        calls.append((yield from convert_call(decoder, function, at, scope, partitions, sorts, has_old=False)))
    if not calls:
        decoder.problems.add(
            plan_path / "window_functions", "MISSING", "a window relation must have at least one window function"
        )
    if below is poison.RELATION:
        return below
    schema = below.schema + tuple(poison.UNKNOWN if call is None else call.type for call in calls)
    whole = tuple(call for call in calls if call is not None)
    return ir.Window(input=below, calls=whole, schema=schema, plan_path=str(plan_path))
