"""A service whose Spark has died: later tasks run on a new one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark import SparkContext

import tidegate
from tests.executor import plans
from tests.on_channels import on_spark
from tests.sparks import environment
from tidegate.executor.spark import sessions


class Application:
    """Stands for a session of Spark Connect."""

    is_stopped = False

    def __init__(self) -> None:
        self.conf: dict[str, str] = {}
        self.client = self

    def set_retry_policies(self, policies: object) -> None:
        """There is nothing that could be asked again."""

    def newSession(self) -> Application:  # noqa: N802
        return self

    def stop(self) -> None:
        raise OSError("there is nothing that could stop")


def test_an_application_that_has_ended_is_not_opened_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    started: list[Application] = []

    def start(master: str) -> Application:
        assert master == "sc://host"
        started.append(Application())
        return started[-1]

    monkeypatch.setattr(sessions, "_start", start)
    monkeypatch.setattr(sessions, "SETTINGS", {})
    of_service = sessions.Sessions("sc://host")
    for _ in range(2):
        of_service.open("")
    assert (len(started), caplog.text) == (1, "")
    started[0].is_stopped = True
    of_service.open("")
    assert len(started) == 2
    assert "the Spark application at sc://host has ended: the service starts another one" in caplog.text
    of_service.close()


def sums(client: tidegate.Client) -> list[dict[str, int]]:
    plan = plans.plan(plans.summed(plans.read("t", "k", "v")), "k", "s")
    with client.create_task(plan, **on_spark("local[1]")) as task:
        return task.run_epoch({"t": pa.table({"k": [1, 1], "v": [2, 3]})}).table().to_pylist()


def lose_the_jvm() -> None:
    with tidegate.local() as client:
        print(sums(client))
        java = SparkContext._gateway.proc
        os.kill(java.pid, signal.SIGKILL)
        java.wait()
        print(sums(client))


@pytest.mark.search
def test_a_service_whose_jvm_has_died_starts_another_one_and_says_so() -> None:
    command = [sys.executable, "-m", __name__]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=240)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout.splitlines()[-2:] == ["[{'k': 1, 's': 5}]"] * 2
    assert "the Spark application at local[1] has ended: the service starts another one" in ran.stderr


if __name__ == "__main__":
    lose_the_jvm()
