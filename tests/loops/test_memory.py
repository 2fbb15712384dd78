"""Limits of what tasks that work on changes keep; rows under way and results count, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pytest

import tidegate

from ..continuous.histories import planned, table
from .queries import QUERIES, SCHEMAS, Looped, Query

LIMIT = 64 << 20
NUMBERS = pa.schema([("x", pa.int64())])


def numbers(count: int) -> pa.Table:
    return pa.table({"x": pa.array(range(count), pa.int64())})


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


@pytest.mark.parametrize(("mode", "reason"), [("per_epoch", "MEMORY_LIMIT"), ("continuous", "STATE_TOO_LARGE")])
def test_a_loop_that_keeps_more_than_it_may_is_an_error(client: tidegate.Client, mode: str, reason: str) -> None:
    plan = QUERIES["reachability"].plan()
    seeds = table([(at, 0) for at in range(2_000)], SCHEMAS["seeds"])
    edges = table([(0, at, 0) for at in range(1_000)], SCHEMAS["edges"])
    with (
        client.create_task(plan, mode=mode, loops="general", memory_limit=LIMIT) as task,
        pytest.raises(tidegate.TaskFailed, match="memory_limit") as caught,
    ):
        task.run_epoch({"edges": edges, "seeds": seeds}).table()
    assert caught.value.reason == reason


def test_a_loop_whose_texts_grow_is_stopped_while_they_are_few(client: tidegate.Client) -> None:
    """Sixteen rows that are twice as long in every round: a few rounds, however few rows."""
    texts = pa.schema([("a", pa.string()), ("b", pa.int64())])
    body = "select cast(a as varchar) as a, b from seeds union select a || a as a, b from x"
    plan = Query({"x": Looped(body, columns=texts)}).plan()
    with (
        client.create_task(plan, memory_limit=LIMIT) as task,
        pytest.raises(tidegate.TaskFailed, match="a third of its share of memory_limit") as caught,
    ):
        task.run_epoch({"seeds": table([(10**15 + at, at) for at in range(16)], SCHEMAS["seeds"])}).table()
    assert caught.value.reason == "MEMORY_LIMIT"


def test_an_epochs_change_counts_though_nothing_keeps_it(client: tidegate.Client) -> None:
    """Every row meets every other one: few rows are kept, and many come out."""
    plan = planned("select a.x, b.x as y from a cross join b", dict.fromkeys("ab", NUMBERS))
    with client.create_task(plan, mode="continuous", memory_limit=LIMIT) as task:
        assert task.run_epoch({"a": numbers(100), "b": numbers(100)}).rows == 10_000
        with pytest.raises(tidegate.TaskFailed, match="three quarters of memory_limit") as caught:
            task.run_epoch({"a": numbers(50_000), "b": numbers(50_000)}).table()
    assert caught.value.reason == "STATE_TOO_LARGE"


def test_a_batch_that_meets_a_hot_key_is_stopped_on_the_way(client: tidegate.Client) -> None:
    """All twenty thousand million pairs would find no room; what is made of them is looked at piece by piece."""
    pair = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    plan = planned("select a.x, b.y from a join b on a.x = b.x", {"a": NUMBERS, "b": pair})
    hot = pa.table({"x": pa.array([7] * 300_000, pa.int64()), "y": pa.array(range(300_000), pa.int64())})
    with client.create_task(plan, mode="continuous", memory_limit=LIMIT) as task:
        assert task.run_epoch({"a": numbers(5), "b": hot}).rows == 0
        with pytest.raises(tidegate.TaskFailed, match="three quarters of memory_limit") as caught:
            task.run_epoch({"a": pa.table({"x": pa.array([7] * 65_536, pa.int64())})}).table()
    assert caught.value.reason == "STATE_TOO_LARGE"


def test_what_waits_for_the_barrier_counts(client: tidegate.Client) -> None:
    plan = planned("select count(*) as n from (select distinct x from a)", {"a": NUMBERS})
    same = pa.table({"x": pa.array([7] * 1_000_000, pa.int64())})
    with client.create_task(plan, mode="continuous", memory_limit=LIMIT) as task:
        for _ in range(5):
            task.add_split("a", same)
        task.request_barrier()
        with pytest.raises(tidegate.TaskFailed, match="DistinctOrSetOp at") as caught:
            task.read_epoch()
    assert caught.value.reason == "STATE_TOO_LARGE"


def test_rows_that_are_there_very_often_come_out_block_by_block(client: tidegate.Client) -> None:
    """Whole blocks but for the last, wherever a row's copies end."""
    twice = "select a, b from seeds union all select a, b from x union all select a, b from x"
    seeds = table([(0, 0), (1, 1), (2, 2)], SCHEMAS["seeds"])
    with client.create_task(Query({"x": Looped(twice, rounds=17)}).plan(), memory_limit=LIMIT) as task:
        result = task.run_epoch({"seeds": seeds}).table()
    assert result["a"].to_pylist() == sorted([0, 1, 2] * (2**17 - 1))


MANY: Final = r"relations\[0\].*: Regroup must compute about 1099511627776 rows again at once, copies counted"


def test_more_copies_than_can_be_computed_again_are_an_error(client: tidegate.Client) -> None:
    """Which names the operator, and its place in the plan."""
    plan = planned("select stddev(x) as m from a", {"a": pa.schema([("x", pa.float64())])})
    many = pa.table({"x": [0.5], "_weight": pa.array([1 << 40], pa.int64())})
    with (
        client.create_task(plan, mode="continuous") as task,
        pytest.raises(tidegate.TaskFailed, match=MANY) as caught,
    ):
        task.run_epoch({"a": tidegate.Changes(many)}).table()
    assert caught.value.reason == "TOO_MANY_COPIES"
