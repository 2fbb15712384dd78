"""The command line: its output, its exit codes, its one-line errors."""

from __future__ import annotations

import gc
import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import tidegate
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.proto.values import TaskOptions
from tidegate.server import serving
from tidegate.server.cli import main
from tidegate.server.cli.options import size
from tidegate.server.setup.settings import Settings

from ..clients import plans
from ..clients.test_without_columns import nothing_of
from ..executor.fakes import FakeEngine
from ..executor.plans import I64, filtered_by_parameter, limited, passed_through, plan, read
from .running import fake_server


class Done(NamedTuple):
    """The result of a command: its exit code, and what it wrote."""

    code: int
    output: str
    error: str


Run = Callable[..., Done]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with fake_server(FakeEngine(sources=("a", "b"))) as listening:
        yield listening


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that commands run in, which has a plan."""
    (tmp_path / "plan.bin").write_bytes(b"plan")
    return tmp_path


@pytest.fixture
def process(folder: Path) -> Run:
    """Run a command in a process of its own."""

    def run(*arguments: str) -> Done:
        command = [sys.executable, "-m", "tidegate.server.cli", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def cli(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command as its process does, in this one: what a process adds has tests with `process`."""
    monkeypatch.chdir(folder)

    def run(*arguments: str) -> Done:
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = ended.code
        return Done(code, *capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("arguments", "code", "output", "error"),
    [
        (["explain", "plan.bin"], 0, "fake\n", ""),
        (["run", "plan.bin", "--split", "a=-1", "--empty", "b"], 1, "", "poison"),
        (["run", "plan.bin", "--channels", "0"], 2, "", "must be a whole number from 1 on"),
    ],
)
def test_a_process_has_the_exit_code_and_the_streams_of_its_command(
    process: Run, cli: Run, address: str, arguments: list[str], code: int, output: str, error: str
) -> None:
    done = process(*arguments, "--server", address)
    assert (done.code, done.output) == (code, output)
    assert error in done.error
    assert done == cli(*arguments, "--server", address)


def test_run_shows_rows_and_ends_with_rows_time_mode_and_channels(cli: Run, address: str) -> None:
    done = cli("run", "plan.bin", "--split", "a=7", "--split", "a=8", "--empty", "B", "--server", address)
    *shown, last = done.output.splitlines()
    assert (done.code, done.error, shown) == (0, "", ["x", "7", "8"])
    assert last.startswith("2 rows in 1 epoch, ")
    assert last.endswith(" s, per_epoch, 1 channel")


def test_run_goes_on_from_the_checkpoint_that_an_earlier_run_has_taken(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "totals.bin").write_bytes(plans.totals())
    (tmp_path / "kept").mkdir()
    csv.write_csv(pa.table({"k": [1], "v": [2]}), tmp_path / "rows.csv")
    common = ("run", "totals.bin", "--split", "rows=rows.csv", "--checkpoint-root", "kept", "--output", "out")
    first = cli(*common, "--checkpoint", "last")
    said = first.output.splitlines()[0]
    assert said.startswith("epoch 1: checkpoint ")
    again = cli(*common, "--restore", said.removeprefix("epoch 1: checkpoint "))
    assert (first.code, again.code, again.error) == (0, 0, "")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [f"epoch-{n:06d}.parquet" for n in (1, 2)]


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_run_counts_rows_without_columns(cli: Run, tmp_path: Path, mode: str) -> None:
    (tmp_path / "nothing.json").write_text(str(plan(nothing_of(read("rows", "k", "v"), width=2)).json))
    csv.write_csv(pa.table({"k": [1, 2, 3], "v": [2, 2, 2]}), tmp_path / "rows.csv")
    common = ("run", "nothing.json", "--split", "rows=rows.csv", "--mode", mode)
    shown, written = cli(*common), cli(*common, "--output", "out.arrow")
    table = READERS["arrow"]("out.arrow")
    if mode == "per_epoch":
        assert shown.output.startswith("3 rows in 1 epoch")
        assert (written.code, table.num_rows) == (0, 3)
        refused = cli(*common, "--output", "out.csv")
        assert (refused.code, "csv files cannot hold rows without columns" in refused.error) == (1, True)
    else:
        assert shown.output.splitlines()[:2] == ["_weight", "3"]
        assert table.to_pylist() == [{"_weight": 3}]


