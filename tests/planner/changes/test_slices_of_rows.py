"""Rows that only get the number of a slice of time, or the moment at which a slice begins, are computed without SQL."""

from __future__ import annotations

import pytest

from tidegate.operators.changes.values.sliced_rows import SlicedRows, SliceStart, SliceStarts
from tidegate.planner import ir
from tidegate.planner.changes.event_time.slices_of_rows import slice_starts, sliced_rows
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


STARTS = project(EVENTS, (T, call("slice_start", T, int64(60), int64(7)), K))


@pytest.mark.parametrize("above", [(), (2, 1)], ids=["alone", "below a projection"])
def test_columns_beside_the_beginning_of_a_slice_need_no_sql(above: tuple[int, ...]) -> None:
    start = SliceStart(column=1, size=60, origin=7, farthest=1 << 62, bits=64)
    top = project(STARTS, [columns(STARTS.schema)[at] for at in above]) if above else STARTS
    assert slice_starts(steps(top)) == SliceStarts((0, start) if above else (1, start, 0))


NO_STARTS = {
    "a filter": project(TIMED, (call("slice_start", T, int64(60), int64(7)), K)),
    "a computed column": project(EVENTS, (call("slice_start", T, int64(60), int64(7)), call("add", K, V))),
    "a start of a start": project(STARTS, (call("slice_start", columns(STARTS.schema)[1], int64(5), int64(0)),)),
    "long slices": project(EVENTS, (call("slice_start", T, int64(1 << 61), int64(0)),)),
}


@pytest.mark.parametrize("rows", NO_STARTS.values(), ids=NO_STARTS.keys())
def test_other_moments_are_computed_in_sql(rows: ir.Relation) -> None:
    assert slice_starts(steps(rows)) is None
