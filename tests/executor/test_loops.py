"""Loops through the whole service: on channels, over files, at their limits, cancelled."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.proto.errors import TaskCancelled, TidegateError

from ..loops.queries import QUERIES
from ..on_channels import on_channels
from .plans import column, plan, read, scalar

BOOL = {"bool": {"nullability": "NULLABILITY_NULLABLE"}}
EDGES = read("edges", "a", "b")


def closure() -> dict[str, object]:
    """All pairs that edges lead from and to."""
    back = {"@type": "x/flowtide.IterationReferenceReadRelation", "iterationName": "paths"}
    met = scalar("equal:any_any", column(1), column(2), type_=BOOL)
    join = {"left": {"extensionLeaf": {"detail": back}}, "right": EDGES, "expression": met, "type": "JOIN_TYPE_INNER"}
    emit = {"emit": {"outputMapping": [0, 3]}}
    union = {"set": {"inputs": [EDGES, {"join": {"common": emit, **join}}], "op": "SET_OP_UNION_DISTINCT"}}
    detail = {"@type": "x/flowtide.IterationRelation", "iterationName": "paths"}
    return {"extensionMulti": {"inputs": [union], "detail": detail}}


PLAN = str(plan(closure(), "a", "b").json)


def chain(length: int) -> pa.Table:
    return pa.table({"a": pa.array(range(length)), "b": pa.array(range(1, length + 1))})


def circle(length: int) -> pa.Table:
    """Of which every pair is in the closure, after as many rounds."""
    return pa.table({"a": pa.array(range(length)), "b": pa.array([(at + 1) % length for at in range(length)])})


def answer(edges: object, **options: object) -> list[tuple[int, int]]:
    with tidegate.local() as client, client.create_task(PLAN, **options) as task:
        result = task.run_epoch({"edges": edges}).table()
    return list(zip(*(values.to_pylist() for values in result.columns), strict=True))


ROUND_BY_ROUND = {"loops": "general"}


@pytest.mark.parametrize("how", [{}, ROUND_BY_ROUND], ids=["one statement", "round by round"])
@pytest.mark.parametrize("options", [{}, on_channels(2), on_channels(3), {"determinism": "relaxed"}], ids=str)
def test_rows_come_in_canonical_order_however_they_are_computed(
    options: Mapping[str, object], how: Mapping[str, object]
) -> None:
    expected = [(one, other) for one in range(30) for other in range(one + 1, 31)]
    assert answer(chain(30), **options, **how) == expected


def test_a_loop_that_goes_round_by_round_starts_afresh_in_every_epoch() -> None:
    with tidegate.local() as client, client.create_task(PLAN, **ROUND_BY_ROUND) as task:
        for length in (5, 6, 0, 4):
            assert task.run_epoch({"edges": chain(length)}).table().num_rows == length * (length + 1) // 2


def test_files_are_read_once_and_not_in_every_round(tmp_path: Path) -> None:
    pq.write_table(chain(40), tmp_path / "edges.parquet")
    with tidegate.local() as client, client.create_task(PLAN) as task:
        epoch = task.run_epoch({"edges": str(tmp_path / "edges.parquet")})
        assert epoch.table().num_rows == 40 * 41 // 2


def test_a_small_loop_is_planned_once_for_many_epochs() -> None:
    with tidegate.local() as client, client.create_task(PLAN) as task:
        for length in (5, 6, 7):
            assert task.run_epoch({"edges": chain(length)}).table().num_rows == length * (length + 1) // 2
        assert task.info().statistics.plans == 1


def reachable() -> dict[str, object]:
    """What edges lead to from the nodes of `a` in `roots`."""
    back = {"@type": "x/flowtide.IterationReferenceReadRelation", "iterationName": "found"}
    met = scalar("equal:any_any", column(0), column(1), type_=BOOL)
    join = {"left": {"extensionLeaf": {"detail": back}}, "right": EDGES, "expression": met, "type": "JOIN_TYPE_INNER"}
    step = {"join": {"common": {"emit": {"outputMapping": [2]}}, **join}}
    union = {"set": {"inputs": [read("roots", "a"), step], "op": "SET_OP_UNION_DISTINCT"}}
    detail = {"@type": "x/flowtide.IterationRelation", "iterationName": "found"}
    return {"extensionMulti": {"inputs": [union], "detail": detail}}


def test_a_loop_of_one_column_copies_what_it_reads_and_is_planned_once_over_many_rows_too() -> None:
    loop_plan = str(plan(reachable(), "a").json)
    with tidegate.local() as client, client.create_task(loop_plan) as task:
        for length in (2_000, 3_000):
            result = task.run_epoch({"edges": circle(length), "roots": pa.table({"a": [7]})}).table()
            assert result.column(0).to_pylist() == list(range(length))
        assert task.info().statistics.plans == 1


CHEAPEST = QUERIES["cheapest path"].plan()
"""A least value goes round, and a sum is computed in every round."""
LINE = pa.table({"a": range(20), "b": range(1, 21), "c": [1] * 20})
SEED = pa.table({"a": [0], "b": [0]})


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_a_statement_in_a_body_is_planned_once_for_all_rounds_and_epochs(mode: str) -> None:
    with tidegate.local() as client, client.create_task(CHEAPEST, mode=mode) as task:
        task.run_epoch({"edges": LINE, "seeds": SEED}).table()
        once = task.info().statistics.plans
        assert once > 0
        for _ in range(3):
            task.run_epoch({"edges": LINE, "seeds": SEED}).table()
        assert task.info().statistics.plans == once


@pytest.mark.parametrize("name", ["reachability", "non-linear closure", "a loop in a loop", "every path"])
def test_a_body_of_columns_joins_unions_and_distinct_rows_has_no_statement(name: str) -> None:
    with tidegate.local() as client, client.create_task(QUERIES[name].plan(), mode="continuous") as task:
        task.run_epoch({source: {"edges": LINE, "seeds": SEED, "more": SEED}[source] for source in task.sources})
        assert task.info().statistics.plans == 0


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_statistics_tell_what_a_loop_did_over_all_epochs(mode: str) -> None:
    with tidegate.local() as client, client.create_task(CHEAPEST, mode=mode) as task:
        task.run_epoch({"edges": LINE, "seeds": SEED}).table()
        (once,) = task.info().statistics.loops
        task.run_epoch({"edges": LINE, "seeds": SEED}).table()
        (twice,) = task.info().statistics.loops
    assert (once.name, once.rows, once.most_rows_a_round) == ("x", 21, 1)
    assert once.rounds >= 21
    assert once.prepares_sent > once.rounds
    assert once.quiesce_us > 0
    assert twice.place == once.place
    assert twice.rounds > once.rounds
    assert len(twice.last_rows) <= 16


def failure(edges: pa.Table, **options: object) -> TidegateError:
    with pytest.raises(TidegateError) as caught:
        answer(edges, **options)
    return caught.value


@pytest.mark.parametrize("how", [{}, ROUND_BY_ROUND], ids=["one statement", "round by round"])
def test_a_loop_of_more_rows_than_it_may_have_is_named(how: Mapping[str, object]) -> None:
    error = failure(circle(50), loop_rows=2_499, **how)
    assert "loop 'paths' has " in str(error)
    assert "2,499" in str(error) or "2499" in str(error)
    assert error.reason == "LOOP_ROWS"
    assert len(answer(circle(50), loop_rows=2_500)) == 2_500


def test_a_loop_that_needs_more_memory_than_there_is_is_named() -> None:
    error = failure(circle(3_000), memory_limit=32 << 20, spill_quota=0)
    assert "loop 'paths' is running" in str(error)
    assert error.reason == "MEMORY_LIMIT"


def test_a_loop_that_takes_too_long_is_named() -> None:
    error = failure(circle(20_000), loop_seconds=0.05)
    assert "loop 'paths' is not done after 0.05 seconds" in str(error)
    assert error.reason == "LOOP_SECONDS"


def test_a_loop_that_runs_can_be_cancelled() -> None:
    with tidegate.local() as client, client.create_task(PLAN) as task:
        task.add_split("edges", circle(20_000))
        task.request_barrier()
        threading.Timer(0.1, task.cancel).start()
        with pytest.raises(TaskCancelled):
            task.read_epoch()
