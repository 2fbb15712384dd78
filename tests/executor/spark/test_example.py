"""The example of the executor, in the session that all tests share."""

from __future__ import annotations

import re
import runpy
import sys

import pytest
from pyspark.sql import SparkSession

from tests.house.modules import TOP

SAID = re.compile(
    r"query (?P<query>\d+): (?P<rows>\d+) rows in [\d.]+ s, tasks by stage (?P<stages>[\d+]+), "
    r"the same as in this process"
)


def test_queries_of_tpch_run_on_spark_as_they_do_here(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = str(TOP / "examples" / "spark_tpch.py")
    monkeypatch.setattr(sys, "argv", [script, "--scale", "0.01"])
    runpy.run_path(script, run_name="__main__")
    said = [SAID.fullmatch(line) for line in capsys.readouterr().out.splitlines()]
    row_counts = [(int(line["query"]), int(line["rows"])) for line in said if line is not None]
    assert row_counts == [(1, 4), (3, 10), (6, 1), (18, 2)]
    assert all(line["stages"] for line in said if line is not None)
    assert spark.range(3).count() == 3
