"""The interpreter of the Python workers of a Spark that Tidegate starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.executor import plans
from tests.sparks import environment
from tidegate.executor.spark.sessions import workers_python

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


def test_a_local_master_runs_from_an_environment_that_is_not_activated(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(plans.plan(plans.summed(plans.read("t", "k", "v")), "k", "s").json or "")
    pq.write_table(pa.table({"k": [1, 1], "v": [2, 3]}), tmp_path / "t.parquet")
    bare = tmp_path / "bin" / "python3"
    bare.parent.mkdir()
    bare.write_text(BARE)
    bare.chmod(0o755)
    here = {name: value for name, value in environment().items() if name not in ("PYSPARK_PYTHON", "VIRTUAL_ENV")}
    here |= {"PATH": f"{bare.parent}{os.pathsep}{here['PATH']}"}
    how = ["--executor", "spark", "--spark", "local[2]", "--output", "out.parquet"]
    command = [sys.executable, "-m", "tidegate.server.cli", "run", "plan.json", "--split", "t=t.parquet", *how]
    ran = subprocess.run(command, cwd=tmp_path, env=here, capture_output=True, text=True, check=False, timeout=240)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert pq.read_table(tmp_path / "out.parquet").column(1).to_pylist() == [5]
