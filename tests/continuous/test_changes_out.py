"""Answers of epochs of continuous tasks, and the life of such a task."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

import tidegate
from tidegate.operators.arrays.digest import digest

from ..executor.plans import joined, passed_through, plan, read, sorted_by, summed, union
from .histories import changes, planned, rows_of, table

SUMS = plan(summed(read("a", "k", "v")), "k", "sum").json
PASSED = passed_through("a").json


def pairs(*rows: tuple[Any, ...]) -> tidegate.Changes:
    """Rows (k, v) with weights."""
    arrays = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)]
    return tidegate.Changes(pa.table(arrays, names=["k", "v", "_weight"]))


def numbers(*values: Any) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def test_the_result_has_the_weight_behind_the_plans_columns(client: tidegate.Client) -> None:
    with client.create_task(SUMS, mode="continuous") as task:
        assert task.schema.names == ["k", "sum", "_weight"]
        assert task.schema.field("_weight") == pa.field("_weight", pa.int64(), nullable=False)
        assert task.info().options.mode.value == "continuous"
        assert task.run_epoch({}).table().schema == task.schema


@pytest.mark.parametrize("key", [2, 1 << 40, -5, None])
def test_a_group_of_nulls_alone_has_no_least_value_whatever_its_key(client: tidegate.Client, key: int | None) -> None:
    """Its key is not among those that values are kept of."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    plan = planned("SELECT k, min(v), max(v) FROM l GROUP BY k", {"l": schema})
    with client.create_task(plan, mode="continuous") as task:
        task.run_epoch({"l": changes([((1, 5), 1)], schema)}).table()
        nothing = task.run_epoch({"l": changes([((key, None), 1)], schema)}).table()
        assert rows_of(nothing) == [(key, None, None, 1)]
        something = task.run_epoch({"l": changes([((key, 7), 1)], schema)}).table()
        assert rows_of(something) == [(key, 7, 7, 1), (key, None, None, -1)]


def test_an_update_moves_a_row_from_one_group_to_another(client: tidegate.Client) -> None:
    with client.create_task(SUMS, mode="continuous") as task:
        task.run_epoch({"a": pairs((1, 10, 1), (1, 5, 1), (2, 7, 1))})
        change = task.run_epoch({"a": pairs((1, 5, -1), (2, 5, 1))}).table()
    assert rows_of(change) == [(1, 10, 1), (1, 15, -1), (2, 7, -1), (2, 12, 1)]


def test_what_cancels_within_an_epoch_is_no_change(client: tidegate.Client) -> None:
    with client.create_task(SUMS, mode="continuous") as task:
        task.run_epoch({"a": pairs((1, 10, 1))})
        assert task.run_epoch({"a": pairs((1, 4, 1), (1, 4, -1), (3, 3, 2), (3, 3, -2))}).rows == 0
        assert task.run_epoch({}).rows == 0
        assert rows_of(task.run_epoch({"a": pairs((1, 10, -1))}).table()) == [(1, 10, -1)]


def test_duplicates_are_one_row_with_their_number(client: tidegate.Client) -> None:
    with client.create_task(PASSED, mode="continuous") as task:
        assert rows_of(task.run_epoch({"a": numbers(5, 5, None, 5, None)}).table()) == [(5, 3), (None, 2)]


def test_a_null_is_a_group_and_joins_with_nothing(client: tidegate.Client) -> None:
    both = plan(joined(read("a", "k", "v"), read("b", "k", "v"), 2), "k", "v", "l", "w").json
    with client.create_task(SUMS, mode="continuous") as sums, client.create_task(both, mode="continuous") as joins:
        rows = pairs((None, 1, 1), (None, 2, 1), (3, 4, 1))
        assert rows_of(sums.run_epoch({"a": rows}).table()) == [(3, 4, 1), (None, 3, 1)]
        assert rows_of(joins.run_epoch({"a": rows, "b": rows}).table()) == [(3, 4, 3, 4, 1)]


