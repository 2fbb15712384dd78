"""Plans that write, end to end: DuckDB reads what is in the folders."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.adding import add_splits
from tidegate.executor.service.embedded import open_service
from tidegate.executor.service.manager import TaskManager
from tidegate.operators.writing.table_folder import OpenFolder
from tidegate.proto.errors import Forbidden, InvalidRequest, PlanError, TaskFailed
from tidegate.proto.statistics import EpochStatistics
from tidegate.proto.values import Barrier, Cursor, OnError, PlanBytes, TaskOptions, TaskPhase

from ..on_channels import on_channels
from . import plans
from .test_dataflow import answer, create, file, inline, run

RETURNED = "OUTPUT_MODE_MODIFIED_RECORDS"
SILENT = "OUTPUT_MODE_NO_OUTPUT"
APPEND = "CREATE_MODE_APPEND_IF_EXISTS"
ROWS = plans.filtered(plans.read("t", "k", "v"), 1, 0)
SUM = plans.summed(plans.read("t", "k", "v"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tables").mkdir()
    return tmp_path / "tables"


@pytest.fixture
def service(tmp_path: Path, root: Path) -> Iterator[TaskManager]:
    data = tmp_path / "data"
    data.mkdir()
    opened = open_service(roots=[data], spill_directory=tmp_path / "spill", write_root=root)
    with contextlib.closing(opened):
        yield opened


def writing(relation: object, *, output: str = RETURNED, op: str = "WRITE_OP_CTAS", **more: object) -> PlanBytes:
    """`relation`, of two columns, into table `out`."""
    schema = {"names": ["k", "v"], "struct": {"types": [plans.I64] * 2, "nullability": "NULLABILITY_REQUIRED"}}
    table = {"namedTable": {"names": ["out"]}, "tableSchema": schema, "op": op, "output": output, "input": relation}
    return plans.plan({"write": {**table, **more}}, "key", "value")


def written_rows(root: Path) -> list[tuple[int, ...]]:
    """The table's rows, file after file."""
    files = f"read_parquet('{root}/out/*.parquet', filename = true, file_row_number = true)"
    return duckdb.sql(f"SELECT k, v FROM {files} ORDER BY filename, file_row_number").fetchall()


