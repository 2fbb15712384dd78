"""The examples run as they are."""

from __future__ import annotations

import contextlib
import io
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tidegate

from ..searching import search
from .modules import TOP

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGES = 300


def names_of(example: str) -> dict[str, Any]:
    """What an example defines, without running it."""
    return runpy.run_path(str(TOP / "examples" / f"{example}.py"))


def shown(example: str, folder: Path) -> str:
    """What an example prints, run in an empty folder where it must leave nothing behind."""
    script = str(TOP / "examples" / f"{example}.py")
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()) as printed,
        mock.patch.object(sys, "argv", [script]),
    ):
        runpy.run_path(script, run_name="__main__")
    assert list(folder.iterdir()) == []
    return printed.getvalue()


def shown_by_its_process(example: str, folder: Path) -> str:
    """The same of an example that has processes of its own: when it ends it says nothing else."""
    script = TOP / "examples" / f"{example}.py"
    done = subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, said(done.stderr)) == (0, [])
    assert list(folder.iterdir()) == []
    return done.stdout


def said(errors: str) -> list[str]:
    """The lines of the standard error but for those with which DuckDB's module may say, when the interpreter ends while
    its threads do, that objects of its own were not freed.
    """
    lines = errors.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith("nanobind: leaked")), len(lines))
    ours = [line for line in lines[start:] if not line.startswith((" - ", "nanobind: ", "See https://nanobind."))]
    return lines[:start] + ours


def test_the_quick_start_shows_three_epochs_and_the_same_rows_twice(tmp_path: Path) -> None:
    text = shown_by_its_process("quickstart", tmp_path)
    assert [f"as epoch {number}." in text for number in (1, 2, 3)] == [True, True, True]
    assert text.splitlines()[-1].strip().startswith("Yes: SHA-256")


def test_a_loader_that_dies_goes_on_where_it_was(tmp_path: Path) -> None:
    text = shown("training_loader", tmp_path)
    assert "the cursor it noted: Cursor(epoch=2, row=" in text
    assert text.splitlines()[-1] == "The same rows in the same order? Yes."


@search  # the tests of clients run it with a server
def test_training_that_is_killed_goes_on_with_other_ranks_and_the_same_losses(tmp_path: Path) -> None:
    assert shown_by_its_process("resumed_training", tmp_path).splitlines()[-1].endswith("to the last bit? Yes.")


def test_a_query_is_explained_and_answered(tmp_path: Path) -> None:
    assert shown("one_shot_query", tmp_path).splitlines()[-2:] == ["Cork       3   110", "Ghent      2    70"]


def test_trips_of_a_day_are_those_of_its_flights_alone(tmp_path: Path) -> None:
    lines = shown("transitive_closure", tmp_path).splitlines()
    assert lines[0] == "day 1: 3 flights, 9 trips"
    assert lines[10:] == ["day 2: 2 flights, 3 trips", "  Cork to Ghent", "  Cork to Porto", "  Ghent to Porto"]


def test_permissions_go_through_groups_of_groups(tmp_path: Path) -> None:
    assert shown("group_permissions", tmp_path).splitlines() == [
        "ada may read the proofs",
        "bert may not read the drafts",
        "carl may not read the handbook",
    ]


def test_levels_are_counted_down_from_the_head(tmp_path: Path) -> None:
    lines = shown("org_chart", tmp_path).splitlines()
    assert lines[lines.index("chart 2") :] == [
        "chart 2",
        "  Ada",
        "    Bo",
        "    Di",
        "      Cy",
        "      Ed",
        "        Fay",
    ]


def test_a_lower_cost_replaces_the_one_before_it(tmp_path: Path) -> None:
    assert shown("cheapest_path", tmp_path).splitlines() == ["Cork: 0", "Ghent: 5", "Porto: 2", "Turin: 9"]


def test_a_link_joins_two_components(tmp_path: Path) -> None:
    assert shown("connected_components", tmp_path).splitlines() == [
        "4 links: 11, 12, 13 and 14, 15, 16",
        "5 links: 11, 12, 13, 14, 15, 16",
    ]


def test_a_live_view_gives_only_what_has_changed(tmp_path: Path) -> None:
    lines = shown("top_customers", tmp_path).splitlines()
    assert lines[4:9] == ["day 2", "  +1 ann 25", "  -1 ann 30", "  -1 cid 10", "  +1 dot 45"]
    assert lines[-1] == "now: ann 25, bob 20, cid 10"


def test_windows_of_two_streams_come_when_both_have_passed_their_end(tmp_path: Path) -> None:
    assert shown("campaign_profit", tmp_path).splitlines() == [
        "epoch 1",
        "epoch 2",
        "  09:00 shoes: 0 - 20 = -20",
        "  09:00 spring: 105 - 35 = 70",
        "epoch 3",
        "  09:15 shoes: 70 - 10 = 60",
        "  09:30 spring: 0 - 15 = -15",
    ]


def test_the_page_with_most_links_to_it_hands_its_rank_to_another(tmp_path: Path) -> None:
    assert shown("page_rank", tmp_path).splitlines() == [
        "page 0: 0.3319",
        "page 1: 0.3058",
        "page 2: 0.1156",
        "page 3: 0.1026",
        "page 4: 0.0720",
        "page 5: 0.0720",
    ]


@pytest.fixture(scope="module")
def web() -> pa.Table:
    """Links among `PAGES` pages, each once; some pages have none, and some are linked to by none."""
    random = np.random.default_rng(11)
    pairs = np.unique(random.integers([0, 40], [PAGES - 40, PAGES], (900, 2)), axis=0)
    return pa.table({"page": pairs[:, 0], "to": pairs[:, 1]})


