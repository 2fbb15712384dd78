"""Rows without columns count like others: in splits, files, between operators and in results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate
from tidegate.client import Client
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.operators.core.batches import batch_of
from tidegate.operators.writing.formats import WRITE_FORMATS
from tidegate.proto.values import PlanBytes

from ..duckdb_oracle import oracle
from ..executor.plans import column, crossed, number, plan, read, summed, union
from ..on_channels import on_channels
from ..searching import tries

ROWS = pa.table({"k": pa.array([1, 2, 3], pa.int64()), "v": pa.array([1, 1, 2], pa.int64())})
HOW = pytest.mark.parametrize(
    "how",
    [{}, on_channels(3), {"determinism": "relaxed"}, {"mode": "continuous"}],
    ids=str,
)


def nothing_of(relation: object, *expressions: object, width: int = 0) -> dict[str, object]:
    """These expressions alone of a relation so wide: nothing, where there are none."""
    emit = {"emit": {"outputMapping": [width + at for at in range(len(expressions))]}}
    return {"project": {"common": emit, "input": relation, "expressions": expressions}}


def counted(relation: object) -> dict[str, object]:
    """How many rows there are: all of them are in one group of ones, added up."""
    return nothing_of(summed(nothing_of(relation, number(1), number(1))), column(1), width=2)


L, R = read("l", "k", "v"), read("r", "k", "v")
ONES = {
    "SELECT 1 FROM l": nothing_of(L, number(1), width=2),
    "SELECT 1 FROM l UNION ALL SELECT 2 FROM r": union(
        nothing_of(L, number(1), width=2), nothing_of(R, number(2), width=2)
    ),
    "SELECT 1 FROM (SELECT sum(v) FROM l GROUP BY k)": nothing_of(summed(L), number(1), width=2),
    "SELECT 1 FROM l, r": nothing_of(crossed(L, R), number(1), width=4),
    "SELECT 3 FROM (SELECT 1 FROM l UNION ALL SELECT 2 FROM r), l": nothing_of(
        crossed(union(nothing_of(L, number(1), width=2), nothing_of(R, number(2), width=2)), L), number(3), width=3
    ),
}


@pytest.fixture(scope="module")
def embedded() -> Iterator[Client]:
    with tidegate.local(roots=()) as client:
        yield client


@pytest.fixture
def client(open_client: Callable[..., Client], tmp_path: Path) -> Client:
    return open_client(PlanEngine([str(tmp_path)], tmp_path / "service"))


def weight(rows: pa.Table) -> int:
    return sum(rows["_weight"].to_pylist()) if "_weight" in rows.column_names else rows.num_rows


@HOW
@pytest.mark.parametrize("sql", ONES)
@settings(max_examples=tries(8))
@given(sizes=st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 1, 3])), min_size=1, max_size=3))
def test_a_projection_of_constants_has_a_row_for_each(
    embedded: Client, sql: str, how: dict[str, object], sizes: list[tuple[int, int]]
) -> None:
    most = {"l": 0, "r": 0}
    with embedded.create_task(plan(ONES[sql], "one"), **how) as task:
        for left, right in sizes:
            fed = {
                name: pa.concat_tables([ROWS] * times) if times else ROWS.slice(0, 0)
                for name, times in (("l", left), ("r", right))
            }
            kept = most if how.get("mode") else {"l": 0, "r": 0}
            before = duckdb_count(sql, **kept)
            kept["l"], kept["r"] = kept["l"] + left, kept["r"] + right
            result = task.run_epoch({name: fed[name] for name in task.sources}).table()
            assert weight(result) == duckdb_count(sql, **kept) - (before if how.get("mode") else 0)


@functools.cache
def duckdb_count(sql: str, **times: int) -> int:
    """What DuckDB says of the rows so many times."""
    with oracle({"rows": ROWS}) as connection:
        for name, count in times.items():
            connection.execute(f"CREATE TEMP TABLE {name} AS SELECT rows.* FROM rows, range({count})")
        row = connection.execute(f"SELECT count(*) FROM ({sql})").fetchone()
        assert row is not None
        return int(row[0])


@HOW
@pytest.mark.parametrize("copies", [1, 50_000])
def test_more_rows_than_kernels_take_are_as_many(embedded: Client, how: dict[str, object], copies: int) -> None:
    sql = "SELECT 1 FROM l UNION ALL SELECT 2 FROM r"
    rows = pa.table({name: pa.concat_arrays([ROWS[name].chunk(0)] * copies) for name in "kv"})
    with embedded.create_task(plan(ONES[sql], "one"), **how) as task:
        assert weight(task.run_epoch({"l": rows, "r": rows}).table()) == 6 * copies


def files(folder: Path) -> dict[str, str]:
    pq.write_table(ROWS, folder / "l.parquet", row_group_size=2)
    pyarrow.csv.write_csv(ROWS, folder / "l.csv")
    pyarrow.orc.write_table(ROWS, folder / "l.orc")
    with pa.ipc.new_file(folder / "l.arrow", ROWS.schema) as writer:
        writer.write_table(ROWS, max_chunksize=2)
    (folder / "l.json").write_text('{"k": 1}\n{"v": 2}\n{}\n')
    return {kind: str(folder / f"l.{kind}") for kind in ("parquet", "csv", "orc", "arrow", "json")}


@pytest.mark.parametrize("how", [{}, on_channels(3), {"mode": "continuous"}], ids=str)
def test_a_source_of_which_no_column_is_read_is_counted(client: Client, tmp_path: Path, how: dict[str, object]) -> None:
    with client.create_task(plan(counted(read("l")), "n"), **how) as task:
        assert task.sources["l"].schema == pa.schema([])
        total = 0
        for split in [*files(tmp_path).values(), ROWS, ROWS.select([]), batch_of((), 3, pa.schema([]))]:
            total += 3
            result = task.run_epoch({"l": split}).table()
            assert max(result["n"].to_pylist()) == (total if how.get("mode") else 3)


def test_an_arrow_file_of_rows_without_columns_is_counted(client: Client, tmp_path: Path) -> None:
    with pa.ipc.new_file(tmp_path / "l.arrow", pa.schema([])) as writer:
        writer.write_batch(batch_of((), 70_000, pa.schema([])))
        writer.write_batch(batch_of((), 5, pa.schema([])))
    with client.create_task(plan(counted(read("l")), "n")) as task:
        assert task.run_epoch({"l": str(tmp_path / "l.arrow")}).table().to_pylist() == [{"n": 70_005}]


def test_an_inline_split_without_columns_is_of_any_number_of_rows(client: Client) -> None:
    with client.create_task(plan(counted(read("l")), "n")) as task:
        epoch = task.run_epoch({"l": batch_of((), 200_000, pa.schema([]))})
        assert epoch.table().to_pylist() == [{"n": 200_000}]
        assert epoch.statistics.rows_in == 200_000


@HOW
@pytest.mark.parametrize("copies", [1, 50_000])
def test_a_result_without_columns_has_its_rows(client: Client, how: dict[str, object], copies: int) -> None:
    rows = pa.table({name: pa.concat_arrays([ROWS[name].chunk(0)] * copies) for name in "kv"})
    with client.create_task(plan(nothing_of(L, width=2)), **how) as task:
        assert task.schema.names == (["_weight"] if how.get("mode") else [])
        epoch = task.run_epoch({"l": rows})
        assert weight(epoch.table()) == 3 * copies
        if not how.get("mode"):
            assert epoch.rows == 3 * copies
            assert sum(batch.num_rows for batch in task.run_epoch({"l": rows})) == 3 * copies


def test_a_result_without_columns_waits_on_disk_too(client: Client) -> None:
    with client.create_task(plan(nothing_of(L, width=2)), output_bytes=1, queue_bytes=1) as task:
        for _ in range(3):
            task.add_split("l", ROWS)
            task.request_barrier()
        assert [task.read_epoch().num_rows for _ in range(3)] == [3, 3, 3]


def test_a_format_without_room_for_rows_without_columns_is_refused() -> None:
    for name in ("parquet", "csv"):
        with pytest.raises(tidegate.InvalidRequest, match=f"{name} files cannot hold rows without columns.*arrow"):
            WRITE_FORMATS[name].check(pa.schema([]))
    WRITE_FORMATS["arrow"].check(pa.schema([]))


@pytest.mark.parametrize("form", ["binary", "json"])
def test_a_plan_may_read_no_column_and_give_none(client: Client, form: str) -> None:
    plan_bytes = plan(read("l"))
    assert isinstance(plan_bytes, PlanBytes)
    with client.create_task(plan_bytes) as task:
        assert task.run_epoch({"l": ROWS}).table().num_rows == 3
