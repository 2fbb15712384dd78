"""The archive of Spark's classes, which the JVMs of tests share."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ..sparks import archive, environment, java, short_lived


def test_the_first_session_has_written_it_for_later_processes(spark: SparkSession) -> None:
    if not java().resolve().with_name("jcmd").exists():
        pytest.skip("this Java has no jcmd")
    assert f"-XX:SharedArchiveFile={archive()}" in environment()["JDK_JAVA_OPTIONS"]


def test_a_java_that_cannot_read_it_starts_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.jsa"
    damaged.write_bytes(b"no classes")
    monkeypatch.setattr("tests.sparks.archive", lambda: damaged)
    command = [java(), *short_lived().split(), "-version"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
