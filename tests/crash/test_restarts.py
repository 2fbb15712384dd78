"""Restarts of a server as a client's program sees them: as pauses."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
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
from tidegate.transport.channel import Channel

from ..executor import plans
from ..searching import in_search
from .lives import Forking, Lives
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


@pytest.mark.parametrize("flight", [True, False])
def test_two_readers_of_a_large_relaxed_epoch_are_both_told_of_each_restart(lives: Lives, flight: bool) -> None:
    """The first one finds out when the other one has read the whole epoch again."""
    rows = large()
    with tidegate.connect(lives.address, flight=flight) as one, tidegate.connect(lives.address, flight=flight) as two:
        fed = one.create_task(PASSED, determinism="relaxed")
        fed.add_split("t", rows)
        fed.request_barrier()
        for _ in range(2):
            epochs = [next(client.task(fed.id, cursor=Cursor(1)).epochs()) for client in (one, two)]
            for epoch in epochs:
                next(epoch)
            lives.kill_one()
            again = two.task(fed.id, cursor=Cursor(1)).read_epoch()
            assert again.sort_by("k").equals(rows)
            for epoch in epochs:
                with pytest.raises(tidegate.OutOfRange) as raised:
                    epoch.finish()
                assert raised.value.reason == "EPOCH_RESTARTED"


FED: dict[str, Callable[[tidegate.Task, Any], object]] = {
    "split": lambda task, data: (task.add_split("t", data), task.request_barrier()),
    "transaction": lambda task, data: task.transact("x", 1, {"t": data}, seal=True),
}


def uploads_and_streams(folder: Path) -> dict[str, Callable[[], Any]]:
    """Data that travels as a file, more than once if need be."""
    rows = large()
    pq.write_table(rows, folder / "large.parquet")
    return {
        "upload": lambda: tidegate.upload(folder / "large.parquet"),
        "stream": lambda: pa.RecordBatchReader.from_batches(rows.schema, iter(rows.to_batches(max_chunksize=100_000))),
        "table": lambda: rows,
    }


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        *[("split", "stream"), ("split", "table"), ("transaction", "upload")],
        *in_search(("split", "upload"), ("transaction", "table")),
    ],
)
def test_a_file_whose_split_has_no_answer_when_the_server_dies_is_sent_again(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, data: str
) -> None:
    """The server dies once before the call that names the file, and once before its answer."""
    call, kills = Channel.call, []

    def dying(self: Channel, method: str, message: Any, *more: Any, **how: Any) -> Any:
        if not method.endswith("AddSplits") or len(kills) == 2:
            return call(self, method, message, *more, **how)
        kills.append(method)
        if len(kills) == 2:
            call(self, method, message, *more, **how)
        lives.kill_one()
        return call(self, method, message, *more, **how)

    monkeypatch.setattr(Channel, "call", dying)
    with tidegate.connect(lives.address) as client, client.create_task(PASSED) as task:
        FED[kind](task, uploads_and_streams(tmp_path)[data]())
        assert len(kills) == 2
        assert task.read_epoch().num_rows == ROWS


@pytest.mark.parametrize("data", ["upload", *in_search("stream")])
def test_an_epoch_and_a_table_of_files_come_over_a_restart_behind_their_upload(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: str
) -> None:
    of = uploads_and_streams(tmp_path)[data]
    with tidegate.connect(lives.address) as client:
        upload, kills = client.service.upload, 0

        def killed(*how: Any, **more: Any) -> str:
            nonlocal kills
            path = upload(*how, **more)
            kills += 1
            if kills in (1, 4, 7):
                lives.kill_one()
            return path

        monkeypatch.setattr(client.service, "upload", killed)
        with client.create_task(PASSED, tables={"t": [of(), of()]}) as task:
            task.no_more_splits()
            assert task.read_epoch().num_rows == 2 * ROWS
        assert kills == 6
        with client.create_task(PASSED) as task:
            assert task.run_epoch({"t": [of(), of()]}).table().num_rows == 2 * ROWS
        assert kills >= 9


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
