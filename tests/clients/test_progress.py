"""Progress of an epoch over files that its statements read themselves, reported while the epoch runs."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.client import Client
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.proto.statistics import SourceProgress

from ..executor.plans import passed_through, plan, read, summed
from ..on_channels import on_channels

ROWS = 3_000_000
SMALL = pa.table({"k": [1, 1, 2], "v": [2, 3, 4]})
SUM = plan(summed(read("t", "k", "v")), "k", "s").json or ""


@pytest.fixture
def client(open_client: Callable[..., Client], tmp_path: Path) -> Client:
    return open_client(PlanEngine([tmp_path], tmp_path))


@pytest.fixture
def small(tmp_path: Path) -> str:
    pq.write_table(SMALL, tmp_path / "small.parquet")
    return str(tmp_path / "small.parquet")


def test_an_epoch_that_is_not_over_tells_how_much_of_its_files_is_read(client: Client, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": range(ROWS)}), tmp_path / "t.parquet", row_group_size=50_000)
    limits = {"output_bytes": 1 << 20, "spill_quota": 1 << 20}
    with client.create_task(passed_through("a").json or "", **limits) as task:
        assert task.statistics().progress == {}
        task.add_split("a", str(tmp_path / "t.parquet"))
        task.request_barrier()
        deadline, before, now = time.monotonic() + 60, None, None
        while now is None or now.rows == 0 or now != before:  # until its output is full and it waits for a reader
            assert time.monotonic() < deadline
            time.sleep(0.1)
            before, now = now, task.statistics().progress.get("a")
        assert now.total == ROWS
        assert 0 < now.rows < ROWS
        assert task.read_epoch().num_rows == ROWS
        assert task.statistics().progress == {"a": SourceProgress(rows=ROWS, total=ROWS)}


@pytest.mark.parametrize("channels", [1, 2])
def test_what_has_ended_is_read_and_the_next_epoch_begins_anew(
    client: Client, small: str, tmp_path: Path, channels: int
) -> None:
    pq.write_table(SMALL.slice(1), tmp_path / "two.parquet")
    with client.create_task(SUM, **on_channels(channels)) as task:
        for path, rows in ((small, 3), (str(tmp_path / "two.parquet"), 2)):
            task.run_epoch({"t": path})
            assert task.statistics().progress == {"t": SourceProgress(rows=rows, total=rows)}


def test_rows_of_calls_count_as_those_of_files_do(client: Client, small: str) -> None:
    with client.create_task(SUM) as task:
        task.run_epoch({"t": [small, SMALL]})
        assert task.statistics().progress == {"t": SourceProgress(rows=6, total=6)}


def test_a_continuous_task_tells_how_far_its_epoch_is_read(client: Client, small: str) -> None:
    with client.create_task(SUM, mode="continuous") as task:
        assert task.statistics().progress == {}
        for splits, rows in (([small, SMALL], 6), ([small], 3)):
            task.run_epoch({"t": splits})
            assert task.statistics().progress == {"t": SourceProgress(rows=rows, total=rows)}


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
@pytest.mark.parametrize("ending", ["csv", "json", "csv.gz", "json.zst"])
def test_text_files_count_in_bytes_of_the_disk(client: Client, tmp_path: Path, ending: str, mode: str) -> None:
    lines = ["k,v", "1,2", "1,3"] if "csv" in ending else ['{"k": 1, "v": 2}', '{"k": 1, "v": 3}']
    paths = [str(tmp_path / f"{name}.{ending}") for name in "ab"]
    for path in paths:
        with pa.output_stream(path) as file:
            file.write("\n".join(lines).encode())
    size = sum(Path(path).stat().st_size for path in paths)
    with client.create_task(SUM, mode=mode) as task:
        for _ in range(2):
            task.run_epoch({"t": paths})
            assert task.statistics().progress == {
                "t": SourceProgress(rows=4, text_bytes=size, total_text_bytes=size),
            }
            assert task.statistics().progress["t"].share == 1.0


def test_an_epoch_that_is_not_over_tells_how_many_bytes_of_its_text_are_read(client: Client, tmp_path: Path) -> None:
    size = (tmp_path / "t.csv").write_text("x\n" + "1234567\n" * ROWS)
    limits = {"output_bytes": 1 << 20, "spill_quota": 1 << 20}
    with client.create_task(passed_through("a").json or "", **limits) as task:
        task.add_split("a", str(tmp_path / "t.csv"))
        task.request_barrier()
        before, now = None, SourceProgress()
        deadline = time.monotonic() + 60
        while now.text_bytes == 0 or now != before:  # until its output is full and it waits for a reader
            assert time.monotonic() < deadline
            time.sleep(0.1)
            before, now = now, task.statistics().progress.get("a", now)
        assert now.total is None
        assert 0 < now.text_bytes < now.total_text_bytes == size
        assert now.share == now.text_bytes / size


def test_a_continuous_epoch_that_is_not_over_has_read_a_part(client: Client, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": range(ROWS), "v": range(ROWS)}), tmp_path / "t.parquet", row_group_size=50_000)
    with client.create_task(SUM, mode="continuous") as task:
        task.add_split("t", str(tmp_path / "t.parquet"))
        task.request_barrier()
        deadline, seen = time.monotonic() + 60, None
        while seen is None or not seen.rows:
            assert time.monotonic() < deadline
            seen = task.statistics().progress.get("t")
        assert seen.total == ROWS
        assert 0 < seen.rows < ROWS


def test_a_query_writes_a_plain_line_where_no_terminal_is(
    client: Client, small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert client.query(SUM, {"t": small}, progress=True).num_rows == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(r"100%, 3 rows read, \d+ s", said.err.splitlines()[-1])
    client.query(SUM, {"t": small})
    assert capsys.readouterr().err == ""


def test_a_query_writes_its_line_over_on_a_terminal(
    client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("tidegate.progress._INTERVAL", 0.001)
    pq.write_table(pa.table({"k": [at % 7 for at in range(300_000)], "v": range(300_000)}), tmp_path / "t.parquet")
    client.query(SUM, {"t": str(tmp_path / "t.parquet")}, progress=True)
    said = capsys.readouterr().err
    assert said.startswith("\r")
    assert "rows read" in said
    assert "\n" not in said
    assert said.endswith("\r\x1b[K")


def test_a_function_is_told_how_far_a_query_is(client: Client, small: str) -> None:
    reports = []
    client.query(SUM, {"t": small}, progress=reports.append)
    assert (reports[-1].rows, reports[-1].share) == (3, 1.0)
