"""Loops on the wire: under which names they come, what goes round in them, and what is wrong with them where."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.protobuf import json_format
from substrait.plan_pb2 import Plan
from substrait.type_pb2 import Type

from tidegate.planner import ir
from tidegate.planner.decode import decode_plan
from tidegate.planner.ir import types as t
from tidegate.planner.ir.visit import relations
from tidegate.proto.values import PlanBytes

from ..plans import (
    I32,
    I64,
    I64_NULL,
    TEXT,
    TRUE,
    Node,
    call,
    decode,
    emit,
    field,
    filter_,
    number,
    only,
    plan,
    problem,
    problems,
    project,
    table,
)

BODY = "relations[0].root.input.extension_multi.inputs[0]"
ROUND = t.Integer(bits=64, nullable=False)


def loop(body: Node, *entering: Node, name: str = "l", url: str = "example.com/tidegate.v1", **more: object) -> Node:
    detail = {"@type": f"{url}.IterationRelation", "iterationName": name, **more}
    return {"extensionMulti": {"inputs": [body, *entering], "detail": detail}}


def reference(length: int | None = None, name: str = "l", url: str = "example.com/tidegate.v1", **more: object) -> Node:
    detail: Node = {"@type": f"{url}.IterationReferenceReadRelation", "iterationName": name}
    if length is not None:
        detail["outputLength"] = length
    return {"extensionLeaf": {"detail": detail, **more}}


def union(*inputs: Node, all_: bool = False) -> Node:
    return {"set": {"inputs": [*inputs], "op": "SET_OP_UNION_ALL" if all_ else "SET_OP_UNION_DISTINCT"}}


def join(left: Node, right: Node, one: int, other: int, **more: object) -> Node:
    condition = call("equal", field(one), field(other))
    return {"join": {"left": left, "right": right, "expression": condition, "type": "JOIN_TYPE_INNER", **more}}


def closure(length: int | None = 2) -> Node:
    """Pairs, made longer by an edge in each round."""
    return union(table(I64, I64), join(reference(length), table(I64, I64), 1, 2, common=emit(0, 3)))


def decoded(relation: Node) -> ir.Iterate:
    iterate: ir.Iterate = only(
        decode(plan(relation, [f"c{at}" for at in range(len_of(relation))])).plan.root, ir.Iterate
    )
    return iterate


def len_of(relation: Node) -> int:
    """Of the loops here: as many columns as what enters, or the first part of a union, has."""
    body, *entering = relation["extensionMulti"]["inputs"]
    first = (entering or [body])[0]
    while "read" not in first:  # the first input of everything here is simple
        first = first["set"]["inputs"][0] if "set" in first else first["filter"]["input"]
    return len(first["read"]["baseSchema"]["names"])


def reasons(relation: Node, width: int = 2) -> list[tuple[str, str]]:
    """Of everything wrong with a plan: where, below its root, and why."""
    reported = problems(plan(relation, [f"c{at}" for at in range(width)]))
    return [
        (problem.place.removeprefix("relations[0].root.input.extension_multi"), problem.reason) for problem in reported
    ]


# -------------------------------------------------------------------------------------------------------- its names


@pytest.mark.parametrize(
    "url",
    [
        "type.googleapis.com/tidegate.v1",
        "type.googleapis.com/flowtide",
        "flowtide/flowtide",
        "example.com/some/where/flowtide.substrait.v1",
        "tidegate.v1",
    ],
)
@pytest.mark.parametrize("form", ["json", "binary"])
def test_a_loop_is_known_under_any_prefix_and_any_package(url: str, form: str) -> None:
    document = plan(loop(union(table(I64), reference(1, url=url)), url=url), ["a"])
    decoded_plan = decode(document) if form == "json" else decode_plan(PlanBytes(binary=binary(document)))
    root = only(decoded_plan.plan.root, ir.Iterate)
    assert (root.name, root.schema, root.input, root.max_rounds) == ("l", (ROUND,), None, None)


def test_a_bare_name_is_enough() -> None:
    detail = {"@type": "IterationRelation", "iterationName": "l"}
    back = {"extensionLeaf": {"detail": {"@type": "IterationReferenceReadRelation", "iterationName": "l"}}}
    assert decoded({"extensionMulti": {"inputs": [union(table(I64), back)], "detail": detail}}).name == "l"


def test_what_other_producers_say_besides_is_passed_over_and_our_own_misspellings_are_not() -> None:
    foreign = loop(union(table(I64), reference(1)), url="x/flowtide", skipIterateCondition={"deep": [1]})
    assert decoded(foreign).schema == (ROUND,)
    ours = loop(union(table(I64), reference(1)), maxRoundz=3)
    assert problem(plan(ours, ["a"])).reason == "MALFORMED"


def binary(document: Node) -> bytes:
    """The plan as other producers write it: their messages in bytes that say nothing of what is in them."""
    details: list[Any] = []

    def without_details(value: object) -> object:
        if isinstance(value, list):
            return [without_details(element) for element in value]
        if not isinstance(value, dict):
            return value
        if "detail" in value:
            details.append(value["detail"])
        return {key: without_details(member) for key, member in value.items() if key != "detail"}

    message = json_format.ParseDict(without_details(document), Plan())
    holders = [message.relations[0].root.input.extension_multi]
    holders.append(holders[0].inputs[0].set.inputs[1].extension_leaf)
    for holder, detail in zip(holders, details, strict=True):
        name = detail["iterationName"].encode()
        length = bytes([0x10, detail["outputLength"]]) if "outputLength" in detail else b""
        holder.detail.type_url = detail["@type"]
        holder.detail.value = b"\x0a" + bytes([len(name)]) + name + length
    return bytes(message.SerializeToString())


# ---------------------------------------------------------------------------------------------- the limit on rounds


def test_without_a_limit_there_is_none_and_the_end_is_an_error() -> None:
    iterate = decoded(loop(closure()))
    assert (iterate.max_rounds, iterate.at_limit) == (None, ir.AtLimit.ERROR)


def test_a_limit_and_what_happens_then() -> None:
    iterate = decoded(loop(closure(), maxRounds=12, atLimit="AT_LIMIT_RETURN"))
    assert (iterate.max_rounds, iterate.at_limit) == (12, ir.AtLimit.RETURN)
    assert decoded(loop(closure(), maxRounds=0)).max_rounds == 0


# ------------------------------------------------------------------------------------------------ what goes round


def test_the_columns_of_what_enters_go_round() -> None:
    iterate = decoded(loop(project(reference(1), field(0), common=emit(1)), table(I64)))
    assert iterate.schema == (ROUND,)
    assert isinstance(iterate.input, ir.Read)


@pytest.mark.parametrize("length", [2, None])
def test_parts_of_a_union_without_the_reference_say_what_goes_round(length: int | None) -> None:
    assert decoded(loop(closure(length))).schema == (ROUND, ROUND)


@pytest.mark.parametrize("wrapped", [lambda body: filter_(body, TRUE), lambda body: project(body, common=emit(0, 1))])
def test_what_stands_above_the_union_is_looked_through(wrapped: object) -> None:
    relation = loop(wrapped(closure()))  # type: ignore[operator]
    root = decode(plan(relation, ["a", "b"])).plan.root
    assert only(root, ir.Iterate).schema == (ROUND, ROUND)


def test_each_column_is_known_from_wherever_it_is() -> None:
    """The reference is the first part, and one of its columns is in neither of the others as it is here."""
    first = project(reference(2), number(1), common=emit(2, 1))
    second = project(table(I64, TEXT), common=emit(0, 1))
    relation = loop(union(first, second))
    iterate = only(decode(plan(relation, ["a", "b"])).plan.root, ir.Iterate)
    assert iterate.schema == (ROUND, t.String(nullable=False))


def test_what_the_body_makes_nullable_is_nullable_all_round() -> None:
    """Column 1 is null where column 0 was in the round before, so it takes a third look to be sure of both."""
    outer = {"join": {**join(reference(2), table(I64), 0, 2)["join"], "type": "JOIN_TYPE_LEFT"}}
    step = project(outer, common=emit(2, 0))
    relation = loop(union(table(I64, I64), step))
    iterate = only(decode(plan(relation, ["a", "b"])).plan.root, ir.Iterate)
    assert [type_.nullable for type_ in iterate.schema] == [True, True]
    assert references(iterate)[0].schema == iterate.schema


def test_what_enters_may_be_null_where_the_body_is_not() -> None:
    iterate = decoded(loop(union(table(I64), reference(1)), table(I64_NULL)))
    assert iterate.schema == (t.Integer(bits=64, nullable=True),)


def references(relation: ir.Relation) -> list[ir.Reference]:
    return [part for part in relations(relation) if isinstance(part, ir.Reference)]


def declared_row() -> str:
    """One column, of I64."""
    row = json_format.ParseDict({"struct": {"types": [I64], "nullability": "NULLABILITY_REQUIRED"}}, Type())
    return base64.b64encode(row.SerializeToString()).decode()


def test_a_message_may_declare_what_goes_round() -> None:
    relation = loop(filter_(reference(1), TRUE), schema=declared_row())
    iterate = only(decode(plan(relation, ["a"])).plan.root, ir.Iterate)
    assert iterate.schema == (ROUND,)


@pytest.mark.parametrize("length", [2, None])
@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        ("JOIN_TYPE_LEFT_ANTI", "rows", "reference"),
        ("JOIN_TYPE_LEFT_SEMI", "rows", "reference"),
        ("JOIN_TYPE_RIGHT_ANTI", "reference", "rows"),
        ("JOIN_TYPE_RIGHT_SEMI", "reference", "rows"),
    ],
)
def test_the_side_of_a_semi_or_anti_join_whose_rows_are_kept_says_what_goes_round(
    kind: str, left: str, right: str, length: int | None
) -> None:
    sides = {"rows": table(I64, I64), "reference": reference(length)}
    body = join(sides[left], sides[right], 0, 2)
    body["join"]["type"] = kind
    iterate = only(decode(plan(loop(body), ["a", "b"])).plan.root, ir.Iterate)
    assert iterate.schema == (ROUND, ROUND)
    assert [reference.schema for reference in references(iterate)] == [(ROUND, ROUND)]


def test_an_anti_join_that_keeps_only_what_came_back_cannot_say_what_that_is() -> None:
    body = join(reference(), table(I64, I64), 0, 2)
    body["join"]["type"] = "JOIN_TYPE_LEFT_ANTI"
    reported = problem(plan(loop(body), ["a", "b"]))
    assert (reported.place, reported.reason) == ("relations[0].root.input.extension_multi", "UNKNOWN_TYPES")
    assert "second input" in reported.message


@pytest.mark.parametrize("length", [1, None])
def test_where_nothing_says_what_goes_round_it_is_asked_for(length: int | None) -> None:
    reported = problem(plan(loop(filter_(reference(length), TRUE)), ["a"]))
    assert (reported.place, reported.reason) == ("relations[0].root.input.extension_multi", "UNKNOWN_TYPES")
    assert "second input" in reported.message


# ----------------------------------------------------------------------------------------------- loops inside loops


def test_an_inner_loop_may_read_the_outer_ones_name() -> None:
    inner = loop(union(reference(1, "outer"), reference(1, "inner")), name="inner")
    iterate = decoded(loop(union(table(I64), inner), name="outer"))
    numbers = {reference.name: reference.loop for reference in references(iterate)}
    inside = only(only(iterate.body, ir.Set).inputs[1], ir.Iterate)
    assert numbers == {"outer": iterate.loop, "inner": inside.loop}
    assert iterate.loop != inside.loop


def test_a_loop_may_be_referred_to_often_and_a_name_used_again_where_its_loop_has_ended() -> None:
    twice = loop(union(table(I64), reference(1), reference(1)))
    root = decode(plan(union(twice, twice), ["a"])).plan.root
    one, other = only(root, ir.Set).inputs
    assert only(one, ir.Iterate).loop != only(other, ir.Iterate).loop


def test_what_was_found_out_of_inner_loops_is_not_found_out_again_for_every_loop_around() -> None:
    """Otherwise each of them doubles the time, and 40 take for ever."""
    relation = union(table(I64), reference(1, "0"))
    for at in range(40):
        relation = loop(union(table(I64), relation, reference(1, str(at))), name=str(at))
    assert decoded(relation).name == "39"


# -------------------------------------------------------------------------------------------------- what is wrong


def test_a_name_that_no_loop_around_has() -> None:
    assert reasons(loop(union(table(I64), reference(1, "m"))), 1) == [
        (".inputs[0].set.inputs[1].extension_leaf.detail.iteration_name", "UNKNOWN_LOOP")
    ]


def test_a_reference_outside_of_the_body() -> None:
    reasons_there = reasons(loop(union(table(I64), reference(1)), reference(1)), 1)
    assert reasons_there == [(".inputs[1].extension_leaf.detail.iteration_name", "UNKNOWN_LOOP")]


def test_a_common_subtree_is_outside_of_every_loop_even_where_one_asks_for_it() -> None:
    relation = loop(union(table(I64), {"reference": {"subtreeOrdinal": 0}}))
    reported = problem(plan(relation, ["a"], filter_(reference(1), TRUE)))
    assert (reported.reason, reported.place[:12]) == ("UNKNOWN_LOOP", "relations[0]")


def test_a_name_that_a_loop_around_has_already() -> None:
    inner = loop(union(table(I64), reference(1)))
    assert reasons(loop(union(table(I64), inner, reference(1))), 1) == [
        (".inputs[0].set.inputs[1].extension_multi.detail.iteration_name", "DUPLICATE_NAME")
    ]


def test_a_reference_of_another_length() -> None:
    reported = problem(plan(loop(closure(3)), ["a", "b"]))
    assert reported.reason == "WRONG_WIDTH"
    assert reported.message == "3 columns, but the rows of loop 'l' have 2"


def test_a_reference_of_absurd_length_costs_nothing() -> None:
    reported = problem(plan(loop(closure(1 << 31)), ["a", "b"]))
    assert reported.reason == "OUT_OF_RANGE"


def test_a_body_of_other_columns_than_what_enters() -> None:
    assert reasons(loop(table(I32), table(I64)), 1) == [(".inputs[0]", "MIXED_TYPES")]
    assert reasons(loop(table(I64, I64), table(I64)), 1) == [(".inputs[0]", "WRONG_WIDTH")]


def test_more_columns_enter_than_are_declared() -> None:
    relation = loop(filter_(reference(1), TRUE), table(I64, I64), schema=declared_row())
    assert reasons(relation, 1) == [(".inputs[1]", "WRONG_WIDTH")]


@pytest.mark.parametrize("inputs", [(), (1, 2, 3)])
def test_a_loop_has_a_body_and_at_most_one_more_input(inputs: tuple[int, ...]) -> None:
    relation = loop(table(I64))
    relation["extensionMulti"]["inputs"] = [table(I64) for _ in inputs]
    assert problem(plan(relation, ["a"])).reason == "MISSING"


def test_a_loop_without_a_name() -> None:
    assert reasons(loop(table(I64), name=""), 1) == [(".detail.iteration_name", "MISSING")]


def test_everything_wrong_is_reported_with_its_place() -> None:
    inner = loop(union(table(I64), reference(4)))
    reasons_there = reasons(loop(union(table(I64), inner, reference(1, "m"), reference(2))), 1)
    assert sorted(reason for _, reason in reasons_there) == [
        "DUPLICATE_NAME",
        "UNKNOWN_LOOP",
        "WRONG_WIDTH",
        "WRONG_WIDTH",
    ]


# --------------------------------------------------------------------------------------------------------- advice


def warnings(relation: Node, width: int = 2) -> list[str]:
    return list(decode(plan(relation, [f"c{at}" for at in range(width)])).warnings)


def test_a_loop_that_is_never_referred_to_is_pointed_out() -> None:
    (warning,) = warnings(loop(table(I64)), 1)
    assert "nothing in the body of loop 'l' refers to the loop" in warning


def test_a_union_all_without_a_limit_is_pointed_out() -> None:
    growing = union(table(I64), reference(1), all_=True)
    (warning,) = warnings(loop(filter_(growing, TRUE)), 1)
    assert "a UNION ALL in the body of loop 'l', which has no limit on rounds" in warning
    assert warnings(loop(growing, maxRounds=3), 1) == []


def test_a_union_all_of_which_only_distinct_rows_are_taken_is_fine() -> None:
    assert warnings(loop(union(table(I64), union(table(I64), reference(1), all_=True))), 1) == []
    assert warnings(loop(closure())) == []
