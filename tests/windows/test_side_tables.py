"""Plans that give final windows, and write the rows that are late for them into a table beside the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import substrait.dataframe as sub
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidegate
from tidegate import windows
from tidegate.operators.write import Write
from tidegate.proto.errors import ExecutionError

from ..searching import tries
from .clicks import COUNT, EPOCHS, clicks, fed, writing_client
from .naive import Row
from .running import TIMES, rows_of
from .test_final_windows import KINDS, Kind, Naive, changes, cut, run

ROWS = st.lists(st.tuples(st.integers(-30, 60), st.sampled_from(["a", "b", None]), st.integers(0, 3)), max_size=40)
_numbers = count()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[tidegate.Client]:
    with writing_client(tmp_path) as opened:
        yield opened


def late(name: str = "late", **how: Any) -> Any:
    return windows.late_rows(clicks(), "t", size=10).write_named_table([name], **how)


def final() -> Any:
    return windows.tumbling(clicks(), "t", 10, keys=["k"], measures=[COUNT], final=True)


def table(tmp_path: Path, name: str = "late") -> Counter[Row]:
    if not list((tmp_path / "tables" / name).glob("*.parquet")):
        return Counter()
    return Counter(duckdb.sql(f"FROM read_parquet('{tmp_path}/tables/{name}/*.parquet')").fetchall())


def given_by(plan: Any, client: tidegate.Client, **options: Any) -> list[list[dict[str, Any]]]:
    with client.create_task(plan, mode="continuous", **options) as task:
        return [task.run_epoch(fed(epoch)).table().to_pylist() for epoch in EPOCHS]


@settings(max_examples=tries(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(kind=KINDS, rows=ROWS, cuts=st.lists(st.integers(0, 100), max_size=4), channels=st.sampled_from([1, 2]))
def test_each_row_is_in_its_final_windows_or_in_the_table_of_late_rows(
    client: tidegate.Client, tmp_path: Path, kind: Kind, rows: list[Row], cuts: list[int], channels: int
) -> None:
    column, naive, stream = TIMES["i64"], Naive(kind), [(row, 1) for row in rows]
    name = f"late{next(_numbers)}"
    side = kind.late_rows(column).write_named_table([name])
    plan = windows.with_tables(kind.windows(column, ["k"], ["sum", "texts"]), side).to_plan()
    with client.create_task(plan, mode="continuous", channels=channels) as task:
        answers = run(task, [changes(column, epoch) for epoch in cut(stream, cuts)], last=True)
    for row, weight in stream:
        naive.add(row, weight)
    answered = Counter(row for answer in answers for row in rows_of(column, answer))
    expected = kind.answers(list(naive.on_time.elements()), ["k"], ["sum", "texts"])
    assert answered == Counter((*row, 1) for row in expected)
    assert table(tmp_path, name) == naive.late


@pytest.mark.parametrize("channels", [1, 2])
def test_the_result_is_that_of_the_plan_without_the_table(
    client: tidegate.Client, tmp_path: Path, channels: int
) -> None:
    plan = windows.with_tables(final(), late()).to_plan()
    assert given_by(plan, client, channels=channels) == given_by(final().to_plan(), client)
    assert table(tmp_path) == Counter({(3, "a"): 1, (4, "c"): 2})


def test_relations_may_stand_above_the_result_and_share_parts_with_the_table(
    client: tidegate.Client, tmp_path: Path
) -> None:
    source = clicks().cache()
    rows = windows.tumbling(source, "t", 10, keys=["k"], measures=[COUNT], final=True)
    side = windows.late_rows(source, "t", size=10).write_named_table(["late"])
    above = windows.with_tables(rows, side).filter(sub.col("k") == sub.lit("a")).select("rows")
    answers = given_by(above.to_plan(), client)
    assert [row for answer in answers for row in answer] == [{"rows": 1, "_weight": 1}, {"rows": 2, "_weight": 1}]
    assert sum(table(tmp_path).values()) == 3


def test_the_result_may_be_written_too_and_files_and_rows_are_counted_together(
    client: tidegate.Client, tmp_path: Path
) -> None:
    plan = windows.with_tables(final().write_named_table(["windows"]), late(), late("again")).to_plan()
    with client.create_task(plan, mode="continuous") as task:
        for epoch in EPOCHS[:3]:
            answer = task.run_epoch(fed(epoch))
            assert answer.table().num_rows == 0
    assert (answer.statistics.rows_written, answer.statistics.files_written) == (4, 2)
    assert table(tmp_path, "windows") == Counter([(0, 10, "a", 1), (10, 20, "b", 2)])
    assert table(tmp_path) == table(tmp_path, "again") == Counter({(3, "a"): 1, (4, "c"): 2})


def test_a_restored_task_writes_the_late_rows_behind_its_checkpoint(client: tidegate.Client, tmp_path: Path) -> None:
    plan = windows.with_tables(final(), late(op="insert")).to_plan()
    with client.create_task(plan, mode="continuous") as task:
        for epoch in EPOCHS[:2]:
            answer = task.run_epoch(fed(epoch), checkpoint=True)
            answer.table()
    with client.create_task(plan, mode="continuous", restore=answer.checkpoint) as task:
        rows = task.run_epoch(fed(EPOCHS[2])).table().num_rows + task.run_epoch(fed(EPOCHS[3])).table().num_rows
    assert rows == len([row for epoch in given_by(final().to_plan(), client)[2:] for row in epoch])
    assert table(tmp_path) == Counter({(3, "a"): 1, (4, "c"): 2})


def test_a_skipped_epoch_writes_no_late_row(client: tidegate.Client, tmp_path: Path) -> None:
    plan = windows.with_tables(final(), late()).to_plan()
    weights = pa.array([1, -1], pa.int64())
    wrong = tidegate.Changes(fed([(3, "a"), (70, "x")])["clicks"].append_column("_weight", weights))
    with client.create_task(plan, mode="continuous", on_error="skip_epoch") as task:
        task.run_epoch(fed(EPOCHS[0])).table()
        with pytest.raises(tidegate.EpochError):
            task.run_epoch({"clicks": wrong}).table()
        assert not table(tmp_path)
        task.run_epoch(fed(EPOCHS[1])).table()
    assert table(tmp_path) == Counter([(3, "a")])


def test_tables_that_were_written_are_withdrawn_if_another_one_cannot_be_written(
    client: tidegate.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Write.commit

    def failing(write: Write) -> Any:
        if write.plan_path.startswith("relations[1]"):
            assert table(tmp_path)
            raise ExecutionError("the disk has failed", reason="WRITE_FAILED")
        return commit(write)

    plan = windows.with_tables(final(), late(), late("other")).to_plan()
    with client.create_task(plan, mode="continuous", on_error="skip_epoch") as task:
        task.run_epoch(fed(EPOCHS[0])).table()
        with monkeypatch.context() as patched:
            patched.setattr(Write, "commit", failing)
            with pytest.raises(tidegate.EpochError, match="the disk has failed"):
                task.run_epoch(fed(EPOCHS[1])).table()
        assert not table(tmp_path)
        assert not table(tmp_path, "other")
        task.run_epoch(fed(EPOCHS[1])).table()
    assert table(tmp_path) == table(tmp_path, "other") == Counter([(3, "a")])


def test_rows_that_may_be_taken_back_are_written_into_no_table_beside_the_result(client: tidegate.Client) -> None:
    groups = clicks().group_by("k").agg(COUNT)
    [problem] = client.validate(
        windows.with_tables(groups, groups.write_named_table(["t"])).to_plan(), mode="continuous"
    )
    assert (problem.reason, problem.place) == ("WRITE_IN_CONTINUOUS", "relations[0].rel.write")
    assert client.validate(windows.with_tables(groups, late()).to_plan(), mode="continuous") == ()


def test_a_task_per_epoch_refuses_tables_beside_its_result(client: tidegate.Client) -> None:
    [problem] = client.validate(windows.with_tables(final(), late()).to_plan())
    assert (problem.reason, problem.place) == ("SIDE_TABLE_PER_EPOCH", "relations[0].rel.write")


def test_a_service_without_a_folder_for_tables_refuses_the_plan() -> None:
    plan = windows.with_tables(final(), late()).to_plan()
    with tidegate.local() as client:
        assert any("writes no tables" in warning for warning in client.warnings(plan, mode="continuous"))
        with pytest.raises(tidegate.PlanError, match="table 'late' cannot be written"):
            client.create_task(plan, mode="continuous")


def test_explain_says_the_table_and_that_the_state_of_the_source_ends(client: tidegate.Client) -> None:
    explained = client.explain(windows.with_tables(final(), late()).to_plan(), mode="continuous")
    assert "writes side table late at the barrier (error)  [relations[0].rel.write]" in explained.text
    assert "late rows, size 10" in explained.text
    assert not client.warnings(windows.with_tables(final(), late()).to_plan(), mode="continuous")
