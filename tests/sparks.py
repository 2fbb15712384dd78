"""The Spark session that all tests of a process share; it starts with the first one that asks for it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = Path(__file__).resolve().parent.parent
#: The tests of a process are over before compiled code that is better than quickly made has paid.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def java() -> Path:
    """The program that Spark's scripts start."""
    home = os.environ.get("JAVA_HOME")
    return Path(f"{home}/bin/java" if home else shutil.which("java") or "java")


def archive() -> Path:
    """A file of Spark's classes as a JVM has loaded them, for this Spark and this Java. Others than these would not
    read it.
    """
    program = java().resolve()
    changed = program.stat().st_mtime_ns if program.exists() else 0
    made_for = f"{version('pyspark')} {program} {changed} {SHORT_LIVED}"
    return PROJECT / "build" / f"spark-{hashlib.sha256(made_for.encode()).hexdigest()[:16]}.jsa"


def short_lived() -> str:
    """Options of Java for the JVMs of tests. To load Spark's classes one by one costs five seconds of a core in each
    JVM: they come from the archive, which the first session of a clone writes.
    """
    kept = f"-XX:SharedArchiveFile={archive()}" if archive().exists() else "-XX:+RecordDynamicDumpInfo"
    return f"{SHORT_LIVED} -XX:+IgnoreUnrecognizedVMOptions -Xlog:cds*=off {kept}"


def environment() -> dict[str, str]:
    """That of a process which has Tidegate start Spark."""
    quick = f"{short_lived()} -Dspark.ui.enabled=false -Dspark.sql.shuffle.partitions=2"
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "JDK_JAVA_OPTIONS": quick}


def write_archive(session: SparkSession) -> None:
    """Have the session's JVM write the archive, if there is none. A Java without `jcmd` goes on as it is."""
    command = java().resolve().with_name("jcmd")
    if archive().exists() or not command.exists():
        return
    session.range(3).selectExpr("sum(id)").collect()
    archive().parent.mkdir(exist_ok=True)
    unfinished = archive().with_suffix(f".{os.getpid()}")
    jvm: Any = session.sparkContext._jvm
    process = jvm.java.lang.ProcessHandle.current().pid()
    subprocess.run([command, str(process), "VM.cds", "dynamic_dump", unfinished], check=False, capture_output=True)
    if unfinished.exists():
        unfinished.replace(archive())


def settings(folder: Path) -> dict[str, str]:
    """What every session of the tests is made with; its files are in `folder`."""
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # A local executor that has lost shuffled rows fails to register again at each heartbeat. Spark would end its
        # JVM ten minutes behind the test of it.
        "spark.executor.heartbeat.maxFailures": "1000000",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder} {short_lived()}",
        "spark.executor.extraJavaOptions": short_lived(),
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
    }


def start(master: str, folder: Path, **more: str) -> SparkSession:
    """A classic session; `more` are settings, with `__` for the dots of their names."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    chosen = {**settings(folder), **{name.replace("__", "."): value for name, value in more.items()}}
    builder = SparkSession.builder.master(master).appName("tidegate tests")
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@contextlib.contextmanager
def only_process(folder: Path, run: str | None) -> Iterator[None]:
    """Fail where another process of the run has a session: tests that need Spark are not all dealt to one process."""
    if run is None:
        yield
        return
    with (folder / f"spark-{run}").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pytest.fail("another process of this run has a Spark session: see tests/dealing.py")
        yield


def end(session: SparkSession, stop: Callable[[], None]) -> None:
    """Stop what runs in the session's JVM. A JVM that something has ended behind the last test of Spark fails no test
    that happens to be the last one of the process: the log has how it ended.
    """
    from py4j.protocol import Py4JError

    gateway: Any = session.sparkContext._gateway
    try:
        gateway.jvm.java.lang.System.currentTimeMillis()
    except (Py4JError, OSError) as error:
        status = gateway.proc.poll()
        print(f"the JVM of the tests' Spark session is gone, with status {status}: {error!r}", file=sys.__stderr__)
    else:
        stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, and up to four attempts of a task."""
    daemon = {"spark__python__daemon__module": "tests.spark_workers"}
    with only_process(tmp_path_factory.getbasetemp().parent, os.environ.get("PYTEST_XDIST_TESTRUNUID")):
        session = start("local[2,4]", tmp_path_factory.mktemp("spark"), **daemon)
        write_archive(session)
        yield session
        end(session, session.stop)


@pytest.fixture(scope="session")
def connect_address(spark: SparkSession) -> Iterator[str]:
    """That of a Spark Connect server inside the session's own JVM, on a port of this machine that is free."""
    services: Any = spark.sparkContext._jvm.org.apache.spark.sql.connect.service
    server = getattr(getattr(services, "SparkConnectService$"), "MODULE$")
    server.start(spark.sparkContext._jsc.sc())
    yield f"sc://127.0.0.1:{server.localPort()}"
    end(spark, lambda: server.stop(getattr(server, "stop$default$1")(), getattr(server, "stop$default$2")()))


@pytest.fixture
def connected(connect_address: str) -> Iterator[SparkSession]:
    """A Spark Connect client with a session of its own."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    client = ConnectSession.builder.remote(connect_address).create()
    yield client  # type: ignore[misc]
    client.stop()
