"""The kinds of relations in a plan, for tests that ask for a plan of each kind."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.planner import ir
from tidegate.planner.ir import tree
from tidegate.planner.ir.visit import subqueries
from tidegate.proto.values import PlanBytes


def plan_bytes(plan: bytes | str) -> PlanBytes:
    """A plan of the service, from protobuf or JSON."""
    return PlanBytes(json=plan) if isinstance(plan, str) else PlanBytes(binary=plan)


def relations(plan: ir.Plan) -> Iterator[type[ir.Relation]]:
    """Those of the plan and of its subqueries, again and again the same ones."""
    pending = [plan.root, *plan.shared]
    while pending:
        relation = pending.pop()
        yield type(relation)
        pending.extend(tree.inputs(relation))
        for expression in tree.expressions(relation):
            pending.extend(subquery.relation for subquery in subqueries(expression))
