"""Real plans over real splits: pipelines are made once per shape, tables once per task, epochs run on both."""

from __future__ import annotations

import contextlib
import datetime as dt
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.adding import add_splits
from tidegate.executor.pipelines.epoch_clock import context_row
from tidegate.executor.service.embedded import open_service
from tidegate.executor.service.manager import TaskManager
from tidegate.planner.ir import Clock
from tidegate.planner.physical.size_classes import size_class
from tidegate.proto.errors import Forbidden, NotFound, Refused, SplitError, TaskCancelled, TaskFailed
from tidegate.proto.values import (
    START,
    Barrier,
    Cursor,
    Data,
    FileSplit,
    InlineSplit,
    PlanBytes,
    Split,
    TaskInfo,
    TaskOptions,
)

from ..on_channels import on_channels
from . import plans


@pytest.fixture
def service(tmp_path: Path) -> Iterator[TaskManager]:
    opened = open_service(roots=[tmp_path], spill_directory=tmp_path / "spill")
    with contextlib.closing(opened):
        yield opened


def inline(**columns: Sequence[int]) -> InlineSplit:
    batch = pa.record_batch({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    return InlineSplit(schema=batch.schema, batches=(batch,))


def file(path: Path, **columns: Sequence[int]) -> FileSplit:
    pq.write_table(pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}), path)
    return FileSplit(path=str(path))


def create(service: TaskManager, plan: PlanBytes, *, tables: dict[str, Split] | None = None, **options: object) -> str:
    split_lists = {name: [split] for name, split in (tables or {}).items()}
    return service.create_task(plan, TaskOptions(**options), split_lists).id


def answer(service: TaskManager, task: str, epoch: int) -> list[tuple[int, ...]]:
    rows: list[tuple[int, ...]] = []
    while True:
        for frame in service.next(task, Cursor(epoch, len(rows)), wait=60.0):
            match frame:
                case Data():
                    for batch in frame.batches:
                        rows += zip(*(values.to_pylist() for values in batch.columns), strict=True)
                case Barrier():
                    return rows
                case _:
                    raise AssertionError(frame)


def run(service: TaskManager, task: str, *splits: tuple[str, Split]) -> list[tuple[int, ...]]:
    numbered_splits = [(source, split, None) for source, split in splits]
    _, epoch = add_splits(service, task, numbered_splits, barrier=True)
    return answer(service, task, epoch or 0)


SUM = plans.plan(plans.summed(plans.filtered(plans.read("t", "k", "v"), 1, 0)), "k", "s")
ROWS = plans.plan(plans.doubled(plans.filtered(plans.read("t", "k", "v"), 1, 0), 2), "k", "v")
KEPT = plans.plan(
    plans.summed(plans.joined(plans.read("t", "k", "v"), plans.filtered(plans.read("n", "k", "w"), 1, 0), 2)), "k", "s"
)
SLOW = plans.plan(
    plans.summed(plans.crossed(plans.crossed(plans.read("t", "k"), plans.read("u", "v")), plans.read("w", "x"))),
    "k",
    "s",
)


def runs(info: TaskInfo) -> dict[str, int]:
    return {operator.place: operator.runs for operator in info.statistics.operators if operator.operator == "Fragment"}


def test_each_epoch_is_the_plan_over_its_own_splits(service: TaskManager) -> None:
    task = create(service, SUM)
    assert sorted(run(service, task, ("t", inline(k=[1, 1, 2], v=[5, -1, 7])))) == [(1, 5), (2, 7)]
    assert sorted(run(service, task, ("t", inline(k=[1, 3], v=[1, 1])), ("t", inline(k=[1], v=[2])))) == [
        (1, 3),
        (3, 1),
    ]
    assert run(service, task) == []


def test_epochs_of_one_shape_are_planned_once(service: TaskManager) -> None:
    task = create(service, SUM)
    for value in range(5):
        run(service, task, ("t", inline(k=[1, 2], v=[value + 1, 1])))
    assert service.get_task(task).statistics.plans == 1


