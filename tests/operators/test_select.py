"""Columns of the input, in another order and under other names."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.operators.core.streams import BatchStream
from tidegate.operators.select import Select
from tidegate.proto.errors import InternalError
from tidegate.testing import check_operator

ROWS = pa.table({"a": [1, 2, None], "b": ["x", None, "z"], "c": [1.5, 2.5, 3.5]})
NAMED = pa.schema([("z", pa.float64()), ("x", pa.int64()), ("again", pa.float64())])


def test_columns_come_in_the_wanted_order_under_the_wanted_names() -> None:
    check_operator(
        lambda: Select(ROWS.schema, columns=[2, 0, 2], schema=NAMED),
        [[ROWS]],
        expected=[pa.Table.from_arrays([ROWS["c"], ROWS["a"], ROWS["c"]], schema=NAMED)],
    )


def test_all_columns_in_their_order_pass_as_they_are() -> None:
    [batch] = ROWS.to_batches()
    select = Select(ROWS.schema, columns=[0, 1, 2], schema=ROWS.schema)
    [selected] = select.run([BatchStream(ROWS.schema, [batch])])
    assert selected is batch


@pytest.mark.parametrize("wanted", [pa.field("a", pa.int32()), pa.field("a", pa.int64(), nullable=False)])
def test_a_column_is_not_made_another(wanted: pa.Field) -> None:
    with pytest.raises(InternalError, match="column"):
        Select(ROWS.schema, columns=[0], schema=pa.schema([wanted]))
