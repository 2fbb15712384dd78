"""Static tables and what they feed count against the limits of their task, for its life."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.adding import add_splits
from tidegate.executor.service.manager import TaskManager
from tidegate.proto.errors import Exhausted, TaskFailed
from tidegate.proto.values import FileSplit, InlineSplit

from ..on_channels import on_channels
from . import plans
from .test_dataflow import create, file, inline, run, service

__all__ = ["service"]

JOIN = plans.plan(plans.joined(plans.read("t", "k", "v"), plans.read("u", "k", "w"), 2), "k", "v", "k2", "w")
TABLE = inline(k=range(1_000), w=range(1_000))  # 16 kB
KIB = 1 << 10


def spilled(service: TaskManager, kind: str) -> list[Path]:
    return sorted(service.folder.rglob(f"*.{kind}.arrow"))


def on_disk(service: TaskManager, task: str) -> int:
    """The bytes of the task's spill quota that are used, as the service tells them."""
    return service.get_task(task).statistics.spilled_bytes


def test_a_small_inline_table_stays_in_memory_and_leaves_splits_less_of_it(service: TaskManager) -> None:
    task = create(service, JOIN, tables={"u": TABLE}, queue_bytes=40 * KIB, spill_quota=0)
    assert spilled(service, "table") == []
    add_splits(service, task, [("t", inline(k=[1], v=[2]), None)])
    with pytest.raises(Exhausted, match="for splits") as refused:
        add_splits(service, task, [("t", inline(k=range(2_000), v=range(2_000)), None)])
    assert refused.value.reason == "SPLIT_TOO_LARGE"


def test_a_larger_one_is_kept_in_a_file_that_counts_and_goes_with_its_task(service: TaskManager) -> None:
    task = create(service, JOIN, tables={"u": TABLE}, queue_bytes=16 * KIB, spill_quota=1 << 20)
    (path,) = spilled(service, "table")
    assert on_disk(service, task) == path.stat().st_size
    assert run(service, task, ("t", inline(k=[7, 1_000], v=[2, 3]))) == [(7, 2, 7, 7)]
    service.delete_task(task)
    assert not path.exists()


def test_one_that_neither_limit_has_room_for_is_refused_by_name(service: TaskManager) -> None:
    with pytest.raises(
        Exhausted, match=r"table 'u' has 1\d+ bytes inline: .*queue_bytes \(16384.*spill_quota \(9000\)"
    ) as no:
        create(service, JOIN, tables={"u": TABLE}, queue_bytes=16 * KIB, spill_quota=9_000)
    assert no.value.reason == "TABLE_TOO_LARGE"
    assert spilled(service, "table") == []


def test_tables_in_a_file_have_the_dictionaries_of_all_their_batches(service: TaskManager) -> None:
    batches = [
        pa.record_batch({"k": pa.array([i], pa.int64()), "w": pa.array([i]).dictionary_encode()}) for i in (1, 2)
    ]
    table = InlineSplit(schema=batches[0].schema, batches=tuple(batches))
    task = create(service, JOIN, tables={"u": table}, queue_bytes=100, spill_quota=1 << 20)
    assert len(spilled(service, "table")) == 1
    assert run(service, task, ("t", inline(k=[2], v=[5]))) == [(2, 5, 2, 2)]


DOUBLED = plans.plan(
    plans.joined(plans.read("t", "k", "v"), plans.doubled(plans.read("u", "k", "w"), 2), 2), "k", "v", "k2", "w"
)


def table_file(tmp_path: Path) -> FileSplit:
    return file(tmp_path / "u.parquet", k=range(10_000), w=range(10_000))


def test_what_static_sources_feed_counts_on_disk(service: TaskManager, tmp_path: Path) -> None:
    task = create(service, DOUBLED, tables={"u": table_file(tmp_path)}, output_bytes=10_000, spill_quota=1 << 20)
    assert run(service, task, ("t", inline(k=[8], v=[1]))) == [(8, 1, 8, 8)]
    assert on_disk(service, task) >= 160_000
    assert spilled(service, "kept") == []  # the file has no name any more: it goes with the task


def test_where_it_does_not_fit_the_epoch_fails_and_leaves_no_file(service: TaskManager, tmp_path: Path) -> None:
    task = create(service, DOUBLED, tables={"u": table_file(tmp_path)}, output_bytes=10_000, spill_quota=50_000)
    with pytest.raises(TaskFailed, match=r"do not fit in the task's spill_quota \(50000 bytes\)") as failed:
        run(service, task, ("t", inline(k=[8], v=[1])))
    assert failed.value.reason == "SPILL_QUOTA"
    assert spilled(service, "kept") == []
    assert on_disk(service, task) == 0


@pytest.mark.parametrize("channels", [1, 2])
def test_rows_that_a_table_feeds_are_kept_for_subqueries_that_read_the_row_around_them(
    service: TaskManager, channels: int
) -> None:
    around = {"selection": {"directReference": {"structField": {"field": 0}}, "outerReference": {"stepsOut": 1}}}
    of_the_row = plans.scalar("equal:any_any", plans.column(0), around, type_={"bool": {}})
    large = plans.filtered(plans.read("u", "k", "w"), 1, 4)
    matches = {"filter": {"input": large, "condition": of_the_row}}
    exists = {"subquery": {"setPredicate": {"predicateOp": "PREDICATE_OP_EXISTS", "tuples": matches}}}
    semi = plans.plan({"filter": {"input": plans.read("t", "k", "v"), "condition": exists}}, "k", "v")
    task = create(service, semi, tables={"u": inline(k=[1, 2, 3, 4], w=[9, 4, 5, 0])}, **on_channels(channels))
    fed = inline(k=[1, 2, 3, 4, 5], v=[10, 20, 30, 40, 50])
    for _ in range(2):
        assert sorted(run(service, task, ("t", fed))) == [(1, 10), (3, 30)]
    operators = service.get_task(task).statistics.operators
    assert [operator.runs for operator in operators if operator.place.endswith("tuples.filter.input.filter")] == [1]
