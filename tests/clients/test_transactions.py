"""Transactions as their user sees them, in this process and over gRPC."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tidegate
from tidegate.client import Client
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.proto.values import FileSplit
from tidegate.transport import inline_files

from ..executor.plans import passed_through
from .conftest import PLAN, Start

OpenClient = Callable[..., Client]


def numbers(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def values(table: pa.Table) -> list[int]:
    return [value for column in table.columns for value in column.to_pylist()]


def test_a_transaction_happens_once(start: Start) -> None:
    task = start()
    first = task.transact("app", 1, {"a": [numbers(1), numbers(2)]}, seal=True)
    again = task.transact("app", 1, {"a": [numbers(1), numbers(2)]}, seal=True)
    assert (first.epoch, first.replayed, first.same) == (1, False, True)
    assert (again.epoch, again.replayed, again.same) == (1, True, True)
    assert (
        [added_split.sequence for added_split in again.added]
        == [added_split.sequence for added_split in first.added]
        == [1, 2]
    )
    assert values(task.read_epoch()) == [1, 2]
    assert task.last_transaction("app") == tidegate.Committed(version=1, epoch=1)
    assert task.last_transaction("nobody") is None


def test_a_transaction_with_other_content_or_an_older_version_is_told(start: Start) -> None:
    task = start()
    task.transact("app", 1, {"a": numbers(1)}, seal=False)
    assert task.transact("app", 1, {"a": numbers(2)}, seal=False) == tidegate.Transacted(
        epoch=1, replayed=True, same=False
    )
    assert task.transact("app", 0, {"a": numbers(2)}, seal=False) == tidegate.Transacted(
        epoch=None, replayed=True, same=None
    )


def test_two_applications_feed_an_epoch_that_one_of_them_seals(start: Start) -> None:
    task = start(sources=("a", "b"))
    task.transact("clicks", 7, {"a": numbers(1)}, seal=False)
    assert task.transact("orders", 0, {"b": numbers(2)}, seal=True).epoch == 1
    assert task.transact("clicks", 7, {"a": numbers(1)}, seal=False).epoch == 1
    assert sorted(values(task.read_epoch())) == [1, 2]


def test_a_gap_is_refused_over_any_way(start: Start) -> None:
    task = start()
    task.transact("app", 1, {}, seal=True)
    with pytest.raises(tidegate.Refused, match="the last version in this task is 1") as refused:
        task.transact("app", 3, {}, seal=True, follows=2)
    assert refused.value.reason == "TRANSACTION_GAP"
    assert task.transact("app", 2, {}, seal=True, follows=1).epoch == 2


def test_the_task_goes_on_with_splits_of_its_own_after_a_transaction(start: Start) -> None:
    task = start()
    task.transact("app", 1, {"a": numbers(1)}, seal=True)
    assert values(task.read_epoch()) == [1]
    assert values(task.run_epoch({"a": numbers(2)}).table()) == [2]


def test_a_checkpoint_without_a_seal_is_refused(start: Start) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="seal=True"):
        start().transact("app", 1, {}, seal=False, checkpoint=True)


def test_rows_too_many_for_a_message_happen_once_too(
    open_client: OpenClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline_files, "INLINE_BYTES", 100)
    task = open_client(PlanEngine([], tmp_path)).create_task(PLAN)
    parts = [numbers(*range(10)), numbers(*range(10, 20)), numbers(*range(20, 30))]
    task.transact("app", 1, {"a": parts}, seal=True)
    assert task.transact("app", 1, {"a": parts}, seal=True).epoch == 1
    assert values(task.read_epoch()) == list(range(30))


def test_an_upload_of_a_group_goes_once_its_epoch_is_acknowledged(open_client: OpenClient, tmp_path: Path) -> None:
    client = open_client(PlanEngine([], tmp_path))
    task = client.create_task(PLAN)
    file = tmp_path / "rows.arrow"
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, numbers(1).schema) as writer:
        writer.write_table(numbers(1, 2))
    path = client.service.upload(task.id, "rows.arrow", [file.read_bytes()], group="g")
    task.transact("app", 1, {"a": FileSplit(path)}, seal=True)
    client.service.drop_uploads(task.id, "g")
    assert values(task.read_epoch()) == [1, 2]
    assert Path(path).exists()
    task.acknowledge()
    assert not Path(path).exists()


def test_a_restored_task_knows_the_transactions_by_its_checkpoint(open_client: OpenClient, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    root.mkdir()
    plan = passed_through("a", "b").json
    client = open_client(PlanEngine([], tmp_path), checkpoint_root=root)
    with client.create_task(plan) as task:
        task.transact("clicks", 4, {"b": numbers(1)}, seal=False)
        task.transact("orders", 1, {"a": numbers(2)}, seal=True, checkpoint="last")
        task.transact("clicks", 5, {"b": numbers(3)}, seal=False)
        task.read_epoch()
    restored = client.create_task(plan, restore=f"{task.id}/last")
    assert restored.transact("orders", 1, {"a": numbers(2)}, seal=True).replayed
    assert restored.transact("clicks", 4, {"b": numbers(1)}, seal=False).same
    assert not restored.transact("clicks", 5, {"b": numbers(3)}, seal=False, follows=4).replayed
    assert restored.transact("orders", 2, {}, seal=True, follows=1).epoch == 2
    assert values(restored.read_epoch()) == [3]


def test_a_checkpoint_is_refused_where_there_is_no_place_for_it(start: Start) -> None:
    task = start()
    with pytest.raises(tidegate.Refused) as refused:
        task.transact("app", 1, {}, seal=True, checkpoint=True)
    assert refused.value.reason == "NO_CHECKPOINT_ROOT"
    assert task.last_transaction("app") is None
