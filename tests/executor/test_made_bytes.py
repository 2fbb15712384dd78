"""Texts and lists that expressions make: within memory, or refused by name before they are made."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf.message import Message

import tidegate
from benchmarks import plan_parts as parts
from tidegate.operators.duckdb.statement_functions import StatementFunctions
from tidegate.operators.kernels import Kernels
from tidegate.operators.python_functions import WIDE_ROWS
from tidegate.relations import Unnest, UserOperator

from ..conformance.resident_epoch import PassedOn
from ..conformance.resident_kinds import SCHEMA, over, planned
from ..on_channels import on_channels

LIMIT = 32 << 20
"""Rows that are computed at once may make 4 MiB."""


def rows(count: int, text: str = "abc") -> pa.RecordBatch:
    return pa.record_batch([range(count), [7] * count, [text] * count], schema=SCHEMA)


def answer(text: str, count: int, **options: object) -> pa.Table:
    fed = {name: rows(count) for name in ("l", "r") if f" {name} " in f"{text} "}
    with tidegate.local() as client:
        return client.query(planned(text), fed, memory_limit=LIMIT, determinism="strict", **options)


def test_rows_come_where_fewer_of_them_fit_at_once() -> None:
    table = answer("SELECT k, repeat(t, 4000 + k) AS t FROM l", 2_000)
    assert table["k"].to_pylist() == list(range(2_000))
    assert [len(text) for text in table["t"].to_pylist()] == [3 * (4_000 + k) for k in range(2_000)]


def test_rows_come_where_a_constant_makes_them_long() -> None:
    text = "x" * 100_000
    table = answer(f"SELECT k, t || '{text}' AS t FROM l", 2_000)
    assert table["k"].to_pylist() == list(range(2_000))
    assert set(table["t"].to_pylist()) == {f"abc{text}"}


@pytest.mark.parametrize(("size", "counted"), [(256, False), (257, True), (1_000_000, True)])
def test_only_short_constants_are_written_into_rows_without_a_count(
    size: int, counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3,000 rows with a text of 1 MB took 3 GB with any `memory_limit`."""
    answers, compute = [], Kernels.of
    monkeypatch.setattr(Kernels, "of", lambda self, batch: answers.append(compute(self, batch)) or answers[-1])
    text = "x" * size
    table = answer(f"SELECT k, '{text}' AS t FROM l", 100)
    assert (table.num_rows, set(table["t"].to_pylist())) == (100, {text})
    assert bool(answers) == (not counted)


def test_a_long_text_of_a_plan_takes_little_memory_to_plan() -> None:
    """Looking for functions in the statement took a hundred times the text."""
    sql = f"SELECT {WIDE_ROWS}(1e0, 'it''s', true), '{'x' * 1_000_000}'"
    with duckdb.connect() as connection:
        tracemalloc.start()
        try:
            functions = StatementFunctions(sql, connection, memory=LIMIT, threads=1, check=lambda: None)
            assert functions.named(sql).endswith(sql[sql.index("(") :])
            assert tracemalloc.get_traced_memory()[1] < 10 * len(sql)
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("determinism", ["strict", "relaxed"])
def test_rows_of_a_parquet_file_come_where_fewer_of_them_fit_at_once(tmp_path: Path, determinism: str) -> None:
    pq.write_table(pa.Table.from_batches([rows(2_000)]), tmp_path / "l.parquet")
    with tidegate.local(roots=[tmp_path]) as client:
        text = "SELECT k, repeat(t, 4000 + k) AS t FROM l WHERE k >= 100"
        table = client.query(
            planned(text), {"l": str(tmp_path / "l.parquet")}, memory_limit=LIMIT, determinism=determinism
        )
    assert table["k"].to_pylist() == list(range(100, 2_000))
    assert [len(text) for text in table["t"].to_pylist()] == [3 * (4_000 + k) for k in range(100, 2_000)]