def test_floats_that_cancel_leave_no_trace(client: tidegate.Client) -> None:
    schema = pa.schema([("f", pa.float64())])
    with client.create_task(planned("SELECT sum(f) AS f FROM a", {"a": schema}), mode="continuous") as task:
        task.run_epoch({"a": pa.table({"f": [1e16, 1.0]})})
        gone = tidegate.Changes(pa.table({"f": [1e16], "_weight": [-1]}))
        assert rows_of(task.run_epoch({"a": gone}).table())[0] == (1.0, 1)
        task.run_epoch({"a": pa.table({"f": [math.nan, -0.0]})})
        gone = tidegate.Changes(pa.table({"f": [math.nan], "_weight": [-1]}))
        assert rows_of(task.run_epoch({"a": gone}).table())[0] == (1.0, 1)


def test_an_aggregate_without_groups_is_there_before_its_first_row(client: tidegate.Client) -> None:
    schema = pa.schema([("v", pa.int64())])
    sql = "SELECT count(*) AS n, sum(v) AS s FROM a"
    with client.create_task(planned(sql, {"a": schema}), mode="continuous", channels=2) as task:
        assert rows_of(task.run_epoch({}).table()) == [(0, None, 1)]
        change = task.run_epoch({"a": pa.table({"v": [4]})}).table()
    assert rows_of(change) == [(0, None, -1), (1, 4, 1)]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("cut", [1, 7])
def test_the_bits_depend_on_neither_channels_nor_splits(client: tidegate.Client, channels: int, cut: int) -> None:
    schema = pa.schema([("k", pa.int64()), ("f", pa.float64()), ("s", pa.string())])
    sql = "SELECT k, sum(f) AS f, avg(f) AS g, max(f) AS m, count(DISTINCT s) AS n FROM a GROUP BY k"
    rows = table([(i % 3, 0.1 * i, "ab"[i % 2]) for i in range(60)], schema)
    with client.create_task(planned(sql, {"a": schema}), mode="continuous", channels=channels) as task:
        result = task.run_epoch({"a": [rows.slice(at, cut) for at in range(0, 60, cut)]}).table()
    assert digest(result.schema, result.to_batches()) == BITS


BITS = "bbd7f2c4b9127da0d4488af8eec3309f"


def test_static_tables_arrive_once(client: tidegate.Client) -> None:
    both = plan(joined(read("a", "k", "v"), read("b", "k", "v"), 2), "k", "v", "l", "w").json
    tables = {"b": pa.table({"k": [1, 2], "v": [100, 200]})}
    with client.create_task(both, mode="continuous", tables=tables) as task:
        assert rows_of(task.run_epoch({"a": pairs((1, 5, 1))}).table()) == [(1, 5, 1, 100, 1)]
        assert rows_of(task.run_epoch({"a": pairs((2, 6, 1))}).table()) == [(2, 6, 2, 200, 1)]


def test_static_tables_alone_make_one_epoch(client: tidegate.Client) -> None:
    with client.create_task(PASSED, mode="continuous", tables={"a": numbers(1, 2)}) as task:
        task.no_more_splits()
        assert [rows_of(epoch.table()) for epoch in task.epochs()] == [[(1, 1), (2, 1)]]


def test_a_source_that_has_ended_keeps_its_rows(client: tidegate.Client) -> None:
    both = plan(joined(read("a", "k", "v"), read("b", "k", "v"), 2), "k", "v", "l", "w").json
    with client.create_task(both, mode="continuous") as task:
        task.run_epoch({"b": pairs((1, 9, 1))})
        task.no_more_splits("b")
        assert rows_of(task.run_epoch({"a": pairs((1, 5, 1))}).table()) == [(1, 5, 1, 9, 1)]


def test_an_epoch_that_fails_ends_the_task_and_leaves_those_before_it(client: tidegate.Client) -> None:
    with client.create_task(SUMS, mode="continuous") as task:
        task.add_split("a", pairs((1, 10, 1)))
        task.request_barrier()
        task.add_split("a", pairs((1, 11, -1)))
        task.request_barrier()
        assert rows_of(task.read_epoch()) == [(1, 10, 1)]
        with pytest.raises(tidegate.TaskFailed, match="deleted more often than inserted"):
            task.read_epoch()


