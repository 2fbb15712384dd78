"""Strict tasks whose joins, sorts, windows and groups do not fit in their memory: the same rows, in one order.

Class of bug: rows of a join that spilled, whose order no two runs of the engine have in common.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final

import datafusion
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub
from datafusion.substrait import Serde

import tidegate
from tidegate import windows
from tidegate.operators.arrays.digest import digest

from ..on_channels import on_channels
from ..searching import in_search, one_of_each

MEMORY: Final = 48 << 20
ROWS: Final = 200_000
BOTH: Final = "l JOIN r ON l.k = r.k"

#: Several joins each, so that none alone would be too large.
QUERIES: Final = {
    "inner": f"SELECT l.k, l.v, r.w, q.z FROM {BOTH} JOIN q ON r.h = q.h",
    "left and right": "SELECT l.k, l.v, r.w, q.z FROM l LEFT JOIN r ON l.k = r.k RIGHT JOIN q ON r.h = q.h",
    "full": "SELECT l.v, r.w, q.z FROM l FULL JOIN r ON l.k = r.k FULL JOIN q ON r.h = q.h",
    "semi and anti": "SELECT k, v FROM l WHERE k IN (SELECT k FROM r) AND NOT EXISTS (SELECT 1 FROM q WHERE q.h = l.g)",
    "mark": "SELECT k, v, k IN (SELECT k FROM r WHERE k IS NOT NULL) OR g IN (SELECT h FROM q WHERE h > 9) AS m FROM l",
    "sums of floats": f"SELECT l.g, sum(l.v * r.w) AS s FROM {BOTH} JOIN q ON r.h = q.h GROUP BY l.g",
    "parts of sums": f"SELECT g % 97 AS m, count(*), sum(l.k) FROM {BOTH} JOIN q ON r.h = q.h GROUP BY g % 97",
    "window": f"SELECT r.w, row_number() OVER (PARTITION BY l.g ORDER BY l.k) AS n FROM {BOTH} JOIN q ON r.h = q.h",
    "limit": f"SELECT l.k, l.v, r.w, q.z FROM {BOTH} JOIN q ON r.h = q.h LIMIT 50000",
}

#: What spills freely, in the order that it has anyway.
WITHOUT_JOINS: Final = {
    "sort": "SELECT l.k, l.v, l.g FROM l ORDER BY l.g",
    "window": "SELECT k, v, sum(v) OVER (PARTITION BY g ORDER BY k) AS s FROM l",
    "groups": "SELECT v, sum(k) AS s, min(g) AS g FROM l GROUP BY v",
}


def tables() -> dict[str, pa.Table]:
    random = np.random.default_rng(7)

    def table(key: str, keys: int, **more: int) -> pa.Table:
        floats = random.normal(size=ROWS) * 10.0 ** random.integers(-9, 9, ROWS)
        columns = {name: random.integers(0, most, ROWS) for name, most in more.items()}
        value = {"l": "v", "r": "w", "q": "z"}[key]
        return pa.table({next(iter(columns)): columns.pop(next(iter(columns))), value: floats, **columns}).slice(
            0, keys
        )

    return {"l": table("l", ROWS, k=ROWS, g=ROWS), "r": table("r", ROWS, k=ROWS, h=ROWS), "q": table("q", ROWS, h=ROWS)}


TABLES: Final = tables()


def plan_of(sql: str) -> bytes:
    session = datafusion.SessionContext()
    for name, table in TABLES.items():
        session.register_record_batches(name, [table.slice(0, 1).to_batches()])
    return bytes(Serde.serialize_bytes(sql, session))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data_folder = tmp_path_factory.mktemp("large")
    for name, table in TABLES.items():
        pq.write_table(table, data_folder / f"{name}.parquet", row_group_size=33_333)
    return data_folder


def odd(table: pa.Table) -> list[pa.RecordBatch]:
    return pa.Table.from_batches(table.slice(0, 999).to_batches(max_chunksize=1)).to_batches() + table.slice(
        999
    ).to_batches(max_chunksize=7_777)


def fed(folder: Path | None, source: str) -> Any:
    return TABLES[source] if folder is None else str(folder / f"{source}.parquet")


def run(sql: str, folder: Path | None, **options: Any) -> pa.Table:
    with (
        tidegate.local(roots=[folder] if folder else []) as client,
        client.create_task(plan_of(sql), **options) as task,
    ):
        return task.run_epoch({name: fed(folder, name) for name in task.sources}).table()


def digest_of(sql: str, folder: Path | None, **options: Any) -> str:
    table = run(sql, folder, **options)
    return digest(table.schema, iter(table.to_batches()))


def rows(table: pa.Table) -> tuple[object, ...]:
    """What tells one multiset of rows from another, without what depends on the order below: sums of floats, numbers
    among ties.
    """
    exact = table.select([name for name in table.schema.names if name not in ("s", "n")])
    exact = exact.rename_columns([f"c{at}" for at in range(exact.num_columns)])
    (row_hash,) = duckdb.from_arrow(exact).aggregate(f"count(*), sum(hash({', '.join(exact.schema.names)}))").fetchall()
    return (exact.schema.types, *row_hash)


@cache
def right_rows(sql: str, folder: Path) -> tuple[object, ...]:
    """Those with memory for all of it."""
    return rows(run(sql, folder))


@pytest.mark.parametrize(("query", "form"), one_of_each(product(QUERIES, ["files", "streams"])))
def test_joins_that_do_not_fit_have_one_order(query: str, form: str, folder: Path) -> None:
    fed_from = folder if form == "files" else None
    sql, memory = QUERIES[query], MEMORY if query != "full" else MEMORY * 4 // 3
    first = run(sql, fed_from, memory_limit=memory)
    mine = digest(first.schema, iter(first.to_batches()))
    assert digest_of(sql, fed_from, memory_limit=memory, spill="ordered") == mine
    if query != "limit":
        assert rows(first) == right_rows(sql, folder)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an `l` of 36 MB."""
    random = np.random.default_rng(8)
    folder = tmp_path_factory.mktemp("long")
    columns = {
        "k": random.integers(0, 99, 1_500_000),
        "v": random.normal(size=1_500_000),
        "g": np.arange(1_500_000) % 9_973,
    }
    pq.write_table(pa.table(columns), folder / "l.parquet", row_group_size=100_000)
    return folder


