"""Structs inside of structs reach DuckDB whole, wherever a batch was cut."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate.operators.arrays.nested_structs import from_the_start, has_nested_structs

from ..conformance.resident_kinds import planned_over

INNER = pa.struct([pa.field("b", pa.int64()), pa.field("c", pa.struct([pa.field("d", pa.string())]))])
TYPE = pa.struct([pa.field("n", INNER), pa.field("t", pa.string())])
SCHEMA = pa.schema([("k", pa.int64()), ("s", TYPE)])

leaves = st.none() | st.builds(
    lambda b, d: {"b": b, "c": None if d is None else {"d": d}},
    st.none() | st.integers(0, 9),
    st.none() | st.text(max_size=3),
)
structs = st.lists(
    st.none() | st.builds(lambda n, t: {"n": n, "t": t}, leaves, st.none() | st.text(max_size=3)), min_size=1
)


@given(values=structs, data=st.data())
def test_a_slice_has_its_values_and_begins_at_the_start(values: list[object], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(values) - 1))
    array = pa.array(values, TYPE).slice(first)
    again = from_the_start(array)
    again.validate(full=True)
    assert again.equals(array)
    assert again.offset == again.field(0).offset == again.field(0).field(1).offset == 0


def test_a_required_struct_stays_required() -> None:
    inner = pa.struct([pa.field("b", pa.int64(), nullable=False)])
    array = pa.array([{"n": {"b": at}} for at in range(5)], pa.struct([pa.field("n", inner, nullable=False)])).slice(2)
    assert from_the_start(array).type == array.type
    assert from_the_start(array).to_pylist() == array.to_pylist()


@pytest.mark.parametrize(
    ("type_", "expected"), [(TYPE, True), (INNER, True), (pa.list_(INNER), False), (pa.int64(), False)]
)
def test_only_structs_in_structs_are_made_anew(type_: pa.DataType, expected: bool) -> None:
    assert has_nested_structs(type_) == expected


@pytest.mark.parametrize("options", [{}, {"determinism": "relaxed"}, {"mode": "continuous"}], ids=str)
@pytest.mark.parametrize("fed", ["inline", "file"])
def test_wide_rows_with_structs_in_structs_are_read(options: dict[str, str], fed: str, tmp_path: object) -> None:
    rows = [{"k": at, "s": {"n": {"b": at, "c": {"d": str(at)}}, "t": "x" * 20_000}} for at in range(1_000)]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    if fed == "file":
        pq.write_table(table, f"{tmp_path}/rows.parquet")
    plan = planned_over(SCHEMA, "SELECT k, s FROM l WHERE k >= 1")
    with tidegate.local() as client, client.create_task(plan, **options) as task:
        answer = task.run_epoch({"l": table if fed == "inline" else f"{tmp_path}/rows.parquet"}).table()
    assert sorted(answer.select(["k", "s"]).to_pylist(), key=lambda row: row["k"]) == rows[1:]
