"""The result that the partitions of a DataFrame share, without Spark: kept, lost and made anew while it is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import DataSourceReader

from tidegate.client import Client
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.proto.errors import NotFound, Refused, TaskFailed
from tidegate.proto.values import FileSplit, Reader, ResultFile, TaskOptions
from tidegate.spark.data_source.datasource import TidegateSource
from tidegate.spark.data_source.shared_files import FileRows, SharedFiles
from tidegate.spark.data_source.shared_results import Range, Result, SharedResult, ranges, result_of
from tidegate.transport.access import Access
from tidegate.transport.remote import RemoteService
from tidegate.transport.result_streams import FlightConnection

from ..executor.fakes import batch
from ..executor.journal.restarts import Restarts
from ..executor.plans import doubled, plan, read
from ..server.running import remote_client, served

ROWS = pa.table({"n": range(3_000_000)})
PLAN = plan(read("a", "n"), "n")
KEPT_SECONDS = 1.0


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with remote_client(PlanEngine(["/"], tmp_path_factory.mktemp("served"))) as opened:
        yield opened


@pytest.mark.parametrize("flight", ["true", "false"])
def test_a_reader_uses_flight_unless_the_option_says_not_to(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flight: str
) -> None:
    connections = []
    connected = FlightConnection._connected
    monkeypatch.setattr(
        FlightConnection, "_connected", lambda self, task: connections.append(task) or connected(self, task)
    )
    reader = reader_of(client, tmp_path, flight=flight)
    assert pa.Table.from_batches(batch for part in reader.partitions() for batch in reader.read(part)) == ROWS
    assert bool(connections) is (flight == "true")


def reader_of(client: Client, folder: Path, **options: object) -> DataSourceReader:
    pq.write_table(ROWS, folder / "rows.parquet")
    texts = {name: str(value) for name, value in options.items()}
    table = str(folder / "rows.parquet")
    source = TidegateSource({"server": str(client.address), "plan": PLAN.json, "table.a": table, **texts})
    return source.reader(source.schema())


def test_a_result_is_computed_on_the_channels_that_are_asked_for(client: Client, tmp_path: Path) -> None:
    reader = reader_of(client, tmp_path, channels=2)
    parts = reader.partitions()
    (task,) = client.tasks()
    assert min(operator.runs for operator in task.statistics.operators) >= 2
    assert pa.Table.from_batches(batch for part in parts for batch in reader.read(part)) == ROWS


def test_a_task_that_is_made_anew_has_the_channels_of_the_first_one_though_the_service_has_other_cores_now(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = [3]
    monkeypatch.setattr(PlanEngine, "cores", lambda *_, **__: cores[0])
    reader = reader_of(client, tmp_path)
    (part,) = reader.partitions()
    client.task(client.tasks()[0].id).delete()
    cores[:] = [1]
    rows = reader.read(part)
    first = next(rows)
    (task,) = client.tasks()
    assert (task.options.auto_cores, task.options.channels) == (3, 3)
    assert pa.Table.from_batches([first, *rows]) == ROWS


def test_a_file_that_the_server_does_not_find_is_said_when_the_schema_is_asked_for(client: Client) -> None:
    source = TidegateSource({"server": str(client.address), "plan": PLAN.json, "table.a": "/nowhere.parquet"})
    with pytest.raises(NotFound, match=r"/nowhere\.parquet"):
        source.schema()
    assert client.tasks() == []


@pytest.fixture
def begin(tmp_path: Path) -> Callable[[RemoteService], str]:
    """Makes the task of this test, or finds it: at once, because the task is idle meanwhile."""
    pq.write_table(ROWS, file := tmp_path / "shared.parquet")

    def begin(service: RemoteService) -> str:
        options = TaskOptions(idle_seconds=KEPT_SECONDS)
        task = service.create_task(PLAN, options, {"a": [FileSplit(str(file))]}, request=tmp_path.name).id
        service.request_barrier(task, 1)
        return task

    return begin


def no_files(*_: object) -> str:
    """The digest of the files of a plan that reads none."""
    return ""


def shared(client: Client, begin: Callable[[RemoteService], str]) -> tuple[SharedResult, list[Range]]:
    service = client._service
    assert isinstance(service, RemoteService)
    return SharedResult(service, begin, KEPT_SECONDS, no_files), ranges(result_of(service, begin(service)), 2)


def test_readers_share_a_task_and_it_ends_with_the_last_of_them(
    client: Client, begin: Callable[[RemoteService], str]
) -> None:
    result, parts = shared(client, begin)
    assert pa.Table.from_batches(batch for part in parts for batch in result.read(part)) == ROWS
    assert client.tasks() == []


def test_a_slow_reader_keeps_the_task_and_one_that_is_closed_has_read(
    client: Client, begin: Callable[[RemoteService], str]
) -> None:
    result, parts = shared(client, begin)
    reading = [result.read(part) for part in parts]
    for rows in reading:
        next(rows)
    (task,) = client.tasks()
    time.sleep(2.5 * KEPT_SECONDS)
    assert [kept.id for kept in client.tasks()] == [task.id]
    for rows in reading:
        rows.close()
    assert client.tasks() == []


def test_a_reader_whose_task_is_deleted_goes_on_with_another_one(
    client: Client, begin: Callable[[RemoteService], str]
) -> None:
    result, parts = shared(client, begin)
    rows = result.read(parts[1])
    first = next(rows)
    (task,) = client.tasks()
    client.task(task.id).delete()
    rest = list(rows)
    assert rest
    assert pa.Table.from_batches([first, *rest]) == ROWS.slice(1_500_000)


@contextmanager
def ending_first(begin: Callable[[RemoteService], str], client: Client) -> Iterator[Callable[[RemoteService], str]]:
    """A `begin` behind whose first call another query's reader ends the task."""
    calls = []

    def begun(service: RemoteService) -> str:
        calls.append(task := begin(service))
        if len(calls) == 1:
            client.task(task).delete()
        return task

    yield begun
    assert len(calls) >= 2