@pytest.mark.parametrize("query", WITHOUT_JOINS)
def test_what_has_no_joins_spills_freely(query: str, long: Path) -> None:
    sql = WITHOUT_JOINS[query]
    first = run(sql, long, memory_limit=32 << 20, spill="error")
    mine = digest(first.schema, iter(first.to_batches()))
    assert digest_of(sql, long, memory_limit=32 << 20, spill="error") == mine
    assert rows(first) == right_rows(sql, long)
    with pytest.raises(tidegate.TaskFailed, match="its spill space"):
        run(sql, long, memory_limit=32 << 20, spill_quota=1 << 20)


@pytest.mark.skipif(sys.platform != "linux", reason="the system's count is Linux's")
def test_sessions_that_do_not_fit_are_not_written_again_and_again(tmp_path: Path) -> None:
    """600,000 sessions, each of one row. DuckDB wrote four hundred times their bytes where a sum numbered them."""
    count = np.arange(600_000)
    rows = pa.table({"at": count, "k": count % 7, "t": count.astype("U8")})
    pq.write_table(rows, tmp_path / "l.parquet", row_group_size=100_000)
    source = sub.read_named_table("l", {"at": sub.i64, "k": sub.i64, "t": sub.string})
    plan = windows.session(source, "at", 5, keys=["k"], measures=[sub.f.any_value(sub.col("t")).alias("t")]).to_plan()
    with tidegate.local(roots=[tmp_path]) as client, client.create_task(plan, memory_limit=32 << 20) as task:
        before = written_bytes()
        assert task.run_epoch({"l": str(tmp_path / "l.parquet")}).table().num_rows == rows.num_rows
        assert written_bytes() - before <= 30 * rows.nbytes


def written_bytes() -> int:
    """What this process has written, to any file."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["wchar"])


def test_another_process_and_other_batches_give_the_same_order() -> None:
    sql = QUERIES["sums of floats"]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        other = process.submit(digest_of, sql, None, memory_limit=MEMORY).result()
    with tidegate.local(roots=[]) as client, client.create_task(plan_of(sql), memory_limit=MEMORY) as task:
        cut = {name: pa.Table.from_batches(odd(TABLES[name])) for name in task.sources}
        table = task.run_epoch(cut).table()
        assert digest(table.schema, iter(table.to_batches())) == other


def test_an_error_that_is_asked_for_names_each_join_and_what_it_keeps(folder: Path) -> None:
    sizes = r"\(\d+ MiB on c\d = c\d, \d+ MiB on c\d = c\d\)"
    plan_paths = r"the joins at relations\[0\]\S*\.join and relations\[0\]\S*\.join"
    with pytest.raises(tidegate.TaskFailed, match=rf"{plan_paths} keep about \d+ MiB in memory together {sizes}"):
        run(QUERIES["inner"], folder, memory_limit=MEMORY, spill="error")


@pytest.mark.parametrize(
    ("query", "channels"),
    [
        *[("inner", 2), ("sums of floats", 3), ("parts of sums", 2)],
        *in_search(("inner", 3), ("sums of floats", 2)),
    ],
)
def test_joins_that_do_not_fit_in_their_channel_have_one_order(query: str, channels: int, folder: Path) -> None:
    """Sums of floats are made after the exchange, other sums in halves before and after it."""
    sql, options = QUERIES[query], {**on_channels(channels), "memory_limit": (32 << 20) * channels}
    with pytest.raises(tidegate.TaskFailed, match="joins"):
        run(sql, folder, spill="error", **options)
    first = run(sql, folder, **options)
    mine = digest(first.schema, iter(first.to_batches()))
    for threads in (1, 4):
        with (
            tidegate.local(roots=[folder], threads=threads) as client,
            client.create_task(plan_of(sql), spill="ordered", **options) as task,
        ):
            table = task.run_epoch({name: fed(folder, name) for name in task.sources}).table()
        assert digest(table.schema, iter(table.to_batches())) == mine
    assert rows(first) == right_rows(sql, folder)


@pytest.fixture(scope="module")
def star(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an `l` that is joined with an `r` and a `q` of a thirteenth of its rows."""
    random = np.random.default_rng(9)
    folder, rows, few = tmp_path_factory.mktemp("star"), 400_000, 30_000
    keys = {name: random.integers(0, few, rows) for name in ("k", "h")}
    facts = {**keys, "g": random.integers(0, rows, rows), "v": random.normal(size=rows)}
    pq.write_table(pa.table(facts), folder / "l.parquet", row_group_size=50_000)
    for name, key, value in (("r", "k", "w"), ("q", "h", "z")):
        table = pa.table({key: np.arange(few), value: random.normal(size=few)})
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=10_000)
    return folder


