"""The whole service with real plans: in this process, and as `tidegate serve` over gRPC."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

import tidegate
from tidegate.client import Client

from ..on_channels import on_channels
from ..server.fake_process import server_process
from . import plans


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's root."""
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module", params=["local", "grpc"])
def client(request: pytest.FixtureRequest, folder: Path) -> Iterator[Client]:
    if request.param == "local":
        with tidegate.local(roots=[folder]) as opened:
            yield opened
        return
    command = ("tidegate.server.cli", "serve", "--listen", "127.0.0.1:0", "--root", str(folder))
    with server_process(*command) as server, tidegate.connect(server.address) as opened:
        yield opened
        assert server.end() == 0


@pytest.fixture
def side(request: pytest.FixtureRequest, client: Client) -> str:
    """What a message calls the place where files are looked for."""
    return {"local": "on this machine", "grpc": "on the server"}[request.node.callspec.params["client"]]


def rows(**columns: list[int]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


@pytest.fixture
def files(folder: Path, tmp_path: Path) -> Callable[[str, pa.Table], str]:
    """Write a Parquet file below the root and tell its path."""
    subfolder = folder / tmp_path.name

    def write(name: str, table: pa.Table) -> str:
        subfolder.mkdir(exist_ok=True)
        parquet.write_table(table, subfolder / name)
        return str(subfolder / name)

    return write


Files = Callable[[str, pa.Table], str]


def test_epochs_of_inline_data(client: Client) -> None:
    with client.create_task(plans.totals()) as task:
        first = task.run_epoch({"rows": [rows(k=[2, 1], v=[1, 2]), rows(k=[1], v=[3])]})
        second = task.run_epoch({"rows": rows(k=[9], v=[9])})
        assert first.table().to_pylist() == [{"k": 1, "total": 5}, {"k": 2, "total": 1}]
        assert second.table().to_pylist() == [{"k": 9, "total": 9}]


def test_an_epoch_of_files_and_a_glob(client: Client, files: Files) -> None:
    one = files("one.parquet", rows(k=[1], v=[20]))
    files("two.parquet", rows(k=[2], v=[30]))
    with client.create_task(plans.doubled()) as task:
        assert task.run_epoch({"rows": one}).table()["doubled"].to_pylist() == [40]
        everything = task.run_epoch({"rows": str(Path(one).parent / "*.parquet")})
        assert everything.table()["doubled"].to_pylist() == [40, 60]
        assert everything.statistics.rows_in == 2


def test_a_query(client: Client, files: Files) -> None:
    path = files("one.parquet", rows(k=[1, 1], v=[1, 2]))
    assert client.query(plans.totals(), {"rows": path}).to_pylist() == [{"k": 1, "total": 3}]


def test_a_query_of_static_tables_alone(client: Client, files: Files) -> None:
    path = files("one.parquet", rows(k=[1, 1], v=[1, 2]))
    assert client.query(plans.totals(), tables={"rows": path}).to_pylist() == [{"k": 1, "total": 3}]


def test_a_static_table_takes_no_splits(client: Client) -> None:
    with client.create_task(plans.totals(), tables={"rows": rows(k=[1], v=[2])}) as task:
        for feed in (
            lambda: task.run_epoch({"ROWS": rows(k=[1], v=[3])}),
            lambda: task.add_split("rows", rows(k=[1], v=[3])),
        ):
            with pytest.raises(tidegate.Refused, match="source 'rows' is static") as refused:
                feed()
            assert refused.value.reason == "STATIC_SOURCE"
        assert task.run_epoch({}).table().to_pylist() == [{"k": 1, "total": 2}]


def test_uploads_as_split_and_as_table(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "mine.parquet"
    parquet.write_table(rows(k=[1], v=[7]), file)
    expected = [{"k": 1, "total": 7}]
    assert client.query(plans.totals(), {"rows": tidegate.upload(file)}).to_pylist() == expected
    assert client.query(plans.totals(), tables={"rows": tidegate.upload(file)}).to_pylist() == expected


def test_much_inline_data(client: Client) -> None:
    count = 3_000_000
    table = client.query(plans.doubled(), {"rows": rows(k=[0] * count, v=[*range(count)])})
    assert table["doubled"].to_pylist() == [2 * v for v in range(11, count)]


def test_a_missing_file_changes_nothing(client: Client, folder: Path) -> None:
    with client.create_task(plans.totals()) as task:
        with pytest.raises(tidegate.NotFound, match=r"nowhere\.parquet does not exist"):
            task.run_epoch({"rows": str(folder / "nowhere.parquet")})
        assert task.run_epoch({"rows": rows(k=[1], v=[1])}).table().num_rows == 1


def test_a_missing_file_is_said_to_be_missing_on_the_side_where_it_was_looked_for(
    client: Client, side: str, folder: Path
) -> None:
    with client.create_task(plans.totals()) as task, pytest.raises(tidegate.NotFound, match=f"does not exist {side} "):
        task.add_split("rows", str(folder / "nowhere.parquet"))


def test_a_file_outside_the_roots_is_forbidden(client: Client) -> None:
    with client.create_task(plans.totals()) as task, pytest.raises(tidegate.Forbidden, match="passwd"):
        task.add_split("rows", tidegate.FileSplit("/etc/passwd", format="csv"))


def test_the_files_that_a_split_would_be_of_are_found_and_none_is_added(client: Client, folder: Path) -> None:
    days = folder / "days"
    for day in ("b", "a", "__HIVE_DEFAULT_PARTITION__"):
        (days / f"day={day}").mkdir(parents=True, exist_ok=True)
        parquet.write_table(rows(k=[1], v=[1]), days / f"day={day}" / "f.parquet")
    with client.create_task(plans.totals()) as task:
        listed = task.find_files("rows", days)
        assert [file.folders for file in listed] == [(("day", None),), (("day", "a"),), (("day", "b"),)]
        assert {(file.format, Path(file.path).stat().st_size == file.size) for file in listed} == {("parquet", True)}
        assert task.info().sources[0].last_added == 0


@pytest.mark.parametrize(("path", "error"), [("nowhere.parquet", tidegate.NotFound), ("/etc", tidegate.Forbidden)])
def test_files_are_found_as_they_would_be_added_or_refused(
    client: Client, folder: Path, path: str, error: type[Exception]
) -> None:
    with client.create_task(plans.totals()) as task, pytest.raises(error):
        task.find_files("rows", folder / path)


def test_a_corrupt_file_is_named_and_earlier_epochs_stay_readable(client: Client, files: Files) -> None:
    path = files("broken.parquet", rows(k=[*range(50_000)], v=[*range(50_000)]))
    data = bytearray(Path(path).read_bytes())
    data[50 : len(data) // 2] = bytes(len(data) // 2 - 50)
    Path(path).write_bytes(data)
    with client.create_task(plans.totals()) as task:
        task.add_split("rows", rows(k=[1], v=[1]))
        task.request_barrier()
        task.add_split("rows", path)
        task.request_barrier()
        assert task.read_epoch().num_rows == 1
        with pytest.raises(tidegate.TidegateError, match=r"broken\.parquet"):
            task.read_epoch()


def test_a_column_of_the_wrong_type_is_refused_by_name(client: Client) -> None:
    table = pa.table({"k": [1], "v": ["one"]})
    with client.create_task(plans.totals()) as task, pytest.raises(tidegate.SplitError, match="'v'"):
        task.run_epoch({"rows": table})


def test_rows_come_while_splits_are_still_added(client: Client) -> None:
    with client.create_task(plans.doubled()) as task:
        task.add_split("rows", rows(k=[1], v=[20]))
        frames = task.next(wait=60)
        assert [type(frame) for frame in frames] == [tidegate.Data]
        task.request_barrier()
        (barrier,) = task.next(wait=60)
        assert isinstance(barrier, tidegate.Barrier)
        assert barrier.rows == 1


def test_results_speak_the_arrow_stream_protocol(client: Client) -> None:
    epoch = client.create_task(plans.totals()).run_epoch({"rows": rows(k=[1, 2], v=[1, 2])})
    assert duckdb.sql("select sum(total) from epoch").fetchall() == [(3,)]
    assert pa.table(epoch)["total"].to_pylist() == [1, 2]


def test_data_may_come_from_anything_that_speaks_it(client: Client) -> None:
    relation = duckdb.sql("select 1::bigint as k, 5::bigint as v")
    reader = pa.RecordBatchReader.from_batches(rows(k=[], v=[]).schema, rows(k=[1], v=[6]).to_batches())
    table = client.query(plans.totals(), {"rows": [relation, reader, rows(k=[1], v=[7]).to_batches()[0]]})
    assert table.to_pylist() == [{"k": 1, "total": 18}]


@pytest.mark.parametrize(
    ("values", "total"),
    [
        (pa.RunEndEncodedArray.from_arrays(pa.array([70_000]), pa.array([2])), 140_000),
        (pa.array([2] * 70_000).dictionary_encode(), 140_000),
        (pa.nulls(70_000), None),
    ],
    ids=["run ends", "dictionary", "nulls alone"],
)
def test_data_may_be_stored_in_any_way(client: Client, values: pa.Array, total: int | None) -> None:
    table = pa.table({"k": pa.nulls(70_000), "v": values})
    assert client.query(plans.totals(), {"rows": table}).to_pylist() == [{"k": None, "total": total}]


def test_the_same_rows_in_the_same_order_here_and_there(client: Client) -> None:
    splits = {"rows": [rows(k=[*range(n, n + 50_000)], v=[*range(50_000)]) for n in range(3)]}
    results = [client.create_task(plans.doubled()).run_epoch(splits).table() for _ in range(2)]
    expected = [{"k": n + v, "doubled": 2 * v} for n in range(3) for v in range(11, 50_000)]
    assert results[0].equals(results[1])
    assert results[0].to_pylist() == expected


def test_a_plans_problems_are_listed_with_their_places(client: Client) -> None:
    assert list(client.validate(plans.totals())) == []
    problems = client.validate(b"\xff\xff not a plan")
    assert problems
    with pytest.raises(tidegate.PlanError) as refused:
        client.create_task(b"\xff\xff not a plan")
    assert list(refused.value.problems) == list(problems)


def test_explain_is_for_as_many_rows_as_are_given(client: Client) -> None:
    text = client.explain(plans.totals(), **on_channels(2), rows={"ROWS": 25}).text
    assert "for 25 rows of rows (" in text
    with pytest.raises(tidegate.NotFound, match="nothing") as refused:
        client.explain(plans.totals(), channels=2, rows={"nothing": 1})
    assert refused.value.reason == "UNKNOWN_SOURCE"
    with pytest.raises(tidegate.InvalidRequest, match="must be a whole number from 0 on"):
        client.explain(plans.totals(), channels=2, rows={"rows": -1})


def test_explain_and_capabilities(client: Client) -> None:
    assert "rows" in client.explain(plans.totals()).text
    capabilities = client.capabilities()
    assert capabilities.version == "0.1.0"
    assert capabilities.engines["duckdb"] == duckdb.__version__


def test_a_plan_may_be_json(client: Client) -> None:
    splits = {"rows": rows(k=[2, 1, 2], v=[1, 2, 3])}
    assert client.query(plans.totals_json(), splits).equals(client.query(plans.totals(), splits))


def test_a_plan_of_two_thousand_relations_one_in_another(client: Client) -> None:
    table = client.query(plans.deep(2_000, 3), {"rows": rows(k=[1, 2, 3, 4], v=[5, 6, 7, 8])})
    assert table.to_pydict() == {"k": [1, 2, 3], "v": [5, 6, 7]}


def test_the_pieces_of_files_are_said_on_request(client: Client, folder: Path) -> None:
    table = rows(k=[*range(250_000)], v=[*range(250_000)])
    parquet.write_table(table, folder / "pieces.parquet", row_group_size=60_000)
    (folder / "text.csv").write_text("k,v\n1,2\n")
    (folder / "damaged.parquet").write_bytes(b"PAR1")
    with client.create_task(plans.totals()) as task:
        [file] = task.find_files("rows", folder / "pieces.parquet", pieces=True)
        assert file.pieces == ((0, 60_000), (60_000, 120_000), (120_000, 180_000), (180_000, 250_000))
        assert task.find_files("rows", folder / "pieces.parquet")[0].pieces == ()
        assert task.find_files("rows", folder / "text.csv", pieces=True)[0].pieces == ()
        assert task.find_files("rows", folder / "damaged.parquet", pieces=True)[0].pieces == ()
