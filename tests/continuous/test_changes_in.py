"""Changes in splits: what a split may say of its rows, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate

from ..executor.plans import passed_through, plan, read
from .histories import rows_of

PLAN = passed_through("a").json


def data(xs: list[int | None], changes: Any, type_: pa.DataType | None = None) -> pa.Table:
    return pa.table({"x": pa.array(xs, pa.int64()), "change": pa.array(changes, type_)})


def change_of(client: tidegate.Client, *splits: Any) -> list[tuple[Any, ...]]:
    """What an epoch of these splits changes, after one that has inserted 1, 1, 2 and 3."""
    with client.create_task(PLAN, mode="continuous") as task:
        task.run_epoch({"a": pa.table({"x": [1, 1, 2, 3]})})
        return rows_of(task.run_epoch({"a": list(splits)}).table())


@pytest.mark.parametrize("type_", [pa.int64(), pa.int8(), pa.uint32(), pa.uint64()])
def test_whole_numbers_of_any_width_are_weights(client: tidegate.Client, type_: pa.DataType) -> None:
    assert change_of(client, tidegate.Changes(data([7, 8, 9], [1, 2, 0], type_), "change")) == [(7, 1), (8, 2)]


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_the_words_of_table_formats_are_weights(client: tidegate.Client, type_: pa.DataType) -> None:
    words = pa.array(["delete", "update_preimage", "update_postimage", "insert"]).cast(type_)
    split = tidegate.Changes(data([1, 2, 5, 6], words), "change")
    assert change_of(client, split) == [(1, -1), (2, -1), (5, 1), (6, 1)]


def test_a_split_without_a_change_column_inserts_beside_one_that_has_it(client: tidegate.Client) -> None:
    splits = (pa.table({"x": [4]}), tidegate.Changes(data([1], [-2]), "change"))
    assert change_of(client, *splits) == [(1, -2), (4, 1)]


def test_the_change_column_is_called_weight_unless_it_is_named(client: tidegate.Client) -> None:
    assert change_of(client, tidegate.Changes(pa.table({"_weight": [-1], "x": [3]}))) == [(3, -1)]


def test_a_split_may_be_added_by_itself_with_its_change_column(client: tidegate.Client) -> None:
    with client.create_task(PLAN, mode="continuous") as task:
        task.add_split("a", data([1, 2], ["insert", "insert"]), change_column="change")
        task.request_barrier()
        assert rows_of(task.read_epoch()) == [(1, 1), (2, 1)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("changes.csv", "x,change\n1,-1\n9,+2\n"),
        ("changes.csv", "x,change\n1,delete\n9,insert\n9,update_postimage\n"),
        ("changes.json", '{"x": 1, "change": -1}\n{"x": 9, "change": 2}\n'),
        ("changes.jsonl", '{"change": "delete", "x": 1}\n{"x": 9, "change": "insert"}\n{"x": 9, "change": "insert"}\n'),
    ],
)
def test_text_files_say_numbers_or_words(client: tidegate.Client, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert change_of(client, tidegate.FileSplit(str(tmp_path / name), change_column="change")) == [(1, -1), (9, 2)]


def test_a_file_that_travels_says_its_changes_too(client: tidegate.Client, tmp_path: Path) -> None:
    pq.write_table(data([1, 9], [-1, 1]), tmp_path / "mine.parquet")
    split = tidegate.Changes(tidegate.upload(tmp_path / "mine.parquet"), "change")
    assert change_of(client, split) == [(1, -1), (9, 1)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["insert", "upsert"], "change column 'change', row 1 .*'upsert', not insert, delete"),
        (["insert", "1"], "row 1 .*'1', not insert"),
        ([1, None], "row 1 .*is null"),
        (pa.array([1, 2**63], pa.uint64()), "row 1 .*is 9223372036854775808, which is beyond 64 bits"),
    ],
)
def test_a_value_that_says_nothing_fails_with_its_split_row_and_value(
    client: tidegate.Client, changes: Any, message: str
) -> None:
    with pytest.raises(tidegate.TaskFailed, match=f"split 2 of source 'a'.*{message}") as raised:
        change_of(client, tidegate.Changes(data([1, 2], changes), "change"))
    assert raised.value.reason == "CHANGE_VALUE"


def test_rows_of_a_file_are_counted_over_its_row_groups(client: tidegate.Client, tmp_path: Path) -> None:
    changes = data([*range(10)], [1] * 9 + [None])
    pq.write_table(changes, tmp_path / "changes.parquet", row_group_size=3)
    with pytest.raises(tidegate.TaskFailed, match=r"changes.parquet .*row 9 \(counted from 0\): the value is null"):
        change_of(client, tidegate.FileSplit(str(tmp_path / "changes.parquet"), change_column="change"))


@pytest.mark.parametrize(
    ("column", "reason"), [("other", "MISSING_COLUMN"), ("real", "COLUMN_TYPE"), ("x", "CHANGE_COLUMN_IN_PLAN")]
)
def test_a_change_column_that_cannot_be_is_refused_at_once(client: tidegate.Client, column: str, reason: str) -> None:
    split = pa.table({"x": [1], "real": [1.0]})
    with (
        client.create_task(PLAN, mode="continuous") as task,
        pytest.raises((tidegate.SplitError, tidegate.InvalidRequest)) as raised,
    ):
        task.add_split("a", split, change_column=column)
    assert raised.value.reason == reason


def test_a_split_of_a_per_epoch_task_and_a_table_have_no_changes(client: tidegate.Client) -> None:
    changes = tidegate.Changes(data([1], [1]), "change")
    with (
        client.create_task(PLAN) as task,
        pytest.raises(tidegate.InvalidRequest, match="split 1 of source 'a' names a change column") as raised,
    ):
        task.add_split("a", changes)
    assert raised.value.reason == "UNEXPECTED_CHANGES"
    with pytest.raises(tidegate.InvalidRequest, match="table 'a' names a change column"):
        client.create_task(PLAN, mode="continuous", tables={"a": changes})


def test_the_same_split_with_another_change_column_is_another_split(client: tidegate.Client) -> None:
    split = pa.table({"x": [1], "one": [1], "two": [1]})
    with client.create_task(PLAN, mode="continuous") as task:
        task.add_split("a", split, change_column="one", sequence=1)
        assert task.add_split("a", split, change_column="one", sequence=1).duplicate
        with pytest.raises(tidegate.Refused, match="other content"):
            task.add_split("a", split, change_column="two", sequence=1)


def test_a_deletion_may_come_before_its_insertion(client: tidegate.Client) -> None:
    splits = [tidegate.Changes(data([8], [weight]), "change") for weight in (-1, 1)]
    assert change_of(client, *splits) == []


def test_a_row_that_is_not_there_cannot_be_deleted(client: tidegate.Client) -> None:
    with pytest.raises(tidegate.TaskFailed, match=r"source 'a': the row \{'x': 4\} has been deleted more") as raised:
        change_of(client, tidegate.Changes(data([4], [-1]), "change"))
    assert raised.value.reason == "NEGATIVE_TOTAL"


def test_a_column_called_weight_is_refused_where_the_plan_uses_or_gives_it(client: tidegate.Client) -> None:
    for document in (plan(read("a", "_weight"), "x"), plan(read("a", "x"), "_weight")):
        (problem,) = client.validate(document.json, mode="continuous")
        assert problem.reason == "RESERVED_COLUMN"
        assert list(client.validate(document.json)) == []
