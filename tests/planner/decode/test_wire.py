"""Class of bug: protobuf read otherwise than protobuf is."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pytest

from tidegate.planner.decode import decode_plan
from tidegate.planner.decode.encoding import limits
from tidegate.planner.decode.encoding.message_nodes import Malformed
from tidegate.planner.decode.encoding.protobuf_nodes import WireNodes
from tidegate.proto.errors import PlanError
from tidegate.proto.values import PlanBytes

from .plans import I64, I64_NULL, TRUE, Node, decode_binary, encode, filter_, plan, problem, table


def test_every_byte_of_a_message_is_read_once_as_each_is_taken() -> None:
    table_ = WireNodes(encode(plan(filter_(filter_(table(I64), TRUE), TRUE), ["a"])))
    root = table_.take(table_.take(0).relations[0].root.input)
    assert root.WhichOneof("rel_type") == "filter"
    inner = table_.take(root.filter.input)
    assert table_.take(inner.filter.input).read.named_table.names == ["t"]


def test_a_number_where_a_message_belongs_never_becomes_a_place_in_the_table() -> None:
    # field 1 of RelRoot (its input) and field 2 of FilterRel (its input), as varints
    root = b"\x1a\x06" + b"\x12\x04" + b"\x08\x00" + b"\x08\x03"
    table_ = WireNodes(root)
    assert table_.take(0).relations[0].root.input == 0


def test_of_a_message_that_is_given_twice_the_last_one_counts() -> None:
    read, other = table(I64), table(I64_NULL)
    one = encode(plan(read, ["a"]))
    assert decode_binary(plan(other, ["a"])).plan.root.schema != decode_binary(plan(read, ["a"])).plan.root.schema
    assert WireNodes(one + one).take(0).relations[1].root.names == ["a"]


def test_the_classes_of_messages_outlive_garbage_collections() -> None:
    """Else a thread may be handed one that another's collection is about to take apart."""
    table_ = WireNodes(encode(plan(table(I64), ["a"])))
    root = table_.take(table_.take(0).relations[0].root.input)
    classes = [weakref.ref(type(message)) for message in (root, root.read, root.read.named_table)]
    del table_, root
    gc.collect()
    assert all(class_() is not None for class_ in classes)


BROKEN = {
    "no length": b"\x1a",
    "field number 0": b"\x00\x00",
    "cut off": b"\x1a\x05\x12",
    "endless number": b"\x80" * 11,
    "group": b"\x0b",
    "huge length": b"\x1a" + b"\xff" * 9 + b"\x01",
    "not UTF-8": b"\x32\x02\x2a\xff",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_what_is_no_protobuf_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        WireNodes(data).take(0)


@pytest.mark.parametrize(
    "oversized", [PlanBytes(binary=b"\x00" * (limits.BYTES.most + 1)), PlanBytes(json="{" + " " * limits.BYTES.most)]
)
def test_a_plan_beyond_the_limit_is_refused_unread(oversized: PlanBytes) -> None:
    with pytest.raises(PlanError, match="16,777,217 bytes; at most 16,777,216") as refused:
        decode_plan(oversized)
    assert refused.value.reason == "PLAN_TOO_LARGE"


def test_a_broken_message_is_a_problem_where_it_is() -> None:
    good = encode(plan(filter_(table(I64), TRUE), ["a"]))
    # the condition is Expression.literal.boolean; its bytes become a length beyond the end
    broken = good.replace(b"\x1a\x04\x0a\x02\x08\x01", b"\x1a\x04\x0a\x7f\x08\x01")
    assert broken != good
    with pytest.raises(PlanError) as raised:
        decode_plan(PlanBytes(binary=broken))
    assert raised.value.problems[0].place == "relations[0].root.input.filter.condition"


def doubling(levels: int) -> list[Node]:
    """Detached expressions that each use the one before twice."""
    arguments = [
        {"scalarFunction": {"functionReference": 2, "arguments": [{"value": _use(n)}] * 2}} for n in range(levels)
    ]
    return [TRUE, *arguments]


def _use(ordinal: int) -> Node:
    return {"detachedExpressionOrdinal": ordinal}


def test_a_small_plan_cannot_stand_for_an_endless_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPEATS", replace(limits.REPEATS, most=1_000))
    wide = plan(filter_(table(I64), _use(60)), ["a"])
    wide["relations"][0]["detachedExpressions"] = doubling(60)
    reported = problem(wide)
    assert reported.reason == "PLAN_TOO_LARGE"
    assert "more than 1,000 parts that are written once and used several times" in reported.message


def test_old_arguments_do_not_count_as_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPEATS", replace(limits.REPEATS, most=2))
    old = {"scalarFunction": {"functionReference": 2, "args": [TRUE] * 10}}
    assert decode_binary(plan(filter_(table(I64), old), ["a"])).plan.names == ("a",)
