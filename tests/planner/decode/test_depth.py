"""Class of bug: recursion, and work that grows faster than the plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tidegate.planner import ir
from tidegate.planner.decode import decode_plan, decoder
from tidegate.planner.decode.declarations.declared_types import MAX_TYPE_DEPTH
from tidegate.planner.decode.encoding import limits
from tidegate.planner.decode.encoding import protobuf_nodes as wire
from tidegate.proto.encoding.wire_format import varint
from tidegate.proto.errors import PlanError
from tidegate.proto.values import PlanBytes

from .plans import FUNCTIONS

# Deep plans are encoded from the inside out: no library encodes them.


def tagged(number: int, body: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(body)) + body


def deep_plan(root: bytes) -> PlanBytes:
    functions = b"".join(
        tagged(2, tagged(3, b"\x10" + varint(anchor) + tagged(3, name.encode())))
        for anchor, name in enumerate(FUNCTIONS, start=1)
    )
    return PlanBytes(binary=functions + tagged(3, tagged(2, tagged(1, root) + tagged(2, b"a"))))


TRUE = tagged(1, b"\x08\x01")
BOOL = tagged(1, b"\x10\x02")
COLUMN = tagged(2, tagged(1, tagged(2, b"")) + tagged(4, b""))


def table(type_: bytes) -> bytes:
    """A read of one column."""
    return tagged(1, tagged(2, tagged(1, b"a") + tagged(2, tagged(1, type_))) + tagged(7, tagged(1, b"t")))


TABLE = table(BOOL)


def filters(depth: int) -> bytes:
    relation = TABLE
    for _ in range(depth):
        relation = tagged(2, tagged(2, relation) + tagged(3, TRUE))
    return relation


def calls(name: str, leaf: bytes) -> Callable[[int], bytes]:
    anchor = varint(FUNCTIONS.index(name) + 1)

    def condition(depth: int) -> bytes:
        expression = leaf
        for _ in range(depth):
            expression = tagged(3, b"\x08" + anchor + tagged(4, tagged(3, expression)) + tagged(4, tagged(3, leaf)))
        return tagged(2, tagged(2, TABLE) + tagged(3, expression))

    return condition


def filters_plan(depth: int) -> PlanBytes:
    return deep_plan(filters(depth))


def or_plan(depth: int) -> PlanBytes:
    return deep_plan(calls("or", COLUMN)(depth))


def and_plan(depth: int) -> PlanBytes:
    return deep_plan(calls("and", COLUMN)(depth))


def filters_json(depth: int) -> PlanBytes:
    table = json.dumps(
        {"read": {"baseSchema": {"names": ["a"], "struct": {"types": [{"bool": {}}]}}, "namedTable": {"names": ["t"]}}}
    )
    root = '{"filter":{"condition":{"literal":{"boolean":true}},"input":' * depth + table + "}}" * depth
    return PlanBytes(json='{"relations":[{"root":{"names":["a"],"input":' + root + "}}]}")


@pytest.mark.parametrize(
    "build",
    [filters_plan, or_plan, and_plan, filters_json],
    ids=["filters", "or", "and", "filters in JSON"],
)
def test_two_thousand_levels_decode(build: Callable[[int], PlanBytes]) -> None:
    assert decode_plan(build(2_000)).plan.names == ("a",)


def test_a_deep_chain_keeps_every_level() -> None:
    relation, depth = decode_plan(deep_plan(filters(2_000))).plan.root, 0
    while isinstance(relation, ir.Filter):
        relation, depth = relation.input, depth + 1
    assert depth == 2_000


@pytest.mark.parametrize(
    ("build", "limit"),
    [(filters_plan, limits.RELATIONS), (or_plan, limits.DEPTH), (filters_json, limits.NODES)],
    ids=["filters", "or", "filters in JSON"],
)
def test_ten_times_deeper_is_one_clear_problem(build: Callable[[int], PlanBytes], limit: limits.Limit) -> None:
    plan = build(20_000)
    with pytest.raises(PlanError) as raised:
        decode_plan(plan)
    (problem,) = raised.value.problems
    assert problem.reason == "PLAN_TOO_LARGE"
    assert problem.message == limit.message()


def test_types_and_literals_have_a_limit_of_their_own() -> None:
    type_ = tagged(5, b"\x10\x02")
    for _ in range(MAX_TYPE_DEPTH * 2):
        type_ = tagged(27, tagged(1, type_))
    with pytest.raises(PlanError, match="nests deeper than 64 levels"):
        decode_plan(deep_plan(table(type_)))


@pytest.mark.parametrize("build", [filters, calls("or", COLUMN)], ids=["filters", "or"])
def test_twice_the_depth_is_twice_the_work(build: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    def work(depth: int) -> tuple[int, int]:
        counted = {"steps": 0, "bytes": 0}
        step, rewrite = decoder.Decoder._step, wire.WireMessage._rewrite

        def counted_step(self: Any, request: Any) -> Any:
            counted["steps"] += 1
            return step(self, request)

        def counted_rewrite(self: Any, *rest: Any) -> bytearray:
            out = rewrite(self, *rest)
            counted["bytes"] += len(out)
            return out

        with monkeypatch.context() as patched:
            patched.setattr(decoder.Decoder, "_step", counted_step)
            patched.setattr(wire.WireMessage, "_rewrite", counted_rewrite)
            decode_plan(deep_plan(build(depth)))
        return counted["steps"], counted["bytes"]

    (steps, size), (more_steps, more_size) = work(1_000), work(2_000)
    assert more_steps <= 2 * steps
    assert more_size <= 2.2 * size
