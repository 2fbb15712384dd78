"""A channel that failed of something transient is made anew, alone, and nobody sees it."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate import Client, TaskGraph
from tidegate.executor.exchange import replay_log
from tidegate.executor.runtime.batch_store import SpillFile, SpillFiles, SpillRun

from .executors import NUMBERS, PassOn

ROWS = 300_000
STRIDE = 8_192
TABLE = pa.table({"k": np.arange(ROWS) % 7, "v": np.arange(ROWS)}, schema=NUMBERS)


class Failures:
    """Raises on channel 1 at its third batch, some `times`; counts the executors and the batches of each channel."""

    def __init__(self, times: int = 1, error: type[Exception] = tidegate.TransientError) -> None:
        self.executors: Counter[int] = Counter()
        self.batches: Counter[int] = Counter()
        self._error = error
        self._left = times
        self._lock = threading.Lock()

    def fail_once_more(self) -> None:
        self._left = 1

    def see(self, channel: int, batch: int) -> None:
        with self._lock:
            self.executors[channel] += not batch
            self.batches[channel] += 1
            if channel == 1 and batch == 2 and self._left:
                self._left -= 1
                raise self._error("try again")


def passing(failures: Failures) -> Callable[[], PassOn]:
    class Passes(PassOn):
        calls = 0

        def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Sequence[pa.RecordBatch]:
            failures.see(channel, self.calls)
            self.calls += 1
            return super().execute(batches, stream, channel)

    return Passes


def two_stages(failures: Failures, **node: object) -> TaskGraph:
    """Rows dealt to three channels that may fail, and passed on to two more."""
    graph = TaskGraph()
    options = {"channels": 3, "partition": "v", **node}
    rows = graph.source("numbers", NUMBERS, stride=STRIDE)
    passed = graph.node("passed", passing(failures), rows, **options)  # type: ignore[arg-type]
    graph.blocking("again", PassOn, passed, channels=2, partition="k")
    return graph


def answer(client: Client, graph: TaskGraph, **options: object) -> pa.Table:
    with client.create_task(graph, **options) as task:  # type: ignore[arg-type]
        return task.run_epoch({"numbers": TABLE}).table()


@pytest.fixture(scope="module")
def undisturbed(client: Client) -> pa.Table:
    return answer(client, two_stages(Failures(times=0)))


def test_the_failed_channel_alone_runs_again_and_the_rows_are_the_same(client: Client, undisturbed: pa.Table) -> None:
    failures = Failures()
    assert answer(client, two_stages(failures, retries=1)).equals(undisturbed)
    assert failures.executors == {0: 1, 1: 2, 2: 1}


def test_the_option_of_the_task_stands_for_all_nodes(client: Client, undisturbed: pa.Table) -> None:
    failures = Failures(times=3)
    assert answer(client, two_stages(failures), retries=3).equals(undisturbed)
    assert failures.executors == {0: 1, 1: 4, 2: 1}


def test_more_failures_than_retries_fail_the_epoch(client: Client) -> None:
    failures = Failures(times=3)
    with pytest.raises(tidegate.TaskFailed, match="TransientError: try again"):
        answer(client, two_stages(failures, retries=2))
    assert failures.executors[1] == 3


@pytest.mark.parametrize("error", [ValueError, ConnectionError])
def test_an_error_that_nobody_calls_transient_is_not_tried_again(client: Client, error: type[Exception]) -> None:
    failures = Failures(error=error)
    with pytest.raises(tidegate.TaskFailed, match=error.__name__):
        answer(client, two_stages(failures, retries=5))
    assert failures.executors[1] == 1


def test_a_node_names_the_exceptions_that_are_transient(client: Client, undisturbed: pa.Table) -> None:
    failures = Failures(error=ConnectionResetError)
    graph = two_stages(failures, retries=1, transient=(TimeoutError, ConnectionError))
    assert answer(client, graph).equals(undisturbed)
    assert failures.executors[1] == 2


def test_every_epoch_has_its_own_retries(client: Client) -> None:
    failures = Failures(times=1)
    with client.create_task(two_stages(failures, retries=1)) as task:
        for epoch in (1, 2, 3):
            assert task.run_epoch({"numbers": TABLE}).table().num_rows == ROWS
            assert failures.executors == {0: epoch, 1: 2 * epoch, 2: epoch}
            failures.fail_once_more()


def test_rows_that_readers_had_already_come_once(client: Client) -> None:
    """The channel fails after its first blocks have reached the result."""

    fails = [True]

    class Late(PassOn):
        rows = 0

        def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                self.rows += batch.num_rows
                if self.rows > 200_000 and fails:
                    fails.pop()
                    raise tidegate.TransientError
                yield batch

    graph = TaskGraph()
    graph.blocking("late", Late, graph.source("numbers", NUMBERS, stride=STRIDE), retries=1)
    assert answer(client, graph).equals(TABLE)
    assert not fails


def test_code_that_gives_other_rows_the_second_time_is_an_error(client: Client) -> None:
    class Unsteady(PassOn):
        executors = 0

        def __init__(self) -> None:
            type(self).executors += 1

        def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if self.executors == 1 and batch["v"][0].as_py() > 200_000:
                    raise tidegate.TransientError
                yield batch.set_column(0, "k", pa.array([self.executors] * batch.num_rows, pa.int64()))

    graph = TaskGraph()
    graph.blocking("unsteady", Unsteady, graph.source("numbers", NUMBERS, stride=STRIDE), retries=1)
    with pytest.raises(tidegate.TaskFailed, match="gave other rows than before") as raised:
        answer(client, graph)
    assert raised.value.reason == "RETRY_DIFFERS"


def test_inputs_that_do_not_fit_in_memory_are_read_again_from_files(
    client: Client, monkeypatch: pytest.MonkeyPatch, undisturbed: pa.Table
) -> None:
    written: list[Path] = []
    write = SpillFiles.write

    def noted(files: SpillFiles, run: SpillRun) -> SpillFile:
        written.append((file := write(files, run)).path)
        return file

    monkeypatch.setattr(replay_log, "_MEMORY", 1 << 20)
    monkeypatch.setattr(SpillFiles, "write", noted)
    failures = Failures(times=2)
    assert answer(client, two_stages(failures, retries=2)).equals(undisturbed)
    assert failures.executors == {0: 1, 1: 3, 2: 1}
    assert written
    assert not any(path.exists() for path in written), "blocks stay until all channels are done, and no longer"


def test_without_room_for_the_inputs_the_error_stands_and_the_log_says_why(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(replay_log, "_MEMORY", 1_000)
    with caplog.at_level(logging.WARNING), pytest.raises(tidegate.TaskFailed, match="TransientError"):
        answer(client, two_stages(Failures(), retries=2), spill_quota=0)
    assert "spill_quota has no room" in caplog.text


def test_a_node_that_stops_reading_reads_the_same_again(client: Client) -> None:
    fails = [True]

    class First(PassOn):
        left = 70_000

        def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch.slice(0, self.left)
                self.left -= min(self.left, batch.num_rows)

        def finished(self, stream: str, channel: int) -> bool:
            return not self.left

        def done(self, channel: int) -> None:
            if fails:
                fails.pop()
                raise tidegate.TransientError

    graph = TaskGraph()
    passed = graph.node("passed", PassOn, graph.source("numbers", NUMBERS, stride=STRIDE), channels=2, partition="k")
    graph.blocking("first", First, passed, channels=2, partition="v", retries=1)
    once = TaskGraph()
    passed = once.node("passed", PassOn, once.source("numbers", NUMBERS, stride=STRIDE), channels=2, partition="k")
    once.blocking("first", First, passed, channels=2, partition="v")
    assert answer(client, graph).equals(answer(client, once))
    assert not fails


def test_only_strict_tasks_may_have_retries(client: Client) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="leave retries out, or ask for a strict task"):
        client.create_task(two_stages(Failures()), retries=1, determinism="relaxed")


def test_continuous_tasks_have_no_retries(client: Client) -> None:
    plan = sub.read_named_table("numbers", {"n": sub.i64}).to_plan()
    with pytest.raises(tidegate.InvalidRequest, match="retries is not an option of a continuous task"):
        client.create_task(plan, retries=1, mode="continuous")


def test_spark_has_retries_of_its_own(client: Client) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=r"leave retries out: .* spark\.task\.maxFailures"):
        client.create_task(two_stages(Failures()), retries=1, executor="spark")


@pytest.mark.parametrize("wrong", [{"retries": "2"}, {"retries": 1_001}, {"transient": "ConnectionError"}])
def test_wrong_retries_of_a_node_are_refused(wrong: dict[str, object]) -> None:
    graph = TaskGraph()
    with pytest.raises(tidegate.InvalidRequest, match=r"node 'rows': (retries|transient)"):
        graph.blocking("rows", PassOn, graph.source("numbers", NUMBERS), **wrong)  # type: ignore[arg-type]