def test_files_and_inline_splits_may_share_an_epoch(service: TaskManager, tmp_path: Path) -> None:
    task = create(service, SUM)
    one, two = file(tmp_path / "1.parquet", k=[1, 2], v=[10, 20]), file(tmp_path / "2.parquet", k=[1], v=[5])
    assert sorted(run(service, task, ("t", one), ("t", two))) == [(1, 15), (2, 20)]
    assert sorted(run(service, task, ("t", one), ("t", inline(k=[2], v=[2])))) == [(1, 10), (2, 22)]


def test_row_wise_plans_deliver_before_the_seal(service: TaskManager, tmp_path: Path) -> None:
    task = create(service, ROWS)
    splits = [inline(k=[1], v=[1]), file(tmp_path / "1.parquet", k=[2, 2], v=[2, -2]), inline(k=[3], v=[3])]
    for row, split in enumerate(splits):
        add_splits(service, task, [("t", split, None)])
        assert service.next(task, Cursor(1, row), wait=60.0)[0].rows == 1
    service.request_barrier(task)
    assert answer(service, task, 1) == [(2, 2), (4, 4), (6, 6)]


def test_a_union_s_first_source_comes_early_and_the_second_at_the_seal(service: TaskManager) -> None:
    union = plans.union(plans.doubled(plans.read("a", "x"), 1), plans.filtered(plans.read("b", "x"), 0, 0))
    task = create(service, plans.plan(union, "x"))
    add_splits(service, task, [("b", inline(x=[7]), None), ("a", inline(x=[1]), None)])
    assert service.next(task, START, wait=60.0)[0].rows == 1
    add_splits(service, task, [("a", inline(x=[2]), None)], barrier=True)
    assert answer(service, task, 1) == [(2,), (4,), (7,)]


def test_static_rows_that_come_first_do_not_hold_up_the_pieces_after_them(service: TaskManager) -> None:
    union = plans.union(plans.doubled(plans.read("n", "x"), 1), plans.filtered(plans.read("a", "x"), 0, 0))
    task = create(service, plans.plan(union, "x"), tables={"n": inline(x=[5])})
    add_splits(service, task, [("a", inline(x=[1]), None)])
    assert service.next(task, Cursor(1, 1), wait=60.0)[0].rows == 1
    assert run(service, task, ("a", inline(x=[2]))) == [(10,), (1,), (2,)]
    assert run(service, task) == [(10,)]


def test_a_source_read_twice_is_read_again_at_the_seal(service: TaskManager) -> None:
    union = plans.union(plans.doubled(plans.read("a", "x"), 1), plans.filtered(plans.read("a", "x"), 0, 1))
    task = create(service, plans.plan(union, "x"))
    assert run(service, task, ("a", inline(x=[1, 2])), ("a", inline(x=[3]))) == [(2,), (4,), (6,), (2,), (3,)]


def test_what_static_tables_alone_feed_is_computed_once_per_task(service: TaskManager) -> None:
    task = create(service, KEPT, tables={"n": inline(k=[1, 2, 3], w=[1, 1, -1])})
    for value in (1, 2, 3):
        assert sorted(run(service, task, ("t", inline(k=[1, 3], v=[value, 9])))) == [(1, value)]
    assert sorted(runs(service.get_task(task)).values()) == [1, 3]


def test_what_is_kept_is_computed_once_and_read_by_every_channel(service: TaskManager) -> None:
    task = create(service, KEPT, tables={"n": inline(k=[1, 2, 3], w=[1, 1, -1])}, **on_channels(3))
    for value in (1, 2, 3):
        result = run(service, task, ("t", inline(k=[1, 2, 3] * 100, v=[value, 1, 9] * 100)))
        assert sorted(result) == [(1, 100 * value), (2, 100)]
    assert min(runs(service.get_task(task)).values()) == 1


