"""Spark is an extra: everything else works where it is not installed."""

from __future__ import annotations

import subprocess
import sys

from .modules import modules

BLOCKED = """
import importlib, sys
sys.modules["pyspark"] = None
for name in {names}:
    importlib.import_module(name)
import tidegate
with tidegate.local() as client:
    try:
        client.create_task(b"", executor="spark", spark=object())
    except tidegate.InvalidRequest as error:
        print(error)
"""


def test_what_is_not_of_spark_is_imported_without_it_and_who_asks_for_it_is_told_what_to_install() -> None:
    spark = ("tidegate.executor.spark", "tidegate.spark", "tidegate.proto.generate")
    names = [name for name in modules() if not name.startswith(spark) and not name.endswith("__main__")]
    run = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(names=names)], capture_output=True, text=True, check=False, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert 'pip install "tidegate[spark]"' in run.stdout
