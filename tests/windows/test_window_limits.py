"""Limits on plans hold inside of the bytes of a window aggregate, too."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format
from substrait import algebra_pb2 as algebra
from substrait import plan_pb2

import tidegate
from tidegate.planner.decode.encoding import limits
from tidegate.proto.encoding.wire_format import varint
from tidegate.relations import WindowAggregate

from .naive import Spans
from .running import TIMES, plan

LITERAL = algebra.Expression(literal=algebra.Expression.Literal(i64=1))


def _with_keys(keys: list[bytes], windows: int = 1) -> plan_pb2.Plan:
    """A plan of so many window aggregates, one above the other, each of which also groups by these expressions."""
    built = plan(TIMES["i64"], Spans(10, 10), ["k"], ["count"])
    relation = built.relations[-1].root.input
    message = WindowAggregate()
    relation.extension_single.detail.Unpack(message)
    message.aggregate += b"".join(b"\x2a" + varint(len(key)) + key for key in keys)  # field 5: grouping_expressions
    for _ in range(windows - 1):
        above = algebra.Rel()
        above.extension_single.input.CopyFrom(relation)
        relation.CopyFrom(above)
    layer = relation
    while layer.HasField("extension_single"):
        layer.extension_single.detail.Pack(message)
        layer = layer.extension_single.input
    return built


def _nested(depth: int) -> bytes:
    """A cast of a cast of ... a literal, without protobuf's own limit on depth."""
    expression = LITERAL.SerializeToString()
    for _ in range(depth):
        cast = b"\x12" + varint(len(expression)) + expression  # Cast.input
        expression = b"\x5a" + varint(len(cast)) + cast  # Expression.cast
    return expression


def _reasons(client: tidegate.Client, windowed: Any) -> set[str]:
    return {problem.reason for problem in client.validate(windowed)}


def test_an_expression_that_is_too_deep_is_refused(client: tidegate.Client) -> None:
    assert _reasons(client, _with_keys([_nested(limits.DEPTH.most + 1)])) == {"PLAN_TOO_LARGE"}


def test_too_many_expressions_are_refused(client: tidegate.Client) -> None:
    assert _reasons(client, _with_keys([_nested(1)] * (limits.NODES.most + 1))) == {"PLAN_TOO_LARGE"}


def test_the_literals_of_all_windows_are_counted_together(
    client: tidegate.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = limits.Limit(what=limits.LITERALS.what, most=100, instead=limits.LITERALS.instead)
    monkeypatch.setattr(limits, "LITERALS", few)
    keys = [LITERAL.SerializeToString()] * 30
    assert "PLAN_TOO_LARGE" not in _reasons(client, _with_keys(keys, windows=3))
    assert "PLAN_TOO_LARGE" in _reasons(client, _with_keys(keys, windows=4))


def test_limits_hold_in_json(client: tidegate.Client) -> None:
    text = json_format.MessageToJson(_with_keys([_nested(1)] * (limits.NODES.most + 1)))
    assert _reasons(client, text) == {"PLAN_TOO_LARGE"}


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_bytes_that_are_cut_off_are_problems_of_the_plan(client: tidegate.Client, cut: int) -> None:
    built = plan(TIMES["i64"], Spans(10, 4), ["k"], ["sum"])
    detail = built.relations[-1].root.input.extension_single.detail
    message = WindowAggregate()
    detail.Unpack(message)
    message.aggregate = message.aggregate[:-cut]
    detail.Pack(message)
    for problem in client.validate(built):
        assert problem.place.startswith("relations[0].root")