def test_kept_rows_beyond_the_memory_for_output_are_kept_on_disk(service: TaskManager) -> None:
    keys = list(range(10_000))
    task = create(service, KEPT, tables={"n": inline(k=keys, w=[1] * 10_000)}, output_bytes=1_000)
    for value in (1, 2):
        assert run(service, task, ("t", inline(k=[77], v=[value]))) == [(77, value)]
    assert service.get_task(task).statistics.spilled_bytes > 10_000


def test_a_table_bound_to_the_task_cannot_be_fed(service: TaskManager) -> None:
    task = create(service, KEPT, tables={"N": inline(k=[1], w=[1])})
    assert {source.name: source.static for source in service.get_task(task).sources} == {"t": False, "n": True}
    with pytest.raises(Refused, match="source 'n' is static"):
        add_splits(service, task, [("n", inline(k=[1], w=[1]), None)])


def test_a_table_the_plan_does_not_read_is_refused_naming_the_sources(service: TaskManager) -> None:
    with pytest.raises(NotFound, match="table 'x' is not read by the plan; the plan's sources are: n, t"):
        create(service, KEPT, tables={"x": inline(k=[1])})


def test_a_file_that_changed_after_its_split_was_accepted_fails_its_epoch_alone(
    service: TaskManager, tmp_path: Path
) -> None:
    task = create(service, SUM)
    assert run(service, task, ("t", inline(k=[1], v=[1]))) == [(1, 1)]
    split = file(tmp_path / "1.parquet", k=[1], v=[1])
    add_splits(service, task, [("t", split, None)])
    file(tmp_path / "1.parquet", k=[1, 2, 3], v=[1, 2, 3])
    service.request_barrier(task)
    with pytest.raises(TaskFailed, match=r"1\.parquet"):
        answer(service, task, 2)
    assert answer(service, task, 1) == [(1, 1)]


def test_a_split_of_the_wrong_columns_is_refused_when_it_is_added(service: TaskManager) -> None:
    task = create(service, SUM)
    wrong = InlineSplit(schema=pa.schema([("k", pa.string()), ("v", pa.int64())]), batches=())
    with pytest.raises(SplitError, match="split 1 of source 't': column 'k' is string"):
        add_splits(service, task, [("t", wrong, None)])


def test_only_files_below_the_roots_and_the_task_s_own_uploads_can_be_read(
    service: TaskManager, tmp_path: Path
) -> None:
    task, other = create(service, SUM), create(service, SUM)
    with pytest.raises(Forbidden):
        add_splits(service, task, [("t", FileSplit(path="/etc/hostname", format="csv"), None)])
    data = Path(file(tmp_path / "1.parquet", k=[4], v=[4]).path).read_bytes()
    uploaded = service.upload(task, "mine.parquet", [data])
    assert run(service, task, ("t", FileSplit(path=uploaded))) == [(4, 4)]
    assert uploaded.startswith(str(tmp_path / "spill"))
    assert other not in uploaded


