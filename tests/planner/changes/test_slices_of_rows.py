"""Rows that only get the number of a slice of time are computed without SQL."""

from __future__ import annotations

import pytest

from tidegate.operators.changes.values.sliced_rows import SlicedRows
from tidegate.planner import ir
from tidegate.planner.changes.event_time.slices_of_rows import sliced_rows
from tidegate.planner.functions.added_calls import call
from tidegate.planner.ir.building import columns, filtered, int64, project

from ..build import I64, read

EVENTS = read("events", k=I64, t=I64, v=I64)
K, T, V = columns(EVENTS.schema)
SLICE = call("time_slice", T, int64(60), int64(7))
TIMED = filtered(EVENTS, call("is_not_null", T))


def steps(top: ir.Relation) -> list[ir.Relation]:
    chain: list[ir.Relation] = []
    while top is not EVENTS:
        assert isinstance(top, ir.Filter | ir.Project)
        chain.append(top)
        top = top.input
    return chain


@pytest.mark.parametrize("rows", [EVENTS, TIMED], ids=["all rows", "rows with a time"])
def test_columns_beside_a_slice_of_time_need_no_sql(rows: ir.Relation) -> None:
    numbered = project(rows, (SLICE, V, K, V))
    assert sliced_rows(steps(numbered)) == SlicedRows(column=1, size=60, origin=7, output=(None, 2, 0, 2))


def test_columns_are_followed_through_projections() -> None:
    chosen = project(EVENTS, (V, T))
    value, time = columns(chosen.schema)
    numbered = project(
        filtered(chosen, call("is_not_null", time)), (value, call("time_slice", time, int64(5), int64(0)))
    )
    assert sliced_rows(steps(numbered)) == SlicedRows(column=1, size=5, origin=0, output=(2, None))


OTHERS = {
    "another filter": project(filtered(EVENTS, call("is_not_null", K)), (SLICE, K)),
    "a computed column": project(EVENTS, (SLICE, call("add", K, V))),
    "two slices": project(EVENTS, (SLICE, SLICE)),
    "no slice": project(EVENTS, (K, call("add", K, V))),
    "no projection": TIMED,
}


@pytest.mark.parametrize("rows", OTHERS.values(), ids=OTHERS.keys())
def test_other_rows_are_computed_in_sql(rows: ir.Relation) -> None:
    assert sliced_rows(steps(rows)) is None
