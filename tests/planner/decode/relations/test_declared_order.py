"""A source's declared order, in an `ExtensionSingleRel`."""

from __future__ import annotations

import base64

import pytest

from tidegate.planner import ir
from tidegate.relations import DeclaredOrder

from ..plans import I64, TEXT, TRUE, Node, decode, field, plan, problem, table

UP, DOWN = DeclaredOrder.DIRECTION_ASC_NULLS_FIRST, DeclaredOrder.DIRECTION_DESC_NULLS_LAST
INTERVAL: Node = {"intervalYear": {"nullability": "NULLABILITY_REQUIRED"}}


def declared(below: Node, *keys: tuple[int, int], prefix: str = "type.googleapis.com/") -> Node:
    content = DeclaredOrder(keys=[DeclaredOrder.Key(column=column, direction=way) for column, way in keys])  # type: ignore[arg-type]
    value = base64.b64encode(content.SerializeToString()).decode()
    return {
        "extensionSingle": {"input": below, "detail": {"typeUrl": f"{prefix}tidegate.v1.DeclaredOrder", "value": value}}
    }


def order_of(relation: ir.Relation) -> list[tuple[int, ir.Direction]]:
    assert isinstance(relation, ir.Read)
    return [(order.column, order.direction) for order in relation.order]


@pytest.mark.parametrize("prefix", ["type.googleapis.com/", "elsewhere.org/a/", "/", ""])
def test_the_order_is_the_read_s(prefix: str) -> None:
    root = decode(plan(declared(table(I64, TEXT), (1, DOWN), (0, UP), prefix=prefix), ["a", "b"])).plan.root
    assert order_of(root) == [(1, ir.Direction.DESC_NULLS_LAST), (0, ir.Direction.ASC_NULLS_FIRST)]


def test_filters_and_selections_may_stand_between() -> None:
    selected = {
        "project": {"common": {"emit": {"outputMapping": [2]}}, "input": table(I64, TEXT), "expressions": [field(1)]}
    }
    root = decode(plan(declared({"filter": {"input": selected, "condition": TRUE}}, (0, UP)), ["b"])).plan.root
    assert isinstance(root, ir.Filter)
    assert isinstance(root.input, ir.Project)
    assert order_of(root.input.input) == [(1, ir.Direction.ASC_NULLS_FIRST)]


@pytest.mark.parametrize(
    ("relation", "reason"),
    [
        (declared(table(I64)), "MISSING"),
        (declared(table(I64), (0, DeclaredOrder.DIRECTION_UNSPECIFIED)), "MISSING"),
        (declared(table(I64), (0, 9)), "MISSING"),
        (declared(table(I64), (1, UP)), "OUT_OF_RANGE"),
        (declared({"fetch": {"input": table(I64), "count": "1"}}, (0, UP)), "MISPLACED_ORDER"),
        (declared({"project": {"input": table(I64), "expressions": [TRUE]}}, (1, UP)), "MISPLACED_ORDER"),
        (declared(table(INTERVAL), (0, UP)), "UNSUPPORTED_SORT"),
        (
            {
                "extensionSingle": {
                    "input": table(I64),
                    "detail": {"typeUrl": "x/tidegate.v1.DeclaredOrder", "value": "/w=="},
                }
            },
            "MALFORMED",
        ),
    ],
    ids=["no key", "no direction", "unknown direction", "no such column", "a fetch", "computed", "type", "malformed"],
)
def test_what_is_no_order_of_a_read_is_refused_where_it_stands(relation: Node, reason: str) -> None:
    reported = problem(plan(relation, ["a"]))
    assert reported.reason == reason
    assert reported.place.startswith("relations[0].root.input.extension_single.detail")
