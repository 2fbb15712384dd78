"""`JoinRel`, `LateralJoinRel`, `CrossRel`, and the physical joins."""

from __future__ import annotations

import pytest

from tidegate.planner import ir
from tidegate.planner.ir import types as t

from ..plans import (
    I64,
    TEXT,
    TRUE,
    Node,
    call,
    decode,
    decode_binary,
    field,
    filter_,
    number,
    only,
    outer,
    plan,
    problem,
    table,
)

LEFT, RIGHT = table(I64, TEXT), table(I64, name="u")
REQUIRED, TEXT_REQUIRED = t.Integer(bits=64, nullable=False), t.String(nullable=False)
NULLABLE, TEXT_NULLABLE = t.Integer(bits=64), t.String()
EQUAL = call("equal", field(0), field(2))

SCHEMAS = {
    "INNER": (REQUIRED, TEXT_REQUIRED, REQUIRED),
    "OUTER": (NULLABLE, TEXT_NULLABLE, NULLABLE),
    "LEFT": (REQUIRED, TEXT_REQUIRED, NULLABLE),
    "RIGHT": (NULLABLE, TEXT_NULLABLE, REQUIRED),
    "LEFT_SEMI": (REQUIRED, TEXT_REQUIRED),
    "LEFT_ANTI": (REQUIRED, TEXT_REQUIRED),
    "LEFT_SINGLE": (REQUIRED, TEXT_REQUIRED, NULLABLE),
    "RIGHT_SEMI": (REQUIRED,),
    "RIGHT_ANTI": (REQUIRED,),
    "RIGHT_SINGLE": (NULLABLE, TEXT_NULLABLE, REQUIRED),
    "LEFT_MARK": (REQUIRED, TEXT_REQUIRED, t.Boolean()),
    "RIGHT_MARK": (REQUIRED, t.Boolean()),
}


def names(width: int) -> list[str]:
    return ["a", "b", "c"][:width]


@pytest.mark.parametrize("kind", ["join", "nestedLoopJoin", "hashJoin", "mergeJoin"])
@pytest.mark.parametrize("spelling", SCHEMAS)
def test_join_types_and_their_columns(spelling: str, kind: str) -> None:
    """Binary, because logical and physical joins number their types otherwise."""
    key = {"left": field(0)["selection"], "right": field(0)["selection"], "comparison": {"simple": 1}}
    how: Node = {"keys": [key]} if kind in ("hashJoin", "mergeJoin") else {"expression": EQUAL}
    join = {kind: {"left": LEFT, "right": RIGHT, "type": f"JOIN_TYPE_{spelling}", **how}}
    root = only(decode_binary(plan(join, names(len(SCHEMAS[spelling])))).plan.root, ir.Join)
    assert root.type is ir.JoinType[spelling]
    assert root.schema == SCHEMAS[spelling]


def test_a_join_without_an_expression_matches_everything() -> None:
    join = {"join": {"left": LEFT, "right": RIGHT, "type": "JOIN_TYPE_INNER"}}
    assert only(decode(plan(join, names(3))).plan.root, ir.Join).condition is None


def test_a_post_join_filter_is_a_filter_above_over_the_columns_of_the_join() -> None:
    filter_above = call("equal", field(2), number(1))
    join = {
        "join": {
            "left": LEFT,
            "right": RIGHT,
            "type": "JOIN_TYPE_LEFT",
            "expression": TRUE,
            "postJoinFilter": filter_above,
        }
    }
    root = only(decode(plan(join, names(3))).plan.root, ir.Filter)
    assert isinstance(root.input, ir.Join)
    assert root.condition.arguments[0].type.nullable


@pytest.mark.parametrize(
    ("fault", "reason"),
    [({"type": 0}, "MISSING"), ({"expression": number(1)}, "NOT_BOOLEAN"), ({"expression": field(3)}, "OUT_OF_RANGE")],
)
def test_faults_of_a_join(fault: Node, reason: str) -> None:
    join = {"join": {"left": LEFT, "right": RIGHT, "type": "JOIN_TYPE_INNER", "expression": EQUAL, **fault}}
    assert problem(plan(join, names(3))).reason == reason


