"""A SELECT as a node: over the streams that it names, and nothing else."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate import Client, TaskGraph
from tidegate.operators.duckdb.sql_text import reads_of
from tidegate.planner.graph.sql_growth import growth

from .executors import NUMBERS, PassOn, fed, numbers


def over_numbers(statement: str, **more: object) -> TaskGraph:
    graph = TaskGraph()
    graph.collect(graph.sql("query", statement, {"numbers": fed(graph)}, **more))  # type: ignore[arg-type]
    return graph


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("SELECT sum(v)::BIGINT AS s FROM numbers", [(190,)]),
        (
            "WITH few AS (FROM numbers WHERE v < 3) SELECT a.v, b.v AS w FROM few a JOIN few b USING (v) ORDER BY v",
            [(0, 0), (1, 1), (2, 2)],
        ),
        ("SELECT v FROM numbers WHERE v > (SELECT avg(v) FROM numbers) ORDER BY v DESC LIMIT 2;", [(19,), (18,)]),
        ('FROM "Numbers" SELECT max(v) AS "the most" -- the last one', [(19,)]),
        ("/* ; */ SELECT max(v) AS ü FROM numbers -- ; \n WHERE v < 5; -- é; the end", [(4,)]),
        ("SELECT ';' AS a, 'é;' AS b FROM numbers WHERE v = 1;; /* it ends */\n-- twice", [(";", "é;")]),
        ("SELECT v, i FROM numbers, range(2) AS r(i) WHERE v = 1 ORDER BY i", [(1, 0), (1, 1)]),
        (
            "WITH RECURSIVE up(n) AS (SELECT min(v) FROM numbers UNION ALL SELECT n + 1 FROM up WHERE n < 2) FROM up",
            [(0,), (1,), (2,)],
        ),
    ],
)
def test_a_statement_reads_its_streams_by_name(statement: str, rows: list[tuple[int, ...]], client: Client) -> None:
    table = client.run_graph(over_numbers(statement), {"numbers": numbers(20)}).table()
    assert list(zip(*table.to_pydict().values(), strict=True)) == rows


@pytest.mark.parametrize(
    ("statement", "reason", "words"),
    [
        ("SELECT * FROM numbrs", "UNKNOWN_STREAM", "and there is no stream 'numbrs'; there are: numbers"),
        ("SELECT 1 AS one", "UNREAD", "does not read stream 'numbers'"),
        ("SELECT w FROM numbers", "BAD_STATEMENT", 'Referenced column "w" not found'),
        ("SELEC v FROM numbers", "BAD_STATEMENT", "syntax error"),
        ("DELETE FROM numbers", "BAD_STATEMENT", "SELECT"),
        ("SELECT v FROM numbers; SELECT k FROM numbers", "BAD_STATEMENT", "2 statements"),
        ("SELECT v FROM numbers) UNION ALL (SELECT k FROM numbers", "BAD_STATEMENT", "syntax error"),
        ("DESCRIBE numbers", "BAD_STATEMENT", "not DESCRIBE"),
        ("SELECT * FROM numbers, '/etc/passwd'", "UNKNOWN_STREAM", "'/etc/passwd'"),
        ("SELECT * FROM numbers, read_text('/etc/passwd')", "BAD_STATEMENT", "read_text()"),
        ("SELECT * FROM numbers, duckdb_settings()", "BAD_STATEMENT", "duckdb_settings()"),
        ("SELECT * FROM numbers, main.numbers AS n", "BAD_STATEMENT", "main.numbers"),
        ("SELECT * FROM numbers, r0", "UNKNOWN_STREAM", "'r0'"),
    ],
)
def test_a_statement_that_cannot_be_is_refused_before_it_runs(
    statement: str, reason: str, words: str, client: Client
) -> None:
    with pytest.raises(tidegate.PlanError) as raised:
        client.explain(over_numbers(statement))
    assert [problem.reason for problem in raised.value.problems] == [reason]
    assert words in str(raised.value)
    assert "node 'query'" in str(raised.value)


def test_an_error_while_it_runs_names_the_node_and_says_what_duckdb_says(client: Client) -> None:
    graph = over_numbers("SELECT CAST('x' || v AS BIGINT) AS n FROM numbers")
    with pytest.raises(
        tidegate.TaskFailed, match="node 'query', channel 0, epoch 1: Could not convert string 'x0' to INT64"
    ):
        client.run_graph(graph, {"numbers": numbers(3)})


def test_each_channel_runs_it_over_its_keys(client: Client) -> None:
    statement = "SELECT k, sum(v)::BIGINT AS total FROM numbers GROUP BY k"
    graphs = over_numbers(statement), over_numbers(statement, channels=3, partition="k")
    one, three = (client.run_graph(graph, {"numbers": numbers(100_000)}).table() for graph in graphs)
    assert one.sort_by("k") == three.sort_by("k")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for part in range(3):
        pq.write_table(numbers(1_000, start=part * 1_000), tmp_path / f"part{part}.parquet", row_group_size=300)
    return tmp_path


def test_files_are_read_by_the_statement_and_only_as_far_as_it_needs(files: Path) -> None:
    graph = TaskGraph()
    rows = graph.read_parquet(files / "part*.parquet", name="numbers")
    graph.collect(
        graph.sql("query", "SELECT count(*) AS n, min(v) AS least FROM numbers WHERE v >= 2900", {"numbers": rows})
    )
    with tidegate.local(roots=[files]) as client, client.create_task(graph) as task:
        assert "whose files it reads itself" in client.explain(graph).text
        assert [task.run_epoch({}).table().to_pylist() for _ in range(2)] == [[{"n": 100, "least": 2_900}]] * 2
        assert {operator.operator for operator in task.statistics().operators} == {"Fragment"}


def test_a_file_that_others_read_too_is_read_by_each_as_it_can(files: Path) -> None:
    graph = TaskGraph()
    rows = graph.read_parquet(files / "part*.parquet", name="numbers")
    most = graph.sql("most", "SELECT max(v) AS v FROM numbers", {"numbers": rows})
    same = graph.node("same", PassOn, rows)
    both = {"a": most, "b": same, "numbers": rows}
    statement = "SELECT b.k, b.v FROM b JOIN a USING (v) JOIN numbers USING (v)"
    graph.collect(
        graph.sql("query", statement, both, channels=2, partition={"a": None, "b": tidegate.SPREAD, "numbers": None})
    )
    with tidegate.local(roots=[files]) as client:
        assert client.run_graph(graph).table() == numbers(1, keys=2_999 + 1, start=2_999).set_column(
            0, "k", pa.array([2_999 % 7])
        )


def test_splits_that_are_files_are_read_by_the_statement_too(files: Path) -> None:
    graph = over_numbers("SELECT sum(v)::BIGINT AS s FROM numbers")
    with tidegate.local(roots=[files]) as client, client.create_task(graph) as task:
        inline = task.run_epoch({"numbers": numbers(10)}).table()["s"].to_pylist()
        in_file = task.run_epoch({"numbers": str(files / "part1.parquet")}).table()["s"].to_pylist()
        assert (inline, in_file) == ([45], [sum(range(1_000, 2_000))])
        assert {operator.operator for operator in task.statistics().operators} >= {"Fragment", "Scan"}


def test_a_join_in_a_statement_that_is_too_large_to_repeat_is_refused(client: Client) -> None:
    graph = TaskGraph()
    streams = {"a": graph.source("a", NUMBERS), "b": graph.source("b", NUMBERS)}
    graph.collect(graph.sql("query", "SELECT a.v, b.k FROM a JOIN b USING (v)", streams))
    tables = {"a": numbers(400_000), "b": numbers(400_000)}
    with pytest.raises(tidegate.TaskFailed) as raised:
        client.run_graph(graph, tables, memory_limit=32 << 20)
    assert raised.value.reason == "JOIN_BUILD_TOO_LARGE"
    relaxed = client.run_graph(graph, tables, memory_limit=64 << 20, determinism="relaxed")
    assert relaxed.rows == 400_000


@pytest.mark.parametrize(
    ("aggregate", "mebibytes"),
    [("string_agg(t, ',')", 32), ("Array_Agg (t)::VARCHAR", 32), ("repeat(max(t), 1000)", 64)],
)
def test_a_statement_that_collects_groups_has_half_of_its_memory_because_duckdb_counts_one_of_two_copies(
    client: Client, aggregate: str, mebibytes: int
) -> None:
    graph = TaskGraph()
    texts = pa.table({"t": [f"{at:03}" * 50_000 for at in range(600)]})
    graph.collect(graph.sql("query", f"SELECT {aggregate} AS t FROM texts", {"texts": graph.read_arrow(texts)}))
    with pytest.raises(tidegate.TaskFailed, match=f"memory limit of {mebibytes} MiB"):
        client.run_graph(graph, memory_limit=64 << 20)


@pytest.mark.parametrize(
    ("statement", "makes"),
    [
        ("SELECT k, t FROM l WHERE t LIKE '%a%' AND k + 1 > 2 ORDER BY t", False),
        ("SELECT k, max(t) AS t, count(*) AS n, sum(k)::BIGINT AS s FROM l GROUP BY k", False),
        ("SELECT k, row_number() OVER (PARTITION BY t ORDER BY k) AS n, CASE WHEN k > 1 THEN t END AS u FROM l", False),
        ("SELECT a.k FROM l AS a JOIN l AS b ON a.t = b.t", False),
        ("SELECT k, t || t AS t FROM l", True),
        ("SELECT k FROM l WHERE upper(t) = 'A'", True),
        ("SELECT k, k::VARCHAR AS t FROM l", True),
        ("SELECT k, [t, t] AS t FROM l", True),
        ("SELECT k, t[2:] AS t FROM l", True),
        ("SELECT k, {'t': t} AS t FROM l", True),
        ("SELECT k FROM l WHERE t COLLATE NOCASE = 'a'", True),
        ("SELECT k FROM l WHERE k IN (SELECT length(replace(t, 'a', 'b')) FROM l)", True),
        ("SELECT max(reverse(t)) OVER (ORDER BY k) AS t FROM l", True),
        ("SELECT list_transform([k], lambda x: x + 1) AS t FROM l", True),
    ],
)
def test_a_statement_makes_texts_where_it_calls_what_is_not_known_to_make_none(statement: str, makes: bool) -> None:
    assert reads_of(statement).makes is makes


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT k::VARCHAR AS u FROM l", 1),
        ("SELECT upper(t) AS a, lower(t) AS b, upper(s) AS c FROM l", 2),
        ("SELECT t || s AS u FROM l", 1),
        ("SELECT t || t || t AS u FROM l", 2 + 3),
        ("SELECT u || u AS v FROM (SELECT t || t AS u FROM l)", 2 + 4),
        ("SELECT t || t AS u, u || u AS v FROM l", 2 + 4),
        ("SELECT x.a || x.a FROM (SELECT t FROM l UNION ALL SELECT t || t FROM l) AS x(a)", 2 + 4),
        ("WITH q(u) AS (SELECT t || t FROM l), p AS (SELECT * FROM q) SELECT a.u FROM p AS a JOIN q USING (u)", 2 + 2),
        ("WITH q AS (SELECT t || t || t FROM l) SELECT upper(t) FROM l", 1),
        ("SELECT (SELECT max(m.s || l.t || l.t) FROM l AS m) AS u FROM l", 1 + 2),
        ("SELECT upper(COLUMNS(*)) FROM l", 1),
        ("SELECT * REPLACE (t || t AS t) FROM l", 2),
        ("SELECT list_transform([t], lambda x: x || x) AS u FROM l", 1 + 2 + 2),
        ("SELECT b || b AS u FROM l, unnest(string_split(t, 'a')) AS z(b)", 1 + 1 + 2),
        ("SELECT k FROM l WHERE upper(t) = 'A' GROUP BY k HAVING max(t[2:]) > '' ORDER BY min(t || t)", 1 + 1 + 2),
        ("SELECT CASE WHEN k > 1 THEN t || t ELSE t END || 'x' AS u FROM l", 2 + 2),
        ("SELECT max(reverse(t)) OVER (PARTITION BY upper(t) ORDER BY k) AS u FROM l", 1 + 1),
        (f"SELECT {'||'.join('t' * 300)} AS u FROM l", sum(range(2, 301))),
    ],
)
def test_the_bytes_that_a_statement_makes_of_each_byte_are_counted_in_its_text(statement: str, expected: int) -> None:
    assert growth(reads_of(statement).query, {"l": ["t", "s"]}) == expected


def test_a_statement_that_makes_many_texts_of_a_row_gets_shorter_rows(client: Client) -> None:
    """They took 350 MB and more of a row of 10 MB, whatever the memory limit."""

    def lengths(width: int) -> list[int]:
        texts = pa.table({"t": [letter * width for letter in "abcd"]})
        graph = TaskGraph()
        statement = f"SELECT {'||'.join('t' * 8)} AS t FROM texts"
        graph.collect(graph.sql("query", statement, {"texts": graph.read_arrow(texts)}))
        table = client.run_graph(graph, memory_limit=64 << 20).table()
        return [len(text) for text in table["t"].to_pylist()]

    assert lengths(200_000) == [8 * 200_000] * 4
    with pytest.raises(tidegate.TaskFailed, match=r"row of 300,000 bytes; at most 239,674 .* 35 bytes") as raised:
        lengths(300_000)
    assert raised.value.reason == "ROW_TOO_LARGE"


def test_a_statement_of_too_many_expressions_inside_of_each_other_is_refused(client: Client) -> None:
    graph = TaskGraph()
    statement = f"SELECT {'||'.join('t' * 900)} AS t FROM texts"
    graph.collect(graph.sql("query", statement, {"texts": graph.read_arrow(pa.table({"t": ["a"]}))}))
    with pytest.raises(tidegate.PlanError, match="too many expressions inside of each other"):
        client.run_graph(graph)


@pytest.mark.parametrize("width", [20, 3_000])
def test_a_statement_that_makes_texts_has_duckdbs_rows_of_narrow_and_wide_files(
    client: Client, tmp_path: Path, width: int
) -> None:
    rows = pa.table({"k": range(3_000), "t": [f"{k:x}" * (width // 3 + k % 7) for k in range(3_000)]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    statement = "SELECT k, upper(t) || t AS u FROM l WHERE length(t) % 3 > 0"
    graph = TaskGraph()
    graph.collect(graph.sql("query", statement, {"l": graph.read_parquet(tmp_path / "rows.parquet")}))
    expected = duckdb.sql(statement.replace("FROM l", "FROM rows")).to_arrow_table()
    assert client.run_graph(graph).table().equals(expected)


def test_a_row_beyond_a_sixteenth_of_the_memory_is_refused_where_nothing_bounds_what_is_made_of_it(
    client: Client,
) -> None:
    texts = pa.table({"t": ["a" * 4_000_000, "b" * 5_000_000]})

    def lengths(computed: str) -> list[int]:
        graph = TaskGraph()
        graph.collect(graph.sql("query", f"SELECT {computed} AS t FROM texts", {"texts": graph.read_arrow(texts)}))
        table = client.run_graph(graph, memory_limit=64 << 20).table()
        return [len(text) for text in table["t"].to_pylist()]

    assert lengths("t") == [4_000_000, 5_000_000]
    with pytest.raises(
        tidegate.TaskFailed, match=r"node 'query'.* row of 5,000,\d+ bytes; at most 4,194,304"
    ) as raised:
        lengths("t || t")
    assert raised.value.reason == "ROW_TOO_LARGE"