def test_a_sum_that_is_no_int64_fails_and_says_where(client: tidegate.Client) -> None:
    with (
        client.create_task(SUMS, mode="continuous") as task,
        pytest.raises(tidegate.TaskFailed, match=r"relations\[0\].root.input.aggregate"),
    ):
        task.run_epoch({"a": pairs((1, 2**62, 1), (1, 2**62, 1))})


@pytest.mark.parametrize(
    "weights", [(2**62,) * 2, (*[2**62] * 3, -1)], ids=["in the result", "of a row that is deleted"]
)
def test_a_row_that_is_there_too_often_is_an_error_of_the_input(
    client: tidegate.Client, weights: tuple[int, ...]
) -> None:
    with (
        client.create_task(plan(read("a", "x"), "x").json, mode="continuous") as task,
        pytest.raises(tidegate.TaskFailed, match="beyond 64 bits") as caught,
    ):
        task.run_epoch({"a": [changes([((1,), weight)], pa.schema([("x", pa.int64())])) for weight in weights]})
    assert caught.value.reason == "WEIGHT_OVERFLOW"


def test_an_overflow_that_is_gone_by_the_end_of_the_epoch_is_none(client: tidegate.Client) -> None:
    with client.create_task(SUMS, mode="continuous") as task:
        change = task.run_epoch({"a": pairs((1, 2**62, 2), (1, 2**62, -1))}).table()
    assert rows_of(change) == [(1, 2**62, 1)]


def test_a_sort_alone_is_left_out_and_said_so(client: tidegate.Client) -> None:
    with client.create_task(plan(sorted_by(read("a", "x"), 0), "x").json, mode="continuous") as task:
        (warning,) = task.warnings
        assert "the sort is left out" in warning


def test_state_beyond_the_limit_fails_and_names_the_largest_operators(client: tidegate.Client) -> None:
    both = plan(joined(read("a", "x"), read("b", "x"), 1), "x", "y").json
    with (
        client.create_task(both, mode="continuous", memory_limit=32 << 20) as task,
        pytest.raises(tidegate.TaskFailed, match=r"Join at relations.*raise memory_limit") as raised,
    ):
        task.run_epoch({"a": [numbers(*range(at, at + 50_000)) for at in range(0, 2_000_000, 50_000)]})
    assert raised.value.reason == "STATE_TOO_LARGE"


def test_a_task_is_cancelled_while_it_works(client: tidegate.Client) -> None:
    crossed = planned("SELECT a.x FROM a CROSS JOIN b WHERE a.x + b.x < 0", {n: numbers().schema for n in "ab"})
    with client.create_task(crossed, mode="continuous") as task:
        for source in "ab":
            task.add_split(source, numbers(*range(100_000)))
        task.request_barrier()
        task.cancel()
        with pytest.raises(tidegate.TaskCancelled):
            task.read_epoch()


def test_operators_count_rows_what_they_touched_and_what_they_keep(client: tidegate.Client) -> None:
    with client.create_task(SUMS, mode="continuous") as task:
        task.run_epoch({"a": pairs((1, 10, 1), (2, 10, 1), (2, 5, 1))})
        by_name = {operator.operator: operator for operator in task.statistics().operators}
    group = by_name["Group"]
    assert (group.rows_in, group.rows_out, group.health) == (3, 2, 1.0)
    assert group.rows_touched > 0
    assert group.state_bytes > 0
    assert 0 < group.busy <= 1
    assert by_name["Scan"].rows_out == 3


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"spill": "ordered"}, "spill"),
        ({"broadcast": ["a"]}, "broadcast"),
        ({"parallel_threshold_seconds": 0}, "parallel_threshold_seconds"),
    ],
)
def test_options_without_a_use_are_refused(client: tidegate.Client, options: dict[str, Any], name: str) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=f"{name} is not an option of a continuous task") as raised:
        client.create_task(PASSED, mode="continuous", **options)
    assert raised.value.reason == "PER_EPOCH_OPTION"


def test_a_relaxed_task_answers_in_the_same_order(client: tidegate.Client) -> None:
    result = client.query(
        plan(union(read("a", "x"), read("b", "x")), "x").json, {"a": numbers(3, 1), "b": numbers(2)}, mode="continuous"
    )
    assert rows_of(result) == [(1, 1), (2, 1), (3, 1)]