@pytest.fixture(scope="module")
def ranks(web: pa.Table) -> dict[int, float]:
    """As the example finds them, in so many rounds that another changes nothing to speak of."""
    with tidegate.local() as client:
        ranked = names_of("page_rank")["page_rank"](client, web, PAGES, 100).table()
    return dict(zip(ranked["page"].to_pylist(), ranked["rank"].to_pylist(), strict=True))


def test_page_ranks_are_those_of_networkx(web: pa.Table, ranks: dict[int, float]) -> None:
    networkx = pytest.importorskip("networkx")
    pytest.importorskip("scipy", reason="networkx ranks pages with scipy")
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(PAGES))
    graph.add_edges_from(zip(web["page"].to_pylist(), web["to"].to_pylist(), strict=True))
    assert ranks == pytest.approx(networkx.pagerank(graph, alpha=0.85, tol=1e-14, max_iter=1000), rel=1e-9)


def test_page_ranks_are_those_of_a_loop_of_statements(web: pa.Table, ranks: dict[int, float]) -> None:
    connection = duckdb.connect()
    connection.register("web", web)
    connection.execute(f"CREATE TABLE pages AS SELECT range AS page, 1 / {PAGES} AS rank FROM range({PAGES})")
    connection.execute("CREATE TABLE links AS SELECT *, count(*) OVER (PARTITION BY page) AS many FROM web")
    for _ in range(100):
        connection.execute(
            f"""CREATE OR REPLACE TABLE pages AS
            WITH given AS (
                SELECT "to" AS page, sum(rank / many) AS rank FROM links JOIN pages USING (page) GROUP BY ALL
            ), lost AS (SELECT sum(rank) AS rank FROM pages ANTI JOIN links USING (page))
            SELECT page, 0.15 / {PAGES} + 0.85 * (coalesce(given.rank, 0) + lost.rank / {PAGES}) AS rank
            FROM pages LEFT JOIN given USING (page) CROSS JOIN lost"""
        )
    assert ranks == pytest.approx(dict(connection.sql("FROM pages").fetchall()), rel=1e-9)


def test_page_ranks_need_no_row_to_go_to_another_channel(web: pa.Table) -> None:
    names = names_of("page_rank")
    with tidegate.local() as client:
        links, pages = (
            client.dataset(rows, keyed=tidegate.Hashed((key,), 2))
            for rows, key in ((web, "to"), (names["RANKS"].empty_table(), "page"))
        )
        assert "exchange" not in client.explain(names["another"](links, pages, PAGES)).text


def test_the_words_of_files_are_counted(tmp_path: Path) -> None:
    lines = shown("word_count", tmp_path).splitlines()
    assert lines[:4] == ["4 the", "2 gate", "2 is", "2 tide"]
    assert lines[4:] == ["1 high", "1 open", "1 shut", "1 wait", "1 won't"]


def test_counts_of_words_are_duckdbs(tmp_path: Path) -> None:
    for file in (TOP / "docs").glob("*.md"):
        (tmp_path / f"{file.stem}.txt").write_text(file.read_text())
    counted = names_of("word_count")["word_count"](tmp_path).table()
    words = r"unnest(regexp_split_to_array(lower(content), '[^\pL'']+'))"
    expected = duckdb.sql(
        f"SELECT word, count(*) FROM (SELECT {words} AS word FROM read_text('{tmp_path}/*.txt')) "
        "WHERE word <> '' GROUP BY word"
    ).fetchall()
    assert sorted(zip(*counted.to_pydict().values(), strict=True)) == sorted(expected)
    assert len(expected) > 1000


def test_tpch_6_and_12_are_graphs(tmp_path: Path) -> None:
    assert shown("tpch_graphs", tmp_path).splitlines() == [
        "revenue 18.5000",
        "MAIL: 1 high, 0 low",
        "SHIP: 1 high, 1 low",
    ]


def shown_on_spark(example: str, folder: Path, spark: SparkSession) -> list[str]:
    """The lines that an example prints, which finds the session of all tests started and cannot stop it."""
    with mock.patch.object(type(spark), "stop"):
        return shown(example, folder).splitlines()


def test_a_stream_of_spark_keeps_a_view(tmp_path: Path, spark: SparkSession) -> None:
    lines = shown_on_spark("spark_streaming_view", tmp_path, spark)
    assert lines == ["after batch 0: {'ann': 5, 'bob': 7}", "after batch 1: {'bob': 8}"]


def test_a_spark_table_becomes_the_same_training_batches_each_time(tmp_path: Path, spark: SparkSession) -> None:
    lines = shown_on_spark("spark_training_batches", tmp_path, spark)
    spark.sql("DROP TABLE samples")
    assert lines[0] == "Fed by the way 'reference': 3,000 rows, epochs 1 to 3."
    assert [line.split(":")[0] for line in lines[1:4]] == [f"Day 2024-05-0{day}" for day in (1, 2, 3)]
    assert lines[4:] == ["The same batches again? Yes."]


def test_every_example_has_a_test() -> None:
    scripts = {path.stem for path in (TOP / "examples").glob("*.py")}
    assert scripts == {
        "quickstart",
        "training_loader",
        "resumed_training",
        "one_shot_query",
        "transitive_closure",
        "group_permissions",
        "org_chart",
        "cheapest_path",
        "connected_components",
        "top_customers",
        "campaign_profit",
        "tpch_graphs",
        "page_rank",
        "word_count",
        "spark_streaming_view",
        "spark_training_batches",
        "spark_tpch",
    }
