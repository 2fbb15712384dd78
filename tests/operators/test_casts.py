"""Casts of values from files to a plan's types: which are allowed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.operators.arrays.casts import castable

TWICE = pa.struct([("a", pa.int32()), ("a", pa.int32())])


@pytest.mark.parametrize("target", [pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int64()), ("a", pa.int64())])])
def test_a_struct_with_two_fields_of_one_name_is_no_other_struct(target: pa.DataType) -> None:
    assert castable(TWICE, TWICE)
    assert not castable(TWICE, target)
    assert not castable(pa.list_(TWICE), pa.list_(target))