PER_TWO = ("--empty", "b", "--splits-per-epoch", "2")


def test_run_seals_an_epoch_after_so_many_splits(cli: Run, address: str, tmp_path: Path) -> None:
    splits = [part for n in range(5) for part in ("--split", f"a={n}")]
    done = cli("run", "plan.bin", *splits, *PER_TWO, "--output", "out", "--server", address)
    files = sorted((tmp_path / "out").iterdir())
    assert done.output.startswith("5 rows in 3 epochs")
    assert [file.name for file in files] == [f"epoch-{n:06d}.parquet" for n in (1, 2, 3)]
    assert [parquet.read_table(file)["x"].to_pylist() for file in files] == [[0, 1], [2, 3], [4]]


INTERVAL = {"intervalYear": {"nullability": "NULLABILITY_NULLABLE"}}
LIST = {"list": {"type": {"string": {}}, "nullability": "NULLABILITY_NULLABLE"}}
READERS = {
    "arrow": lambda path: pa.ipc.open_file(path).read_all(),
    "parquet": parquet.read_table,
    "csv": csv.read_csv,
}


@pytest.mark.parametrize("ending", READERS)
def test_run_writes_a_file_of_the_kind_its_ending_says(cli: Run, address: str, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"rows.{ending}"
    done = cli("run", "plan.bin", "--split", "a=1", "--split", "b=2", "--output", str(file), "--server", address)
    assert done.code == 0
    assert READERS[ending](str(file))["x"].to_pylist() == [1, 2]
    assert sorted(tmp_path.iterdir()) == [tmp_path / "plan.bin", file]


@pytest.mark.parametrize(
    ("column", "output", "sentence"),
    [
        (LIST, "rows.csv", "csv files cannot hold the column 'x', which is list"),
        (INTERVAL, "rows.csv", "csv files cannot hold the column 'x', which is month_day_nano_interval"),
        (INTERVAL, "rows.parquet", "parquet files cannot hold the column 'x'"),
        (INTERVAL, "folder", "parquet files cannot hold the column 'x'"),
        (INTERVAL, "new/folder", "parquet files cannot hold the column 'x'"),
        (LIST, "plan.json/folder", "plan.json/folder cannot be written: Not a directory"),
        (LIST, "plan.json/rows.csv", "plan.json/rows.csv cannot be written: there is no folder plan.json"),
    ],
)
def test_an_output_that_cannot_be_is_one_line_and_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    column: dict[str, object],
    output: str,
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    source = json.loads(json.dumps(read("a", "x")).replace(json.dumps(I64), json.dumps(column)))
    (tmp_path / "plan.json").write_text(plan(source, "x").json or "")
    assert main(["run", "plan.json", "--empty", "a", "--output", output]) == 1
    said = capsys.readouterr()
    assert said.err.startswith(f"tidegate: {sentence}")
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert [file.name for file in tmp_path.iterdir()] == ["plan.json"]


def test_a_disk_that_is_full_is_one_line_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = tmp_path / "rows.arrow.partial"
    full.symlink_to("/dev/full")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text(passed_through("a").json or "")
    (tmp_path / "a.csv").write_text("x\n" + "1\n" * 100_000)
    assert main(["run", "plan.json", "--split", "a=a.csv", "--output", "rows.arrow"]) == 1
    assert capsys.readouterr().err == "tidegate: rows.arrow cannot be written: No space left on device\n"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.csv", "plan.json"]


def test_a_folder_in_epochs_is_cut_into_the_files_that_it_is_without(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(passed_through("a").json or "")
    for n, name in enumerate(("in/b/1.csv", "in/a.csv", "in/_SUCCESS", "in/.hidden/x.csv", "in/b/c/2.csv")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"x\n{n}\n")
    shown = [
        cli("run", "plan.json", "--split", "a=in", *more).output.splitlines()
        for more in ((), ("--splits-per-epoch", "1"))
    ]
    assert [[line for line in lines if line.isdigit()] for lines in shown] == [["1", "0", "4"]] * 2
    assert shown[1][-1].startswith("3 rows in 3 epochs")


def test_a_failed_run_is_one_line_and_leaves_no_file(cli: Run, address: str, tmp_path: Path) -> None:
    done = cli("run", "plan.bin", "--split", "a=-1", "--empty", "b", "--output", "rows.csv", "--server", address)
    assert (done.code, done.output) == (1, "")
    assert done.error.startswith("tidegate: ")
    assert "poison" in done.error
    assert done.error.count("\n") == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "plan.bin"]


def test_a_run_that_is_terminated_leaves_neither_a_file_nor_a_task(tmp_path: Path) -> None:
    (tmp_path / "plan.bin").write_bytes(b"plan")
    gate = threading.Event()
    with fake_server(FakeEngine(gate=gate)) as listening, tidegate.connect(listening) as client:
        command = [sys.executable, "-m", "tidegate.server.cli", "run", "plan.bin", "--split", "a=1"]
        asked = [*command, "--output", "rows.csv", "--server", listening]
        with subprocess.Popen(asked, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
            while not any(task.sealed_epoch for task in client.tasks()):
                assert process.poll() is None
            assert (tmp_path / "rows.csv.partial").exists()
            process.terminate()
            assert (process.wait(60), process.communicate()[1]) == (143, "")
        assert list(tmp_path.iterdir()) == [tmp_path / "plan.bin"]
        assert client.tasks() == []
        gate.set()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--split", "a=1"], "source 'b' has no splits: give --split b=PATH, or --empty b"),
        (["--split", "a=1", "--empty", "a", "--empty", "b"], "source 'a' has splits: leave --empty a out"),
        (["--split", "a=1", "--empty", "A", "--empty", "b"], "source 'a' has splits: leave --empty a out"),
        (["--split", "a=1", "--empty", "c"], "the plan has no source 'c'; its sources are: a, b"),
    ],
)
def test_a_source_that_is_neither_fed_nor_said_to_be_empty_is_one_line(
    cli: Run, address: str, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    done = cli("run", "plan.bin", *arguments, "--output", "rows.csv", "--server", address)
    assert done == Done(1, "", f"tidegate: {sentence}\n")
    assert list(tmp_path.iterdir()) == [tmp_path / "plan.bin"]


@pytest.mark.parametrize("said", [("null",), ("rows=null",), ("error", "rows=null")])
def test_run_takes_missing_columns_as_nulls_where_it_is_told_to(
    cli: Run, tmp_path: Path, said: tuple[str, ...]
) -> None:
    (tmp_path / "totals.bin").write_bytes(plans.totals())
    csv.write_csv(pa.table({"k": [1], "w": [2]}), tmp_path / "rows.csv")
    refused = cli("run", "totals.bin", "--split", "rows=rows.csv")
    assert refused.code == 1
    assert "column 'v' is missing; there are: 'k', 'w'" in refused.error
    options = [part for option in said for part in ("--missing-columns", option)]
    done = cli("run", "totals.bin", "--split", "rows=rows.csv", *options)
    assert (done.code, done.output.splitlines()[1].split()) == (0, ["1", "null"])


def test_relaxed_is_said_on_the_last_line(cli: Run, address: str) -> None:
    done = cli("run", "plan.bin", "--relaxed", "--empty", "a", "--empty", "b", "--server", address)
    assert done.output.splitlines()[-1].endswith("per_epoch, relaxed, 1 channel")


TASKS = ("memory_limit", "queue_bytes", "output_bytes", "spill_quota", "write_quota", "max_pending_epochs")
CALLS = ("max_message_bytes", "max_calls", "streams_per_principal", "connections_per_peer", "flight_streams")


@pytest.mark.parametrize(
    ("option", "default"),
    [
        (name, getattr(defaults, name))
        for defaults, names in ((TaskOptions(), TASKS), (Settings(), CALLS))
        for name in names
    ],
)
def test_the_help_of_serve_names_the_default_of_a_limit(
    option: str, default: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    shown_default = re.search(rf"--{option.replace('_', '-')} (?:SIZE|N) [^(]*\(default: (\w+)\)", said)
    assert shown_default is not None
    assert size(shown_default[1]) == default


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "required"),
        (["sing"], "invalid choice"),
        (["run", "plan.bin", "--memory", "1"], "unrecognized arguments: --memory 1; see tidegate run --help"),
        (["validate", "plan.bin", "more"], "unrecognized arguments: more; see tidegate validate --help"),
        (["run", "plan.bin", "--split", "a"], "must have the form NAME=PATH"),
        (["explain", "plan.bin", "--rows", "a=many"], "must have the form NAME=N"),
        (["run", "plan.bin", "--channels", "0"], "must be a whole number from 1 on"),
        (["run", "plan.bin", "--split", "a=1", "--missing-columns", "b=null"], "'b', which has no files"),
        (["run", "plan.bin", "--missing-columns", "a=none"], "must be error, null, NAME=error or NAME=null"),
        (["run", "plan.bin", "--change-column", "b=op"], "'b', which has no files"),
        (["run", "plan.bin", "--output", "rows.xlsx"], "ends in .parquet, .arrow, .csv"),
        (["run", "plan.bin", "--write-root", ".", "--server", "here:1"], "configures the service in this process"),
        (["serve", "--write-root", "nowhere"], "nowhere is not a folder"),
        (["serve", "--memory-limit", "much"], "not a size such as 64MiB"),
        (["serve", "--listen", "unix:s", "--flight-listen", "here:1"], "Arrow Flight is at PATH.flight"),
        (["serve", "--listen", "here:1", "--flight-listen", "unix:s"], "Arrow Flight is at PATH.flight"),
        (["serve", "--flight-listen", "here"], "'here' must have the form HOST:PORT"),
    ],
)
def test_wrong_usage_is_exit_code_two_and_one_line(cli: Run, arguments: list[str], sentence: str) -> None:
    done = cli(*arguments)
    assert done.code == 2
    assert sentence in done.error
    assert done.error.count("\n") == 1


