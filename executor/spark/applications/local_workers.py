"""The Python workers of an application that the service starts: their interpreter, and where they find modules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark import SparkContext

_PATH_OF_AN_INTERPRETER: Final = "import json, sys; print(json.dumps(sys.path))"


def prepare_workers(context: SparkContext, master: str) -> None:
    """Have the application's workers run the interpreter that is configured. On this machine they run that of this
    process if none is, and find the modules that this process finds.
    """
    configured = context.getConf().get("spark.pyspark.python")
    context.pythonExec = workers_python(master, os.environ, configured)
    if master.startswith("local") and context.pythonExec == sys.executable:
        own = context.environment.get("PYTHONPATH")
        context.environment["PYTHONPATH"] = os.pathsep.join([*([own] if own else ()), *added_folders(sys.path)])


def workers_python(master: str, environment: Mapping[str, str], configured: str | None) -> str:
    """The interpreter of an application's workers: the configured one, or on this machine that of this process.

    PySpark alone takes the first `python3` of the PATH, which lacks the packages of a virtual environment that was not
    activated. PySpark reads `spark.pyspark.python` only if `spark-submit` starts the driver.
    """
    chosen = environment.get("PYSPARK_PYTHON") or configured
    return chosen or (master.startswith("local") and sys.executable) or "python3"


def added_folders(path: Sequence[str]) -> list[str]:
    """The folders of a `sys.path` that this interpreter does not look in by itself, such as the folder of the program
    that it runs: your operators may be modules there.
    """
    command = [sys.executable, "-c", _PATH_OF_AN_INTERPRETER]
    by_itself = json.loads(subprocess.run(command, capture_output=True, check=True, cwd=os.sep).stdout)  # noqa: S603
    known = {os.path.abspath(folder) for folder in by_itself if folder}
    return [folder for entry in dict.fromkeys(path) if (folder := os.path.abspath(entry)) not in known]