def test_a_cross_is_all_columns_of_both() -> None:
    root = only(decode(plan({"cross": {"left": LEFT, "right": RIGHT}}, names(3))).plan.root, ir.Cross)
    assert root.schema == SCHEMAS["INNER"]


# ---------------------------------------------------------------------------------------------- physical joins


def hash_join(**how: object) -> Node:
    return {"hashJoin": {"left": LEFT, "right": RIGHT, "type": "JOIN_TYPE_INNER", **how}}


def key(left: int, right: int, **comparison: object) -> Node:
    return {"left": field(left)["selection"], "right": field(right)["selection"], "comparison": comparison}


def test_keys_become_a_condition_over_both_inputs() -> None:
    join = only(
        decode(plan(hash_join(keys=[key(0, 0, simple="SIMPLE_COMPARISON_TYPE_EQ")]), names(3))).plan.root, ir.Join
    )
    assert join.algorithm is ir.JoinAlgorithm.HASH
    assert join.condition.function.name == "equal"
    assert [argument.index for argument in join.condition.arguments] == [0, 2]


def test_several_keys_and_a_residual_must_all_hold() -> None:
    keys = [key(0, 0, simple=1), key(0, 0, simple=2)]
    join = only(decode(plan(hash_join(keys=keys, residualExpression=EQUAL), names(3))).plan.root, ir.Join)
    assert join.condition.function.name == "and"
    assert [argument.function.name for argument in join.condition.arguments] == [
        "equal",
        "is_not_distinct_from",
        "equal",
    ]


def test_old_key_lists_are_compared_by_equality() -> None:
    old = hash_join(leftKeys=[field(0)["selection"]], rightKeys=[field(0)["selection"]])
    join = only(decode_binary(plan(old, names(3))).plan.root, ir.Join)
    assert [argument.index for argument in join.condition.arguments] == [0, 2]


def test_a_comparison_may_be_a_function() -> None:
    join = only(decode(plan(hash_join(keys=[key(0, 0, customFunctionReference=5)]), names(3))).plan.root, ir.Join)
    assert join.condition.function.name == "gt"


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"keys": [key(0, 0, simple=3)]}, "UNSUPPORTED_COMPARISON"),
        ({"keys": [key(1, 0, simple=1)]}, "MIXED_TYPES"),
        ({"keys": [key(0, 5, simple=1)]}, "OUT_OF_RANGE"),
        ({"leftKeys": [field(0)["selection"]]}, "MISSING"),
        ({}, "MISSING"),
    ],
)
def test_faults_of_keys(how: Node, reason: str) -> None:
    assert problem(plan(hash_join(**how), names(3))).reason == reason


# ----------------------------------------------------------------------------------------------- lateral joins


def lateral(right: Node, type_: str = "INNER") -> Node:
    common = {"relAnchor": 7}
    return {
        "lateralJoin": {
            "common": common,
            "left": LEFT,
            "right": right,
            "type": f"JOIN_TYPE_{type_}",
            "expression": TRUE,
        }
    }


@pytest.mark.parametrize("how", [{"rel_reference": 7}, {"steps_out": 1}])
def test_the_right_input_of_a_lateral_join_reads_the_left_row(how: dict[str, int]) -> None:
    right = filter_(RIGHT, call("equal", field(0), outer(0, **how)))
    root = only(decode(plan(lateral(right), names(3))).plan.root, ir.LateralJoin)
    assert root.right.condition.arguments[1].outer == 1


def test_a_lateral_join_cannot_keep_right_rows() -> None:
    assert problem(plan(lateral(RIGHT, "RIGHT"), names(3))).reason == "BAD_JOIN_TYPE"
