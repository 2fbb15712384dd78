"""Datasets: rows that never change, outlive what made them, and go with whoever holds them; small ones in memory, else
in files.
"""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tidegate import Client, Dataset, TaskGraph
from tidegate.executor.datasets import dataset_files
from tidegate.proto.dataset import Keyed

from .executors import CALLS, NUMBERS, SUMS, Calls, HashJoin, PassOn, SumByKey, fed, numbers, sums


def dataset_of(client: Client, table: pa.Table) -> Dataset:
    graph = TaskGraph()
    graph.blocking("kept", PassOn, fed(graph))
    return client.run_graph(graph, {"numbers": table})


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Dataset is so small that it stays in memory."""
    monkeypatch.setattr(dataset_files, "MOST_IN_MEMORY", 0)


@pytest.mark.parametrize("most_in_memory", [0, 2 << 20, 8 << 20])
def test_a_dataset_has_its_graphs_rows_in_order_as_often_as_one_likes(
    client: Client, most_in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_files, "MOST_IN_MEMORY", most_in_memory)
    dataset = dataset_of(client, numbers(300_000))
    assert (dataset.rows, dataset.schema) == (300_000, NUMBERS)
    assert dataset.table() == pa.Table.from_batches(list(dataset)) == numbers(300_000)
    assert pa.table(dataset) == numbers(300_000)


def test_it_is_there_when_its_graph_and_client_are_gone() -> None:
    with tidegate.local() as client:
        dataset = dataset_of(client, numbers(10))
    assert dataset.table() == numbers(10)


def test_a_graph_may_be_run_without_a_client() -> None:
    graph = TaskGraph()
    graph.blocking("sums", SumByKey, fed(graph), schema=SUMS)
    assert graph.run({"numbers": numbers(100)}).table() == sums(numbers(100))


def test_its_files_are_gone_when_nothing_refers_to_it(tmp_path: Path) -> None:
    with tidegate.local(spill_directory=tmp_path) as client:
        dataset = dataset_of(client, numbers(10))
    kept = [Path(split.path) for split in dataset.splits()]
    assert all(path.exists() for path in kept)
    del dataset
    gc.collect()
    assert files(tmp_path) == []


@pytest.mark.usefixtures("on_disk")
def test_closing_it_removes_its_files_and_leaves_what_was_read(tmp_path: Path) -> None:
    with tidegate.local(spill_directory=tmp_path) as client, dataset_of(client, numbers(100)) as dataset:
        table = dataset.table()
        assert dataset.size > 0
    assert dataset.closed
    assert files(tmp_path) == []
    assert table == numbers(100)
    for use in (dataset.table, dataset.splits, lambda: iter(dataset)):
        with pytest.raises(tidegate.Refused, match="was closed") as raised:
            use()
        assert raised.value.reason == "DATASET_CLOSED"


def test_a_dataset_without_rows_has_a_schema(client: Client) -> None:
    dataset = dataset_of(client, numbers(0))
    assert dataset.table() == numbers(0)
    graph = TaskGraph()
    graph.collect(graph.read_dataset(dataset))
    assert client.run_graph(graph).rows == 0


def test_it_is_a_stream_of_a_later_graph(client: Client) -> None:
    dataset = dataset_of(client, numbers(100_000))
    graph = TaskGraph()
    stream = graph.read_dataset(dataset)
    del dataset
    gc.collect()  # the graph keeps it
    graph.blocking("sums", SumByKey, stream, channels=2, partition="k", schema=SUMS)
    assert client.run_graph(graph).table().sort_by("k") == sums(numbers(100_000))


def test_it_is_a_static_side_in_every_epoch_of_a_task(client: Client) -> None:
    graph = TaskGraph()
    streams = {"build": graph.read_dataset(dataset_of(client, numbers(7, start=70))), "probe": fed(graph)}
    options = {"partition": {"build": None, "probe": tidegate.SPREAD}, "after": {"probe": "build"}}
    graph.blocking("join", HashJoin, streams, channels=2, schema=HashJoin.schema, **options)
    with client.create_task(graph) as task:
        for start in (0, 1000):
            rows = task.run_epoch({"numbers": numbers(50, start=start)}).table()
            assert sorted(rows["v"].to_pylist()) == list(range(start, start + 50))
            assert all(row["w"] == 70 + row["k"] for row in rows.to_pylist())


def test_rounds_of_a_loop_are_graphs_over_datasets(client: Client) -> None:
    dataset = client.dataset(numbers(10))
    for _ in range(5):
        graph = TaskGraph()
        doubled = graph.read_dataset(dataset).map(
            lambda batch: pa.record_batch(
                [batch["k"], pa.array([2 * v for v in batch["v"].to_pylist()])], schema=NUMBERS
            )
        )
        graph.collect(doubled)
        dataset = client.run_graph(graph)
    assert dataset.table()["v"].to_pylist() == [32 * v for v in range(10)]


def test_it_is_a_split_of_a_fed_source(client: Client) -> None:
    graph = TaskGraph()
    graph.blocking("sums", SumByKey, fed(graph), channels=2, partition="k", schema=SUMS)
    with client.create_task(graph) as task:
        for dataset in (client.dataset(numbers(100)), client.dataset(numbers(9, keys=2), keyed=tidegate.Ranged("v"))):
            result = task.run_epoch({"numbers": dataset}).table()
            assert result.sort_by("k") == sums(dataset.table())


def test_a_small_dataset_has_files_once_somebody_asks_for_them(tmp_path: Path) -> None:
    with tidegate.local(spill_directory=tmp_path) as client:
        dataset = dataset_of(client, numbers(1000))
        before = list(dataset)
        assert not list(tmp_path.rglob("*.arrow"))
        assert [Path(split.path) for split in dataset.splits()] == list(tmp_path.rglob("*.arrow"))
        assert list(dataset) == before


def test_a_large_dataset_is_in_files_alone(tmp_path: Path) -> None:
    held = dataset_files.memory.used
    with tidegate.local(spill_directory=tmp_path) as client:
        dataset = dataset_of(client, numbers(600_000))
        assert sum(path.stat().st_size for path in tmp_path.rglob("*.arrow")) >= 600_000 * 16
        assert dataset_files.memory.used == held
        assert dataset.table() == numbers(600_000)


def test_what_all_datasets_keep_in_memory_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = dataset_files.memory.used
    monkeypatch.setattr(dataset_files.memory, "limit", held + 40_000)
    with tidegate.local(spill_directory=tmp_path) as client:
        first, second, third = (client.dataset(numbers(1000)) for _ in range(3))
        assert len(list(tmp_path.rglob("*.arrow"))) == 1
        first.close()
        fourth = client.dataset(numbers(1000))
        assert len(list(tmp_path.rglob("*.arrow"))) == 1
        assert [dataset.table() for dataset in (second, third, fourth)] == [numbers(1000)] * 3
    del second, third, fourth
    gc.collect()
    assert dataset_files.memory.used <= held


@pytest.mark.parametrize("keyed", [None, tidegate.Hashed(("k",), 1), tidegate.Hashed(("k",), 2), tidegate.Ranged("k")])
def test_memory_that_changes_later_changes_no_dataset(client: Client, keyed: Keyed | None) -> None:
    keys = np.arange(1000)
    dataset = client.dataset(pa.table({"k": keys}), keyed=keyed)
    before = sorted(dataset.table()["k"].to_pylist())
    keys[:] = -1
    assert sorted(dataset.table()["k"].to_pylist()) == before == list(range(1000))


@pytest.mark.usefixtures("on_disk")
def test_a_failed_graph_leaves_no_files(tmp_path: Path) -> None:
    class Breaks(PassOn):
        def done(self, channel: int) -> None:
            raise ValueError("at the very end")

    graph = TaskGraph()
    graph.blocking("breaks", Breaks, fed(graph))
    with tidegate.local(spill_directory=tmp_path) as client, pytest.raises(tidegate.TaskFailed):
        client.run_graph(graph, {"numbers": numbers(300_000)})
    assert files(tmp_path) == []


def test_a_dataset_that_was_closed_is_refused_as_an_input(client: Client) -> None:
    dataset = dataset_of(client, numbers(1))
    graph = TaskGraph()
    graph.collect(graph.read_dataset(dataset))
    dataset.close()
    with pytest.raises(tidegate.Refused, match="was closed"):
        client.run_graph(graph)


def test_a_dataset_is_made_of_any_arrow_data(client: Client) -> None:
    reader = pa.RecordBatchReader.from_batches(NUMBERS, iter(numbers(200_000).to_batches(max_chunksize=999)))
    assert client.dataset(reader).table() == numbers(200_000)
    words = pa.table({"w": pa.array(["a", "b", None, "a"]).dictionary_encode()})
    assert client.dataset(words).table() == words
    with pytest.raises(tidegate.InvalidRequest, match="not list"):
        client.dataset([1, 2])


def test_its_files_are_a_checkpoints(client: Client) -> None:
    from tidegate.executor.checkpoints.checkpoint_folder import CheckpointFolder
    from tidegate.executor.checkpoints.disk import LocalDisk

    dataset = dataset_of(client, numbers(300_000))
    folder = CheckpointFolder(LocalDisk(), Path(dataset.splits()[0].path).parent)
    manifest = folder.manifest("dataset")
    parts = [folder.table(manifest, part) for part in manifest.parts]
    assert pa.concat_tables(parts) == numbers(300_000)


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_rows_partitioned_as_a_node_wants_them_stay_where_they_are(client: Client, channels: int) -> None:
    dataset = client.dataset(numbers(1000, keys=50), keyed=tidegate.Hashed(("k",), channels))
    graph = TaskGraph()
    graph.blocking("sum", SumByKey, graph.read_dataset(dataset), schema=SUMS, channels=channels, partition="k")
    assert "exchange" not in client.explain(graph).text
    assert client.run_graph(graph).table().sort_by("k") == sums(numbers(1000, keys=50))


@pytest.mark.parametrize(
    ("key", "partitions", "wanted"), [(("k",), 4, "k"), (("k",), 2, ["k", "v"]), (("v", "k"), 2, ["k", "v"])]
)
def test_rows_partitioned_otherwise_are_exchanged(
    client: Client, key: tuple[str, ...], partitions: int, wanted: str | list[str]
) -> None:
    dataset = client.dataset(numbers(100), keyed=tidegate.Hashed(key, partitions))
    graph = TaskGraph()
    graph.blocking("rows", PassOn, graph.read_dataset(dataset), channels=2, partition=wanted)
    assert "exchange 1" in client.explain(graph).text
    assert client.run_graph(graph).table().sort_by("v") == numbers(100)


def test_partitions_of_one_key_meet_whether_they_were_exchanged_or_lie_so(client: Client) -> None:
    build = client.dataset(numbers(500, keys=200), keyed=tidegate.Hashed(("k",), 3))
    graph = TaskGraph()
    streams = {"build": graph.read_dataset(build), "probe": fed(graph)}
    join = HashJoin
    graph.blocking("join", join, streams, after={"probe": "build"}, channels=3, partition="k", schema=join.schema)
    with client.create_task(graph) as task:
        assert task.run_epoch({"numbers": numbers(200, keys=200)}).rows == 500


def test_each_node_reads_a_dataset_for_itself(client: Client) -> None:
    graph = TaskGraph()
    rows = graph.read_dataset(client.dataset(numbers(1000)), name="rows")
    one = graph.node("one", PassOn, rows, channels=2, partition=tidegate.SPREAD)
    streams = {"all": rows, "some": one, "shares": rows}
    partition = {"all": None, "some": tidegate.SPREAD, "shares": tidegate.SPREAD}
    graph.blocking("end", PassOn, streams, schema=NUMBERS, channels=2, partition=partition)
    text = client.explain(graph).text
    assert "all: from rows, broadcast, all of it in each channel" in text
    assert "shares: from rows, spread, a share of it in each channel" in text
    assert client.run_graph(graph).rows == 2 * 1000 + 1000 + 1000


def test_a_partition_without_rows_is_a_channel_without_rows(client: Client) -> None:
    dataset = client.dataset(numbers(10, keys=1), keyed=tidegate.Hashed(("k",), 4))
    graph = TaskGraph()
    graph.blocking("calls", Calls, graph.read_dataset(dataset), schema=CALLS, channels=4, partition="k")
    assert sorted(client.run_graph(graph).table()["call"].to_pylist()) == ["done"] * 4 + ["rows"]
