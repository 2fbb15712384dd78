"""`spark.read.format("tidegate")` and the writers: a plan's result as a DataFrame, a source of a task as a sink."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import tidegate
import tidegate.spark
from tidegate.client import Client
from tidegate.executor.service.manager import TaskManager
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.executor.service.spark_entry import SparkPlace
from tidegate.executor.spark.staged_files import StagedRows
from tidegate.proto.values import AddRequest, Barrier, Committed, Transaction
from tidegate.spark.data_source.catalog_tables import options_to_read, with_options
from tidegate.spark.data_source.datasource import TidegateSource
from tidegate.spark.data_source.writing import Sent, Sink
from tidegate.task import Task
from tidegate.transport.access import Access

from ..clients.test_without_columns import nothing_of
from ..executor.plans import filtered_by_parameter, plan, read
from ..server.running import fake_server
from .test_staged import failing_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

PAIRS = plan(read("a", "k", "n"), "k", "n").json
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
TABLE = pa.table({"k": pa.array(range(1000), pa.int64()), "n": pa.array(range(1000, 2000), pa.int64())})


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("served")
    pq.write_table(TABLE, folder / "rows.parquet")
    with fake_server(PlanEngine([str(folder)], folder)) as host_port:
        served[host_port] = folder
        yield host_port


served: dict[str, Path] = {}


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Client]:
    with tidegate.connect(address) as opened:
        yield opened


@pytest.fixture(scope="module")
def registered(spark: SparkSession) -> SparkSession:
    tidegate.spark.register(spark)
    return spark


@pytest.fixture
def reading(registered: SparkSession, address: str) -> DataFrameReader:
    reader = registered.read.format("tidegate").option("server", address).option("plan", PAIRS)
    return reader.option("table.a", str(served[address] / "rows.parquet"))


def pairs(frame: DataFrame) -> list[tuple[int, ...]]:
    return [tuple(row) for row in frame.collect()]


def append(frame: DataFrame, address: str, task: str, **options: Any) -> None:
    writer = frame.write.format("tidegate").mode("append").option("server", address)
    writer.option("task", task).option("source", "a").options(**options).save()


def test_a_plans_result_is_a_frame_of_ranges_in_order(reading: DataFrameReader) -> None:
    frame = reading.option("partitions", 3).load()
    assert frame.schema.simpleString() == "struct<k:bigint,n:bigint>"
    assert pairs(frame) == [(number, number + 1000) for number in range(1000)]
    assert frame.rdd.getNumPartitions() == 3


def none_left(client: Client, *, within: float = 10.0) -> bool:
    """True once no task is left. A worker of Spark's says a moment after the query's end that it has read."""
    deadline = time.monotonic() + within
    while client.tasks() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not client.tasks()


def test_the_task_of_a_result_is_deleted_when_the_result_has_been_read_and_made_anew_when_it_is_read_again(
    reading: DataFrameReader, client: Client
) -> None:
    frame = reading.option("partitions", 3).load()
    for _ in range(2):
        assert len(pairs(frame)) == 1000
        assert none_left(client)


def test_a_result_is_read_by_both_sides_of_a_join(reading: DataFrameReader, client: Client) -> None:
    frame = reading.option("partitions", 3).option("idle_seconds", 1).load()
    assert frame.join(frame.withColumnRenamed("n", "m"), "k").where("m = n").count() == 1000
    assert none_left(client)


def test_the_task_of_a_result_that_is_not_read_whole_is_deleted_when_nobody_reads(
    reading: DataFrameReader, client: Client
) -> None:
    frame = reading.option("partitions", 3).option("idle_seconds", 1).load()
    for _ in range(2):
        assert [tuple(row) for row in frame.take(2)] == [(0, 1000), (1, 1001)]
        assert none_left(client)


def test_rows_of_two_states_of_a_table_are_not_mixed(
    registered: SparkSession, address: str, client: Client, tmp_path: Path
) -> None:
    file = served[address] / "changing.parquet"
    pq.write_table(TABLE, file)
    frame = registered.read.format("tidegate").option("server", address).option("plan", PAIRS)
    loaded = frame.option("table.a", str(file)).option("partitions", 2).option("idle_seconds", 1).load()
    assert loaded.count() == 1000
    assert none_left(client)
    pq.write_table(TABLE.slice(0, 10), file)
    with pytest.raises(Exception, match=r"files that the plan reads have changed since Spark planned its partitions"):
        loaded.collect()


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> list[Barrier]:
    """The BARRIERs that the server hands out."""
    seen: list[Barrier] = []
    real = TaskManager.poll

    def watched(self: TaskManager, *arguments: Any, **more: Any) -> Any:
        frames = real(self, *arguments, **more)
        seen.extend(frame for frame in frames if isinstance(frame, Barrier))
        return frames

    monkeypatch.setattr(TaskManager, "poll", watched)
    return seen


def options_of(address: str, between: str = " ") -> str:
    """Those of a read of PAIRS, as they stand in SQL."""
    options = {"server": address, "plan": PAIRS, "`table.a`": served[address] / "rows.parquet", "partitions": 2}
    return ", ".join(f"{name}{between}'{value}'" for name, value in options.items())


def test_a_result_is_a_view_of_sql_in_a_second_session(registered: SparkSession, address: str, client: Client) -> None:
    session = registered.newSession()
    tidegate.spark.register(session)
    session.sql(f"CREATE TEMPORARY VIEW pairs USING tidegate OPTIONS ({options_of(address)})")
    for _ in range(2):
        assert session.sql("SELECT sum(n) AS s FROM pairs WHERE k < 10").head()["s"] == sum(range(1000, 1010))
        assert none_left(client)


@pytest.fixture
def in_catalog(registered: SparkSession, address: str) -> Iterator[SparkSession]:
    """A session whose catalog has the table `pairs`."""
    registered.sql(f"CREATE TABLE pairs USING tidegate OPTIONS ({options_of(address)})")
    yield registered
    registered.sql("DROP TABLE pairs")


def test_a_result_is_a_table_of_the_catalog(in_catalog: SparkSession, complete: list[Barrier]) -> None:
    session = in_catalog
    assert pairs(session.sql("SELECT n, k FROM pairs WHERE k < 2")) == [(1000, 0), (1001, 1)]
    assert {barrier.rows for barrier in complete} == {1000}
    assert pairs(session.sql("SELECT count(*) FROM pairs")) == [(1000,)]
    session.sql("CREATE VIEW sums AS SELECT sum(n) AS s FROM pairs WITH (`limit` = 3)")
    assert pairs(session.table("sums")) == [(3003,)]
    session.sql("DROP VIEW sums")


def test_what_a_table_of_the_catalog_cannot_do_is_refused(in_catalog: SparkSession, address: str) -> None:
    for insert in ("SELECT 1L AS k, 2L AS n", "VALUES (1, 2)"):  # the first one has the table's columns as they are
        with pytest.raises(Exception, match="a table of Spark's catalog cannot be written"):
            in_catalog.sql(f"INSERT INTO pairs {insert}")
    with pytest.raises(Exception, match="a table of Spark's catalog cannot be written"):
        in_catalog.sql(f"CREATE TABLE more USING tidegate OPTIONS ({options_of(address)}) AS SELECT 1L AS k, 2L AS n")
    assert not in_catalog.catalog.tableExists("more")
    in_catalog.sql("ALTER TABLE pairs ADD COLUMN m INT")
    with pytest.raises(Exception, match="reads a column 'm', which the result does not have; it has: k, n"):
        in_catalog.table("pairs").collect()
    with pytest.raises(tidegate.InvalidRequest, match="a result without columns cannot be a table"):
        with_options(StructType(), {})


def test_options_of_a_table_last_until_its_first_column_is_dropped() -> None:
    options = {"server": "host:1", "plan": "totals.json"}
    columns = with_options(StructType([StructField("k", LongType()), StructField("n", LongType())]), options)
    assert options_to_read({"limit": "3"}, columns) == options | {"limit": "3"}
    assert options_to_read({}, StructType(list(reversed(columns)))) == options
    with pytest.raises(tidegate.InvalidRequest, match="until ALTER TABLE drops or replaces the first column"):
        options_to_read({}, StructType(columns[1:]))


def test_a_table_without_options_gets_them_in_each_query(
    registered: SparkSession, address: str, client: Client
) -> None:
    registered.sql("CREATE TABLE plain (k BIGINT, n BIGINT) USING tidegate OPTIONS (server 'nowhere:1', plan 'x.json')")
    try:
        with pytest.raises(Exception, match="if CREATE TABLE names no columns"):
            registered.table("plain").collect()
        assert pairs(registered.sql(f"SELECT max(n) FROM plain WITH ({options_of(address, ' = ')})")) == [(1999,)]
        with client.create_task(PAIRS) as task:
            options = f"server = '{address}', task = '{task.id}', source = 'a'"
            registered.sql(f"INSERT INTO plain WITH ({options}) SELECT 1L AS k, 2L AS n")
            assert task.read_epoch().to_pylist() == [{"k": 1, "n": 2}]
    finally:
        registered.sql("DROP TABLE plain")


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_filters_of_a_query_show_in_no_other_query_and_in_no_other_part_of_it(
    reading: DataFrameReader, registered: SparkSession, pushdown: str
) -> None:
    """Spark 4.3 would keep filters that a data source in Python takes for the DataFrame's later scans."""
    registered.conf.set(PUSHDOWN, pushdown)
    try:
        frame = reading.option("partitions", 3).load()
        assert frame.where("k < 10").count() == 10
        assert frame.count() == 1000
        assert frame.where("k < 600").union(frame.where("k >= 500")).count() == 1100
        frame.createOrReplaceTempView("reused")
        assert pairs(registered.sql("SELECT count(*) FROM reused WHERE k = 5 OR k = 6")) == [(2,)]
        assert pairs(registered.sql("SELECT count(*), max(k) FROM reused")) == [(1000, 999)]
    finally:
        registered.conf.unset(PUSHDOWN)