def star_plan() -> bytes:
    session = datafusion.SessionContext()
    schemas = {"l": {"k": 0, "h": 0, "g": 0, "v": 0.5}, "r": {"k": 0, "w": 0.5}, "q": {"h": 0, "z": 0.5}}
    for name, columns in schemas.items():
        session.register_record_batches(
            name, [pa.table({column_name: [value] for column_name, value in columns.items()}).to_batches()]
        )
    sql = "SELECT l.g, sum(l.v * r.w * q.z) AS s FROM l JOIN r ON l.k = r.k JOIN q ON l.h = q.h GROUP BY l.g"
    return bytes(Serde.serialize_bytes(sql, session))


@pytest.mark.parametrize(("spill", "channels"), one_of_each(product(["auto", "ordered"], [2, 3])))
def test_a_sum_above_several_joins_needs_no_more_memory_than_32_mib_a_channel(
    channels: int, spill: str, star: Path
) -> None:
    def answer_with(threads: int, memory_limit: int) -> pa.Table:
        with (
            tidegate.local(roots=[star], threads=threads) as client,
            client.create_task(star_plan(), spill=spill, **on_channels(channels), memory_limit=memory_limit) as task,
        ):
            return task.run_epoch({name: str(star / f"{name}.parquet") for name in task.sources}).table()

    one, four = (answer_with(threads, (32 << 20) * channels) for threads in (1, 4))
    assert digest(one.schema, iter(one.to_batches())) == digest(four.schema, iter(four.to_batches()))
    assert rows(one) == rows(answer_with(4, 1 << 30))


def test_in_order_no_more_of_a_file_is_read_than_its_filter_needs(tmp_path: Path) -> None:
    """One row group of ten, and all of the other file."""
    table = pa.table({"k": TABLES["l"]["k"], "v": TABLES["l"]["v"], "g": np.arange(ROWS)})
    pq.write_table(table, tmp_path / "l.parquet", row_group_size=ROWS // 10)
    pq.write_table(TABLES["r"], tmp_path / "r.parquet")
    plan = plan_of(f"SELECT l.v, r.w FROM {BOTH} WHERE l.g < 1000")
    with (
        tidegate.local(roots=[tmp_path]) as client,
        client.create_task(plan, memory_limit=MEMORY, spill="ordered") as task,
    ):
        epoch = task.run_epoch({name: fed(tmp_path, name) for name in task.sources})
        assert epoch.statistics.rows_in == ROWS + ROWS // 10


def test_relaxed_it_spills_as_it_likes(folder: Path) -> None:
    sql = QUERIES["inner"]
    relaxed = run(sql, None, memory_limit=2 * MEMORY, determinism="relaxed", spill="error")
    assert rows(relaxed) == right_rows(sql, folder)


def test_more_than_the_spill_quota_is_a_clear_error() -> None:
    with pytest.raises(tidegate.TaskFailed, match="its spill space"):
        run(QUERIES["inner"], None, memory_limit=MEMORY, queue_bytes=1 << 30, spill_quota=4 << 20)


def files_below(folder: Path) -> Iterator[str]:
    return (os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)


def test_spill_files_are_gone_after_the_epoch(tmp_path: Path) -> None:
    sql = QUERIES["inner"]
    with (
        tidegate.local(roots=[], spill_directory=tmp_path) as client,
        client.create_task(plan_of(sql), memory_limit=MEMORY, output_bytes=1 << 30, queue_bytes=1 << 30) as task,
    ):
        epoch = task.run_epoch({name: TABLES[name] for name in task.sources})
        assert epoch.table().num_rows > ROWS
        assert [name for name in files_below(tmp_path) if "duckdb-" in name and not name.endswith("_owner")] == []
