"""Groups, joins and windows by a time, as SQL writes them: the rows are those of DuckDB, and the groups that the
watermark has passed are let go.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import substrait.dataframe as sub
from datafusion import SessionContext
from datafusion.substrait import Serde

import tidegate
from tidegate import windows
from tidegate.operators.changes.event_time import forgetting
from tidegate.planner.changes import lower_changes

from ..searching import one_of_each

EVENTS = pa.schema(
    [
        ("ts", pa.timestamp("us")),
        ("tz", pa.timestamp("us", "UTC")),
        ("n", pa.int64()),
        ("k", pa.int64()),
        ("v", pa.int64()),
    ]
)
START = datetime(1969, 11, 20)  # noqa: DTZ001 - a time without a zone
EPOCHS = 6

KEYS = {
    "date_trunc('hour', ts)": ("ts", "date_trunc('hour', ts)"),
    "date_trunc('month', ts)": ("ts", "date_trunc('month', ts)"),
    "date_trunc('week', ts + interval '1 day')": ("ts", "date_trunc('week', ts + interval 1 day)"),
    "date_bin(interval '90 minutes', ts)": ("ts", "time_bucket(interval 90 minutes, ts, timestamp '1970-01-01')"),
    "date_trunc('month', tz)": ("tz", "date_trunc('month', tz)"),
    "date_bin(interval '1 day', tz, timestamp '2001-01-01T05:00:00Z')": (
        "tz",
        "time_bucket(interval 1 day, tz, timestamptz '2001-01-01 05:00:00Z')",
    ),
    "CAST(ts AS DATE)": ("ts", "CAST(ts AS DATE)"),
    "extract(year from ts)": ("ts", "extract(year from ts)"),
    "n / 60": ("n", "n // 60"),
    "n - n % 60": ("n", "n - n % 60"),
    "floor(n / 60.0) * 60": ("n", "floor(n / 60.0) * 60"),
    "n": ("n", "n"),
}
"""The keys of groups: as DataFusion writes them, the time that they rise with, and as DuckDB writes them."""

QUERIES = {
    "floats": "SELECT {w} AS w, k, avg(CAST(v AS DOUBLE)) AS x FROM events GROUP BY 1, 2",
    "extremes": "SELECT {w} AS w, min(v) AS low, max(v) AS high, count(DISTINCT k) AS ks FROM events GROUP BY 1",
    "distinct": "SELECT DISTINCT {w} AS w, k FROM events",
    "first of each group": (
        "SELECT w, v FROM (SELECT w, v, row_number() OVER (PARTITION BY w ORDER BY v, k, n) AS r FROM"
        " (SELECT {w} AS w, v, k, n FROM events) AS hours) AS numbered WHERE r <= 2"
    ),
    "running sums": (
        "SELECT {w} AS w, v, sum(v) OVER (PARTITION BY {w} ORDER BY n, k, v ROWS BETWEEN UNBOUNDED PRECEDING AND"
        " CURRENT ROW) AS s FROM events"
    ),
    "groups joined": (
        "SELECT a.w, a.c, b.m FROM (SELECT {w} AS w, count(*) AS c FROM events GROUP BY 1) AS a LEFT JOIN"
        " (SELECT {w} AS w, max(v) AS m FROM events WHERE k = 0 GROUP BY 1) AS b ON a.w = b.w"
    ),
    "union": "SELECT {w} AS w, k FROM events WHERE k = 1 UNION SELECT {w}, v FROM events WHERE k = 0",
    "groups of groups": (
        "SELECT date_trunc('day', w) AS d, max(c) AS m FROM (SELECT {w} AS w, k, count(*) AS c FROM events"
        " GROUP BY 1, 2) AS counts GROUP BY 1"
    ),
}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are let go however few there are."""
    monkeypatch.setattr(forgetting, "_FEW", 0)


def sql_plan(query: str, *tables: str) -> bytes:
    context = SessionContext()
    for table in tables or ("events",):
        context.register_record_batches(table, [[pa.RecordBatch.from_pylist([], EVENTS)]])
    return bytes(Serde.serialize_bytes(query, context))


def events(count: int = 240, days: int = 80) -> list[dict[str, Any]]:
    """Rows that mostly come in the order of their times, around 1970."""
    chance = random.Random(23)
    rows = []
    for at in range(count):
        minutes = at * days * 1_440 // count - chance.choice([0, 0, 0, 100, 1_000, 30_000])
        ts = START + timedelta(minutes=minutes)
        null = chance.random() < 0.08
        rows.append(
            {
                "ts": None if null else ts,
                "tz": None if null else ts.replace(tzinfo=UTC),
                "n": None if null else minutes - 57_600,
                "k": chance.randrange(3),
                "v": chance.randrange(100),
            }
        )
    return rows


