from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tidegate.operators.duckdb import instances
from tidegate.operators.duckdb.choose_engine import choose, default_engine, works
from tidegate.operators.duckdb.duckdb_calls import PublicEngine, opened
from tidegate.operators.duckdb.duckdb_private import PrivateEngine
from tidegate.operators.duckdb.instances import LONG_STATEMENT, MANY_DISTINCT, Instance, InstancePool, InstanceSettings
from tidegate.proto.errors import InternalError, InvalidRequest

from .data import write

SMALL = InstanceSettings(memory_limit=1 << 28)


@pytest.fixture
def instance(pool: InstancePool, root: Path) -> Iterator[Instance]:
    """One that is new, and reads this test's folder alone."""
    instance_ = pool.take(InstanceSettings(memory_limit=1 << 30, roots=(str(root),)))
    yield instance_
    instance_.close()


def setting(instance: Instance, name: str) -> object:
    row = instance.connect().execute("SELECT current_setting($1)", [name]).fetchone()
    return row[0] if row else None


def test_settings_hold_on_every_connection(pool: InstancePool) -> None:
    instance = pool.take(InstanceSettings(memory_limit=1 << 28, time_zone="Asia/Tokyo", spill_limit=1 << 30))
    expected = {"TimeZone": "Asia/Tokyo", "threads": 1, "memory_limit": "192.0 MiB", "nested_loop_join_threshold": 0}
    expected |= {"asof_loop_join_threshold": 0, "merge_join_threshold": 0, "max_temp_directory_size": "1.0 GiB"}
    expected |= {"disabled_optimizers": "projection_placement"}
    assert {name: setting(instance, name) for name in expected} == expected
    instance.close()


@pytest.mark.parametrize(("count", "joins"), [(2, True), (MANY_DISTINCT, True), (MANY_DISTINCT + 1, False)])
def test_only_a_few_distinct_aggregates_are_joined(instance: Instance, count: int, joins: bool) -> None:
    """DuckDB takes the fifth power of their number to plan the joins."""
    distinct = ", ".join(f"count(DISTINCT x + {at})" for at in range(count))
    sql = f"SELECT k, {distinct} FROM (SELECT range AS k, range % 3 AS x FROM range(9)) GROUP BY k"
    for planned in (sql.replace(distinct, ", ".join([distinct] * 40)), sql):
        instance.tune_for(planned)
    row = instance.connect().execute(f"EXPLAIN {sql}").fetchone()
    assert row is not None
    assert ("JOIN" in row[1].upper()) is joins


@pytest.mark.parametrize("length", [100, LONG_STATEMENT + 1])
def test_only_statements_of_some_length_are_searched_for_what_they_repeat(instance: Instance, length: int) -> None:
    """DuckDB takes the second power of the number of repeated expressions."""
    sql = "SELECT sin(x + 1), cos(x + 1) FROM (SELECT range + 0.5 AS x FROM range(9))"
    for planned in (sql.ljust(2 * LONG_STATEMENT - length), sql.ljust(length)):
        instance.tune_for(planned)
    row = instance.connect().execute(f"EXPLAIN {sql}").fetchone()
    assert row is not None
    assert row[1].count("+ 1") == (1 if length == 100 else 2)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts the threads that Linux lists")