def test_a_result_is_read_from_the_files_of_the_servers_executors(
    registered: SparkSession, tmp_path: Path, complete: list[Barrier], monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of its rows passes the server, which runs in this process."""
    pq.write_table(TABLE, tmp_path / "rows.parquet", row_group_size=100)
    own_spark = SparkPlace(master=registered.sparkContext.master, staging=tmp_path / "staging")
    (tmp_path / "staging").mkdir()
    monkeypatch.setattr(StagedRows, "read", None)
    with fake_server(PlanEngine([str(tmp_path)], tmp_path / "own", spark=own_spark)) as host_port:
        reader = registered.read.format("tidegate").options(server=host_port, plan=PAIRS, executor="spark", channels=3)
        reader = reader.option("table.a", str(tmp_path / "rows.parquet"))
        # The server's Spark is this application: tasks that waited for a second run would leave it no slots.
        assert pairs(reader.load()) == [tuple(row.values()) for row in TABLE.to_pylist()]
        assert pairs(reader.load().where("k < 5")) == [(k, 1000 + k) for k in range(5)]
        with tidegate.connect(host_port) as client:
            assert none_left(client)
    assert {len(barrier.files) for barrier in complete} == {3}
    assert {barrier.rows for barrier in complete} == {0}
    assert list((tmp_path / "staging").iterdir()) == []


def test_columns_and_limit_are_applied_to_the_plan(reading: DataFrameReader) -> None:
    assert pairs(reading.option("columns", "n").option("limit", 3).load()) == [(1000,), (1001,), (1002,)]


def test_a_parameter_has_its_value_below_filters_and_columns(reading: DataFrameReader) -> None:
    above = plan(filtered_by_parameter(read("a", "k", "n"), 0, 3), "k", "n").json
    frame = reading.option("plan", above).option("parameter.3", 997).load()
    assert pairs(frame) == [(998, 1998), (999, 1999)]
    assert pairs(frame.where("k > 998").select("n")) == [(1999,)]


def test_a_result_without_columns_has_its_rows(reading: DataFrameReader) -> None:
    nothing = plan(nothing_of(read("a", "k", "n"), width=2)).json
    frame = reading.option("plan", nothing).option("partitions", 3).load()
    assert frame.columns == []
    assert frame.count() == 1000


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("columns", "nowhere", "no column 'nowhere'; there are: k, n"),
        ("surprise", "1", "'surprise' is not an option here"),
        ("limit", "many", "limit='many' must be a whole number"),
    ],
)
def test_what_is_wrong_is_said_when_the_frame_is_made(
    reading: DataFrameReader, option: str, value: str, sentence: str
) -> None:
    with pytest.raises(Exception, match=sentence):
        reading.option(option, value).load()


ALIKE = plan(read("a", "k", "n"), "k", "k").json


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"limit": str(2**63)}, "must be at most 9223372036854775807"),
        ({"idle_seconds": "soon"}, "idle_seconds='soon' must be a number of seconds"),
        ({"columns": "k,k"}, "column 'k' would be read twice"),
        ({"plan": ALIKE}, "column 'k' would be read twice"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_option_without_a_meaning_is_refused_by_its_name(
    address: str, options: dict[str, str], sentence: str
) -> None:
    source = {"server": address, "plan": PAIRS, "table.a": str(served[address] / "rows.parquet")}
    with pytest.raises(tidegate.InvalidRequest, match=sentence):
        TidegateSource({**source, **options}).schema()


def test_an_epoch_of_a_task_is_read_without_being_acknowledged(
    registered: SparkSession, address: str, client: Client
) -> None:
    with client.create_task(PAIRS) as task:
        task.transact("test", 1, {"a": TABLE.slice(0, 5)}, seal=True)
        reader = registered.read.format("tidegate").option("server", address).option("task", task.id)
        assert len(pairs(reader.option("epoch", 1).load())) == 5
        assert task.read_epoch().num_rows == 5


def test_a_write_is_an_epoch_of_the_task(registered: SparkSession, address: str, client: Client) -> None:
    with client.create_task(PAIRS) as task:
        frame = registered.range(0, 100, 1, 4).selectExpr("id as k", "id * 2 as n")
        append(frame, address, task.id)
        assert task.read_epoch().column("n").to_pylist() == [2 * number for number in range(100)]


def test_a_write_with_a_version_happens_once(registered: SparkSession, address: str, client: Client) -> None:
    with client.create_task(PAIRS) as task:
        frame = registered.range(0, 10, 1, 2).selectExpr("id as k", "id as n")
        for _ in range(2):
            append(frame, address, task.id, txnAppId="nightly", txnVersion=7)
        assert task.info().sealed_epoch == 1
        assert task.read_epoch().num_rows == 10


def test_an_attempt_that_is_killed_in_mid_write_shows_in_nothing(
    registered: SparkSession, address: str, client: Client, tmp_path: Path
) -> None:
    with client.create_task(PAIRS) as task:
        frame = failing_once(registered.range(0, 10, 1, 2).selectExpr("id as k", "id as n"), tmp_path / "killed")
        append(frame, address, task.id)
        assert (tmp_path / "killed").exists()
        assert task.read_epoch().column("n").to_pylist() == list(range(10))


def test_an_aborted_write_leaves_nothing(registered: SparkSession, address: str, client: Client) -> None:
    with client.create_task(PAIRS, spill_quota=1 << 20) as task:
        frame = registered.range(0, 10, 1, 2).selectExpr("id as k", "if(id = 7, raise_error('no'), id) as n")
        with pytest.raises(Exception, match="no"):
            append(frame, address, task.id)
        assert (task.info().sealed_epoch, task.info().sources[0].last_added) == (0, 0)


def test_a_write_that_would_overwrite_is_refused(registered: SparkSession, address: str, client: Client) -> None:
    with client.create_task(PAIRS) as task:
        writer = registered.range(3).write.format("tidegate").mode("overwrite").option("server", address)
        named = writer.option("task", task.id).option("source", "a")
        with pytest.raises(Exception, match=r"mode\('append'\)"):
            named.save()


def stream_files(folder: Path, spark: SparkSession, address: str, task: Task, checkpoint: str, **options: str) -> None:
    """Write the files of a folder that a query has not written yet to the task, in a batch."""
    rows = spark.readStream.schema("k long, n long").json(str(folder / "rows"))
    writer = rows.writeStream.format("tidegate").option("server", address).option("task", task.id).options(**options)
    located = writer.option("source", "a").option("checkpointLocation", str(folder / checkpoint))
    located.trigger(availableNow=True).start().awaitTermination()


def new_file(folder: Path, number: int) -> None:
    (folder / "rows").mkdir(exist_ok=True)
    (folder / "rows" / f"{number}.json").write_text(f'{{"k": {number}, "n": 2}}')


def test_a_streaming_sink_feeds_an_epoch_for_each_batch(
    registered: SparkSession, address: str, client: Client, tmp_path: Path
) -> None:
    with client.create_task(PAIRS) as task:
        for number in range(2):
            new_file(tmp_path, number)
            stream_files(tmp_path, registered, address, task, "query")
        assert [task.read_epoch().column("k").to_pylist() for _ in range(2)] == [[0], [1]]
        assert task.info().sealed_epoch == 2


def test_a_sink_loses_no_rows_where_the_task_or_the_checkpoint_is_another_one(
    registered: SparkSession, address: str, client: Client, tmp_path: Path
) -> None:
    stream = partial(stream_files, tmp_path, registered, address)
    with client.create_task(PAIRS) as task, client.create_task(PAIRS) as other:
        for number in range(2):
            new_file(tmp_path, number)
            stream(task, "query", txnAppId="orders")
        with pytest.raises(Exception, match=r"already has batch 1 of application 'orders'.* would feed batch 0"):
            stream(task, "another query", txnAppId="orders")
        new_file(tmp_path, 2)
        with pytest.raises(Exception, match="the versions between the two would be lost"):
            stream(other, "query", txnAppId="orders")
        assert (task.info().sealed_epoch, other.info().sealed_epoch) == (2, 0)
        stream(other, "query", txnAppId="orders", gaps="true")
        assert other.read_epoch().column("k").to_pylist() == [2]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (("id AS k", "cast(id AS string) AS n"), "column 'n' is string in the DataFrame and int64 in source 'a'"),
        (("id AS k",), "source 'a' reads column 'n', which the DataFrame does not have"),
    ],
)
def test_a_dataframe_that_does_not_fit_is_refused_before_it_runs_and_the_task_goes_on(
    registered: SparkSession, address: str, client: Client, tmp_path: Path, columns: tuple[str, ...], why: str
) -> None:
    with client.create_task(PAIRS) as task:
        with pytest.raises(Exception, match=re.escape(why)):
            append(registered.range(3).selectExpr(*columns), address, task.id)
        rows = registered.readStream.format("rate").load().selectExpr("value AS id").selectExpr(*columns)
        writer = rows.writeStream.format("tidegate").option("server", address).option("task", task.id)
        located = writer.option("source", "a").option("checkpointLocation", str(tmp_path / "query"))
        with pytest.raises(Exception, match=re.escape(why)):
            located.trigger(availableNow=True).start().awaitTermination()
        append(registered.range(1).selectExpr("id AS k", "id AS n", "'more' AS other"), address, task.id)
        assert task.read_epoch().to_pylist() == [{"k": 0, "n": 0}]


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("complete", r"feed the rows that change with tidegate\.spark\.stream"),
        ("update", "does not support Update mode"),
    ],
)
def test_a_sink_refuses_every_output_mode_but_append(
    registered: SparkSession, address: str, client: Client, tmp_path: Path, mode: str, why: str
) -> None:
    new_file(tmp_path, 1)
    with client.create_task(PAIRS) as task:
        counted = registered.readStream.schema("k long, n long").json(str(tmp_path / "rows")).groupBy("k").count()
        writer = counted.selectExpr("k", "count AS n").writeStream.format("tidegate").outputMode(mode)
        to_task = writer.option("server", address).option("task", task.id).option("source", "a")
        with pytest.raises(Exception, match=why):
            to_task.option("checkpointLocation", str(tmp_path / "query")).start().awaitTermination()


@pytest.mark.parametrize("repeats", [True, False])
def test_a_batch_that_the_task_has_is_done_where_the_service_goes_before_it_drops_the_other_uploads(
    repeats: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the write failed, its user would write the rows again, under another name."""
    added: list[int] = []

    class Gone:
        def last_transaction(self, *_: str) -> Committed | None:
            return Committed(version=3 if repeats else 2, epoch=7)

        def transact(self, _: str, named: Transaction, request: AddRequest) -> None:
            added.append(named.version)

        def drop_uploads(self, *_: str) -> None:
            raise tidegate.Unavailable("the service does not answer")

        def close(self) -> None:
            """Close nothing."""

    monkeypatch.setattr(Sink, "service", lambda _: closing(Gone()))
    sink = Sink(access=Access(address="localhost:1"), task="t", source="s", seals=True, wait=0.0, timeout=1.0)
    sink.commit_batch([Sent(0, ("1.upload.arrow",))], "a", 3, "group", gaps=False)
    assert added == ([] if repeats else [3])


@pytest.mark.parametrize("has", [True, False])
def test_a_commit_whose_answer_a_restart_has_lost_is_done(has: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The uploads that the commit names are gone with the service that was killed."""
    done = Committed(version=3, epoch=7) if has else None
    dropped: list[str] = []

    class Restarted:
        def transact(self, *_: object) -> object:
            raise tidegate.NotFound("1.upload.arrow was uploaded, and is not there any more", reason="UPLOAD_GONE")

        def last_transaction(self, task: str, application: str) -> Committed | None:
            assert (task, application) == ("t", "a")
            return done

        def drop_uploads(self, _: str, group: str) -> None:
            dropped.append(group)

        def close(self) -> None:
            """Close nothing."""

    monkeypatch.setattr(Sink, "service", lambda _: closing(Restarted()))
    sink = Sink(access=Access(address="localhost:1"), task="t", source="s", seals=True, wait=0.0, timeout=1.0)
    commit = partial(sink.commit, [Sent(0, ("1.upload.arrow",))], "a", 3, "group")
    if has:
        commit()
        assert dropped == ["group"]
    else:
        with pytest.raises(tidegate.NotFound, match="uploaded"):
            commit()