def on_time(rows: Sequence[dict[str, Any]], time: str, slack: Any) -> list[dict[str, Any]]:
    """The rows that are not later than the latest one before them by more than the slack."""
    kept, latest = [], None
    for row in rows:
        if row[time] is None:
            continue
        latest = row[time] if latest is None else max(latest, row[time])
        if row[time] >= latest - slack:
            kept.append(row)
    return kept


def slack_of(time: str) -> Any:
    return 1_200 if time == "n" else timedelta(minutes=1_200)


def answer(query: str, rows: Sequence[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("events", pa.Table.from_pylist(list(rows), EVENTS))
        return counted(connection.sql(query).to_arrow_table())


def counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in table.columns]
    weights = columns.pop() if "_weight" in table.column_names else [1] * table.num_rows
    total: Counter[tuple[Any, ...]] = Counter()
    for *row, weight in zip(*columns, weights, strict=True):
        total[tuple(row)] += weight
    return total


def added_up(client: tidegate.Client, plan: Any, rows: Sequence[dict[str, Any]], channels: int = 1) -> Any:
    """The sum of all changes, and the bytes of the operators' state at the end."""
    total: Counter[tuple[Any, ...]] = Counter()
    with client.create_task(plan, mode="continuous", channels=channels) as task:
        for part in range(EPOCHS):
            some = rows[part * len(rows) // EPOCHS : (part + 1) * len(rows) // EPOCHS]
            for row, weight in counted(task.run_epoch({"events": pa.Table.from_pylist(some, EVENTS)}).table()).items():
                total[row] += weight
        kept = [part for part in task.statistics().operators if part.operator != "RetractionCheck"]
        size = sum(part.state_bytes for part in kept)
    return Counter({row: weight for row, weight in total.items() if weight}), size


@pytest.mark.parametrize("key", KEYS)
def test_groups_by_a_time_end_and_change_no_row(client: tidegate.Client, key: str) -> None:
    time, of_duckdb = KEYS[key]
    query = "SELECT {} AS w, count(*) AS c, sum(v) AS s FROM events GROUP BY 1"
    plan, rows, slack = sql_plan(query.format(key)), events(), slack_of(time)
    bounded = windows.of_source(plan, "events", time, slack if time != "n" else slack // 2, **_lateness(time))
    assert not client.warnings(bounded, mode="continuous")
    total, size = added_up(client, bounded, rows)
    assert total == answer(query.format(of_duckdb), on_time(rows, time, slack))
    everything, whole = added_up(client, plan, rows)
    assert everything == answer(query.format(of_duckdb), rows)
    assert size < whole / 2 or len(everything) < 8


def _lateness(time: str) -> dict[str, Any]:
    return {"lateness": 600} if time == "n" else {}


@pytest.mark.parametrize(("name", "channels"), one_of_each(product(QUERIES, [1, 2])))
def test_every_operator_lets_rows_go(client: tidegate.Client, name: str, channels: int) -> None:
    query, rows, slack = QUERIES[name].format(w="date_trunc('hour', ts)"), events(), slack_of("ts")
    plan = sql_plan(query)
    bounded = windows.of_source(plan, "events", "ts", slack)
    assert not client.warnings(bounded, mode="continuous")
    total, size = added_up(client, bounded, rows, channels)
    assert total == answer(query, on_time(rows, "ts", slack))
    if channels == 1:
        assert size < added_up(client, plan, rows)[1] / 2


def test_two_sources_bound_no_state_because_one_may_be_idle(client: tidegate.Client) -> None:
    """Rows of a source that was idle may be older than those of the other one."""
    query = "SELECT DISTINCT n / 60 AS w FROM (SELECT n FROM events UNION ALL SELECT n FROM others) AS rows"
    plan: Any = sql_plan(query, "events", "others")
    for source in ("events", "others"):
        plan = windows.of_source(plan, source, "n", idle_epochs=1)
    (warning,) = client.warnings(plan, mode="continuous")
    assert "the task keeps different rows for ever" in warning

    def numbers(*values: int) -> pa.Table:
        return pa.Table.from_pylist([{"n": value} for value in values], EVENTS)

    with client.create_task(plan, mode="continuous") as task:
        task.run_epoch({"events": numbers(0, 60), "others": numbers(0)})
        for start in (600, 1_200):
            task.run_epoch({"events": numbers(start)})
        assert task.run_epoch({"others": numbers(61)}).table().num_rows == 0


@pytest.mark.parametrize(
    ("source", "time", "what"),
    [("other", "n", "does not read 'other'"), ("events", "ts", "leaves the column 'ts' out"), ("events", "x", "x")],
)
def test_a_source_or_time_that_the_plan_does_not_read_is_refused(source: str, time: str, what: str) -> None:
    plan = sql_plan("SELECT n / 60 AS w, count(*) AS c FROM events GROUP BY 1")
    with pytest.raises(tidegate.InvalidRequest, match=what):
        windows.of_source(plan, source, time)


def test_late_rows_without_windows_are_those_that_are_not_on_time(client: tidegate.Client) -> None:
    rows = windows.watermark(sub.read_named_table("events", {"n": sub.i64}), "n")
    table = pa.table({"n": [10, None, 30, 19, 20]})
    for build, left in ((windows.late_rows, [19]), (windows.on_time, [10, 20, 30])):
        with client.create_task(build(rows, "n", lateness=10).to_plan(), mode="continuous") as task:
            assert task.run_epoch({"events": table}).table().column("n").to_pylist() == left
        per_epoch = client.query(build(rows, "n", lateness=10).to_plan(), {"events": table})
        assert sorted(per_epoch.column("n").to_pylist()) == ([] if build is windows.late_rows else [10, 19, 20, 30])


def test_groups_of_final_windows_go_with_their_windows(client: tidegate.Client) -> None:
    rows = windows.watermark(sub.read_named_table("events", {"n": sub.i64, "k": sub.i64}), "n")
    counts = windows.sliding(rows, "n", 20, 10, keys=["k"], measures=[sub.f.count().alias("c")], final=True)
    most = counts.group_by("window_start", "window_end").agg(sub.f.max(sub.col("c")).alias("m"))
    text = client.explain(most.to_plan(), mode="continuous").text
    assert "keeps numbers of groups that the watermark has not passed" in text
    sizes = []
    with client.create_task(most.to_plan(), mode="continuous") as task:
        for start in range(0, 8_000, 1_000):
            task.run_epoch({"events": pa.table({"n": range(start, start + 1_000), "k": [0, 1] * 500})})
            sizes.append(sum(part.state_bytes for part in task.statistics().operators if part.operator == "Group"))
    assert max(sizes[1:]) <= 2 * sizes[0]


def _read(name: str) -> Any:
    rows = sub.read_named_table(name, {f"{name}t": sub.i64, f"{name}k": sub.i64})
    return windows.watermark(rows, f"{name}t", 5, idle_epochs=1)


def _tens(frame: Any, time: str) -> Any:
    return frame.with_columns((sub.col(time) / 10).alias("ten")).group_by("ten").agg(sub.f.count().alias("c"))


FINAL = {
    "outer join": lambda a, b: _tens(
        windows.interval_join(a, b, ("at", "bt"), before=3, after=7, keys=[("ak", "bk")], how="outer", final=True), "bt"
    ),
    "anti join": lambda a, b: _tens(
        windows.interval_join(a, b, ("at", "bt"), after=7, keys=[("ak", "bk")], how="left_anti", final=True), "at"
    ),
    "as-of join": lambda a, b: _tens(
        windows.as_of_join(a, b, ("at", "bt"), keys=[("ak", "bk")], tolerance=9, final=True), "at"
    ),
    "windows of two sources": lambda a, b: _tens(
        windows.sliding(
            a.select(sub.col("at").alias("t")).union(b.select(sub.col("bt").alias("t"))), "t", 20, 5, final=True
        ),
        "window_end",
    ),
}


@pytest.mark.parametrize("name", FINAL)
def test_groups_of_final_rows_are_the_same_if_nothing_is_let_go(
    client: tidegate.Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    chance = random.Random(name)
    epochs = []
    for start in range(-60, 80, 20):
        epoch = {}
        for source in ("a", "b"):
            count = chance.choice([0, 8])
            times = [start + chance.randrange(30) - chance.choice([0, 0, 30]) for _ in range(count)]
            keys = [chance.randrange(2) for _ in range(count)]
            epoch[source] = pa.table(
                {f"{source}t": pa.array(times, pa.int64()), f"{source}k": pa.array(keys, pa.int64())}
            )
        epochs.append(epoch)
    plan = FINAL[name](_read("a"), _read("b")).to_plan()

    def changes() -> list[list[dict[str, Any]]]:
        with client.create_task(plan, mode="continuous") as task:
            return [task.run_epoch(epoch).table().to_pylist() for epoch in epochs]

    assert "that the watermark has not passed" in client.explain(plan, mode="continuous").text
    let_go = changes()
    monkeypatch.setattr(lower_changes, "with_floors", lambda root: root)
    assert let_go == changes()
    assert any(let_go)
