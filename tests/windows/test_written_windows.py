"""Continuous tasks that write tables: final windows, and the rows that are late for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tidegate
from tidegate import windows

from .clicks import COUNT, EPOCHS, clicks, fed, writing_client


@pytest.fixture
def client(tmp_path: Path) -> Iterator[tidegate.Client]:
    with writing_client(tmp_path) as opened:
        yield opened


def per_ten(**how: Any) -> Any:
    return windows.tumbling(clicks(), "t", 10, keys=["k"], measures=[COUNT], **how)


def late() -> Any:
    return windows.late_rows(clicks(), "t", size=10)


def written(rows: Any, **how: Any) -> Any:
    return rows.write_named_table(["out"], **how).to_plan()


def table(tmp_path: Path) -> Counter[tuple[Any, ...]]:
    return Counter(duckdb.sql(f"FROM read_parquet('{tmp_path}/tables/out/*.parquet')").fetchall())


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(
    "rows",
    [late(), per_ten(final=True), per_ten(final=True).union(per_ten(final=True))],
    ids=["late", "final", "union"],
)
def test_the_table_has_the_rows_that_the_task_gives_without_the_write(
    client: tidegate.Client, tmp_path: Path, rows: Any, channels: int
) -> None:
    expected: Counter[tuple[Any, ...]] = Counter()
    with (
        client.create_task(rows.to_plan(), mode="continuous", channels=channels) as plain,
        client.create_task(written(rows), mode="continuous", channels=channels) as writing,
    ):
        for epoch in EPOCHS:
            for *row, weight in zip(*plain.run_epoch(fed(epoch)).table().to_pydict().values(), strict=True):
                expected[tuple(row)] += weight
            writing.run_epoch(fed(epoch)).table()
            assert not expected or table(tmp_path) == expected
    assert sum(expected.values()) >= 3


@pytest.mark.parametrize("output", ["OUTPUT_MODE_MODIFIED_RECORDS", "OUTPUT_MODE_NO_OUTPUT"])
def test_written_rows_are_counted_and_returned_if_the_plan_says_so(client: tidegate.Client, output: str) -> None:
    plan = written(late())
    plan.relations[-1].root.input.write.output = type(plan.relations[-1].root.input.write).OutputMode.Value(output)
    with client.create_task(plan, mode="continuous") as task:
        for epoch in EPOCHS[:3]:
            answer = task.run_epoch(fed(epoch))
            rows = answer.table().to_pylist()
    assert (answer.statistics.rows_written, answer.statistics.files_written) == (2, 1)
    returned = [{"t": 4, "k": "c", "_weight": 1}] * 2
    assert rows == (returned if output.endswith("RECORDS") else [])


def test_rows_that_may_be_taken_back_are_not_written(client: tidegate.Client) -> None:
    for rows in (per_ten(), clicks().group_by("k").agg(COUNT), clicks().sort("t").limit(1)):
        [problem] = client.validate(written(rows), mode="continuous")
        assert problem.reason == "WRITE_IN_CONTINUOUS"
        assert "may take rows back" in problem.message


def test_a_deletion_of_a_written_row_fails_the_epoch_and_leaves_no_file(
    client: tidegate.Client, tmp_path: Path
) -> None:
    gone = tidegate.Changes(fed([(3, "a")])["clicks"].append_column("_weight", pa.array([-1], pa.int64())))
    with client.create_task(written(clicks()), mode="continuous") as task:
        task.run_epoch(fed([(3, "a")])).table()
        with pytest.raises(tidegate.TaskFailed, match="the table that the plan writes keeps its rows"):
            task.run_epoch({"clicks": gone}).table()
    assert table(tmp_path) == Counter([(3, "a")])
    assert len(list((tmp_path / "tables" / "out").iterdir())) == 1


def test_a_skipped_epoch_writes_nothing(client: tidegate.Client, tmp_path: Path) -> None:
    wrong = tidegate.Changes(
        fed([(7, "a"), (3, "a")])["clicks"].append_column("_weight", pa.array([1, -1], pa.int64()))
    )
    with client.create_task(written(clicks()), mode="continuous", on_error="skip_epoch") as task:
        task.run_epoch(fed([(3, "a")])).table()
        with pytest.raises(tidegate.EpochError, match="keeps its rows"):
            task.run_epoch({"clicks": wrong}).table()
        task.run_epoch(fed([(3, "a")])).table()
    assert table(tmp_path) == Counter({(3, "a"): 2})


def test_each_copy_of_a_row_is_a_row_of_the_table(client: tidegate.Client, tmp_path: Path) -> None:
    copies = fed([(3, "a"), (4, "b")])["clicks"].append_column("_weight", pa.array([70_000, 2], pa.int64()))
    with client.create_task(written(clicks()), mode="continuous") as task:
        task.run_epoch({"clicks": tidegate.Changes(copies)}).table()
    assert table(tmp_path) == Counter({(3, "a"): 70_000, (4, "b"): 2})


def test_a_restored_task_writes_the_epochs_behind_its_checkpoint(client: tidegate.Client, tmp_path: Path) -> None:
    plan = written(late(), op="insert")
    with client.create_task(plan, mode="continuous") as task:
        for epoch in EPOCHS[:2]:
            answer = task.run_epoch(fed(epoch), checkpoint=True)
            answer.table()
    with client.create_task(plan, mode="continuous", restore=answer.checkpoint) as task:
        task.run_epoch(fed(EPOCHS[2])).table()
    assert table(tmp_path) == Counter({(3, "a"): 1, (4, "c"): 2})


def test_a_task_that_leaves_a_table_as_it_is_computes_its_changes(client: tidegate.Client, tmp_path: Path) -> None:
    with client.create_task(written(per_ten(final=True)), mode="continuous") as task:
        for epoch in EPOCHS:
            task.run_epoch(fed(epoch)).table()
    before = table(tmp_path)
    with client.create_task(written(per_ten(final=True), mode="ignore"), mode="continuous") as task:
        watermarks = []
        for epoch in EPOCHS:
            answer = task.run_epoch(fed(epoch))
            answer.table()
            watermarks.append(answer.watermark)
    assert watermarks == [2, 15, 16, 50]
    assert table(tmp_path) == before


def test_explain_says_the_table(client: tidegate.Client) -> None:
    assert "writes table out at the barrier" in client.explain(written(late()), mode="continuous").text
