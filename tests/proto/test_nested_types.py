"""The types inside of a type are changed; all else that the type says stays."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.proto.arrow.nested_types import with_fields, with_types

INSIDE = pa.field("inside", pa.int32(), nullable=False)
KEY = pa.field("key", pa.string(), nullable=False)
NESTED = [
    pa.struct([INSIDE, pa.field("other", pa.string())]),
    pa.list_(INSIDE),
    pa.large_list(INSIDE),
    pa.list_view(INSIDE),
    pa.large_list_view(INSIDE),
    pa.list_(INSIDE, 3),
    pa.map_(KEY, INSIDE),
    pa.map_(KEY, INSIDE, keys_sorted=True),
    pa.struct([]),
    pa.int32(),
]


@pytest.mark.parametrize("type_", NESTED, ids=str)
def test_a_type_of_the_same_fields_is_the_same_type(type_: pa.DataType) -> None:
    assert with_fields(type_, lambda field: field).equals(type_, check_metadata=True)


@pytest.mark.parametrize("type_", NESTED, ids=str)
def test_fields_keep_their_names_and_nullability_where_their_types_change(type_: pa.DataType) -> None:
    wide = with_types(type_, lambda inside: pa.int64() if inside == pa.int32() else inside)
    assert wide.num_fields == type_.num_fields
    for before, after in ((type_.field(at), wide.field(at)) for at in range(type_.num_fields)):
        assert after.equals(before.with_type(after.type))
        assert after.type != pa.int32()