def everything(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*"))


def statistics(service: TaskManager, task: str, epoch: int, rows: int) -> EpochStatistics:
    (barrier, *_) = service.next(task, Cursor(epoch, rows), wait=60.0)
    assert isinstance(barrier, Barrier)
    return barrier.statistics


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("relation", [ROWS, SUM, plans.union(ROWS, ROWS)], ids=["row-wise", "grouped", "united"])
def test_what_an_epoch_returns_is_what_it_has_written(
    service: TaskManager, tmp_path: Path, root: Path, relation: object, channels: int
) -> None:
    task = create(service, writing(relation), **on_channels(channels))
    expected = []
    for number in range(3):
        splits = [inline(k=[3, 1, 3], v=[number, 1, 2]), file(tmp_path / "data" / f"{number}.parquet", k=[9], v=[9])]
        rows = run(service, task, *(("t", split) for split in splits))
        expected += rows
        assert written_rows(root) == expected
        assert statistics(service, task, number + 1, len(rows)).rows_written == len(rows)
    assert len(expected) > 3


def test_the_rows_are_the_same_as_without_the_write(service: TaskManager, root: Path) -> None:
    split = inline(k=list(range(100_000)) * 2, v=list(range(200_000)))
    plain = run(service, create(service, plans.plan(SUM, "k", "s")), ("t", split))
    assert run(service, create(service, writing(SUM)), ("t", split)) == plain
    assert written_rows(root) == plain


def test_a_silent_write_gives_no_rows_and_says_what_it_wrote(service: TaskManager, root: Path) -> None:
    task = create(service, writing(ROWS, output=SILENT))
    assert run(service, task, ("t", inline(k=[1, 2, 3], v=[1, 0, 2]))) == []
    statistics_ = statistics(service, task, 1, 0)
    assert (statistics_.rows_written, statistics_.files_written, statistics_.rows_out) == (2, 1, 0)
    assert statistics_.bytes_written == next((root / "out").iterdir()).stat().st_size
    assert written_rows(root) == [(1, 1), (3, 2)]


def test_the_result_has_the_columns_that_the_plan_says(service: TaskManager) -> None:
    assert service.create_task(writing(ROWS), TaskOptions(), {}).schema.names == ["key", "value"]
    assert service.create_task(writing(ROWS, output=SILENT), TaskOptions(), {}).schema.names == ["key", "value"]
    emitted = json.loads(writing(ROWS, common={"emit": {"outputMapping": [1]}}).json or "")
    emitted["relations"][0]["root"]["names"] = ["value"]
    task = service.create_task(PlanBytes(json=json.dumps(emitted)), TaskOptions(), {})
    assert task.schema.names == ["value"]
    assert run(service, task.id, ("t", inline(k=[1], v=[5]))) == [(5,)]


def test_a_silent_write_needs_no_names_for_a_result_without_columns(service: TaskManager, root: Path) -> None:
    unnamed = json.loads(writing(ROWS, output=SILENT).json or "")
    del unnamed["relations"][0]["root"]["names"]
    task = service.create_task(PlanBytes(json=json.dumps(unnamed)), TaskOptions(), {})
    assert task.schema == pa.schema([])
    assert run(service, task.id, ("t", inline(k=[1], v=[5]))) == []
    assert written_rows(root) == [(1, 5)]


def test_nothing_is_in_the_table_before_the_barrier_and_all_of_it_after(service: TaskManager, root: Path) -> None:
    task = create(service, writing(ROWS), output_bytes=1, spill_quota=0)
    add_splits(service, task, [("t", inline(k=range(200_000), v=[1] * 200_000), None)], barrier=True)
    service.next(task, Cursor(1, 0), wait=60.0)
    assert [name for name in everything(root / "out") if not name.startswith(".")] == []
    read = 0
    while not isinstance(
        frame := service.next(task, Cursor(1, read), acknowledge=Cursor(1, read), wait=60.0)[0], Barrier
    ):
        read += frame.rows
    assert len(written_rows(root)) == read == 200_000


def test_a_reader_that_reads_nothing_changes_nothing_of_what_is_written(service: TaskManager, root: Path) -> None:
    task = create(service, writing(plans.limited(ROWS, 70_000), output=SILENT))
    add_splits(service, task, [("t", inline(k=range(200_000), v=[1] * 200_000), None)], barrier=True)
    service.next(task, Cursor(1, 0), wait=60.0)
    assert len(written_rows(root)) == 70_000


def test_a_cancelled_epoch_leaves_nothing_behind(service: TaskManager, root: Path) -> None:
    task = create(service, writing(ROWS), output_bytes=1, spill_quota=0)
    add_splits(service, task, [("t", inline(k=range(200_000), v=[1] * 200_000), None)], barrier=True)
    service.next(task, Cursor(1, 0), wait=60.0)
    assert everything(root) != []
    service.cancel_task(task)
    service.close()
    assert everything(root) == []


def test_an_epoch_whose_last_rows_wait_for_a_reader_is_not_in_the_table_yet(service: TaskManager, root: Path) -> None:
    task = create(service, writing(ROWS), output_bytes=1, spill_quota=0)
    run(service, task, ("t", inline(k=[1], v=[1])))
    add_splits(service, task, [("t", inline(k=[2], v=[2]), None)], barrier=True)
    deadline = time.monotonic() + 60
    while len(everything(root / "out")) < 2 and time.monotonic() < deadline:
        service.work_and_poll(task, Cursor(1, 1))
    assert len(everything(root / "out")) == 2
    assert written_rows(root) == [(1, 1)]
    service.cancel_task(task)
    service.close()
    assert len(everything(root / "out")) == 1


def test_a_failed_epoch_leaves_nothing_behind_and_those_before_it_stay(
    service: TaskManager, tmp_path: Path, root: Path
) -> None:
    task = create(service, writing(ROWS))
    run(service, task, ("t", inline(k=[1], v=[1])))
    before = everything(root)
    broken = file(tmp_path / "data" / "broken.parquet", k=[2], v=[2])
    add_splits(service, task, [("t", inline(k=[3], v=[3]), None), ("t", broken, None)])
    (tmp_path / "data" / "broken.parquet").write_bytes(b"not any more")
    service.request_barrier(task)
    with pytest.raises(TaskFailed):
        answer(service, task, 2)
    assert everything(root) == before
    assert written_rows(root) == [(1, 1)]


def test_a_skipped_epoch_leaves_nothing_behind_and_the_next_one_is_written(
    service: TaskManager, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = create(service, writing(ROWS), on_error=OnError.SKIP_EPOCH)
    with monkeypatch.context() as patched:
        patched.setattr(OpenFolder, "sync", _fails)
        add_splits(service, task, [("t", inline(k=[1], v=[1]), None)], barrier=True)
        (barrier,) = service.next(task, Cursor(1, 0), wait=60.0)
    assert isinstance(barrier, Barrier)
    assert barrier.error is not None
    assert barrier.error.reason == "WRITE_FAILED"
    assert everything(root) == []
    assert run(service, task, ("t", inline(k=[2], v=[2]))) == [(2, 2)]
    assert written_rows(root) == [(2, 2)]


def _fails(folder: OpenFolder) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("more", "stays", "written"),
    [
        ({"op": "WRITE_OP_INSERT"}, True, True),
        ({"createMode": APPEND}, True, True),
        ({"createMode": "CREATE_MODE_REPLACE_IF_EXISTS"}, False, True),
        ({"createMode": "CREATE_MODE_IGNORE_IF_EXISTS"}, True, False),
    ],
)
def test_a_table_of_another_task_meets_what_the_plan_says(
    service: TaskManager, root: Path, more: dict[str, object], stays: bool, written: bool
) -> None:
    run(service, create(service, writing(ROWS)), ("t", inline(k=[1], v=[1])))
    task = create(service, writing(ROWS, **more))
    returned = [row for n in (2, 3) for row in run(service, task, ("t", inline(k=[n], v=[n])))]
    assert returned == [(2, 2), (3, 3)] * written
    assert sorted(written_rows(root)) == [(1, 1)] * stays + returned


def test_a_table_that_exists_fails_the_task_that_wants_to_create_it(service: TaskManager, root: Path) -> None:
    run(service, create(service, writing(ROWS)), ("t", inline(k=[1], v=[1])))
    task = create(service, writing(ROWS))
    with pytest.raises(TaskFailed, match="table 'out' exists"):
        run(service, task, ("t", inline(k=[2], v=[2])))
    assert service.get_task(task).state is TaskPhase.FAILED
    assert written_rows(root) == [(1, 1)]


def test_a_table_of_other_columns_fails_the_task_that_inserts_into_it(service: TaskManager, root: Path) -> None:
    (root / "out").mkdir()
    duckdb.sql(f"COPY (SELECT 1::BIGINT k, 'x' v) TO '{root}/out/old.parquet'")
    task = create(service, writing(ROWS, op="WRITE_OP_INSERT"))
    with pytest.raises(
        TaskFailed, match=r"old\.parquet .* column 'v' is string in the file and int64 in the plan"
    ) as error:
        run(service, task, ("t", inline(k=[2], v=[2])))
    assert error.value.reason == "COLUMNS_DIFFER"
    assert everything(root / "out") == ["old.parquet"]


def test_an_epoch_beyond_the_write_quota_is_left_out_and_those_before_it_stay(service: TaskManager, root: Path) -> None:
    task = create(service, writing(ROWS), write_quota=2_000)
    run(service, task, ("t", inline(k=[1], v=[1])))
    with pytest.raises(TaskFailed, match="write_quota, 2,000 bytes") as error:
        run(service, task, ("t", inline(k=range(10_000), v=range(1, 10_001))))
    assert error.value.reason == "WRITE_QUOTA"
    assert written_rows(root) == [(1, 1)]


def test_tasks_that_write_one_table_side_by_side_lose_and_double_nothing(service: TaskManager, root: Path) -> None:
    tasks = [create(service, writing(ROWS, createMode=APPEND)) for _ in range(4)]
    threads = [
        threading.Thread(
            target=lambda task=task, at=at: [run(service, task, ("t", inline(k=[at], v=[n]))) for n in range(1, 6)]
        )
        for at, task in enumerate(tasks)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(written_rows(root)) == [(at, n) for at in range(4) for n in range(1, 6)]


@pytest.mark.parametrize(("format_", "reader"), [("csv", "read_csv"), ("parquet", "read_parquet")])
def test_the_format_is_the_tasks(service: TaskManager, root: Path, format_: str, reader: str) -> None:
    run(service, create(service, writing(ROWS), write_format=format_), ("t", inline(k=[1, 2], v=[3, 4])))
    assert duckdb.sql(f"SELECT k, v FROM {reader}('{root}/out/*.{format_}') ORDER BY k").fetchall() == [(1, 3), (2, 4)]


def test_a_format_that_is_not_written_is_refused(service: TaskManager) -> None:
    with pytest.raises(InvalidRequest, match="parquet, arrow, csv") as error:
        create(service, writing(ROWS), write_format="orc")
    assert error.value.reason == "UNKNOWN_FORMAT"


def test_a_service_without_a_folder_for_tables_says_how_to_allow_them(tmp_path: Path) -> None:
    with contextlib.closing(open_service(roots=[tmp_path], spill_directory=tmp_path)) as service:
        with pytest.raises(PlanError, match="--write-root") as error:
            create(service, writing(ROWS))
        problems, warnings = service.validate(writing(ROWS), TaskOptions())
    assert error.value.problems[0].reason == "WRITES_NOT_ALLOWED"
    assert error.value.problems[0].place == "relations[0].root.input.write"
    assert problems == ()
    assert "--write-root" in warnings[0]


def test_a_folder_for_tables_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="nowhere"):
        open_service(roots=[tmp_path], spill_directory=tmp_path, write_root=tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "refusal"), [("..", InvalidRequest), ("a/../..", InvalidRequest), ("away", Forbidden)]
)
def test_no_name_leads_out_of_the_folder_for_tables(
    service: TaskManager, tmp_path: Path, root: Path, name: str, refusal: type[Exception]
) -> None:
    (root / "away").symlink_to(tmp_path)
    with pytest.raises(refusal):
        create(service, writing(ROWS, namedTable={"names": [name]}))


def test_the_folder_for_tables_is_not_one_to_read_from(service: TaskManager, root: Path) -> None:
    run(service, create(service, writing(ROWS)), ("t", inline(k=[1], v=[1])))
    split = file(root / "out" / "own.parquet", k=[1], v=[1])
    with pytest.raises(Forbidden):
        run(service, create(service, plans.plan(ROWS, "k", "v")), ("t", split))


def test_explain_says_what_is_written_and_that_it_waits_for_the_seal(service: TaskManager) -> None:
    explained = service.explain(writing(ROWS), TaskOptions())
    assert "writes table out at the barrier (error); its rows are the result" in explained.text
    assert "pipeline 1, starts at the seal" in explained.text
    assert json.loads(explained.json)["writes"]["table"] == "out"