@pytest.mark.parametrize(
    ("detail", "names"),
    [(Unnest(columns=[0]), ["items", "item"]), (UserOperator(name="passed on"), ["items"])],
    ids=["unnest", "user operator, which may want no more rows"],
)
def test_rows_of_a_file_come_to_an_operator_where_fewer_of_them_fit_at_once(
    tmp_path: Path, detail: Message, names: list[str]
) -> None:
    pq.write_table(pa.Table.from_batches([rows(2_000)]), tmp_path / "l.parquet")
    plan = over("SELECT array_repeat(k, 300 + k) AS items FROM l WHERE k < 1000", detail, names).plan()
    with tidegate.local(roots=[tmp_path], operators={"passed on": tidegate.user_operator(PassedOn)}) as client:
        table = client.query(plan, {"l": str(tmp_path / "l.parquet")}, memory_limit=LIMIT)
    items = [[k] * (300 + k) for k in range(1_000)]
    if len(names) == 1:
        assert table["items"].to_pylist() == items
    else:
        assert table["item"].to_pylist() == [item for row in items for item in row]


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("SELECT l.k, repeat(l.t, 4000 + r.k) AS t FROM l JOIN r ON l.k = r.k", "project"),
        ("SELECT k FROM l WHERE length(repeat(t, 4000 + k)) > 3 ORDER BY k", "filter"),
        ("SELECT max(repeat(t, 4000 + k)) AS t FROM l", "aggregate"),
        ("SELECT t FROM (SELECT replace(t, 'a', repeat(t, 4000)) AS t FROM l ) AS x ORDER BY t", "project"),
        ("SELECT array_repeat(k, 4000 + k) AS x FROM l ORDER BY k", "project"),
        ("SELECT range(k * 100) AS x FROM l ORDER BY k", "project"),
        ("SELECT lpad(t, CAST(40000 + k AS INT), t) AS x FROM l ORDER BY k", "project"),
    ],
)
def test_rows_that_do_not_fit_at_once_are_refused_by_place(text: str, relation: str) -> None:
    with pytest.raises(tidegate.TidegateError, match=rf"{relation}.*: makes up to [\d,]+ bytes") as failure:
        answer(text, 2_000)
    assert failure.value.reason == "MEMORY_LIMIT"


def test_rows_that_do_not_fit_into_a_batch_together_are_refused_by_place() -> None:
    """Few rows of those that are computed at once: DuckDB gathers 1.5 MB of each for a batch."""
    one = "(SELECT k FROM r WHERE k = 3) AS x"
    text = f"SELECT repeat(l.t, 500000 + l.k) AS t FROM l CROSS JOIN {one} WHERE l.k % 3000 = 0"
    with pytest.raises(tidegate.TidegateError, match=r"project: makes .* that DuckDB hands out at once") as failure:
        answer(text, 100_000)
    assert failure.value.reason == "MEMORY_LIMIT"


def test_long_texts_that_are_not_handed_out_do_not_count_as_a_batch() -> None:
    longest = "SELECT max(repeat(t, 200000 + k)) AS t FROM l WHERE k % 3000 = 0"
    table = answer(f"SELECT t FROM r WHERE k < 2 UNION ALL {longest} UNION ALL {longest}", 100_000)
    assert [len(text) for text in table["t"].to_pylist()] == [3, 3, 3 * 299_000, 3 * 299_000]


def test_long_texts_of_joins_come_in_their_order_where_the_joins_spill() -> None:
    """Class of bug: in its ordered form, the statement asked a guard that it had not named."""
    text = "SELECT l.k, repeat(l.t, 2 + l.k) AS t FROM l JOIN r ON l.k = r.k WHERE l.k < 900 OR l.k > 99990"
    table = answer(text, 100_000, spill="ordered")
    assert sorted(len(text) for text in table["t"].to_pylist()) == [
        3 * (2 + k) for k in [*range(900), *range(99_991, 100_000)]
    ]


def test_doubling_in_projections_is_refused() -> None:
    text = "SELECT t FROM l "
    for _ in range(20):
        text = f"SELECT t || t AS t FROM ({text}) AS x"
    with pytest.raises(tidegate.TidegateError, match="bytes of texts and lists") as failure:
        answer(text, 2_000)
    assert failure.value.reason in ("MEMORY_LIMIT", "ROW_TOO_LARGE")


def test_a_row_that_does_not_fit_is_refused_by_place() -> None:
    with pytest.raises(tidegate.TidegateError, match=r"project: makes up to [\d,]+ bytes .* of one row") as failure:
        answer("SELECT repeat(t, 2000000 + k) AS t FROM l", 1)
    assert failure.value.reason == "ROW_TOO_LARGE"


