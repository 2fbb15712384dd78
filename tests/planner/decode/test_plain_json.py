"""Messages that are filled the fast way are those of protobuf's own reader."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from tidegate.planner.decode.encoding.message_classes import pool
from tidegate.planner.decode.encoding.plain_json import fill_plain

MESSAGES = sorted(name for name in pool().classes if name.startswith("substrait."))
INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
ODD = st.sampled_from(
    [None, True, False, 0, -1, 2**40, 2**70, 1.0, 1.5, "", "1", "01", "1_0", " 1", "x", "1e3", [], {}, [None], [1]]
)
"""Members that are not those of a field, or spelled in another way."""


def plain(draw: Any, message: str, depth: int = 0) -> dict[str, Any]:
    """An object with some of the message's plain members, at most one of each oneof."""
    value: dict[str, Any] = {}
    chosen = set()
    fields = list(pool().descriptor(message).fields)
    for field in draw.draw(st.lists(st.sampled_from(fields), max_size=3)) if fields else ():
        choice = field.containing_oneof.name if field.containing_oneof else field.name
        if choice not in chosen and (member := member_of(draw, field, depth)) is not None:
            chosen.add(choice)
            value[draw.draw(st.sampled_from([field.name, field.json_name]))] = member
    return value


def member_of(draw: Any, field: FieldDescriptor, depth: int) -> Any:
    def one() -> Any:
        if field.message_type is not None:
            outside = not field.message_type.full_name.startswith("substrait.")
            return None if outside or depth > 3 else plain(draw, field.message_type.full_name, depth + 1)
        if field.cpp_type in INTEGERS:
            number = draw.draw(st.integers(*INTEGERS[field.cpp_type]))
            return draw.draw(st.sampled_from([number, str(number)]))
        if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            return draw.draw(st.booleans())
        if field.enum_type is not None:
            return draw.draw(st.sampled_from(sorted(field.enum_type.values_by_name)))
        return draw.draw(st.text(max_size=3)) if field.type == FieldDescriptor.TYPE_STRING else None

    first = one()
    return [first] if field.is_repeated and first is not None else first


def parsed(name: str, value: dict[str, Any]) -> Any:
    return json_format.ParseDict(value, pool().message_class(name)())


@given(st.data(), st.sampled_from(MESSAGES))
def test_a_message_of_plain_members_is_filled_as_protobuf_does(data: Any, name: str) -> None:
    value = plain(data, name)
    message = pool().message_class(name)()
    assert fill_plain(message, value)
    assert message == parsed(name, value)


@given(st.data(), st.sampled_from(MESSAGES))
def test_a_message_that_protobuf_refuses_is_not_filled(data: Any, name: str) -> None:
    value = plain(data, name)
    names = [*(field.name for field in pool().descriptor(name).fields), "unknown"]
    value[data.draw(st.sampled_from(names))] = data.draw(ODD)
    message = pool().message_class(name)()
    if fill_plain(message, value):
        assert message == parsed(name, value)


@pytest.mark.parametrize(
    "value",
    [
        {"i64": None},
        {"i64": "1", "i32": 1},
        {"fp64": 1.0},
        {"binary": "AA=="},
        {"i32": 2**31},
        {"i64": "1_0"},
        {"i64": 1.5},
    ],
    ids=str,
)
def test_other_members_are_left_to_protobuf(value: dict[str, Any]) -> None:
    assert not fill_plain(pool().message_class("substrait.Expression.Literal")(), value)
