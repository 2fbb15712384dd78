"""The benchmarks' own arithmetic, and every case run tiny."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from decimal import Decimal
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from substrait.proto import Plan

from benchmarks import (
    answers,
    continuous_windows,
    exchange,
    loop_peers,
    loop_plans,
    loops,
    pagerank,
    planning,
    services,
    tpch,
    tpch_queries,
    training_peers,
)
from benchmarks.__main__ import CASES, main
from benchmarks.measure import Runs, Spread, interleave, summed
from benchmarks.report import Report, Target
from benchmarks.settings import Settings

from ..crash.record import Record
from ..searching import search


def test_contenders_take_turns_and_the_first_one_changes() -> None:
    order: list[str] = []

    def note(name: str) -> Callable[[], None]:
        return lambda: order.append(name)

    runs = interleave({"a": note("a"), "b": note("b")}, rounds=2)
    assert order == ["a", "b", "a", "b", "b", "a"]
    assert {name: len(seconds) for name, seconds in runs.seconds.items()} == {"a": 2, "b": 2}


def test_a_contender_that_cannot_run_is_left_out_with_its_reason() -> None:
    def broken() -> None:
        raise ValueError("no such relation")

    runs = interleave({"peer": broken, "other": list}, rounds=1)
    assert set(runs.seconds) == {"other"}
    assert runs.left_out == {"peer": "ValueError: no such relation"}


def test_a_contender_that_fails_in_a_later_round_is_left_out_and_the_others_go_on() -> None:
    answers = iter((1, 2))
    runs = interleave({"peer": lambda: next(answers), "other": list}, rounds=3)
    assert len(runs.seconds["other"]) == 3
    assert (set(runs.seconds), runs.left_out) == ({"other"}, {"peer": "StopIteration: "})


def test_a_contender_that_hangs_is_given_up_and_the_others_go_on() -> None:
    never = threading.Event()
    runs = interleave({"peer": never.wait, "other": list}, rounds=2, call_seconds=0.2)
    assert runs.left_out == {"peer": "TimeoutError: no answer after 0.2 s: given up"}
    assert len(runs.seconds["other"]) == 2
    never.set()


def test_a_contenders_own_time_out_is_told_as_its_own() -> None:
    def broken() -> None:
        raise TimeoutError("the peer's")

    assert interleave({"peer": broken}, rounds=1).left_out == {"peer": "TimeoutError: the peer's"}


def test_a_server_that_never_says_where_it_listens_is_ended() -> None:
    silent = ["-c", "import time; time.sleep(60)"]
    with pytest.raises(TimeoutError, match="given up"), services._process(silent, Path.cwd(), start_seconds=0.2):
        raise AssertionError("it has said nothing")
    assert not services._running


def test_a_case_that_hangs_is_given_up_with_its_servers_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    left = threading.Event()

    def hangs(_: Settings) -> Report:
        with services._process(["-c", "print('here:1', flush=True); import time; time.sleep(60)"], tmp_path):
            [process] = services._running
            process.wait()
        left.set()
        raise AssertionError("it has been ended from outside")

    whole = Report(case="whole", title="The whole one", header=["", "ms"], rows=[["a", "1"]])
    monkeypatch.setattr("benchmarks.__main__.CASES", {"hangs": hangs, "whole": lambda _: whole})
    monkeypatch.setattr("sys.argv", ["benchmarks", "--case-seconds", "3", "--json", str(tmp_path / "figures.json")])
    assert main() == 1
    assert "no answer after 3 s" in capsys.readouterr().out
    assert left.wait(60)
    assert '"whole"' in (tmp_path / "figures.json").read_text()


def test_a_case_that_fails_is_told_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(_: Settings) -> Report:
        raise RuntimeError("no room")

    whole = Report(case="whole", title="The whole one", header=["", "ms"], rows=[["a", "1"]])
    monkeypatch.setattr("benchmarks.__main__.CASES", {"broken": broken, "whole": lambda _: whole})
    monkeypatch.setattr("sys.argv", ["benchmarks", "--json", str(tmp_path / "figures.json")])
    assert main() == 1
    said = capsys.readouterr().out
    assert "Case broken failed" in said
    assert "RuntimeError: no room" in said
    assert "The whole one" in said
    assert '"whole"' in (tmp_path / "figures.json").read_text()


@pytest.mark.parametrize(
    ("asked", "run"),
    [([], ["one", "two"]), (["all"], ["one", "two"]), (["two"], ["two"]), (["two", "all"], ["one", "two"])],
)
def test_the_cases_that_are_named_are_run_and_all_of_them_by_that_word_or_by_none(
    asked: list[str], run: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran = []

    def case(name: str) -> Callable[[Settings], Report]:
        return lambda _: ran.append(name) or Report(case=name, title=name, header=["", "ms"], rows=[["a", "1"]])

    monkeypatch.setattr("benchmarks.__main__.CASES", {name: case(name) for name in ("one", "two")})
    monkeypatch.setattr("sys.argv", ["benchmarks", *asked, "--json", str(tmp_path / "figures.json")])
    assert main() == 0
    assert ran == run


def test_a_case_that_there_is_not_is_refused_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "tpcds"])
    with pytest.raises(SystemExit):
        main()
    assert f"'tpcds' is none of {', '.join(CASES)}, all" in capsys.readouterr().err


def test_a_ratio_is_taken_within_each_round() -> None:
    runs = Runs({"slow": (2.0, 40.0, 6.0), "fast": (1.0, 10.0, 2.0)})
    assert runs.ratio("slow", "fast") == Spread(3.0, 2.0, 4.0)


def test_a_total_needs_every_case() -> None:
    total = summed({"q1": Runs({"a": (1.0,), "b": (1.0,)}), "q2": Runs({"a": (2.0,)})}, ("a", "b"))
    assert total.seconds == {"a": (3.0,)}
    assert total.left_out == {"b": "ran 1 of 2"}


@pytest.mark.parametrize(("sense", "verdict"), [("at most", "MISSED"), ("at least", "ok")])
def test_a_target_says_whether_it_is_reached(sense: str, verdict: str) -> None:
    target = Target("figure", Spread(1.5, 1.4, 1.6), 1.25, sense)  # type: ignore[arg-type]
    assert str(target) == f"| figure | {sense} 1.25 | 1.5 (1.4-1.6) | {verdict} |"


def test_a_target_whose_contenders_did_not_run_is_missed() -> None:
    assert not Target("figure", None, 1.25).reached


def test_a_report_is_a_markdown_table_with_targets_and_notes() -> None:
    report = Report("case", "Title", ["", "ms"], [["a", "1"]], [Target("t", Spread(1, 1, 1), 2)], ["peer: missing"])
    assert report.markdown() == (
        "## Title\n\n|  | ms |\n| --- | ---: |\n| a | 1 |\n\n"
        "| target | bound | median (low-high) | |\n|---|---|---|---|\n| t | at most 2 | 1 (1-1) | ok |\n\n"
        "- peer: missing\n"
    )


def test_the_data_is_the_generators_with_decimals_as_integers(tmp_path: Path) -> None:
    files = tpch.data(tmp_path, 0.001)
    assert set(files) == set(tpch.TABLES)
    assert pq.read_metadata(files["lineitem"]).schema.column(4).physical_type == "INT64"
    assert pq.read_schema(files["lineitem"]).field("l_quantity").type == pa.decimal128(15, 2)
    [(total,)] = duckdb.sql(f"SELECT sum(l_quantity) FROM '{files['lineitem']}'").fetchall()
    assert total > Decimal(1000)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    data = tmp_path_factory.mktemp("data")
    return Settings(
        scale=0.01,
        rounds=1,
        queries=(1, 6),
        small_epochs=2,
        durable_bytes=200_000,
        durable_tasks=3,
        durable_idle_tasks=3,
        durable_rows=2_000,
        durable_changes=10,
        durable_state_rows=2_000,
        durable_work_seconds=0.1,
        throughput_bytes=1_000_000,
        checked_bytes=20_000,
        checked_scripts=("ASCII",),
        loader_bytes=1_000_000,
        training_rows=400_000,
        training_lists=40_000,
        exchange_rows=100_000,
        lookup_rows=2_000,
        lookup_batch_rows=50,
        aggregate_rows=70_000,
        window_rows=20_000,
        continuous_window_rows=15_000,
        window_keys=10,
        merge_rows=70_000,
        loop_chain=20,
        loop_grid=12,
        loop_nodes=50,
        ranked_edges=500,
        graph_batches=20,
        view_nodes=50,
        view_changes=6,
        view_peer_nodes=50,
        changes_rows=5_000,
        spark_rows=5_000,
        spark_read_rows=5_000,
        data=data,
    )


def test_the_tpch_case_runs_every_contender_that_can(tiny: Settings) -> None:
    report = CASES["tpch"](tiny)
    assert [row[0] for row in report.rows] == ["q01", "q06", "total"]
    assert [name for name in tpch_queries.CONTENDERS if name in str(report.notes)] == [tpch_queries.ACERO]
    assert all(target.value is not None for target in report.targets)


def test_the_planning_case_measures_every_contender_and_long_plans(tiny: Settings) -> None:
    frozen = gc.get_freeze_count()
    report = CASES["planning"](tiny)
    assert gc.get_freeze_count() > frozen // 2, "each later look for garbage goes over all tests"
    assert [row[0] for row in report.rows] == ["q01", "q06", *planning.LITERALS, *planning.PROJECTIONS]
    assert not report.notes
    assert all(target.value is not None for target in report.targets)


def test_the_windows_case_runs_every_contender(tiny: Settings) -> None:
    report = CASES["windows"](tiny)
    assert len(report.rows) == 25
    assert all(target.value is not None for target in report.targets)


def test_the_continuous_windows_case_runs_tidegate_without_its_peers(tiny: Settings) -> None:
    report = CASES["continuous-windows"](tiny)
    assert [row[0] for row in report.rows] == [continuous_windows.TUMBLING, continuous_windows.SLIDING]
    assert len(report.notes) == len(continuous_windows.PEERS)


def test_the_profit_case_runs_every_contender(tiny: Settings) -> None:
    report = CASES["profit"](tiny)
    assert len(report.rows) == 3
    assert all(target.value is not None for target in report.targets)


def test_the_answers_case_finds_all_plans_right(tiny: Settings) -> None:
    report = CASES["answers"](tiny)
    assert report.rows == [[name, "2", "2"] for name in tpch.PRODUCERS]
    assert report.notes == []
    assert all(target.reached for target in report.targets)


def test_the_plans_said_to_carry_a_bound_of_their_producers_data_do(tiny: Settings) -> None:
    carry = {plan.name for plan in tpch.plans(tiny.plans, "duckdb") if f"i64: {answers.BOUND}" in text(plan.path)}
    assert carry == answers.BOUNDED


def text(path: Path) -> str:
    return str(Plan.FromString(path.read_bytes()))


def test_the_loops_case_runs_both_ways_and_says_which_peers_are_not_there(tiny: Settings) -> None:
    report = CASES["loops"](tiny)
    assert all(target.value is not None for target in report.targets)
    assert {row[1] for row in report.rows} == {
        loops.STATEMENT,
        loops.ROUNDS,
        loops.FAR_APART,
        loops.DUCKDB,
        loops.SAME_WORK,
    }
    assert [note.split()[0] for note in report.notes] == ["Pathway", "Spark"]


def test_a_peer_that_is_not_done_in_time_is_ended_and_bounds_the_ratio_from_below() -> None:
    with ExitStack() as stack:
        process = loop_peers.started([sys.executable, "-c", "import time; input(); time.sleep(60)"], stack)
        runs = interleave({"peer": partial(loop_peers.run, process, 1, 0.5), "ours": list}, rounds=1)
    assert runs.stopped == {"peer": 0.5}
    ratio = runs.ratio("peer", "ours")
    assert ratio is not None
    assert ratio.median == 0.5 / runs.seconds["ours"][0]


def test_a_peer_with_other_rows_is_left_out() -> None:
    with ExitStack() as stack:
        process = loop_peers.started([sys.executable, "-c", "input(); print(2, flush=True)"], stack)
        runs = interleave({"peer": partial(loop_peers.run, process, 1, 30)}, rounds=1)
    assert runs.left_out == {"peer": "AssertionError: a peer has 2 rows, and Tidegate 1"}


def test_the_ranks_of_all_contenders_are_right_and_a_missing_peer_is_said(tiny: Settings) -> None:
    report = CASES["pagerank"](tiny)
    there = [name for name in (pagerank.SCIPY, pagerank.PRODUCTS) if find_spec("scipy")]
    assert [row[0] for row in report.rows] == [pagerank.OURS, pagerank.STATEMENTS, pagerank.RECURSIVE, *there]
    assert report.notes == ([] if there else ["scipy is left out: it is not installed"])


def test_the_view_is_kept_up_and_a_missing_peer_is_said(tiny: Settings) -> None:
    report = CASES["continuous-loops"](tiny)
    assert [note.split()[0] for note in report.notes] == ["Pathway"]
    assert all(target.value is not None for target in report.targets)


def test_wrong_ranks_are_not_measured() -> None:
    right = pagerank.added_up(pagerank.Web(loop_plans.chain(3), 4))
    with pytest.raises(AssertionError, match="peer has wrong ranks"):
        pagerank.check("peer", right * (1 + 1e-8), right)


@pytest.mark.parametrize(
    "case",
    [
        "channels",
        "checks",
        "epochs",
        "shares",
        "throughput",
        "loader",
        "durable",
        "durable-tasks",
        "crashes",
        "exchange",
        "lookup",
        "static-join",
        "aggregate",
        "merge",
        "changes",
        "first-load",
        "graph-pagerank",
        "graphs",
    ],
)
def test_a_case_runs_tiny(case: str, tiny: Settings) -> None:
    report = CASES[case](tiny)
    assert report.notes == []
    assert all(target.value is not None for target in report.targets)


@search  # the example of a loader runs in CI
@pytest.mark.parametrize("case", ["training", "training-tokens"])
def test_a_case_of_training_runs_tiny_and_says_which_peers_are_not_there(case: str, tiny: Settings) -> None:
    report = CASES[case](tiny)
    assert report.notes == training_peers.missing()
    assert all(target.value is not None for target in report.targets)


def test_the_record_of_killed_servers_is_shown_and_says_what_it_lacks(tiny: Settings, tmp_path: Path) -> None:
    record = Record(
        version="1.2",
        commit="abc",
        first_seed=7,
        runs=2,
        seconds=3.4,
        points=9,
        differ=[8],
        crashes={"before a": 2, "after b": 1},
    )
    record.write(tmp_path / "record.json")
    report = CASES["crashes"](replace(tiny, crashes=tmp_path / "record.json"))
    assert report.rows == [["7 to 8", "2", "3", "2", "9", "1", "3"]]
    assert [target.reached for target in report.targets] == [False, False]
    assert all(target.reached for target in CASES["crashes"](tiny).targets)


@search
@pytest.mark.usefixtures("spark")  # the cases take the session that is there
@pytest.mark.parametrize("case", ["spark-feed", "spark", "spark-source"])
def test_a_case_over_spark_runs_tiny(case: str, tiny: Settings) -> None:
    report = CASES[case](tiny)
    assert report.notes == []
    assert all(target.value is not None for target in report.targets)


def test_every_case_is_run_by_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert [case for case in CASES if f'"{case}"' not in source] == []


def test_the_exchanges_peer_brings_equal_keys_together_in_every_channel() -> None:
    rows = pa.table({"k": [key % 100 for key in range(1_000)], "c0": range(1_000)})
    dealt = exchange.sort_by_channel(rows)
    channels = dealt["channel"].to_pylist()
    assert channels == sorted(channels)
    assert sorted(dealt["c0"].to_pylist()) == list(range(1_000))
    assert len(set(channels)) == exchange.CHANNELS
    assert len(set(zip(dealt["k"].to_pylist(), channels, strict=True))) == 100