def test_a_missing_plan_is_one_line(cli: Run, address: str) -> None:
    done = cli("run", "nowhere.bin", "--server", address)
    assert (done.code, done.error.count("\n")) == (1, 1)
    assert "nowhere.bin cannot be read on the client's machine" in done.error


def test_explain_prints_text_or_json(cli: Run, address: str) -> None:
    assert cli("explain", "plan.bin", "--server", address).output == "fake\n"
    assert cli("explain", "plan.bin", "--json", "--server", address).output == "{}\n"


def test_explain_shows_the_stages_of_spark_here_and_on_a_server(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(passed_through("a").json or "")
    asked = ("explain", "plan.json", "--executor", "spark", "--channels", "2")
    here = cli(*asked).output
    with fake_server(PlanEngine([tmp_path], tmp_path)) as address:
        assert cli(*asked, "--server", address).output == here
    assert "on Spark an epoch is a job of 1 stage, 2 tasks" in here


def test_explain_says_where_a_plan_runs_with_the_threshold_that_is_given(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "totals.bin").write_bytes(plans.totals())
    asked = ("explain", "totals.bin", "--channels", "2", "--rows", "rows=1000000")
    shipped, spread = cli(*asked).output, cli(*asked, "--parallel-threshold-seconds", "0").output
    assert re.search(r"one channel, as several are estimated to save \d+ ms; 75 are worth it", shipped)
    assert "pipeline 1 on 2 channels" in spread


def test_validate_says_that_a_plan_can_run(cli: Run, address: str) -> None:
    done = cli("validate", "plan.bin", "--server", address)
    assert (done.code, done.output) == (0, "the plan can run\n")


def test_tasks_lists_them(cli: Run, address: str) -> None:
    with tidegate.connect(address) as client, client.create_task(b"plan") as task:
        task.run_epoch({"a": pa.table({"x": [1, 2]})})
        header, *rows = cli("tasks", "--server", address).output.splitlines()
    assert header.split()[:2] == ["task", "state"]
    assert [row.split() for row in rows] == [[task.id, "running", "1", "1", "2", "0"]]


def test_tasks_are_cancelled_and_deleted_by_their_ids(cli: Run, address: str) -> None:
    with tidegate.connect(address) as client:
        task = client.create_task(b"plan")
        assert cli("tasks", "cancel", task.id, "--server", address) == Done(0, f"task {task.id} is cancelled\n", "")
        assert task.info().state.value == "cancelled"
        assert cli("tasks", "delete", task.id, "--server", address) == Done(0, f"task {task.id} is deleted\n", "")
        assert client.tasks() == []
        gone = cli("tasks", "delete", task.id, "--server", address)
    assert gone.code == 1
    assert gone.error.startswith(f"tidegate: there is no task '{task.id}'")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["stop", "1"], "'stop 1' must be recover ID, cancel ID or delete ID"),
        (["cancel"], "'cancel' must be recover ID, cancel ID or delete ID"),
        (["cancel", "1", "--skip", "a=1"], "--skip needs recover ID"),
    ],
)
def test_a_word_that_tasks_does_not_know_is_refused(cli: Run, words: list[str], wanted: str) -> None:
    refused = cli("tasks", *words)
    assert refused.code == 2
    assert refused.error == f"tidegate tasks: {wanted}; see tidegate tasks --help\n"