def test_a_branch_that_is_not_taken_counts_for_nothing() -> None:
    text = (
        "SELECT CASE WHEN k < 3 THEN repeat(t, k) ELSE upper(t) END AS t FROM (SELECT t, k * 1000000 AS k FROM l ) AS x"
    )
    assert answer(f"{text} ORDER BY k", 2_000)["t"].to_pylist() == ["", *["ABC"] * 1_999]


def test_texts_of_a_plan_may_say_what_guards_say() -> None:
    text = "wide_rows(1e0, wide_from()"
    table = answer(f"SELECT '{text}' || repeat(t, k) AS t FROM l ORDER BY k", 3)
    assert table["t"].to_pylist() == [text, text + "abc", text + "abcabc"]


@pytest.mark.parametrize("collected", ["array_agg(t)", "string_agg(t, ',')"])
def test_a_group_of_which_two_copies_do_not_fit_is_refused(tmp_path: Path, collected: str) -> None:
    texts = pa.DictionaryArray.from_arrays(np.zeros(800_000, np.int32), pa.array(["x" * 100]))
    pq.write_table(pa.table({"t": texts}), tmp_path / "l.parquet", store_schema=False)
    with tidegate.local(roots=[tmp_path]) as client:
        task = client.create_task(planned(f"SELECT {collected} AS t FROM l"), memory_limit=4 * LIMIT)
        with task, pytest.raises(tidegate.TidegateError, match="needs more than its memory limit of 64 MiB") as failure:
            task.run_epoch({"l": str(tmp_path / "l.parquet")}).table()
    assert failure.value.reason == "MEMORY_LIMIT"


def test_small_groups_are_collected_in_half_of_the_memory() -> None:
    table = answer("SELECT k % 100 AS g, array_agg(k) AS x FROM l GROUP BY k % 100 ORDER BY g", 2_000)
    assert table["x"].to_pylist() == [list(range(group, 2_000, 100)) for group in range(100)]


def test_rows_of_a_file_that_are_filtered_below_long_texts_come_in_their_order(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_batches([rows(10_000)]), tmp_path / "l.parquet", row_group_size=1_000)
    text = "SELECT k, repeat(t, 4000 + k) AS t FROM l WHERE k >= 9500 AND k % 2 = 0"
    with tidegate.local(roots=[tmp_path]) as client:
        table = client.query(planned(text), {"l": str(tmp_path / "l.parquet")}, memory_limit=LIMIT)
    assert table["k"].to_pylist() == [*range(9_500, 10_000, 2)]
    assert [len(text) for text in table["t"].to_pylist()] == [3 * (4_000 + k) for k in range(9_500, 10_000, 2)]


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT upper((SELECT max(t) FROM r)) AS u FROM l",
        "SELECT k, t || (SELECT max(t) FROM r) AS u FROM l",
        "SELECT k, t || (SELECT max(t) FROM l) AS u FROM l",
        "SELECT k, repeat(t, (SELECT max(g) + 2 FROM r)) AS u FROM l",
        "SELECT k FROM l WHERE t || 'x' < (SELECT max(t) FROM r) || 'y'",
    ],
)
def test_a_subquery_in_an_expression_that_makes_texts_is_answered(query: str, channels: int) -> None:
    left, right = (
        pa.table({"k": [1, 2], "g": [1, 1], "t": texts}, schema=SCHEMA) for texts in (["a", "b"], ["b", "cd"])
    )
    with tidegate.local() as client, client.create_task(planned(query), **on_channels(channels)) as task:
        sources = {name: table for name, table in {"l": left, "r": right}.items() if name in task.sources}
        answer = task.run_epoch(sources).table()
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        assert sorted(map(repr, answer.to_pylist())) == sorted(
            map(repr, connection.sql(query).to_arrow_table().to_pylist())
        )


