"""The interpreter of the Python workers of a Spark that Tidegate starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sparks import environment
from tidegate.executor.spark.applications.local_workers import added_folders, workers_python
from tidegate.executor.spark.worker.task_failures import of_job

#: Stands where a shell finds the system's Python, in which nothing is installed.
BARE = "#!/bin/sh\necho 'a bare python3' >&2\nexit 1\n"


@pytest.mark.parametrize(
    ("master", "environment", "configured", "chosen"),
    [
        ("local[2]", {}, None, sys.executable),
        ("local-cluster[2,1,1024]", {}, None, sys.executable),
        ("local[2]", {"PYSPARK_PYTHON": "/theirs"}, None, "/theirs"),
        ("local[2]", {}, "/configured", "/configured"),
        ("local[2]", {"PYSPARK_PYTHON": "/theirs"}, "/configured", "/theirs"),
        ("spark://host:7077", {}, None, "python3"),
        ("spark://host:7077", {}, "/configured", "/configured"),
    ],
)
def test_workers_run_the_interpreter_that_is_named_else_on_this_machine_that_of_the_service(
    master: str, environment: dict[str, str], configured: str | None, chosen: str
) -> None:
    assert workers_python(master, environment, configured) == chosen


#: A program whose operator is in a module beside it. No shell has activated its environment.
PROGRAM = """
import pyarrow as pa, tidegate, own_operators
numbers = pa.table({"v": [10, 20, 30]})
graph = tidegate.TaskGraph()
graph.collect(graph.source("numbers", numbers.schema).map(own_operators.large, name="large"))
with tidegate.local() as client, client.create_task(graph, executor="spark", spark="local[2]") as task:
    print(task.run_epoch({"numbers": numbers}).table().to_pylist())
"""
OPERATORS = "import pyarrow.compute as pc\ndef large(batch): return batch.filter(pc.greater(batch['v'], 10))\n"


def test_a_local_master_runs_a_program_with_modules_of_its_own_in_an_environment_that_is_not_activated(
    tmp_path: Path,
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "own_operators.py").write_text(OPERATORS)
    bare = tmp_path / "bin" / "python3"
    bare.parent.mkdir()
    bare.write_text(BARE)
    bare.chmod(0o755)
    here = {name: value for name, value in environment().items() if name not in ("PYSPARK_PYTHON", "VIRTUAL_ENV")}
    here |= {"PATH": f"{bare.parent}{os.pathsep}{here['PATH']}"}
    command = [sys.executable, str(tmp_path / "program.py")]
    ran = subprocess.run(command, cwd="/", env=here, capture_output=True, text=True, check=False, timeout=240)
    assert ran.stdout.strip() == "[{'v': 20}, {'v': 30}]", ran.stderr[-3000:]


@pytest.mark.parametrize(
    "message",
    [
        'Job aborted: java.io.IOException: Cannot run program "/nowhere/python": error=2, No such file or directory',
        "ModuleNotFoundError: No module named 'tidegate'",
        "ModuleNotFoundError: No module named 'tidegate.executor'",
        "SparkException: EOFException occurred while reading the port number from pyspark.daemon's stdout",
        "Traceback:\n  raise PySparkRuntimeError(\nPySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker",
    ],
)
def test_an_interpreter_that_cannot_be_a_worker_is_told_with_what_it_has_to_be(message: str) -> None:
    error = of_job(RuntimeError(message), "the Spark job of epoch 1")
    assert message.splitlines()[-1] in error.message
    assert "PYSPARK_PYTHON" in error.message
    assert "tidegate[spark]" in error.message


def test_a_module_that_workers_do_not_find_is_named() -> None:
    error = of_job(RuntimeError("ModuleNotFoundError: No module named 'own_operators'"), "the Spark job of epoch 1")
    assert "do not find the module 'own_operators'" in error.message
    assert "spark.submit.pyFiles" in error.message


def test_a_job_that_failed_for_another_reason_is_told_by_sparks_message_alone() -> None:
    error = of_job(RuntimeError(": java.lang.OutOfMemoryError: Java heap space\n  at x"), "the Spark job of epoch 1")
    assert error.message == (
        "the Spark job of epoch 1 failed: java.lang.OutOfMemoryError: Java heap space; the service's log has the whole "
        "message"
    )


def test_workers_do_not_get_the_folders_that_their_interpreter_finds_itself() -> None:
    assert added_folders(["/theirs", *sys.path[1:], "/theirs"]).count("/theirs") == 1
    assert not {folder for folder in added_folders(sys.path) if "site-packages" in folder}