def test_an_instance_of_one_thread_has_the_callers_alone(root: Path) -> None:
    """Another one would read files for it, and how soon it has done so would decide what a statement does next."""
    paths = [write(root / f"{name}.parquet", pa.table({"k": range(200_000)}), row_group_size=9_000) for name in "ab"]
    code = f"""
import os, tempfile
from tidegate.operators.duckdb.instances import Instance, InstanceSettings
from tidegate.operators.duckdb.choose_engine import default_engine
from tidegate.operators.duckdb.duckdb_calls import opened
default_engine(opened({{"threads": 1, "async_threads": 0}}))
before = os.listdir("/proc/self/task")
instance = Instance(InstanceSettings(memory_limit=1 << 28, roots=({str(root)!r},)), tempfile.mkdtemp())
union = " UNION ALL ".join(f"SELECT * FROM '{{path}}'" for path in {list(map(str, paths))!r})
reader = instance.connect().sql(f"SELECT k, count(*) FROM ({{union}}) GROUP BY k").to_arrow_reader(2_048)
assert next(reader).num_rows
assert sorted(os.listdir("/proc/self/task")) == sorted(before)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system's count is Linux's")
def test_a_sort_that_spills_takes_no_more_than_the_instances_memory() -> None:
    """By the system's count: DuckDB does not count all that it takes. 320 MB of texts."""
    code = """
import tempfile
from tidegate.operators.duckdb.instances import Instance, InstanceSettings

def kilobytes(name):
    words = open("/proc/self/status").read().split()
    return int(words[words.index(name) + 1])

instance = Instance(InstanceSettings(memory_limit=1 << 28), tempfile.mkdtemp())
sorted_texts = "SELECT i, repeat(md5(i::VARCHAR), 20) AS t FROM range(500_000) AS r(i) ORDER BY t"
before = kilobytes("VmRSS:")
rows = sum(batch.num_rows for batch in instance.connect().sql(sorted_texts).to_arrow_reader(2_048))
print(rows, kilobytes("VmHWM:") - before)
instance.close()
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    rows, taken = map(int, done.stdout.split())
    assert rows == 500_000
    assert taken <= 256 << 10, f"{taken >> 10} MiB"


@pytest.mark.parametrize(
    ("memory_limit", "expected"),
    [(32, 32), (64, 64), (160, 128), (256, 192), (1024, 896), (4096, 3776)],
    ids=lambda mib: f"{mib} MiB",
)
def test_duckdb_gets_less_than_the_instances_memory_where_that_is_large(memory_limit: int, expected: int) -> None:
    assert instances.engine_bytes(memory_limit << 20) == expected << 20


@pytest.mark.parametrize(
    "statement",
    [
        "SET threads = 8",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('{root}/../secret')",
        "SELECT * FROM read_parquet('{root}/link.parquet')",
        "COPY (SELECT 1) TO '{root}/../out.csv'",
        "ATTACH '{root}/../x.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM read_csv('https://example.com/x.csv')",
    ],
)
def test_a_locked_instance_refuses(statement: str, instance: Instance, root: Path) -> None:
    (root.parent / "secret").write_text("x")
    outside = write(root.parent / "outside.parquet", pa.table({"x": [1]}))
    (root / "link.parquet").symlink_to(outside)
    with pytest.raises(duckdb.Error):
        instance.connect().execute(statement.format(root=root)).fetchall()


def test_a_locked_instance_reads_below_its_roots(instance: Instance, root: Path) -> None:
    path = write(root / "x.parquet", pa.table({"x": [1, 2]}))
    assert instance.connect().execute("SELECT count(*) FROM read_parquet($1)", [str(path)]).fetchall() == [(2,)]


def test_an_unknown_time_zone_is_refused_by_name(pool: InstancePool) -> None:
    with pytest.raises(InvalidRequest, match="'Mars/Olympus'"):
        pool.take(InstanceSettings(memory_limit=1 << 28, time_zone="Mars/Olympus"))


def test_one_that_is_given_back_is_taken(pool: InstancePool) -> None:
    first, second = pool.take(SMALL), pool.take(SMALL)
    assert first is not second
    pool.give_back(first)
    assert pool.take(SMALL) is first
    first.close()
    second.close()


def test_one_with_an_open_connection_is_not_used_again(pool: InstancePool) -> None:
    instance = pool.take(SMALL)
    instance.connect()
    pool.give_back(instance)
    assert pool.take(SMALL) is not instance


def test_a_bounded_number_stays_idle_and_those_asked_for_last_are_kept(
    pool: InstancePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "IDLE_PER_SETTINGS", 2)
    monkeypatch.setattr(instances, "IDLE_IN_ALL", 3)
    first, second = (InstanceSettings(memory_limit=size << 20) for size in (100, 200))
    for settings in (first, second):
        for instance in [pool.take(settings) for _ in range(3)]:
            pool.give_back(instance)
    assert len(os.listdir(tmp_path / "spill")) == 3
    kept = [pool.take(settings) for settings in (second, second, first)]
    assert len(os.listdir(tmp_path / "spill")) == 3
    for instance in kept:
        instance.close()


def test_closing_removes_the_temp_folders(pool: InstancePool, tmp_path: Path) -> None:
    for instance in [pool.take(SMALL) for _ in range(2)]:
        pool.give_back(instance)
    assert len(os.listdir(tmp_path / "spill")) == 2
    pool.close()
    assert os.listdir(tmp_path / "spill") == []
    with pytest.raises(InternalError):
        pool.take(SMALL)


def test_the_private_engine_is_chosen_where_it_works() -> None:
    assert default_engine(opened({})).prepares
    assert works(PrivateEngine(), opened({}))
    assert choose(PrivateEngine, opened({}), tested=()).prepares


def test_without_a_working_private_engine_the_public_one_is_chosen() -> None:
    class Broken(PublicEngine):
        def stream(self, *arguments: object) -> pa.RecordBatchReader:
            raise AttributeError("_submit")

    def missing() -> PublicEngine:
        raise ImportError("duckdb._sources")

    database = opened({})
    assert not works(Broken(), database)
    assert type(choose(Broken, database, tested=())) is PublicEngine
    assert type(choose(Broken, database, tested={duckdb.__version__})) is Broken  # it is not asked
    assert type(choose(missing, database)) is PublicEngine


def test_no_progress_is_drawn_for_somebody_at_a_prompt() -> None:
    asked = "SELECT current_setting('enable_progress_bar')"
    code = (
        f'from tidegate.operators.duckdb.duckdb_calls import opened; print(opened({{}}).execute("{asked}").fetchone())'
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(False,)\n"
