"""Protobuf's wire format, as far as it is read and written by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.proto.encoding.wire_format import fields, varint


@given(st.integers(0, 2**64 - 1), st.integers(0, 10))
def test_a_varint_may_be_wider_than_it_need_be(value: int, width: int) -> None:
    assert list(fields(memoryview(b"\x08" + varint(value, width)))) == [(1, value)]


@pytest.mark.parametrize("data", [b"\x08", b"\x08" + b"\xff" * 11, b"\x0a\x05a", b"\x0b"])
def test_what_is_no_message_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"a varint|a field"):
        list(fields(memoryview(data)))
