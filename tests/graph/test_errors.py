"""Errors of user code: they have the traceback, the node, the channel and the epoch."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa
import pytest

import tidegate
from tidegate import Client, TaskGraph

from .executors import NUMBERS, PassOn, SumByKey, fed, numbers, sums


class Breaks(PassOn):
    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> object:
        return self.divide(batches[0]["v"][0].as_py())

    def divide(self, value: int) -> float:
        return 1 / (value - value)


def broken(executor: type, **options: object) -> TaskGraph:
    graph = TaskGraph()
    graph.blocking("broken", executor, fed(graph), **options)  # type: ignore[arg-type]
    return graph


def test_the_error_has_the_users_traceback_and_where_it_happened(client: Client) -> None:
    with client.create_task(broken(Breaks, channels=2, partition=lambda batch, channels: [1] * len(batch))) as task:
        task.run_epoch({})
        with pytest.raises(tidegate.TaskFailed) as raised:
            task.run_epoch({"numbers": numbers(1)})
    error = raised.value.__cause__
    assert isinstance(error, tidegate.NodeError)
    assert (error.node, error.channel, error.epoch, error.reason) == ("broken", 1, 2, "NODE_FAILED")
    assert "node 'broken', channel 1, epoch 2: execute on stream 'rows' raised ZeroDivisionError" in str(error)
    assert "in divide\n    return 1 / (value - value)" in str(error)
    assert "user_code.py" not in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_the_log_has_the_error_with_its_traceback(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(tidegate.TaskFailed):
        client.run_graph(broken(Breaks), {"numbers": numbers(1)})
    [record] = [record_ for record_ in caplog.records if "user code failed" in record_.message]
    assert "epoch 1" in record.message
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_a_failed_epoch_leaves_those_before_it(client: Client) -> None:
    class Refuses(SumByKey):
        def done(self, channel: int) -> pa.RecordBatch:
            if not self.totals:
                raise ValueError("there is nothing to add")
            return super().done(channel)

    graph = broken(Refuses, schema=pa.schema([("k", pa.int64()), ("total", pa.int64())]))
    with client.create_task(graph, on_error="skip_epoch") as task:
        for rows in (5, 0, 9):
            task.add_split("numbers", numbers(rows))
            task.request_barrier()
        task.no_more_splits()
        first, skipped, last = task.epochs()
        assert (first.table(), last.table()) == (sums(numbers(5)), sums(numbers(9)))
    assert skipped.error is not None
    assert "done raised ValueError: there is nothing to add" in str(skipped.error)


class RaisesAmongItsRows(PassOn):
    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> object:
        yield batches[0]
        raise ValueError("half way")


class GivesOtherColumns(PassOn):
    def done(self, channel: int) -> pa.RecordBatch:
        return pa.record_batch({"v": [1], "k": [1]})


class GivesOtherTypes(PassOn):
    def done(self, channel: int) -> pa.RecordBatch:
        return pa.record_batch({"k": [1.5], "v": [1.5]})


class GivesADictionary(PassOn):
    def done(self, channel: int) -> object:
        return {"k": [1], "v": [1]}


class GivesNumbers(PassOn):
    def done(self, channel: int) -> object:
        return [1, 2]


class CannotBeMade(PassOn):
    def __init__(self) -> None:
        raise OSError("no such model")


class HasNoEnd:
    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
        return None


class CannotTellWhetherItHasEnough(PassOn):
    def finished(self, stream: str, channel: int) -> bool:
        raise KeyError(stream)


@pytest.mark.parametrize(
    ("executor", "reason", "said"),
    [
        (RaisesAmongItsRows, "NODE_FAILED", "execute on stream 'rows' raised ValueError: half way"),
        (
            GivesOtherColumns,
            "SCHEMA_MISMATCH",
            r"done gave rows of \(v: int64, k: int64\), but .* \(k: int64, v: int64\)",
        ),
        (GivesOtherTypes, "SCHEMA_MISMATCH", r"done gave rows of \(k: double, v: double\)"),
        (GivesADictionary, "NOT_ROWS", "done gave dict, which has no rows"),
        (GivesNumbers, "NOT_ROWS", "done gave int, which has no rows"),
        (CannotBeMade, "NODE_FAILED", "making its executor raised OSError: no such model"),
        (HasNoEnd, "NOT_AN_EXECUTOR", "its executor, a HasNoEnd, has no method done"),
        (CannotTellWhetherItHasEnough, "NODE_FAILED", "finished on stream 'rows' raised KeyError"),
    ],
)
def test_whatever_is_wrong_names_the_node(client: Client, executor: type, reason: str, said: str) -> None:
    with pytest.raises(tidegate.TaskFailed, match=rf"node 'broken', channel 0, epoch 1: .*{said}") as raised:
        client.run_graph(broken(executor), {"numbers": numbers(1)})
    assert raised.value.reason == reason


def test_a_null_where_the_schema_has_none_is_an_error(client: Client) -> None:
    class GivesNull(PassOn):
        def done(self, channel: int) -> pa.RecordBatch:
            return pa.record_batch([pa.array([None], pa.int64())], names=["k"])

    graph = broken(GivesNull, schema=pa.schema([pa.field("k", pa.int64(), nullable=False)]))
    with pytest.raises(tidegate.TaskFailed, match="done gave a null in column 'k'"):
        client.run_graph(graph, {"numbers": []})


def test_a_function_that_breaks_is_named(client: Client) -> None:
    graph = TaskGraph()
    graph.collect(fed(graph).map(lambda batch: 1 // 0, schema=NUMBERS, name="halved"))
    with pytest.raises(
        tidegate.TaskFailed, match="node 'halved', channel 0, epoch 1: its function raised ZeroDivisionErr"
    ):
        client.run_graph(graph, {"numbers": numbers(1)})


def test_an_iterable_that_breaks_is_named(client: Client) -> None:
    def rows() -> object:
        yield (1, 2)
        raise RuntimeError("the line is dead")

    graph = TaskGraph()
    graph.collect(graph.read_iterable(rows, NUMBERS, name="line"))
    with pytest.raises(
        tidegate.TaskFailed, match="node 'line', channel 0, epoch 1: iterating raised RuntimeError: the line is dead"
    ):
        client.run_graph(graph)
