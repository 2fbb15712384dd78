"""Code that does what it should not: its task fails by name, and the service goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

import tidegate
from tidegate import Client, NodeError, TaskFailed, TaskGraph

from .executors import NUMBERS, First, PassOn, fed, numbers


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raising(error: BaseException) -> type:
    class Raising(PassOn):
        def done(self, channel: int) -> None:
            raise error

    return Raising


def run(client: Client, executor: Callable[[], Any], rows: int = 10) -> tidegate.Dataset:
    graph = TaskGraph()
    graph.blocking("bad", executor, fed(graph), channels=2, partition="k")
    return client.run_graph(graph, {"numbers": numbers(rows)})


class OfNobodys(BaseException):
    """As test frameworks and event loops raise, past what catches errors."""


RAISED = [SystemExit(3), GeneratorExit(), StopIteration(), Mute(), KeyError("k"), OfNobodys()]


@pytest.mark.parametrize("error", RAISED, ids=repr)
def test_whatever_is_raised_is_the_nodes_failure_with_its_traceback(client: Client, error: BaseException) -> None:
    with pytest.raises(TaskFailed, match=r"node 'bad', channel \d, epoch 1: done raised") as raised:
        run(client, raising(error))
    assert isinstance(raised.value.__cause__, NodeError)
    assert raised.value.__cause__.__cause__ is error
    assert "in done" in str(raised.value)
    assert run(client, PassOn).rows == 10


def test_what_is_raised_while_rows_are_read_is_the_nodes_failure(client: Client) -> None:
    class Lazy(PassOn):
        def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Any:
            def rows() -> Iterator[pa.RecordBatch]:
                yield batches[0]
                raise ValueError("no more")

            return pa.RecordBatchReader.from_batches(NUMBERS, rows())

    with pytest.raises(TaskFailed, match=r"node 'bad', channel \d, epoch 1: execute on stream 'rows' raised .*no more"):
        run(client, Lazy)


def test_code_may_not_wait_for_the_service_that_runs_it(client: Client) -> None:
    class Inside(PassOn):
        def done(self, channel: int) -> Any:
            return run(client, PassOn)

    with pytest.raises(TaskFailed, match="in another service") as raised:
        run(client, Inside)
    assert raised.value.reason == "NODE_FAILED"
    assert run(client, PassOn).rows == 10


def test_code_may_wait_for_a_service_of_its_own(client: Client) -> None:
    class Other(PassOn):
        def done(self, channel: int) -> Any:
            with tidegate.local() as other:
                return run(other, PassOn)

    assert run(client, Other).rows == 10 + 2 * 10


def test_what_is_kept_stays_good_when_its_dataset_is_closed(client: Client) -> None:
    kept: list[pa.RecordBatch] = []

    class Keeps(PassOn):
        def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Any:
            kept.extend(batches)

    dataset = client.dataset(numbers(100_000))
    graph = TaskGraph()
    graph.blocking("keeps", Keeps, graph.read_dataset(dataset))
    client.run_graph(graph).close()
    dataset.close()
    assert pa.Table.from_batches(kept) == numbers(100_000)


def test_rows_without_an_end_stop_when_nobody_wants_more(client: Client) -> None:
    class Endless(PassOn):
        def done(self, channel: int) -> Iterator[pa.Table]:
            while True:
                yield numbers(1000)

    graph = TaskGraph()
    endless = graph.node("endless", Endless, fed(graph), channels=2, partition="k")
    graph.blocking("first", lambda: First(5000), endless)
    assert client.run_graph(graph, {"numbers": numbers(1)}).rows == 5000


def test_a_node_may_end_its_own_task(client: Client) -> None:
    tasks: list[tidegate.Task] = []

    class Ends(PassOn):
        def done(self, channel: int) -> None:
            tasks[0].cancel()

    graph = TaskGraph()
    graph.blocking("ends", Ends, fed(graph))
    with client.create_task(graph) as task:
        tasks.append(task)
        with pytest.raises(tidegate.TaskCancelled):
            task.run_epoch({"numbers": numbers(1)})