def test_a_subquery_that_makes_texts_of_the_enclosing_row_alone_is_a_partition() -> None:
    """Class of bug: its guard was volatile where its own rows have no columns; DuckDB refuses that."""
    texts = parts.project(parts.read("m"), parts.call("concat", *[parts.cast(parts.TEXT, parts.outer())] * 40))
    longest = parts.scalar(parts.aggregate(texts, 0, parts.measure("string_agg", parts.col(), parts.text(","))))
    numbered = parts.project(parts.read(), parts.windowed("row_number", partition=longest))
    number = pa.schema([pa.field("c0", pa.int64(), nullable=False)])
    fed = {name: pa.table({"c0": column}, schema=number) for name, column in (("t", [7, 8, 7]), ("m", [1, 2]))}
    with tidegate.local() as client:
        table = client.query(json.dumps(parts.Made(numbered).plan()), fed)
    assert sorted(table["c0"].to_pylist()) == [1, 1, 2]


LONG = "SELECT k, repeat(t, 20000 + k) AS t FROM l"
WIDE = [(k, 3 * (20_000 + k)) for k in range(3_000)]
LIMITS = [
    (f"{LONG} LIMIT 300", WIDE[:300]),
    (f"{LONG} LIMIT 300 OFFSET 2500", WIDE[2_500:2_800]),
    (f"{LONG} WHERE k >= 500 LIMIT 300", WIDE[500:800]),
    (f"SELECT k + 1 AS k, t FROM ({LONG}) AS x LIMIT 300", [(k + 1, size) for k, size in WIDE[:300]]),
    (f"{LONG} ORDER BY k DESC LIMIT 300 OFFSET 2", WIDE[2_698:2_998][::-1]),
    (f"SELECT k, t FROM ({LONG} ORDER BY g, k DESC LIMIT 300) AS x", WIDE[-300:][::-1]),
    ("SELECT k, repeat(t, 20000 + k) AS t FROM (SELECT * FROM l LIMIT 300) AS x", WIDE[:300]),
    ("SELECT k, repeat(t, 20000 + k) AS t FROM (SELECT * FROM l ORDER BY k DESC LIMIT 300) AS x", WIDE[-300:][::-1]),
    ("SELECT k, t FROM l WHERE length(repeat(t, 20000 + k)) % 2 = 1 LIMIT 300", [(k, 3) for k in range(1, 600, 2)]),
    (f"SELECT k, t FROM ({LONG}) AS x WHERE length(t) > 66000 LIMIT 300", WIDE[2_001:2_301]),
]
"""Queries with limits, and the keys and lengths of their rows, which are more than a statement may make at once."""


@pytest.mark.parametrize("source", ["file", "stream"])
@pytest.mark.parametrize(("text", "expected"), LIMITS)
def test_rows_of_a_limit_come_where_fewer_of_them_fit_at_once(
    text: str, expected: list[tuple[int, int]], source: str, tmp_path: Path
) -> None:
    pq.write_table(pa.Table.from_batches([rows(3_000)]), tmp_path / "l.parquet", row_group_size=1_000)
    fed = {"l": str(tmp_path / "l.parquet") if source == "file" else rows(3_000)}
    with tidegate.local(roots=[tmp_path]) as client:
        table = client.query(planned(text), fed, memory_limit=LIMIT, determinism="strict")
    lengths = [len(text) for text in table["t"].to_pylist()]
    assert list(zip(table["k"].to_pylist(), lengths, strict=True)) == expected


@pytest.mark.parametrize("channels", [1, 2])
def test_a_limit_between_a_join_and_long_texts_bounds_what_they_take(channels: int) -> None:
    few = "SELECT k, repeat(t, 20000 + k) AS t FROM l ORDER BY k DESC LIMIT 300"
    text = f"SELECT x.k AS k, length(x.t) AS n FROM ({few}) AS x JOIN r ON x.k = r.k ORDER BY x.k"
    with (
        tidegate.local() as client,
        client.create_task(planned(text), memory_limit=channels * 2 * LIMIT, **on_channels(channels)) as task,
    ):
        table = task.run_epoch({"l": rows(3_000), "r": rows(3_000)}).table()
    assert list(zip(table["k"].to_pylist(), table["n"].to_pylist(), strict=True)) == WIDE[-300:]


def test_a_limit_stays_above_an_order_by_long_texts() -> None:
    with pytest.raises(tidegate.TidegateError, match="bytes of texts and lists of rows that DuckDB computes at once"):
        answer(f"{LONG} ORDER BY t LIMIT 3", 3_000)
