"""A plan whose loop stands in a subquery that is computed again: clients hear that it is valid, and it runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from substrait import algebra_pb2 as algebra
from substrait.plan_pb2 import Plan

from tidegate.client import Client
from tidegate.executor.service.plan_engine import PlanEngine

from ..continuous.histories import planned
from ..loops.queries import Looped, Query

CLOSURE: Final = (
    "select distinct a, b from (select a, b from edges union all select x.a, e.b from x join edges e on x.b = e.a)"
)
PAIR: Final = pa.schema([("a", pa.int64()), ("b", pa.int64())])


def relation_of(plan: bytes) -> algebra.Rel:
    return Plan.FromString(plan).relations[0].root.input


def beside(whole: Plan, relation: algebra.Rel) -> algebra.Rel:
    """The relation's rows whose first column is that of the row around it."""
    (equal,) = (
        extension.extension_function.function_anchor
        for extension in whole.extensions
        if extension.extension_function.name.startswith("equal")
    )
    first: dict[str, Any] = {"direct_reference": {"struct_field": {"field": 0}}}
    sides = [{"selection": {**first, **of}} for of in ({"root_reference": {}}, {"outer_reference": {"steps_out": 1}})]
    call = {
        "function_reference": equal,
        "output_type": {"bool": {"nullability": "NULLABILITY_NULLABLE"}},
        "arguments": [{"value": side} for side in sides],
    }
    condition = algebra.Expression(scalar_function=algebra.Expression.ScalarFunction(**call))
    return algebra.Rel(filter=algebra.FilterRel(input=relation, condition=condition))


def in_the_loop_or_in_more() -> bytes:
    """The seeds that the closure of the edges has, or the source `more`: two branches that look at the row."""
    whole = Plan.FromString(Query({"x": Looped(CLOSURE)}, "select a, b from x").plan())
    root = whole.relations[0].root
    loop = algebra.Rel()
    loop.CopyFrom(root.input)
    seeds, more = (relation_of(planned(f"select a, b from {name}", {name: PAIR})) for name in ("seeds", "more"))
    either = algebra.SetRel(inputs=[beside(whole, loop), beside(whole, more)], op=algebra.SetRel.SET_OP_UNION_ALL)
    kind = algebra.Expression.Subquery.SetPredicate.PREDICATE_OP_EXISTS
    exists = algebra.Expression.Subquery.SetPredicate(predicate_op=kind, tuples=algebra.Rel(set=either))
    asked = algebra.Expression(subquery=algebra.Expression.Subquery(set_predicate=exists))
    root.input.CopyFrom(algebra.Rel(filter=algebra.FilterRel(input=seeds, condition=asked)))
    return whole.SerializeToString()


def rows(*pairs: tuple[int, int]) -> pa.Table:
    return pa.Table.from_pylist([{"a": one, "b": other} for one, other in pairs], PAIR)


@pytest.mark.parametrize(
    ("options", "again"),
    [({}, False), ({"loops": "general"}, False), ({"mode": "continuous"}, True)],
    ids=["one statement", "round by round", "continuous"],
)
def test_validate_explain_and_run_agree(
    open_client: Callable[..., Client], tmp_path: Path, options: dict[str, Any], again: bool
) -> None:
    plan = in_the_loop_or_in_more()
    client = open_client(PlanEngine([], tmp_path))
    assert client.validate(plan, **options) == ()
    text = client.explain(plan, **options).text
    assert ("computed again from all rows" in text) == again
    assert "100 relations deep" not in text
    edges = pa.table({"a": [1, 2], "b": [2, 3], "c": [0, 0]})
    with client.create_task(plan, **options) as task:
        seeds = rows((1, 1), (2, 5), (3, 3), (4, 4))
        epoch = task.run_epoch({"edges": edges, "seeds": seeds, "more": rows((4, 1))})
        assert sorted(epoch.table()["a"].to_pylist()) == [1, 2, 4]
