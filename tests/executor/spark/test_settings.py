"""Settings of Spark, and folders for staging, with which channels would be killed or rows lost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
import tidegate.spark
from tidegate.executor.spark.executors import IDLE_SECONDS, KILL_IDLE, MEMORY, check_settings, check_staging
from tidegate.executor.spark.sessions import Session
from tidegate.proto.values import ExecutorKind, TaskOptions

from ...spark.conftest import handed_on

OPTIONS = TaskOptions(executor=ExecutorKind.SPARK, slot_memory=1 << 30)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {MEMORY: "0"},
        {MEMORY: "4g"},
        {MEMORY: "16384", "spark.executor.cores": "4"},
        {KILL_IDLE: "true"},
        {KILL_IDLE: "true", IDLE_SECONDS: "600"},
        {KILL_IDLE: "true", IDLE_SECONDS: "10min"},
        {KILL_IDLE: "false", IDLE_SECONDS: "5"},
    ],
)
def test_settings_that_leave_channels_alone(settings: Mapping[str, str]) -> None:
    check_settings(settings.get, OPTIONS)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({MEMORY: "4095m"}, "leaves 4095 MiB .* slot_memory=1073741824 may need 4096 MiB.* to 4096m"),
        ({MEMORY: "16383", "spark.executor.cores": "4"}, "leaves 4095 MiB .* raise spark.executor.pyspark.memory to"),
        ({KILL_IDLE: "true", IDLE_SECONDS: "599"}, "idleTimeoutSeconds is 599: Spark would kill"),
        ({KILL_IDLE: "true", IDLE_SECONDS: "2m"}, "idleTimeoutSeconds is 120: Spark would kill"),
    ],
)
def test_settings_that_would_kill_channels_are_refused(settings: Mapping[str, str], sentence: str) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=sentence) as refused:
        check_settings(settings.get, OPTIONS)
    assert refused.value.reason == "SPARK_SETTING"


def test_a_task_is_refused_under_such_a_setting(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "setting", lambda _, name: {MEMORY: "1g"}.get(name))
    with tidegate.local() as client, pytest.raises(tidegate.InvalidRequest, match=MEMORY) as refused:
        client.create_task(handed_on(), executor="spark", spark=spark)
    assert refused.value.reason == "SPARK_SETTING"


def test_executors_write_a_file_into_the_folder_for_staging_and_the_service_removes_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(spark)
    check_staging(session, tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(tidegate.InvalidRequest, match=r"cannot write there \(FileNotFoundError") as refused:
        check_staging(session, tmp_path / "missing")
    assert refused.value.reason == "NO_STAGING"
    real = Session.probe

    def hidden(self: Session, *arguments: object) -> list[dict[str, str]]:
        rows = [row.asDict() for row in real(self, *arguments)]  # type: ignore[arg-type]
        return [{**row, "path": f"{row['path']}-elsewhere"} for row in rows]

    monkeypatch.setattr(Session, "probe", hidden)
    (other := tmp_path / "other").mkdir()
    with pytest.raises(tidegate.InvalidRequest, match="the service cannot read and remove that file") as refused:
        check_staging(session, other)
    assert refused.value.reason == "NO_STAGING"