def test_a_task_that_ends_before_a_reader_has_seen_it_is_made_anew(
    client: Client, begin: Callable[[RemoteService], str]
) -> None:
    result, parts = shared(client, begin)
    client.task(client.tasks()[0].id).delete()
    with ending_first(begin, client) as begun:
        result = SharedResult(client._service, begun, KEPT_SECONDS, no_files)  # type: ignore[arg-type]
        assert pa.Table.from_batches(batch for part in parts for batch in result.read(part)) == ROWS


def test_a_task_that_ends_while_partitions_are_planned_is_made_anew(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader: Any = reader_of(client, tmp_path)
    with ending_first(reader._create, client) as begun:
        monkeypatch.setattr(reader, "_create", begun)
        parts = reader.partitions()
        assert pa.Table.from_batches(batch for part in parts for batch in reader.read(part)) == ROWS


@pytest.mark.parametrize("change", ["other values", "another name", "a file more"])
def test_files_that_have_changed_before_a_task_is_made_anew_are_refused_though_the_result_has_as_many_rows(
    client: Client, tmp_path: Path, change: str
) -> None:
    file = tmp_path / "rows.parquet"
    reader = reader_of(client, tmp_path, partitions=2, **{"table.a": tmp_path})
    first, second = reader.partitions()
    assert pa.Table.from_batches(reader.read(first)) == ROWS.slice(0, 1_500_000)
    client.task(client.tasks()[0].id).delete()
    match change:
        case "other values":
            pq.write_table(pa.table({"n": range(1, 3_000_001)}), file)
        case "another name":
            file.rename(tmp_path / "others.parquet")
        case _:
            pq.write_table(ROWS.slice(0, 0), tmp_path / "more.parquet")
    with pytest.raises(Refused, match="load the DataFrame again") as refused:
        list(reader.read(second))
    assert refused.value.reason == "RESULT_CHANGED"
    assert client.tasks() == []


OVERFLOW = plan(doubled(read("a", "n"), 1), "n")


@pytest.mark.parametrize(
    ("rows", "options", "error", "said"),
    [
        ({"n": [1 << 62]}, {}, TaskFailed, "Overflow"),
        ({"n": ["a"]}, {}, TaskFailed, "column 'n' is string in the file"),
        ({"n": range(100_000)}, {"output_bytes": 1_000, "spill_quota": 0}, Refused, "raise spill_quota"),
    ],
)
def test_a_plan_that_fails_while_partitions_are_planned_leaves_no_task(
    client: Client, tmp_path: Path, rows: dict[str, Any], options: dict[str, object], error: type, said: str
) -> None:
    reader = reader_of(client, tmp_path, plan=OVERFLOW.json, idle_seconds=0, **options)
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    with pytest.raises(error, match=said):
        reader.partitions()
    assert client.tasks() == []


def test_a_file_that_is_gone_when_partitions_are_planned_leaves_no_task(client: Client, tmp_path: Path) -> None:
    reader = reader_of(client, tmp_path, idle_seconds=0)
    (tmp_path / "rows.parquet").unlink()
    with pytest.raises(NotFound, match=r"rows\.parquet"):
        reader.partitions()
    assert client.tasks() == []


@pytest.mark.parametrize("there", [False, True])
def test_a_file_of_a_result_that_an_executor_cannot_open_is_refused(tmp_path: Path, there: bool) -> None:
    file = ResultFile(path=str(tmp_path / "part"), rows=1)
    if there:
        (tmp_path / "part").mkdir()
    service: Any = SimpleNamespace(get_task=lambda _: None)
    rows = FileRows("t", 0, file, Reader(1, 1), "digest")
    with pytest.raises(Refused, match="--spark-staging") as refused:
        list(SharedFiles(service, lambda _: "t", KEPT_SECONDS, no_files).read(rows))
    assert refused.value.reason == "RESULT_FILE_UNSEEN"


def test_a_file_of_a_result_that_was_computed_again_from_changed_files_is_refused(tmp_path: Path) -> None:
    file = ResultFile(path=str(tmp_path / "part"), rows=1)
    deleted: list[str] = []
    service: Any = SimpleNamespace(delete_task=deleted.append)  # it is not asked for the result
    result = SharedFiles(service, lambda _: "second", KEPT_SECONDS, lambda *_: "after")
    with pytest.raises(Refused, match="load the DataFrame again") as refused:
        list(result.read(FileRows("first", 0, file, Reader(1, 1), "before")))
    assert refused.value.reason == "RESULT_CHANGED"
    assert deleted == ["second"]


@pytest.mark.parametrize("of_files", [False, True])
def test_a_result_whose_files_are_gone_has_changed_and_is_tried_once(tmp_path: Path, of_files: bool) -> None:
    tried: list[int] = []

    def begin(_: RemoteService) -> str:
        tried.append(1)
        raise NotFound("rows.parquet does not exist", reason="FILE_NOT_FOUND")

    service: Any = SimpleNamespace()
    rows: Iterator[pa.RecordBatch]
    if of_files:
        file = ResultFile(path=str(tmp_path / "part"), rows=1)
        rows = SharedFiles(service, begin, KEPT_SECONDS, no_files).read(FileRows("t", 0, file, Reader(1, 1), "digest"))
    else:
        rows = SharedResult(service, begin, KEPT_SECONDS, no_files).read(Range(Result("t", 1, 1), 0, 1, Reader(1, 1)))
    with pytest.raises(Refused, match=r"have changed .*\(rows\.parquet does not exist\)") as refused:
        list(rows)
    assert refused.value.reason == "RESULT_CHANGED"
    assert len(tried) == 1


@pytest.mark.parametrize("changed", [False, True])
def test_partitions_that_are_read_before_and_after_a_restart_have_rows_of_one_result(
    tmp_path: Path, changed: bool
) -> None:
    with Restarts(tmp_path) as service:
        task = service.create()
        task.add(0, 1)
        task.add(2, 3)
        task.seal()
        with remote(service) as server:
            first, second = ranges(result_of(server, task.id), 2)
            assert values(server, task.id, second) == [2, 3]
        service.kill()
        if changed:
            service.engine.function = lambda some: batch(*(value + 10 for value in some.column(0).to_pylist()))
            service.engine.versions = lambda: {"engine": "another"}  # type: ignore[method-assign]
        service.start()
        with remote(service) as server:
            if not changed:
                assert values(server, task.id, first) == [0, 1]
                return
            for part in (first, second):
                with pytest.raises(Refused, match="load the DataFrame again") as refused:
                    values(server, task.id, part)
                assert refused.value.reason == "RESULT_CHANGED"


@contextmanager
def remote(service: Restarts) -> Iterator[RemoteService]:
    with served(service.manager) as address, closing(RemoteService(Access(address=address))) as opened:
        yield opened


def values(server: RemoteService, task: str, part: Range) -> list[int]:
    read_part = SharedResult(server, lambda _: task, KEPT_SECONDS, no_files).read(part)
    return [value for some in read_part for value in some.column(0).to_pylist()]
