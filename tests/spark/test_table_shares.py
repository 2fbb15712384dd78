"""Large tables that a plan reads row by row: partitions are shares of the files, computed where Spark reads them."""

from __future__ import annotations

import os
import resource
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub
from google.protobuf.json_format import MessageToJson
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

import tidegate
from tidegate.client import Client
from tidegate.executor.service import embedded
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.executor.tasks import add_splits
from tidegate.operators.sources import scan
from tidegate.proto.errors import ExecutionError, Refused
from tidegate.proto.values import FoundFile
from tidegate.spark.data_source import table_shares
from tidegate.spark.data_source.datasource import TidegateSource
from tidegate.spark.data_source.shared_results import Range
from tidegate.spark.data_source.table_shares import Part, Share, parts_of

from ..server.running import remote_client

COLUMNS = {"k": sub.i64, "v": sub.fp64}
TABLE = sub.read_named_table("rows", COLUMNS)
KEPT = TABLE.filter(sub.f.gte(sub.col("k"), sub.lit(0, sub.i64))).select("k", "v")
LARGE = table_shares.LEAST_BYTES


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with remote_client(PlanEngine(["/"], tmp_path_factory.mktemp("served"))) as opened:
        yield opened


@pytest.fixture
def worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_shares, "LEAST_BYTES", 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files, of 7, 1 and 3 row groups."""
    path = tmp_path_factory.mktemp("rows")
    write(path)
    return path


def write(path: Path) -> None:
    for number, (first, end) in enumerate([(-5_000, 700_000), (700_000, 700_001), (700_001, 1_000_000)]):
        rows = pa.table({"k": np.arange(first, end), "v": np.arange(first, end) / 2})
        pq.write_table(rows, path / f"part-{number}.parquet", row_group_size=105_000)


EXPECTED = pa.table({"k": np.arange(1_000_000), "v": np.arange(1_000_000) / 2})


def reader_of(client: Client, table: Path, frame: sub.DataFrame = KEPT, **options: object) -> DataSourceReader:
    texts = {name: str(value) for name, value in options.items()}
    plan = MessageToJson(frame.to_plan())
    source = TidegateSource({"server": str(client.address), "plan": plan, "table.rows": str(table), **texts})
    return source.reader(source.schema())


def read(reader: DataSourceReader, parts: list[InputPartition]) -> pa.Table:
    return pa.Table.from_batches([batch for part in parts for batch in reader.read(part)])


@pytest.mark.usefixtures("worth_it")
@pytest.mark.parametrize("partitions", [1, 2, 3, 40])
def test_the_shares_have_the_rows_of_the_plan_in_order_and_the_server_computes_none(
    client: Client, folder: Path, partitions: int
) -> None:
    reader = reader_of(client, folder, partitions=partitions)
    parts = reader.partitions()
    assert len(parts) == partitions
    seen = []
    for part in parts:
        for batch in reader.read(part):
            assert client.tasks() == []
            seen.append(batch)
    assert pa.Table.from_batches(seen) == EXPECTED


@pytest.mark.usefixtures("worth_it")
def test_a_share_that_is_computed_here_reads_no_file_ahead(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "_is_worth", lambda *_: True)
    reader = reader_of(client, folder, TABLE.select("k", "v"), partitions=1)
    [part] = reader.partitions()
    before = set(threading.enumerate())
    threads = {thread.name for _ in reader.read(part) for thread in set(threading.enumerate()) - before}
    assert not [name for name in threads if name.startswith("tidegate-reader")]


@pytest.mark.usefixtures("worth_it")
@pytest.mark.parametrize("frame", [KEPT, TABLE.select("k", "v").sort("k")], ids=["a share", "a result of the server"])
def test_a_null_in_a_column_that_spark_reads_as_not_null_is_an_error_that_names_the_column(
    client: Client, tmp_path: Path, frame: sub.DataFrame
) -> None:
    pq.write_table(pa.table({"k": [1, 2], "v": [0.5, None]}), tmp_path / "rows.parquet")
    plan = MessageToJson(frame.to_plan())
    source = TidegateSource({"server": str(client.address), "plan": plan, "table.rows": str(tmp_path)})

    def read_as(k: StructField, v: StructField) -> pa.Table:
        reader = source.reader(StructType([k, v]))
        return read(reader, reader.partitions())

    k = StructField("k", LongType(), nullable=False)
    assert read_as(k, StructField("v", DoubleType())).to_pylist() == [{"k": 1, "v": 0.5}, {"k": 2, "v": None}]
    with pytest.raises(ExecutionError, match="column 'v' has nulls") as error:
        read_as(k, StructField("v", DoubleType(), nullable=False))
    assert error.value.reason == "NULL_IN_REQUIRED_COLUMN"


LISTS, MAPS = sub.list_(sub.list_(sub.i64())), sub.map_(sub.string(), sub.i64())


@pytest.mark.usefixtures("worth_it")
@pytest.mark.parametrize(
    ("type_", "fine", "bad", "promised"),
    [
        (LISTS, [[[1], None], None], [[1, None]], ArrayType(ArrayType(LongType(), containsNull=False))),
        (LISTS, [[[1, None]], None], [None], ArrayType(ArrayType(LongType()), containsNull=False)),
        (MAPS, [[("a", 1)], None], [("a", 1), ("b", None)], MapType(StringType(), LongType(), valueContainsNull=False)),
    ],
)
def test_a_null_in_lists_and_maps_that_spark_reads_without_nulls_is_an_error_that_names_the_column(
    client: Client, tmp_path: Path, type_: Any, fine: list[Any], bad: Any, promised: DataType
) -> None:
    plan = MessageToJson(sub.read_named_table("rows", {"k": sub.i64, "v": type_}).to_plan())
    source = TidegateSource({"server": str(client.address), "plan": plan, "table.rows": str(tmp_path)})
    written = pa.map_(pa.string(), pa.int64()) if isinstance(promised, MapType) else pa.list_(pa.list_(pa.int64()))

    def read_values(values: list[Any]) -> list[Any]:
        rows = pa.table({"k": range(len(values)), "v": pa.array(values, written)})
        pq.write_table(rows, tmp_path / "rows.parquet")
        reader = source.reader(StructType([StructField("k", LongType()), StructField("v", promised)]))
        return read(reader, reader.partitions())["v"].to_pylist()

    assert read_values(fine) == fine
    with pytest.raises(ExecutionError, match="column 'v' has nulls") as error:
        read_values([*fine, bad])
    assert error.value.reason == "NULL_IN_REQUIRED_COLUMN"


NOT_HERE: dict[str, Callable[[Share], Share]] = {
    "another version of Tidegate": lambda share: replace(share, made_by=replace(share.made_by, version="0.0.1")),
    "another engine": lambda share: replace(share, made_by=replace(share.made_by, engines={"duckdb": "1"})),
}


@pytest.mark.usefixtures("worth_it")
@pytest.mark.parametrize("change", NOT_HERE.values(), ids=NOT_HERE.keys())
def test_the_server_computes_a_share_that_an_executor_cannot(
    client: Client, folder: Path, change: Callable[[Share], Share]
) -> None:
    check_server_computes(client, folder, change)


class OtherFiles:
    """A service that sees files of the same sizes and times, whose last bytes are other ones."""

    def __init__(self, service: Any) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    def find_files(self, *arguments: Any, **options: Any) -> list[FoundFile]:
        return [replace(file, ending="0") for file in self._service.find_files(*arguments, **options)]


@pytest.mark.usefixtures("worth_it")
def test_the_server_computes_the_shares_of_executors_that_see_other_files_of_the_same_sizes_and_times(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = embedded.open_service
    monkeypatch.setattr(embedded, "open_service", lambda **options: OtherFiles(opened(**options)))
    check_server_computes(client, folder, lambda share: share)


@pytest.mark.usefixtures("worth_it")
def test_the_server_computes_the_shares_of_executors_whose_memory_is_bounded(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 30, 1 << 30))
    check_server_computes(client, folder, lambda share: share)


@pytest.mark.usefixtures("worth_it")
def test_the_server_computes_the_shares_of_executors_that_have_no_folder_for_temporary_files(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "part-0.parquet"))
    check_server_computes(client, folder, lambda share: share)


def check_server_computes(client: Client, folder: Path, change: Callable[[Share], Share]) -> None:
    reader = reader_of(client, folder, partitions=2, output_bytes=1 << 20)
    seen = []
    for part in reader.partitions():
        rows = reader.read(InputPartition(change(part.value)))
        seen.append(next(rows))
        assert len(client.tasks()) == 1
        seen += rows
        assert client.tasks() == []
    assert pa.Table.from_batches(seen) == EXPECTED


@pytest.mark.usefixtures("worth_it")
@pytest.mark.parametrize("here", [True, False])
def test_a_share_that_is_not_read_whole_leaves_nothing(client: Client, folder: Path, here: bool) -> None:
    reader = reader_of(client, folder, output_bytes=1 << 20)
    [part] = reader.partitions()
    rows = reader.read(part if here else on_the_server(part))
    next(rows)
    rows.close()
    assert client.tasks() == []


def replaced(file: Path) -> None:
    pq.write_table(EXPECTED, file)


def of_the_same_size_and_time(file: Path) -> None:
    """Written by another program, by what its end says."""
    before = file.stat()
    file.write_bytes(file.read_bytes().replace(b"parquet-cpp", b"parquet-cup"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def of_two_files(file: Path) -> None:
    file.unlink()
    file.mkdir()
    write(file)


CHANGES: dict[str, Callable[[Path], None]] = {"replaced": replaced, "deleted": Path.unlink}
BETWEEN = {
    **CHANGES,
    "of the same size and time": of_the_same_size_and_time,
    "a pipe": pipe,
    "a folder": of_two_files,
}


def on_the_server(part: InputPartition) -> InputPartition:
    """The share, which no executor can compute."""
    return InputPartition(replace(part.value, made_by=replace(part.value.made_by, version="0.0.1")))


@pytest.mark.usefixtures("worth_it")
@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("change", BETWEEN.values(), ids=BETWEEN.keys())
def test_files_that_have_changed_since_the_partitions_were_planned_are_refused(
    client: Client, tmp_path: Path, change: Callable[[Path], None], here: bool
) -> None:
    write(tmp_path)
    reader = reader_of(client, tmp_path, partitions=2)
    first, second = (part if here else on_the_server(part) for part in reader.partitions())
    change(tmp_path / "part-2.parquet")
    assert next(reader.read(first)).num_rows
    with pytest.raises(Refused, match="load the DataFrame again") as refused:
        list(reader.read(second))
    assert refused.value.reason == "RESULT_CHANGED"
    assert client.tasks() == []


@pytest.mark.usefixtures("worth_it")
@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_files_that_change_while_a_share_is_read_are_refused(
    client: Client, tmp_path: Path, change: Callable[[Path], None], here: bool
) -> None:
    write(tmp_path)
    reader = reader_of(client, tmp_path, output_bytes=1 << 20)
    [part] = reader.partitions()
    rows = reader.read(part if here else on_the_server(part))
    next(rows)
    change(tmp_path / "part-2.parquet")
    with pytest.raises(Refused, match="load the DataFrame again") as refused:
        list(rows)
    assert refused.value.reason == "RESULT_CHANGED"
    assert client.tasks() == []


@pytest.mark.usefixtures("worth_it")
def test_a_folder_of_more_files_than_an_answer_lists_is_read_as_one_result(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(add_splits, "MOST_FOUND", 2)
    reader = reader_of(client, folder, partitions=2)
    parts = reader.partitions()
    assert all(isinstance(part.value, Range) for part in parts)
    assert read(reader, parts) == EXPECTED


@pytest.mark.parametrize("threshold", [0, LARGE], ids=["shares", "ranges"])
def test_values_that_spark_cannot_hold_are_refused_by_the_name_of_their_column(
    client: Client, tmp_path: Path, threshold: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_shares, "LEAST_BYTES", threshold)
    pq.write_table(pa.table({"k": [1, 2], "t": pa.array([1_000, 2_001], pa.timestamp("ns"))}), tmp_path / "a.parquet")
    reader = reader_of(client, tmp_path, sub.read_named_table("rows", {"k": sub.i64, "t": sub.precision_timestamp(9)}))
    with pytest.raises(tidegate.ExecutionError, match="column 't'") as refused:
        read(reader, reader.partitions())
    assert refused.value.reason == "UNSUPPORTED_COLUMN"


def grouped() -> sub.DataFrame:
    return TABLE.group_by("k").agg(sub.f.sum(sub.col("v")).alias("v"))


@pytest.mark.usefixtures("worth_it")
@pytest.mark.parametrize(
    ("frame", "options"),
    [(grouped(), {}), (TABLE.sort("k"), {}), (KEPT.union(KEPT), {}), (KEPT, {"limit": 3})],
    ids=["groups", "sort", "union", "limit"],
)
def test_other_plans_have_partitions_of_one_result(
    client: Client, folder: Path, frame: sub.DataFrame, options: dict[str, object]
) -> None:
    reader = reader_of(client, folder, frame, **options)
    [part] = reader.partitions()
    assert isinstance(part.value, Range)
    list(reader.read(part))


@pytest.mark.usefixtures("worth_it")
def test_a_plan_that_reads_the_clock_is_computed_at_one_time(client: Client, folder: Path) -> None:
    plan = KEPT.to_plan()
    now = plan.relations[0].root.input.project.expressions.add()
    now.execution_context_variable.current_timestamp.precision = 6
    plan.relations[0].root.input.project.common.emit.output_mapping.append(4)
    assert not table_shares.reads_row_by_row(
        tidegate.with_parameters(plan.SerializeToString(), {}), client.explain(KEPT.to_plan().SerializeToString())
    )
    assert table_shares.reads_row_by_row(
        tidegate.with_parameters(KEPT.to_plan().SerializeToString(), {}),
        client.explain(KEPT.to_plan().SerializeToString()),
    )


def test_a_plan_with_messages_of_types_that_this_process_lacks_can_be_read(client: Client) -> None:
    plan = KEPT.to_plan()
    explanation = client.explain(plan.SerializeToString())
    plan.advanced_extensions.optimization.add(type_url="type.googleapis.com/elsewhere.Relation", value=b"rows")
    assert table_shares.reads_row_by_row(tidegate.with_parameters(plan.SerializeToString(), {}), explanation)


def test_small_tables_have_partitions_of_one_result(client: Client, folder: Path) -> None:
    reader = reader_of(client, folder, partitions=2)
    parts = reader.partitions()
    assert all(isinstance(part.value, Range) for part in parts)
    assert read(reader, parts) == EXPECTED


PIECES = st.lists(st.lists(st.integers(0, 50), max_size=5), min_size=1, max_size=5).filter(any)


@given(sizes=PIECES, count=st.integers(1, 9))
def test_every_row_is_in_one_share_and_in_order(sizes: list[list[int]], count: int) -> None:
    files = []
    for number, groups in enumerate(sizes):
        ends = [sum(groups[: at + 1]) for at in range(len(groups))]
        pieces = tuple((end - rows, end) for rows, end in zip(groups, ends, strict=True))
        files.append(FoundFile(path=str(number), format="parquet", size=LARGE, pieces=pieces, version="1"))
    shares = parts_of(files, count)
    assert shares is not None
    assert len(shares) == count
    rows = [
        (part.split.path, row)
        for share in shares
        for part in share
        for row in range(*(part.split.rows or (0, sum(sizes[int(part.split.path)]))))
    ]
    assert rows == [(str(number), row) for number, groups in enumerate(sizes) for row in range(sum(groups))]


@pytest.mark.usefixtures("worth_it")
def test_files_without_row_groups_among_others_are_read_in_shares(client: Client, tmp_path: Path) -> None:
    for number in range(5):
        with pq.ParquetWriter(tmp_path / f"part-{number}.parquet", EXPECTED.schema) as file:
            if number % 2:
                file.write_table(EXPECTED.slice(number * 100, 100))
    reader = reader_of(client, tmp_path, partitions=3)
    parts = reader.partitions()
    assert all(isinstance(part.value, Share) for part in parts)
    assert sorted(part.split.path[-9] for share in parts for part in share.value.parts) == list("01234")
    assert read(reader, parts) == pa.concat_tables([EXPECTED.slice(100, 100), EXPECTED.slice(300, 100)])


@pytest.mark.parametrize(
    "change",
    [{"format": "csv"}, {"folders": (("day", "1"),)}, {"pieces": ()}, {"size": LARGE - 1}],
    ids=lambda change: next(iter(change)),
)
def test_files_that_cannot_be_shared_out_are_not(change: dict[str, object]) -> None:
    file = FoundFile(path="a", format="parquet", size=LARGE, pieces=((0, 3),))
    assert parts_of([file], 1) == [(Part(tidegate.FileSplit("a", format="parquet", version=""), ""),)]
    assert parts_of([replace(file, **change)], 1) is None


def test_spark_reads_a_large_table_through_its_own_workers(spark: SparkSession, client: Client, tmp_path: Path) -> None:
    rows = np.random.default_rng(5).integers(0, 1 << 60, 3_000_000)
    pq.write_table(pa.table({"k": rows, "v": rows / 2}), tmp_path / "rows.parquet", row_group_size=1_000_000)
    tidegate.spark.register(spark)
    reader = spark.read.format("tidegate").option("server", client.address).option("partitions", 2)
    reader = reader.option("plan", MessageToJson(KEPT.to_plan())).option("table.rows", str(tmp_path))
    frame = reader.load()
    assert frame.rdd.getNumPartitions() == 2
    of_spark, ours = (
        whole.where("k > 100").agg({"k": "max", "v": "count"}).collect()
        for whole in (spark.read.parquet(str(tmp_path)), frame)
    )
    assert ours == of_spark
    assert frame.limit(3).toArrow()["k"].to_pylist() == rows[:3].tolist()
