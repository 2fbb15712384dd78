"""Restarts of a server as a client's program sees them: as pauses."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.proto.values import Cursor, TaskPhase
from tidegate.server import cli

from ..executor import plans
from .killed_runs import Forking, Lives
from .rolling import SUMS, Load, roll

PASSED = plans.plan(plans.filtered(plans.read("t", "k", "v"), 1, -1), "k", "v")
ROWS = 1_200_000


@pytest.fixture(scope="module")
def forking() -> Iterator[Forking]:
    with Forking() as forking:
        yield forking


@pytest.fixture
def lives(forking: Forking, tmp_path: Path) -> Iterator[Lives]:
    lives = Lives(forking, tmp_path, ())
    yield lives
    lives.close()
    assert lives.wrong == []


def large() -> pa.Table:
    return pa.table({"k": np.arange(ROWS), "v": np.arange(ROWS)})


def test_a_stream_of_a_large_epoch_goes_on_at_its_row(lives: Lives) -> None:
    rows = large()
    with tidegate.connect(lives.address) as client, client.create_task(PASSED) as task:
        assert client.service.large_results == "Flight"
        task.add_split("t", rows)
        task.request_barrier()
        read: list[pa.RecordBatch] = []
        (epoch,) = [next(task.epochs())]
        for batch in epoch:
            read.append(batch)
            if len(read) in (3, 8):
                lives.kill_one()
        assert pa.Table.from_batches(read).equals(rows)


@pytest.mark.parametrize("transacted", [False, True])
def test_rows_that_were_sent_ahead_of_a_restart_are_sent_again(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, transacted: bool
) -> None:
    rows = large()
    with tidegate.connect(lives.address) as client, client.create_task(PASSED) as task:
        upload, uploads = client.service.upload, []

        def killed(*how: Any, **more: Any) -> str:
            uploads.append(upload(*how, **more))
            if len(uploads) == 1:
                lives.kill_one()
            return uploads[-1]

        monkeypatch.setattr(client.service, "upload", killed)
        if transacted:
            task.transact("x", 1, {"t": rows}, seal=True)
        else:
            task.add_split("t", rows)
            task.request_barrier()
        assert len(uploads) == 2
        assert task.read_epoch().num_rows == ROWS


def test_a_server_that_is_told_to_end_leaves_its_tasks_to_the_next(lives: Lives) -> None:
    with tidegate.connect(lives.address) as client, client.create_task(PASSED) as task:
        task.add_split("t", pa.table({"k": [1], "v": [1]}))
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(client.service.next, task.id, Cursor(1), wait=60.0)
            time.sleep(0.3)
            lives.end_one()
            time.sleep(0.3)
            task.request_barrier()
            data = waiting.result()[0]
        assert [row for batch in data.batches for row in batch.to_pylist()] == [{"k": 1, "v": 1}]
        assert task.read_epoch().to_pylist() == [{"k": 1, "v": 1}]
        assert task.info().state is TaskPhase.RUNNING


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["told", "killed"])
def test_clients_lose_nothing_over_restarts_under_load(lives: Lives, how: signal.Signals) -> None:
    assert roll(lives, Load(tasks=6, clients=3, restarts=2, epochs=12, how=(how,))) == []


def test_the_command_line_recovers_a_task_whose_file_is_gone(
    lives: Lives, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"k": [1], "v": [1]}), file)
    with tidegate.connect(lives.address) as client, client.create_task(SUMS) as task:
        task.add_split("t", str(file))
        task.add_split("t", pa.table({"k": [2], "v": [3]}))
        file.unlink()
        task.request_barrier()
        with pytest.raises(tidegate.TaskFailed):
            task.read_epoch()
        assert cli.main(["tasks", "recover", task.id, "--skip", "t=1", "--server", lives.address]) == 0
        assert "split 1 of source 't' (epoch 1) was left out" in capsys.readouterr().out
        assert task.read_epoch().to_pylist() == [{"k": 2, "total": 3}]
