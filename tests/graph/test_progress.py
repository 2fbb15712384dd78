"""Progress of a graph, reported while it runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import tidegate
from tidegate import Client, GraphProgress, SourceProgress, TaskGraph

from .executors import NUMBERS, First, PassOn, fed, numbers


class Gate(PassOn):
    """Stops at the second batch of its stream until it is let go on."""

    def __init__(self, reached: threading.Event, go_on: threading.Event) -> None:
        self.batches = 0
        self.reached, self.go_on = reached, go_on

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> Sequence[pa.RecordBatch]:
        self.batches += 1
        if self.batches == 2:
            self.reached.set()
            assert self.go_on.wait(60)
        return batches


@pytest.fixture
def gates() -> Iterator[tuple[threading.Event, threading.Event]]:
    reached, go_on = threading.Event(), threading.Event()
    yield reached, go_on
    go_on.set()


def test_statistics_say_while_a_graph_runs_how_far_it_is(
    client: Client, gates: tuple[threading.Event, threading.Event]
) -> None:
    reached, go_on = gates
    graph = TaskGraph()
    graph.blocking("gate", lambda: Gate(reached, go_on), graph.source("numbers", NUMBERS, stride=100))
    rows = pa.Table.from_batches(numbers(1000).to_batches(max_chunksize=100))
    with client.create_task(graph) as task:
        task.add_split("numbers", rows)
        task.request_barrier()
        assert reached.wait(60)
        during = task.statistics()
        go_on.set()
        assert task.read_epoch().num_rows == 1000
        after = task.statistics()
    assert during.progress == {"numbers": SourceProgress(rows=200, total=1000)}
    assert during.progress["numbers"].share == 0.2
    assert {operator.place: operator.rows_out for operator in during.operators} == {"numbers": 200, "gate": 100}
    assert after.progress == {"numbers": SourceProgress(rows=1000, total=1000)}


def test_what_went_into_an_exchange_is_told_before_it_is_read(
    client: Client, gates: tuple[threading.Event, threading.Event]
) -> None:
    reached, go_on = gates
    graph = TaskGraph()
    passed_on = graph.node("made", PassOn, graph.source("numbers", NUMBERS))
    graph.blocking("gate", lambda: Gate(reached, go_on), passed_on, channels=2, partition=None)
    with client.create_task(graph) as task:
        task.add_split("numbers", numbers(300_000))
        task.request_barrier()
        assert reached.wait(60)
        gate_statistics = [operator for operator in task.statistics().operators if operator.place == "gate.rows"]
        go_on.set()
        task.read_epoch()
    assert 2 * 65_536 <= sum(operator.rows_in for operator in gate_statistics) <= 300_000


def test_each_epoch_is_told_for_itself(client: Client) -> None:
    graph = TaskGraph()
    graph.collect(fed(graph))
    with client.create_task(graph) as task:
        assert task.statistics().progress == {}
        for rows in (30, 7):
            task.run_epoch({"numbers": numbers(rows)})
            assert task.statistics().progress == {"numbers": SourceProgress(rows=rows, total=rows)}


def test_what_all_channels_read_for_themselves_counts_for_each(client: Client) -> None:
    graph = TaskGraph()
    streams = {"own": fed(graph), "all": graph.read_dataset(client.dataset(numbers(50)), name="cached")}
    graph.blocking("both", PassOn, streams, channels=3, partition={"own": "k", "all": None}, schema=NUMBERS)
    with client.create_task(graph) as task:
        task.run_epoch({"numbers": numbers(20)})
        assert task.statistics().progress == {
            "numbers": SourceProgress(rows=20, total=20),
            "cached": SourceProgress(rows=150, total=150),
        }


def test_inputs_tell_how_many_rows_they_have_where_they_know(client: Client, tmp_path: Path) -> None:
    pa.parquet.write_table(numbers(10), tmp_path / "a.parquet")
    pa.csv.write_csv(numbers(20), tmp_path / "a.csv")
    graph = TaskGraph()
    graph.collect(
        graph.union(
            graph.read_parquet(tmp_path / "a.parquet", schema=NUMBERS),
            graph.read_csv(tmp_path / "a.csv", NUMBERS),
            graph.read_arrow(numbers(30)),
            graph.read_iterable([(1, 2)], NUMBERS, name="pairs"),
        )
    )
    reports: list[GraphProgress] = []
    client.run_graph(graph, progress=reports.append)
    assert {name: (source.rows, source.total) for name, source in reports[-1].sources.items()} == {
        "parquet1": (10, 10),
        "csv1": (20, None),
        "iterable1": (30, 30),
        "pairs": (1, None),
    }
    assert (reports[-1].rows, reports[-1].share) == (61, 1.0)


def test_a_source_that_its_reader_had_enough_of_stays_unread() -> None:
    graph = TaskGraph()
    batches = numbers(1000).to_batches(max_chunksize=10)
    graph.blocking("first", First, graph.read_iterable(batches, NUMBERS, name="numbers", stride=10))
    reports: list[GraphProgress] = []
    assert graph.run(progress=reports.append).rows == 3
    share = reports[-1].sources["numbers"].share
    assert share is not None
    assert share < 0.1


def test_a_function_is_told_while_the_graph_runs(
    client: Client, gates: tuple[threading.Event, threading.Event]
) -> None:
    reached, go_on = gates
    reports: list[GraphProgress] = []

    def tell(progress: GraphProgress) -> None:
        reports.append(progress)
        if progress.rows == 200:  # without a snapshot of its middle the graph does not go on
            go_on.set()

    graph = TaskGraph()
    graph.blocking("gate", lambda: Gate(reached, go_on), graph.source("numbers", NUMBERS, stride=100))
    rows = pa.Table.from_batches(numbers(1000).to_batches(max_chunksize=100))
    client.run_graph(graph, {"numbers": rows}, progress=tell)
    assert reports[-1].rows == 1000
    assert reports[-1].share == 1.0
    assert {node.place for node in reports[-1].nodes} >= {"numbers", "gate"}


def test_what_the_function_raises_is_raised_where_the_graph_was_run(client: Client) -> None:
    graph = TaskGraph()
    graph.collect(fed(graph))

    def tell(progress: GraphProgress) -> None:
        raise KeyError(progress.rows)

    with pytest.raises(KeyError, match="5"):
        client.run_graph(graph, {"numbers": numbers(5)}, progress=tell)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_line_is_shown_on_a_terminal_only(
    terminal: bool, client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    graph = TaskGraph()
    graph.collect(fed(graph))
    client.run_graph(graph, {"numbers": numbers(5)}, progress=True)
    assert capsys.readouterr().err.endswith("\r\x1b[K") is terminal


def test_progress_that_is_neither_is_refused(client: Client) -> None:
    graph = TaskGraph()
    graph.collect(fed(graph))
    with pytest.raises(tidegate.InvalidRequest, match="progress must be True, False or a function"):
        client.run_graph(graph, {"numbers": numbers(5)}, progress="yes")  # type: ignore[arg-type]
