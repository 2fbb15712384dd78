"""Types and literals of every release."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.planner import ir
from tidegate.planner.ir import types as t

from .plans import I64, TEXT, Node, decode, decode_binary, only, plan, problem, project, table

REQUIRED: Node = {"nullability": "NULLABILITY_REQUIRED"}


def column_type(type_: Node, **more: Any) -> t.Type:
    return decode_binary(plan(table(type_, **more), ["a"])).plan.root.schema[0]


TYPES: list[tuple[Node, t.Type]] = [
    ({"bool": {}}, t.Boolean()),
    ({"i8": {}}, t.Integer(bits=8)),
    ({"i16": {}}, t.Integer(bits=16)),
    ({"i32": {}}, t.Integer(bits=32)),
    ({"i64": REQUIRED}, t.Integer(bits=64, nullable=False)),
    ({"fp32": {}}, t.Float(bits=32)),
    ({"fp64": {}}, t.Float(bits=64)),
    ({"string": {"nullability": "NULLABILITY_NULLABLE"}}, t.String()),
    ({"binary": {}}, t.Binary()),
    ({"date": {}}, t.Date()),
    ({"uuid": {}}, t.Uuid()),
    ({"intervalYear": {}}, t.IntervalYear()),
    ({"intervalDay": {}}, t.IntervalDay(precision=6)),
    ({"intervalDay": {"precision": 0}}, t.IntervalDay(precision=0)),
    ({"intervalCompound": {"precision": 3}}, t.IntervalCompound(precision=3)),
    ({"fixedChar": {"length": 3}}, t.FixedChar(length=3)),
    ({"varchar": {"length": 3}}, t.VarChar(length=3)),
    ({"fixedBinary": {"length": 3}}, t.FixedBinary(length=3)),
    ({"decimal": {"precision": 15, "scale": 2}}, t.Decimal(precision=15, scale=2)),
    ({"precisionTime": {"precision": 9}}, t.Time(precision=9)),
    ({"precisionTimestamp": {"precision": 3}}, t.Timestamp(precision=3)),
    ({"precisionTimestampTz": {"precision": 12}}, t.TimestampTz(precision=12)),
    ({"timestamp": {}}, t.Timestamp()),
    ({"time": REQUIRED}, t.Time(nullable=False)),
    ({"timestampTz": {}}, t.TimestampTz()),
    ({"list": {"type": I64}}, t.List(element=t.Integer(bits=64, nullable=False))),
    (
        {"map": {"key": TEXT, "value": I64}},
        t.Map(key=t.String(nullable=False), value=t.Integer(bits=64, nullable=False)),
    ),
]


@pytest.mark.parametrize(("written", "type_"), TYPES, ids=[str(type_) for _, type_ in TYPES])
def test_types(written: Node, type_: t.Type) -> None:
    assert column_type(written) == type_


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ({"decimal": {"precision": 39}}, "BAD_TYPE"),
        ({"decimal": {"precision": 5, "scale": 6}}, "BAD_TYPE"),
        ({"varchar": {"length": 0}}, "BAD_TYPE"),
        ({"precisionTimestamp": {"precision": 13}}, "BAD_TYPE"),
        ({"list": {}}, "MISSING"),
        ({}, "MISSING"),
        ({"func": {}}, "UNSUPPORTED_TYPE"),
        ({"unbound": {}}, "UNSUPPORTED_TYPE"),
        ({"userDefined": {"typeReference": 9}}, "UNKNOWN_ANCHOR"),
        ({"alias": {"typeAliasReference": 9}}, "UNKNOWN_ANCHOR"),
    ],
)
def test_faults_of_types(written: Node, reason: str) -> None:
    reported = problem(plan(table(written), ["a"]))
    assert reported.reason == reason
    assert reported.place.startswith("relations[0].root.input.read.base_schema.struct.types[0]")


@pytest.mark.parametrize(("name", "bits"), [("u8", 8), ("u16", 16), ("u32", 32), ("u64", 64)])
def test_unsigned_integers_are_extension_types(name: str, bits: int) -> None:
    declared = [{"extensionType": {"typeAnchor": 4, "name": name}}]
    written = {**plan(table({"userDefined": {"typeReference": 4}}), ["a"]), "extensions": declared}
    assert decode(written).plan.root.schema == (t.Integer(bits=bits, signed=False),)


def test_other_extension_types_are_refused_by_name() -> None:
    declared = [{"extensionType": {"typeAnchor": 4, "name": "geometry"}}]
    written = {**plan(table({"userDefined": {"typeReference": 4}}), ["a"]), "extensions": declared}
    assert "'geometry'" in problem(written).message


def test_datafusion_marks_unsigned_integers_by_an_undeclared_variation() -> None:
    written = plan(table({"i32": {"typeVariationReference": 1}}), ["a"], version={"producer": "datafusion"})
    assert decode(written).plan.root.schema == (t.Integer(bits=32, signed=False),)


def test_datafusion_marks_views_of_texts_by_an_undeclared_variation() -> None:
    written = plan(table({"string": {"typeVariationReference": 2}}), ["a"], version={"producer": "datafusion"})
    assert decode(written).plan.root.schema == (t.String(),)


VARIED: list[Node] = [
    {"i32": {"typeVariationReference": 7}},
    {"decimal": {"precision": 5, "scale": 2, "typeVariationReference": 7}},
    {"varchar": {"length": 5, "typeVariationReference": 7}},
    {"precisionTimestamp": {"precision": 6, "typeVariationReference": 7}},
    {"intervalDay": {"precision": 6, "typeVariationReference": 7}},
    {"list": {"type": {"i32": {}}, "typeVariationReference": 7}},
    {"list": {"type": {"i32": {"typeVariationReference": 7}}}},
    {"map": {"key": {"i32": {}}, "value": {"i32": {}}, "typeVariationReference": 7}},
]


@pytest.mark.parametrize("producer", ["", "other", "datafusion"])
@pytest.mark.parametrize("type_", VARIED, ids=lambda type_: next(iter(type_)))
def test_a_variation_that_neither_the_plan_declares_nor_its_producer_is_known_for_is_refused(
    type_: Node, producer: str
) -> None:
    refused = problem(plan(table(type_), ["a"], version={"producer": producer}))
    assert refused.reason == "UNKNOWN_ANCHOR"
    assert "no type variation 7" in refused.message
    assert "base_schema" in refused.place


def test_a_literal_of_an_undeclared_variation_is_refused() -> None:
    expression = {"literal": {"i64": "1", "typeVariationReference": 3}}
    refused = problem(plan(project(table({"i64": {}}), expression), ["a", "b"]))
    assert refused.reason == "UNKNOWN_ANCHOR"
    assert "no type variation 3" in refused.message


def test_a_declared_variation_is_read_as_the_plain_type_and_said_to_be() -> None:
    declared = [{"extensionTypeVariation": {"typeVariationAnchor": 1, "name": "dictionary"}}]
    written = {**plan(table({"string": {"typeVariationReference": 1}}), ["a"]), "extensions": declared}
    decoded = decode(written)
    assert decoded.plan.root.schema == (t.String(),)
    assert "'dictionary'" in decoded.warnings[0]


def alias(anchor: int, type_: Node) -> Node:
    return {"typeAliasAnchor": anchor, "type": type_}


def test_an_alias_is_its_type_as_nullable_as_the_use_says() -> None:
    uses = plan(table({"alias": {"typeAliasReference": 3, **REQUIRED}}), ["a"], typeAliases=[alias(3, {"date": {}})])
    assert decode(uses).plan.root.schema == (t.Date(nullable=False),)


def test_an_alias_cannot_contain_itself() -> None:
    aliases = [alias(3, {"list": {"type": {"alias": {"typeAliasReference": 3}}}})]
    reported = problem(plan(table({"alias": {"typeAliasReference": 3}}), ["a"], typeAliases=aliases))
    assert reported.reason == "TOO_DEEP"


# ---------------------------------------------------------------------------------------------------- literals


def literal(node: Node, names: str = "ab", **more: Any) -> ir.Literal:
    root = decode_binary(plan(project(table(I64), {"literal": node}), [*names], **more)).plan.root
    return only(only(root, ir.Project).expressions[1], ir.Literal)


def bytes_(value: bytes) -> str:
    return base64.b64encode(value).decode()


LITERALS: list[tuple[Node, object, t.Type]] = [
    ({"boolean": True}, True, t.Boolean()),
    ({"i8": -128}, -128, t.Integer(bits=8)),
    ({"i16": 1}, 1, t.Integer(bits=16)),
    ({"i32": 1}, 1, t.Integer(bits=32)),
    ({"i64": "9223372036854775807"}, 2**63 - 1, t.Integer(bits=64)),
    ({"fp32": 0.5}, 0.5, t.Float(bits=32)),
    ({"fp64": 0.1}, 0.1, t.Float(bits=64)),
    ({"string": "x"}, "x", t.String()),
    ({"binary": bytes_(b"\0")}, b"\0", t.Binary()),
    ({"date": -1}, -1, t.Date()),
    ({"timestamp": "5"}, 5, t.Timestamp(precision=6)),
    ({"time": "5"}, 5, t.Time(precision=6)),
    ({"timestampTz": "5"}, 5, t.TimestampTz(precision=6)),
    ({"precisionTime": {"precision": 3, "value": "5"}}, 5, t.Time(precision=3)),
    ({"precisionTimestamp": {"precision": 9, "value": "5"}}, 5, t.Timestamp(precision=9)),
    ({"precisionTimestampTz": {"precision": 0, "value": "5"}}, 5, t.TimestampTz(precision=0)),
    ({"oldPrecisionTimestamp": "5"}, 5, t.Timestamp(precision=6)),
    ({"oldPrecisionTimestampTz": "5"}, 5, t.TimestampTz(precision=6)),
    ({"intervalYearToMonth": {"years": 1, "months": 2}}, (14, 0, 0), t.IntervalYear()),
    (
        {"intervalDayToSecond": {"days": 1, "seconds": 2, "microseconds": 3}},
        (0, 1, 2_000_003),
        t.IntervalDay(precision=6),
    ),
    ({"intervalDayToSecond": {"days": 1, "precision": 3, "subseconds": "4"}}, (0, 1, 4), t.IntervalDay(precision=3)),
    ({"intervalDayToSecond": {"days": 1, "seconds": 1}}, (0, 1, 1_000_000), t.IntervalDay(precision=6)),
    ({"fixedChar": "ab"}, "ab", t.FixedChar(length=2)),
    ({"varChar": {"value": "ab", "length": 5}}, "ab", t.VarChar(length=5)),
    ({"fixedBinary": bytes_(b"ab")}, b"ab", t.FixedBinary(length=2)),
    ({"uuid": bytes_(b"0123456789abcdef")}, b"0123456789abcdef", t.Uuid()),
    ({"emptyList": {"type": I64}}, (), t.List(element=t.Integer(bits=64, nullable=False))),
    (
        {"emptyMap": {"key": TEXT, "value": I64}},
        (),
        t.Map(key=t.String(nullable=False), value=t.Integer(bits=64, nullable=False)),
    ),
]


@pytest.mark.parametrize(
    ("written", "value", "type_"), LITERALS, ids=[next(iter(literal_case[0])) for literal_case in LITERALS]
)
@pytest.mark.parametrize("nullable", [True, False])
def test_literals(written: Node, value: object, type_: t.Type, *, nullable: bool) -> None:
    decoded_literal = literal({**written, "nullable": nullable})
    assert decoded_literal.value == value
    assert decoded_literal.type == (type_ if nullable else t.required(type_))


def test_a_null_has_a_type_and_is_nullable() -> None:
    assert (literal({"null": I64}).value, literal({"null": I64}).type) == (None, t.Integer(bits=64))


def test_structs_lists_and_maps_hold_literals() -> None:
    one, two = {"i64": "1"}, {"i64": "2", "nullable": True}
    assert literal({"struct": {"fields": [one, {"string": "x"}]}}, "abcd").value == (1, "x")
    assert literal({"list": {"values": [one, two]}}).type == t.List(element=t.Integer(bits=64), nullable=False)
    assert literal({"map": {"keyValues": [{"key": {"string": "k"}, "value": one}]}}).value == (("k", 1),)


def test_a_compound_interval_has_all_parts() -> None:
    parts = {"intervalYearToMonth": {"years": 1}, "intervalDayToSecond": {"days": 2, "seconds": 3, "precision": 6}}
    assert literal({"intervalCompound": parts}).value == (12, 2, 3_000_000)


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_decimals_are_exact(unscaled: int, scale: int) -> None:
    value = bytes_(unscaled.to_bytes(16, "little", signed=True))
    decoded_literal = literal({"decimal": {"value": value, "precision": 38, "scale": scale}})
    sign, digits, exponent = only(decoded_literal.value, Decimal).as_tuple()
    assert (-1 if sign else 1) * int("".join(map(str, digits))) == unscaled
    assert exponent == -scale


@pytest.mark.parametrize(
    "written",
    [
        {"i8": 128},
        {"i16": -32769},
        {"decimal": {"value": bytes_(b"\1"), "precision": 5}},
        {"decimal": {"value": bytes_((10**5).to_bytes(16, "little")), "precision": 5}},
        {"uuid": bytes_(b"short")},
        {"varChar": {"value": "abc", "length": 2}},
        {"list": {}},
        {"intervalYearToMonth": {"years": 2**31 - 1, "months": 1}},
        {"intervalCompound": {"intervalYearToMonth": {"years": -(2**31)}}},
        {"intervalDayToSecond": {"seconds": 2**31 - 1, "subseconds": str(2**63 - 1), "precision": 6}},
        {"intervalDayToSecond": {"subseconds": str(2**40), "precision": 0}},
    ],
)
def test_faults_of_literals(written: Node) -> None:
    reported = problem(plan(project(table(I64), {"literal": written}), ["a", "b"]))
    assert reported.reason == "BAD_LITERAL"
    assert reported.place.startswith("relations[0].root.input.project.expressions[0].literal")


def test_datafusion_writes_unsigned_literals_as_signed_ones() -> None:
    decoded_literal = literal({"i64": "-1", "typeVariationReference": 1}, version={"producer": "datafusion"})
    assert (decoded_literal.value, decoded_literal.type) == (
        2**64 - 1,
        t.Integer(bits=64, signed=False, nullable=False),
    )
