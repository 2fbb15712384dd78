"""`ProjectRel`, the emit of every relation, and window functions lifted out of projections."""

from __future__ import annotations

import pytest

from tidegate.planner import ir

from ..plans import (
    I64,
    TEXT,
    TRUE,
    Node,
    call,
    decode,
    emit,
    field,
    filter_,
    function,
    number,
    only,
    plan,
    problem,
    project,
    table,
)


def window(*arguments: Node, name: str = "sum", **more: object) -> Node:
    sorts = [{"expr": field(0), "direction": "SORT_DIRECTION_ASC_NULLS_LAST"}]
    return {"windowFunction": function(name, *arguments, partitions=[field(1)], sorts=sorts, **more)}


def test_a_projection_keeps_its_input_and_adds_to_it() -> None:
    root = only(decode(plan(project(table(I64, TEXT), number(7)), ["a", "b", "c"])).plan.root, ir.Project)
    assert [getattr(e, "index", e) for e in root.expressions[:2]] == [0, 1]
    assert root.expressions[2].value == 7


def test_an_emit_chooses_among_columns_and_expressions_in_one_projection() -> None:
    root = only(decode(plan(project(table(I64, TEXT), number(7), common=emit(2, 0)), ["a", "b"])).plan.root, ir.Project)
    assert root.expressions[0].value == 7
    assert isinstance(root.input, ir.Read)


def test_an_expression_that_is_emitted_twice_is_computed_once() -> None:
    root = only(decode(plan(project(table(I64), number(7), common=emit(1, 1)), ["a", "b"])).plan.root, ir.Project)
    assert [expression.index for expression in root.expressions] == [1, 1]
    assert isinstance(root.input, ir.Project)


def test_an_emit_of_all_columns_in_order_is_nothing() -> None:
    assert isinstance(decode(plan(filter_(table(I64, TEXT), TRUE, common=emit(0, 1)), ["a", "b"])).plan.root, ir.Filter)


def test_any_relation_may_emit() -> None:
    root = only(decode(plan(filter_(table(I64, TEXT), TRUE, common=emit(1)), ["a"])).plan.root, ir.Project)
    assert isinstance(root.input, ir.Filter)


def test_duckdb_projections_replace_their_input() -> None:
    written = plan(project(table(I64, TEXT), number(7)), ["a"], version={"producer": "DuckDB", "minorNumber": 53})
    assert len(decode(written).plan.root.schema) == 1


def test_duckdb_projections_that_fit_the_names_the_other_way_are_read_that_way() -> None:
    written = plan(project(table(I64, TEXT), number(7)), ["a", "b", "c"], version={"producer": "DuckDB"})
    assert len(decode(written).plan.root.schema) == 3


# ---------------------------------------------------------------------------------------------------- windows


def test_a_window_function_becomes_a_column_of_a_window_below() -> None:
    root = only(decode(plan(project(table(I64, TEXT), window(field(0))), ["a", "b", "c"])).plan.root, ir.Project)
    below = only(root.input, ir.Window)
    assert root.expressions[2].index == 2
    assert below.calls[0].function.name == "sum"
    assert len(below.schema) == 3


def test_window_functions_inside_an_expression_are_all_lifted() -> None:
    both = call("add", window(field(0)), window(field(0), name="sum"))
    root = only(decode(plan(project(table(I64, TEXT), both), ["a", "b", "c"])).plan.root, ir.Project)
    assert len(only(root.input, ir.Window).calls) == 2


@pytest.mark.parametrize(
    ("bound", "offset"),
    [
        ({"unbounded": {}}, None),
        ({"currentRow": {}}, 0),
        ({"preceding": {"offset": "2"}}, -2),
        ({"following": {"offset": "3"}}, 3),
        ({"preceding": {"offsetExpr": number(4)}}, -4),
        ({"following": {"offsetExpr": number(5)}}, 5),
    ],
)
def test_bounds_count_from_the_current_row(bound: Node, offset: int | None) -> None:
    relation = project(table(I64, TEXT), window(field(0), lowerBound=bound, boundsType="BOUNDS_TYPE_ROWS"))
    root = only(decode(plan(relation, ["a", "b", "c"])).plan.root, ir.Project)
    assert root.input.calls[0].lower.offset == offset


def test_a_bound_may_be_an_interval_and_goes_backwards_negative() -> None:
    interval = {"literal": {"intervalDayToSecond": {"days": 2, "precision": 6}}}
    bound = {"preceding": {"offsetExpr": interval}}
    relation = project(table(I64, TEXT), window(field(0), lowerBound=bound, boundsType="BOUNDS_TYPE_RANGE"))
    root = only(decode(plan(relation, ["a", "b", "c"])).plan.root, ir.Project)
    assert root.input.calls[0].lower.offset.value == (0, -2, 0)
    assert root.input.calls[0].bounds is ir.BoundsKind.RANGE


def test_a_bound_that_is_no_literal_is_a_problem() -> None:
    relation = project(table(I64, TEXT), window(field(0), lowerBound={"preceding": {"offsetExpr": field(0)}}))
    assert problem(plan(relation, ["a", "b", "c"])).reason == "BAD_BOUND"


@pytest.mark.parametrize("bounds", ["BOUNDS_TYPE_ROWS", "BOUNDS_TYPE_RANGE"])
@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ({"currentRow": {}}, {"preceding": {"offset": "1"}}),
        ({"following": {"offset": "1"}}, {"currentRow": {}}),
        ({"following": {"offset": "1"}}, {"preceding": {"offset": "1"}}),
    ],
)
def test_a_frame_that_begins_behind_its_end_is_a_problem(lower: Node, upper: Node, bounds: str) -> None:
    """DuckDB would refuse the statement, and Substrait does not say what such a frame means."""
    call_ = window(field(0), lowerBound=lower, upperBound=upper, boundsType=bounds)
    assert problem(plan(project(table(I64, TEXT), call_), ["a", "b", "c"])).reason == "BAD_BOUND"


def test_a_window_function_outside_a_projection_is_a_problem() -> None:
    relation = filter_(table(I64, TEXT), call("equal", window(field(0)), number(1)))
    assert problem(plan(relation, ["a", "b"])).reason == "MISPLACED_WINDOW_FUNCTION"


def test_a_window_relation_has_its_input_and_a_column_a_function() -> None:
    sorts = [{"expr": field(0), "direction": "SORT_DIRECTION_DESC_NULLS_FIRST"}]
    relation = {
        "window": {
            "input": table(I64, TEXT),
            "windowFunctions": [function("row_number"), function("sum", field(0))],
            "partitionExpressions": [field(1)],
            "sorts": sorts,
        }
    }
    root = only(decode(plan(relation, ["a", "b", "c", "d"])).plan.root, ir.Window)
    assert [window_call.function.name for window_call in root.calls] == ["row_number", "sum"]
    assert all(window_call.sorts[0].direction is ir.Direction.DESC_NULLS_FIRST for window_call in root.calls)
