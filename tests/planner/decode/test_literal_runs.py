"""Class of bug: a literal among many that is another one than alone, because many are read at once."""

from __future__ import annotations

import base64
import gc
import weakref
from typing import Any

import pytest
from google.protobuf import json_format

from tidegate.planner import ir
from tidegate.planner.decode.encoding import counting
from tidegate.planner.decode.encoding.json_nodes import JsonNodes
from tidegate.planner.decode.encoding.literal_runs import read_literals
from tidegate.planner.decode.encoding.message_classes import pool
from tidegate.planner.ir.types import Type
from tidegate.proto.errors import PlanError

from .plans import Node, decode, decode_binary, field, filter_, number, only, plan, plan_class, table, text

PLAIN: list[Node] = [
    {"boolean": True},
    {"i8": -128},
    {"i16": 7},
    {"i32": -(2**31)},
    {"i64": "9223372036854775807"},
    {"fp32": 0.5},
    {"fp64": "-Infinity"},
    {"string": "häh\0"},
    {"binary": base64.b64encode(b"\xff\0").decode()},
    {"date": -719162},
    {"timestamp": "1"},
    {"time": "1"},
    {"timestampTz": "1"},
    {"uuid": base64.b64encode(bytes(range(16))).decode()},
    {"fixedChar": "abc"},
    {"varChar": {"value": "ab", "length": 3}},
    {"fixedBinary": base64.b64encode(b"ab").decode()},
    {"decimal": {"value": base64.b64encode(bytes([5, *[0] * 15])).decode(), "precision": 4, "scale": 2}},
    {"precisionTime": {"value": "5", "precision": 6}},
    {"precisionTimestamp": {"value": "-5", "precision": 9}},
    {"precisionTimestampTz": {"value": "-5", "precision": 3}},
    {"intervalYearToMonth": {"years": 1, "months": -2}},
    {"intervalDayToSecond": {"days": 1, "seconds": 2, "subseconds": "3", "precision": 6}},
    {"intervalCompound": {"intervalYearToMonth": {"months": 1}, "intervalDayToSecond": {"days": 2}}},
]
TABLED: list[Node] = [
    {"null": {"i64": {"nullability": "NULLABILITY_NULLABLE"}}},
    {"list": {"values": [{"i64": "1"}, {"i64": "2"}]}},
    {"struct": {"fields": [{"i64": "1"}, {"string": "x"}]}},
    {"emptyList": {"type": {"i64": {}}}},
]


def in_list(*options: Node) -> Node:
    """A filter by a list of literals: its first value is compared with all."""
    condition = {"singularOrList": {"value": options[0], "options": [*options]}}
    return plan(filter_(table({"i64": {}}), condition), ["a"])


def options_of(relation: ir.Relation) -> list[tuple[str, Type]]:
    one_of = only(only(relation, ir.Filter).condition, ir.OneOf)
    return [(repr(only(option, ir.Literal).value), option.type) for (option,) in one_of.options]


@pytest.mark.parametrize("literal", [*PLAIN, *TABLED], ids=lambda literal: next(iter(literal)))
@pytest.mark.parametrize("nullable", [False, True])
def test_many_literals_of_a_binary_plan_are_those_of_its_json(literal: Node, *, nullable: bool) -> None:
    many = in_list(*[{"literal": {**literal, "nullable": nullable}}] * 3)
    alone = options_of(decode(many).plan.root)
    assert options_of(decode_binary(many).plan.root) == alone
    assert len(alone) == 3


def test_a_column_among_literals_is_a_column() -> None:
    relation = decode_binary(in_list(number(1), number(2), field(0), number(3))).plan.root
    options = only(only(relation, ir.Filter).condition, ir.OneOf).options
    assert [type(option) for (option,) in options] == [ir.Literal, ir.Literal, ir.Field, ir.Literal]


@pytest.mark.parametrize("literal", PLAIN, ids=lambda literal: next(iter(literal)))
def test_plain_literals_are_read_at_once(literal: Node) -> None:
    plain = json_format.ParseDict(literal, _literal_class()()).SerializeToString()
    read = read_literals([b"\x0a" + bytes([len(plain)]) + plain] * 2)
    assert read is not None
    assert [one.SerializeToString() for one in read] == [plain, plain]


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        (b"\x38\x05\xf2\x01\x04\x0a\x02\x38\x01", "an i64, then a list: the list counts"),
        (b"\x90\x02\x05", "a timestamp in the form before 0.52"),
        (b"\xb8\x00\x05", "a tag of two bytes where one would do"),
        (b"\x38\x05\x38\x06", "two values"),
        (b"", "no value"),
        (b"\x38", "no end"),
    ],
)
def test_other_encodings_are_read_one_by_one(inside: bytes, why: str) -> None:
    assert read_literals([b"\x0a" + bytes([len(inside)]) + inside] * 2) is None, why


@pytest.mark.parametrize("literal", [*PLAIN, *TABLED, {"string": "x" * 100}], ids=lambda literal: next(iter(literal)))
@pytest.mark.parametrize("nullable", [False, True])
def test_a_literal_counts_as_all_of_its_fields(literal: Node, *, nullable: bool) -> None:
    message = json_format.ParseDict(in_list(*[{"literal": {**literal, "nullable": nullable}}] * 2), plan_class()())
    counted = counting.Counted()
    counting.count_wire(message.SerializeToString(), counted=counted)
    assert counted.parts == fields_in(message)


def fields_in(message: Any) -> int:
    """The fields that are written, and those of the messages in them. Many numbers are one field, and one each."""
    counts = 0
    for written, value in message.ListFields():
        values = value if written.is_repeated else [value]
        counts += bool(written.is_packed) + len(values)
        counts += sum(map(fields_in, values)) if written.message_type is not None else 0
    return counts


def test_texts_and_numbers_in_one_list_are_refused_at_the_first_that_does_not_fit() -> None:
    with pytest.raises(PlanError) as raised:
        decode_binary(in_list(number(1), number(2), text("x"), text("y")))
    paths = [(problem.place.rpartition(".")[2], problem.reason) for problem in raised.value.problems]
    assert paths == [("options[2]", "MIXED_TYPES"), ("options[3]", "MIXED_TYPES")]


def _literal_class() -> type[Any]:
    return pool().message_class("substrait.Expression.Literal")


@pytest.mark.parametrize(
    ("expression", "at_once"),
    [
        ({"literal": {"i64": "5"}}, True),
        ({"literal": {"string": "x", "nullable": True}}, True),
        ({"literal": {"null": {"i64": {}}}}, False),
        ({"literal": {"list": {"values": []}}}, False),
        ({"literal": {"i64": "5.5"}}, False),
        ({"literal": {}}, False),
        ({"selection": {}}, False),
    ],
)
def test_plain_literals_of_json_are_read_at_once(expression: Node, *, at_once: bool) -> None:
    nodes = JsonNodes({})
    numbers = [nodes._put(("substrait.Expression", inside)) for inside in ({"literal": {"i64": "1"}}, expression)]
    literals = nodes.take_literals(numbers)
    assert (literals is not None) == at_once
    assert literals is None or list(literals) == [nodes.take(nodes.take(number).literal) for number in numbers]


def test_the_classes_inside_of_literals_outlive_garbage_collections() -> None:
    """Protobuf would make them anew, and hand out one that another thread's collection is about to take apart."""
    encoded = b"\x0a\x02\x38\x07"  # the literal 7, an i64
    (literal,) = read_literals([encoded]) or ()
    class_ = weakref.ref(type(literal))
    del literal
    gc.collect()
    assert class_() is not None
