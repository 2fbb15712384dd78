"""A Spark Connect server that is killed, and started again on its port: its tasks are not lost with it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import grpc
import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.errors.exceptions.connect import SparkConnectException, SparkConnectGrpcException, UnknownException

import tidegate
from tests import sparks
from tests.executor.test_user_operators import SUMS, Sums, expected, rows_in_order, summed
from tests.on_channels import on_spark
from tidegate.executor.spark.applications import connect_server
from tidegate.proto.operator_registration import Options

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
EPOCHS = [pa.table({"k": [1, 2, 1], "v": [at, at, at]}) for at in range(1, 4)]


class Held(Sums):
    """Does not end while the file `held` is there, and says in another one that it has begun."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.held = Path(str(options["held"]))

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
        while self.held.exists():
            self.held.with_suffix(".begun").touch()
            time.sleep(0.01)
        super().execute(batches, stream, channel)


class Server:
    """A server on a port of its own, in a JVM without Python."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"sc://127.0.0.1:{self.port}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns at once, some seconds before the server answers."""
        settings = {
            **sparks.settings(self._folder),
            "spark.master": "local[1]",
            "spark.connect.grpc.binding.port": str(self.port),
        }
        chosen = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        self._process = subprocess.Popen(
            [Path(pyspark.__file__).parent / "bin" / "spark-submit", *chosen, "--class", SERVER, "spark-internal"],
            cwd=sparks.PROJECT,
            env={
                **os.environ,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYSPARK_PYTHON": sys.executable,
                "PYTHONPATH": str(sparks.PROJECT),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = Server(tmp_path / "server")
    yield started
    started.kill()


def until(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.01)


def fails(read: Callable[[], object]) -> str:
    with pytest.raises(tidegate.TaskFailed) as failed:
        read()
    return failed.value.reason


@pytest.mark.filterwarnings("ignore:.RETRIES_EXCEEDED")
@pytest.mark.timeout(400)
def test_a_durable_task_goes_on_at_a_server_that_was_killed_and_started_again(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def service() -> tidegate.Client:
        held = tidegate.user_operator(Held, schema=SUMS, partition="c0", version="1")
        return tidegate.local(data=tmp_path / "data", operators={"held": held})

    monkeypatch.setattr(connect_server, "WAIT_SECONDS", 1.0)
    held = tmp_path / "file.held"
    server.start()
    until(server.answers)
    with service() as client:
        plan = summed("held", held=str(held))
        task = client.create_task(plan, **on_spark(server.address), channels=1, on_error="skip_epoch")
        answers = [rows_in_order(task.run_epoch({"numbers": EPOCHS[0]}).table())]
        held.touch()
        for epoch in EPOCHS[1:]:
            task.add_split("numbers", epoch)
            task.request_barrier()
        until(held.with_suffix(".begun").exists)
        server.kill()
        held.unlink()
        assert fails(task.read_epoch) == "SPARK_ENDED"
        task.recover()
        assert fails(task.read_epoch) == "SPARK_ENDED"
    monkeypatch.setattr(connect_server, "WAIT_SECONDS", 120.0)
    server.start()
    with service() as client:
        task = client.task(task.id)
        answers += [rows_in_order(task.read_epoch()) for _ in EPOCHS[1:]]
    assert answers == [expected(epoch) for epoch in EPOCHS]


def refused(code: grpc.StatusCode) -> SparkConnectGrpcException:
    return SparkConnectGrpcException(message="failed to connect", grpc_status_code=code)


def closed(kind: str) -> UnknownException:
    return UnknownException(
        errorClass=f"INVALID_HANDLE.{kind}", message=kind, grpc_status_code=grpc.StatusCode.INTERNAL
    )


@pytest.mark.parametrize(
    "error",
    [
        refused(grpc.StatusCode.UNAVAILABLE),
        closed("SESSION_CHANGED"),
        closed("SESSION_CLOSED"),
        closed("SESSION_NOT_FOUND"),
        SparkConnectException(errorClass="NO_ACTIVE_SESSION", messageParameters={}),
        PySparkRuntimeError(
            errorClass="RESPONSE_ALREADY_RECEIVED", messageParameters={"error_type": "SESSION_NOT_FOUND"}
        ),
        UnknownException(message="(java.lang.IllegalStateException) Cannot call methods on a stopped SparkContext."),
    ],
    ids=lambda error: (error.getCondition() or str(error))[-40:],
)
def test_an_error_of_a_job_says_that_its_server_is_gone(error: Exception) -> None:
    assert connect_server.is_gone(error)


@pytest.mark.parametrize(
    "error",
    [refused(grpc.StatusCode.INTERNAL), closed("OPERATION_ABANDONED"), UnknownException(message="no room"), OSError()],
)
def test_another_error_of_a_job_does_not(error: Exception) -> None:
    assert not connect_server.is_gone(error)


def test_a_call_of_a_server_that_is_away_ends(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_server, "WAIT_SECONDS", 0.0)
    plan = summed("sums")
    with tidegate.local(operators={"sums": tidegate.user_operator(Sums, schema=SUMS, partition="c0")}) as client:
        for channels in (1, "auto"):
            with pytest.raises(tidegate.ExecutionError, match=r"at 127\.0\.0\.1 does not answer") as away:
                client.create_task(plan, **on_spark(server.address), channels=channels)
            assert away.value.reason == "SPARK_ENDED"