def test_a_server_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    import tidegate.connecting

    connect = tidegate.connecting.connect
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            tidegate, "connect", lambda *arguments, **named: connect(*arguments, **{**named, "reconnect_seconds": 0.1})
        )
        assert main(["tasks", "--server", "127.0.0.1:1"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("tidegate: the server 127.0.0.1:1 cannot be reached")
    assert said.endswith("`tidegate serve --listen 127.0.0.1:1` starts one\n")
    assert said.count("\n") == 1


def test_run_works_in_its_own_process_without_a_server(process: Run, tmp_path: Path) -> None:
    (tmp_path / "totals.bin").write_bytes(plans.totals())
    for n in (1, 2):
        parquet.write_table(pa.table({"k": [n], "v": [10 * n]}), tmp_path / f"part-{n}.parquet")
    split = ("--split", "rows=part-*.parquet", "--splits-per-epoch", "1")
    done = process("run", "totals.bin", *split, "--output", "sums.csv")
    assert done.output.startswith("2 rows in 2 epochs")
    assert csv.read_csv(tmp_path / "sums.csv").to_pylist() == [{"k": 1, "total": 10}, {"k": 2, "total": 20}]


def test_parameters_have_the_values_of_their_texts(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(plan(filtered_by_parameter(read("a", "x"), 0, 2), "x").json or "")
    parquet.write_table(pa.table({"x": pa.array([1, 2, 3], pa.int64())}), tmp_path / "a.parquet")
    done = cli("run", "plan.json", "--parameter", "2=1", "--split", "a=a.parquet", "--output", "out.csv")
    assert done.code == 0
    assert csv.read_csv(tmp_path / "out.csv").to_pylist() == [{"x": 2}, {"x": 3}]
    assert cli("explain", "plan.json", "--parameter", "2=null").code == 0
    for arguments, code, sentence in (
        (("validate", "plan.json"), 1, "parameter 2 has no value"),
        (("validate", "plan.json", "--parameter", "2=2024-01-01"), 1, "but its value is date32[day]"),
        (("validate", "plan.json", "--parameter", '2="5"'), 1, "but its value is string"),
        (("run", "plan.json", "--parameter", "2"), 2, "must have the form NUMBER=VALUE"),
        (("run", "plan.json", "--parameter", "x=1"), 2, "must be called by its number, as 0, not 'x'"),
        (("run", "plan.json", "--parameter", "2=1", "--parameter", "2=3"), 2, "2 has two values"),
    ):
        done = cli(*arguments)
        assert done.code == code
        assert sentence in done.output + done.error


def test_run_writes_the_tables_of_a_plan_that_writes(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "totals.bin").write_bytes(plans.totals_written("shop", "totals"))
    parquet.write_table(pa.table({"k": [1, 1], "v": [2, 3]}), tmp_path / "rows.parquet")
    (tmp_path / "tables").mkdir()
    asked = ("run", "totals.bin", "--split", "rows=rows.parquet")
    assert "--write-root" in cli(*asked).error
    done = cli(*asked, "--write-root", "tables", "--write-format", "csv")
    assert (done.code, done.error) == (0, "")
    (file,) = (tmp_path / "tables" / "shop" / "totals").iterdir()
    assert csv.read_csv(file).to_pylist() == [{"k": 1, "total": 5}]


def test_validate_lists_problems_and_fails(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    done = cli("validate", "bad.json")
    assert done.code == 1
    assert done.output.endswith("]\n")


@pytest.mark.parametrize("command", ["validate", "explain", "run"])
def test_sql_in_the_place_of_a_plan_is_told_in_one_line(cli: Run, tmp_path: Path, command: str) -> None:
    (tmp_path / "query.sql").write_text("-- totals\nSELECT k, sum(v) FROM t GROUP BY k\n")
    done = cli(command, "query.sql")
    assert done.code == 1
    said = done.output if command == "validate" else done.error
    assert "this is not a Substrait plan: this looks like SQL, and a producer" in said
    assert said.count("\n") == 1


def test_progress_is_shown_to_a_person_only(tmp_path: Path) -> None:
    (tmp_path / "plan.bin").write_bytes(b"plan")
    near, far = pty.openpty()
    gate = threading.Event()
    with fake_server(FakeEngine(gate=gate)) as listening:
        command = [
            sys.executable,
            "-m",
            "tidegate.server.cli",
            "run",
            "plan.bin",
            "--split",
            "a=1",
            "--server",
            listening,
        ]
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=far, text=True) as process:
            os.close(far)
            seen = os.read(near, 1_000).decode()
            gate.set()
            said, _ = process.communicate(timeout=120)
    os.close(near)
    assert "0/1 splits, 0 rows" in seen
    assert "splits" not in said


@pytest.mark.parametrize("command", [["tasks"], ["run", "plan.bin"], ["explain", "plan.bin"], ["validate", "plan.bin"]])
def test_a_server_that_is_no_address_is_a_wrong_option(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--server", "localhost:99999"])
    assert ended.value.code == 2
    assert "'localhost:99999' must have the form HOST:PORT" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--listen=127.0.0.1:99999", "'127.0.0.1:99999' must have the form HOST:PORT"),
        ("--root=none", "none is not a fol"),
        ("--max-message-bytes=0", "'0' must be a size from 64KiB to just below 2GiB"),
        ("--max-message-bytes=2G", "'2G' must be a size from 64KiB"),
        ("--spill-quota=9999999T", "'9999999T' is too large"),
        ("--max-calls=99999999999", "'99999999999' must be at most 2147483647"),
        ("--threads=0", "'0' must be a whole number from 1 on"),
    ],
)
def test_a_server_is_not_started_on_options_that_say_nothing_that_can_be(
    option: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", option])
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        (
            "--idle-seconds=-3",
            (
                "idle_seconds=-3.0 must be a number of seconds (0: the task is never deleted for being idle), "
                "from 0.0 to 315360000.0"
            ),
        ),
        ("--memory-limit=1K", "memory_limit=1024 must be at least 33554432 bytes (32 MiB for each channel)"),
        ("--queue-bytes=0", "queue_bytes=0 must be a number of bytes, from 1 to 9223372036854775807"),
        (
            "--spill=/proc/none",
            (
                "the service cannot write to /proc/none, its folder for data that does not fit in memory: "
                "No such file or directory; name another folder (spill_directory, --spill)"
            ),
        ),
    ],
)
def test_a_server_is_not_started_with_what_cannot_be(
    option: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--listen", "127.0.0.1:0", option]) == 1
    assert capsys.readouterr().err == f"tidegate: {sentence}\n"


def test_what_a_server_has_loaded_is_left_out_of_later_collections_of_garbage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frozen = []

    async def serve_and_end(_service: object, _settings: object, ready: Callable[[object], None]) -> bool:
        ready(SimpleNamespace(address="here:1", flight_address=None))
        frozen.append(gc.get_freeze_count())
        return True

    before = gc.get_freeze_count()
    monkeypatch.setattr(serving, "serve", serve_and_end)
    assert main(["serve", "--listen", "127.0.0.1:0"]) == 0
    assert frozen[0] > before
    assert gc.get_freeze_count() == 0
    gc.freeze()  # as all other tests are run


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_an_output_in_a_folder_that_is_not_there_is_named_in_one_line(cli: Run, ending: str) -> None:
    done = cli("run", "plan.bin", "--output", f"nowhere/x.{ending}")
    assert (done.code, done.output) == (1, "")
    assert done.error == f"tidegate: nowhere/x.{ending} cannot be written: there is no folder nowhere\n"


def test_run_gives_changes_of_a_continuous_task(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(passed_through("a").json or "")
    (tmp_path / "1.csv").write_text("x,op\n7,insert\n8,insert\n")
    (tmp_path / "2.csv").write_text("x,op\n7,delete\n9,insert\n")
    splits = ("--split", "a=1.csv", "--split", "a=2.csv", "--splits-per-epoch", "1", "--change-column", "a=op")
    done = cli("run", "plan.json", "--mode", "continuous", *splits, "--output", "out.parquet")
    assert (done.code, done.error) == (0, "")
    assert done.output.splitlines()[-1].startswith("4 rows in 2 epochs, ")
    columns = parquet.read_table(tmp_path / "out.parquet").to_pydict()
    assert columns == {"x": [7, 8, 7, 9], "_weight": [1, 1, -1, 1]}


def test_validate_and_explain_take_the_mode(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(plan(limited(read("a", "x"), 1), "x").json or "")
    assert cli("validate", "plan.json").code == 0
    refused = cli("validate", "plan.json", "--mode", "continuous")
    assert (refused.code, "[LIMIT_WITHOUT_SORT]" in refused.output) == (1, True)
    (tmp_path / "plan.json").write_text(passed_through("a").json or "")
    assert cli("explain", "plan.json", "--mode", "continuous").output.startswith("continuous (")


def test_data_lists_the_tasks_of_a_folder_beside_the_service_and_checks_them(cli: Run, folder: Path) -> None:
    with tidegate.local(data=folder / "data") as client:
        assert cli("data", "data") == Done(0, "no tasks\n", "")
        task = client.create_task(passed_through("t").json)
        task.add_split("t", pa.table({"x": [1, 2, 3]}))
        task.add_split("t", pa.table({"x": pa.array(range(20_000), pa.int64())}))
        task.request_barrier()
        header, row = cli("data", "data").output.splitlines()
        assert re.split("  +", header)[:6] == ["task", "principal", "mode", "acknowledged", "sealed", "splits"]
        assert re.split("  +", row)[:6] == [task.id, "-", "per_epoch", "epoch 1, row 0", "1", "2"]
        assert int(re.split("  +", row)[7].replace(",", "")) > 160_000
        checked = cli("data", "check", "data")
        assert (checked.code, checked.error) == (0, "")
        assert re.fullmatch(
            r"1 tasks, 3 records, 0 checkpoints, 2 sets of rows and uploads of [\d,]+ bytes: whole\n", checked.output
        )
        task.read_epoch()


def test_data_check_names_what_is_damaged_and_ends_with_code_1(cli: Run, folder: Path) -> None:
    with tidegate.local(data=folder / "data") as client:
        task = client.create_task(passed_through("t").json)
        task.add_split("t", pa.table({"x": pa.array(range(20_000), pa.int64())}))
    [rows] = (folder / "data" / "rows").iterdir()
    content = bytearray(rows.read_bytes())
    content[-100] ^= 1
    rows.write_bytes(content)
    checked = cli("data", "check", "data")
    assert checked.code == 1
    assert f"{rows.name} differs from what was written" in checked.output
    rows.unlink()
    checked = cli("data", "check", "data")
    assert (checked.code, f"{rows.name} cannot be read" in checked.output) == (1, True)
    with closing(sqlite3.connect(folder / "data" / "journal.sqlite")) as connection, connection:
        connection.execute("UPDATE records SET body = CAST(body || x'00' AS BLOB)")
    checked = cli("data", "check", "data")
    assert f"task {task.id}: the journal is damaged: record 1" in checked.output
    assert cli("data", "data").code == 1


def test_data_of_a_folder_without_a_journal_is_an_error(cli: Run, folder: Path) -> None:
    assert cli("data", ".") == Done(1, "", "tidegate: . is not a data folder: it has no journal.sqlite\n")
    assert cli("data", "look", ".").code == 2
    assert list(folder.iterdir()) == [folder / "plan.bin"]


@pytest.mark.parametrize(("options", "ends"), [((), True), (("--data", "data"), False)])
def test_a_server_prints_that_tasks_end_with_it_unless_it_has_a_data_folder(
    folder: Path, options: tuple[str, ...], ends: bool
) -> None:
    command = [sys.executable, "-m", "tidegate.server.cli", "serve", "--listen", "127.0.0.1:0", "--no-flight", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("tidegate is listening on ")
        server.terminate()
        left = server.stdout.read()
    assert left == ("tasks end with this server (--data DIR keeps them)\n" if ends else "")


def test_a_server_has_an_instance_of_duckdb_before_it_says_that_it_listens(folder: Path) -> None:
    command = [sys.executable, "-m", "tidegate.server.cli", "serve", "--listen", "127.0.0.1:0", "--spill", "spill"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as server:
        assert server.stdout is not None
        server.stdout.readline()
        instances = [*(folder / "spill").rglob("duckdb-*")]
        server.terminate()
    assert len(instances) == 1