def test_one_task_cannot_read_another_s_uploads(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    opened = open_service(roots=[tmp_path / "data"], spill_directory=tmp_path / "spill")
    with contextlib.closing(opened) as service:
        task, other = create(service, SUM), create(service, SUM)
        uploaded = service.upload(task, "mine.csv", [b"k,v\n1,1\n"])
        with pytest.raises(Forbidden):
            add_splits(service, other, [("t", FileSplit(path=uploaded), None)])


def test_cancelling_stops_a_statement_in_progress(service: TaskManager) -> None:
    task = create(service, SLOW)
    many = list(range(20_000))
    numbered_splits = [("t", inline(k=many), None), ("u", inline(v=many), None), ("w", inline(x=many), None)]
    add_splits(service, task, numbered_splits, barrier=True)
    threading.Timer(0.2, service.cancel_task, [task]).start()
    with pytest.raises(TaskCancelled):
        service.next(task, START, wait=60.0)


def test_closing_stops_everything_and_leaves_no_thread_and_no_file(tmp_path: Path) -> None:
    before = threading.active_count()
    service = open_service(roots=[tmp_path], spill_directory=tmp_path / "spill")
    task = create(service, SLOW)
    many = list(range(20_000))
    numbered_splits = [("t", inline(k=many), None), ("u", inline(v=many), None), ("w", inline(x=many), None)]
    add_splits(service, task, numbered_splits, barrier=True)
    service.next(task, START, wait=0.2)
    service.close()
    assert threading.active_count() == before
    assert list((tmp_path / "spill").iterdir()) == []


def test_the_same_rows_come_whatever_the_batches_and_the_order_of_arrival(service: TaskManager) -> None:
    keys = [(value * 7919) % 1_000 for value in range(20_000)]
    whole = inline(k=keys, v=list(range(20_000))).batches[0]
    table = {"n": inline(k=list(range(1_000)) * 2, w=[1] * 2_000)}
    join = plans.joined(plans.read("t", "k", "v"), plans.filtered(plans.read("n", "k", "w"), 1, 0), 2)
    seen = set()
    for cut in (20_000, 977, 100):
        task = create(service, plans.plan(join, "k", "v", "k2", "w"), tables=table)
        halves = []
        for half in (whole.slice(0, 10_000), whole.slice(10_000)):
            batches = tuple(half.slice(start, cut) for start in range(0, 10_000, cut))
            halves.append(InlineSplit(schema=whole.schema, batches=batches))
        add_splits(service, task, [("t", halves[1], 2), ("t", halves[0], 1)], barrier=True)
        seen.add(tuple(answer(service, task, 1)))
    assert len(seen) == 1
    assert len(seen.pop()) == 40_000


def test_a_satisfied_limit_stops_reading(service: TaskManager) -> None:
    task = create(service, plans.plan(plans.limited(plans.read("t", "k"), 10), "k"))
    splits = [("t", inline(k=list(range(200_000)))) for _ in range(10)]
    assert run(service, task, *splits) == [(value,) for value in range(10)]
    assert service.get_task(task).statistics.operators[0].rows_out < 1_000_000


def test_rows_and_bytes_are_counted_per_epoch_and_operator(service: TaskManager) -> None:
    task = create(service, SUM)
    _, epoch = add_splits(service, task, [("t", inline(k=[1, 1, 2], v=[1, 1, 1]), None)], barrier=True)
    *_, barrier = service.next(task, Cursor(epoch or 0), wait=60.0)
    assert (barrier.statistics.rows_in, barrier.statistics.rows_out, barrier.statistics.splits) == (3, 2, 1)
    by_operator = {operator.operator: operator for operator in service.get_task(task).statistics.operators}
    assert (by_operator["Scan"].rows_out, by_operator["Fragment"].rows_in, by_operator["Fragment"].rows_out) == (
        3,
        3,
        2,
    )


def test_a_stalled_reader_of_a_result_ten_times_the_limits_bounds_the_memory(tmp_path: Path) -> None:
    """400 MB of result against 8 MB in memory and 24 MB on disk, in a process of its own."""
    finished = subprocess.run(
        [sys.executable, "-m", "tests.executor.stalled_reader", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    peak, spilled = map(int, finished.stdout.split())
    assert peak < 150 << 20
    assert spilled <= 24 << 20


@pytest.mark.parametrize(("rows", "expected"), [(0, 0), (1, 1), (2, 10), (10, 10), (11, 100), (1_000, 1_000)])
def test_a_size_class_is_the_power_of_ten_at_or_above(rows: int, expected: int) -> None:
    assert size_class(rows) == expected


def test_the_clock_s_date_is_that_of_the_task_s_zone() -> None:
    late = int(dt.datetime(2024, 2, 28, 23, 30, tzinfo=dt.UTC).timestamp() * 1_000_000)
    row = context_row((Clock.DATE, Clock.TIMESTAMP, Clock.TIMEZONE), late, "Europe/Paris").to_pylist()[0]
    assert row == {
        "c0": dt.date(2024, 2, 29),
        "c1": dt.datetime(2024, 2, 28, 23, 30, tzinfo=dt.UTC),
        "c2": "Europe/Paris",
    }
