"""Spark sessions, opened from a master's address or handed over.

A task does not change the session that it is given.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError
from pyspark import Accumulator, SparkContext, accumulators
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...proto.errors import ExecutionError, InvalidRequest
from ..api.checked_options import ADOPTED
from .applications import connect_server
from .applications.local_workers import prepare_workers
from .job import SETTINGS
from .job_progress import Ended
from .watch import Tell, connected, watched

T = TypeVar("T")

_log = logging.getLogger("tidegate.server")

POOL_SETTING: Final = "spark.tidegate.pool"
"""The session's setting that names the scheduler pool of its tasks' jobs."""

_seen: set[tuple[str, Path]] = set()
"""Applications behind Spark Connect, and folders that their servers see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The group and the description of jobs in Spark's interface."""

    group: str
    description: str


class Session:
    """A task's own session beside the given one: it has settings of its own, and shares the application.

    Over Spark Connect, it raises `ExecutionError` (`SPARK_ENDED`) if the server does not answer. Unless it `waits`, it
    asks the server once.
    """

    def __init__(self, session: SparkSession, *, waits: bool = True) -> None:
        self._given = session
        self._spark = session.newSession()
        self._context: SparkContext | None = None if _is_connected(self._spark) else self._spark.sparkContext
        self._accumulators: list[int] = []
        self._lost = False
        if self._context is None:
            connect_server.try_again_for(self._spark, connect_server.WAIT_SECONDS if waits else 0)
        try:
            with self.answering():
                for name, value in SETTINGS.items():
                    self._spark.conf.set(name, value)
        except ExecutionError:
            self.close()
            raise
        if self._context is None:
            connect_server.try_again_for(self._spark, connect_server.WAIT_SECONDS)

    @property
    def master(self) -> str:
        return str(self._spark.conf.get("spark.master", ""))

    @property
    def application(self) -> str:
        """A name that no other application has."""
        if self._context is not None:
            return str(self._context.applicationId)
        return self.setting("spark.app.id") or str(self._given.session_id)

    def is_lost(self, error: Exception) -> bool:
        """True if the application has ended, as this error of a job may say. A server of Spark Connect is not asked,
        because the answer may take minutes.
        """
        if self._context is not None:
            return not _lives(self._given)
        self._lost = self._lost or self._spark.is_stopped or connect_server.is_gone(error)
        return self._lost

    @contextmanager
    def answering(self) -> Iterator[None]:
        """A context whose calls raise `ExecutionError` (`SPARK_ENDED`) if the server of Spark Connect is gone."""
        if self._context is not None:
            yield
            return
        try:
            with connect_server.answering(self._spark):
                yield
        except ExecutionError:
            self._lost = True
            raise

    def setting(self, name: str) -> str | None:
        """A setting of the application or of the session."""
        value: str | None = self._spark.conf.get(name, None)
        return value

    def probe(self, function: Callable[[Iterator[Any]], Iterator[Any]], columns: str, tasks: int) -> list[Any]:
        """Run a function in so many tasks, each over a row with its number; the rows that it gives."""
        return list(self._spark.range(0, tasks, 1, tasks).mapInArrow(function, columns).collect())

    def is_local(self, folder: Path) -> bool:
        """True if the whole application runs on this machine, so that it sees this folder.

        Over Spark Connect the master is that of the server, and neither its name nor the server's address tells where
        the server runs: the server reads a file in the folder.
        """
        return self.master.startswith("local") and (self._context is not None or self._is_seen(folder))

    def _is_seen(self, folder: Path) -> bool:
        known = (self.application, folder.parent)
        if known not in _seen and _reads_a_file(self._spark, folder):
            _seen.add(known)
        return known in _seen

    def run(self, work: Callable[[SparkSession], T], tag: str, tell: Tell, shown: Shown) -> T:
        """Do the work on this thread, so that `interrupt` with the tag ends it.

        Calls `tell` with the work's progress.
        """
        add, remove = self._tagging
        add(tag)
        try:
            with self._watched(tag, tell), self._shown(shown):
                return work(self._spark)
        finally:
            with suppress(Exception):
                remove(tag)

    @contextmanager
    def _shown(self, shown: Shown) -> Iterator[None]:
        """A context whose jobs have these properties in Spark's interface. Spark Connect lets nobody set them."""
        context = self._context
        if context is None:
            yield
            return
        wanted = {
            "spark.jobGroup.id": shown.group,
            "spark.job.description": shown.description,
            "spark.scheduler.pool": self._given.conf.get(POOL_SETTING, None),
        }
        wanted = {name: value for name, value in wanted.items() if value is not None}
        before = {name: context.getLocalProperty(name) for name in wanted}
        for name, value in wanted.items():
            context.setLocalProperty(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                with suppress(Exception):  # of an application that has ended
                    context.setLocalProperty(name, value)

    def _watched(self, tag: str, tell: Tell) -> AbstractContextManager[None]:
        return connected(self._spark, tell) if self._context is None else watched(self._context, tag, tell)

    def ended(self, hear: Callable[[int, bytes], None]) -> Accumulator[Any] | None:
        """An accumulator that channels report to when they end; None outside of classic sessions.

        `hear` gets the reports, on a thread of Spark's.
        """
        if self._context is None:
            return None
        accumulator = self._context.accumulator((), Ended(hear))
        self._accumulators.append(accumulator.aid)
        return accumulator

    def interrupt(self, tag: str) -> None:
        """End the jobs that have the tag now. From any thread."""
        with suppress(Exception):
            if self._context is None:
                self._spark.interruptTag(tag)
            else:
                self._context.cancelJobsWithTag(tag)

    @property
    def _tagging(self) -> tuple[Callable[[str], None], Callable[[str], None]]:
        """Functions that add and remove a tag.

        A classic session knows its tags by thread, so no other thread can name one.
        """
        if self._context is None:
            return self._spark.addTag, self._spark.removeTag
        return self._context.addJobTag, self._context.removeJobTag

    def close(self) -> None:
        """Close the task's session. The application goes on, because it is not the task's."""
        for id_ in self._accumulators:
            accumulators._accumulatorRegistry.pop(id_, None)  # PySpark keeps them for ever
        if self._context is None:  # an open connection to Spark Connect can keep the process from ending
            connect_server.end(self._spark, lost=self._lost)


class Sessions:
    """The sessions of a service, by their masters. Sessions that the service has opened end with it."""

    def __init__(self, master: str = "") -> None:
        self._master = master
        self._given: dict[str, SparkSession] = {}
        self._opened: dict[str, SparkSession] = {}
        self._away: dict[str, float] = {}
        """Until when a server of Spark Connect that did not answer is not waited for again, so that the tasks of a
        service that starts do not each wait for it."""
        self._lock = threading.Lock()

    def adopt(self, session: object) -> str:
        """Register the caller's session; its name in options."""
        name = f"{ADOPTED}{id(session)}"
        with self._lock:
            self._given[name] = session
        return name

    def open(self, name: str) -> Session:
        """A session of a task. Raises `ExecutionError` if it needs a server of Spark Connect that does not answer."""
        application, wanted = self._application(name), name or self._master
        waits = time.monotonic() >= self._away.get(wanted, 0.0)
        try:
            return Session(application, waits=waits)
        except ExecutionError:
            if waits:
                self._away[wanted] = time.monotonic() + connect_server.AWAY_SECONDS
            raise

    def _application(self, name: str) -> SparkSession:
        wanted = name or self._master
        if not wanted:
            raise InvalidRequest(
                'executor="spark" needs Spark, and this service has none: give a session or a master (spark=..., '
                '"local[2]", "spark://...", "sc://..."), or start the service with tidegate serve --spark '
                "MASTER",
                reason="NO_SPARK",
            )
        with self._lock:
            if wanted in self._given:
                return self._given[wanted]
            if wanted in self._opened and not _lives(self._opened[wanted]):
                _log.warning("the Spark application at %s has ended: the service starts another one", wanted)
                _forget(self._opened.pop(wanted))
            if wanted not in self._opened:
                running = _running(wanted)
                if running is not None:
                    return running
                self._opened[wanted] = _start(wanted)
            return self._opened[wanted]

    def cores(self, name: str, *, start: bool) -> int | None:
        """The cores of the application of this name. None where it does not run, unless it is to `start`."""
        if start:
            return _cores(self._application(name), connect_server.WAIT_SECONDS)
        with self._lock:
            wanted = name or self._master
            session = self._given.get(wanted) or self._opened.get(wanted)
        if session is None or not _lives(session):
            return None
        try:
            return _cores(session, 0)
        except ExecutionError:  # its server does not run
            return None

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, {}
            self._given.clear()
        for session in opened.values():
            _stop(session)


def _cores(session: Any, seconds: float) -> int:
    """The cores that the application's executors have, or may have with dynamic allocation. Raises `ExecutionError` if
    a server of Spark Connect does not answer for so many seconds.
    """
    if _is_connected(session):
        return _cores_of_server(session.newSession(), seconds)
    conf = session.conf.get
    most = int(conf("spark.dynamicAllocation.maxExecutors", "0"))
    if most and conf("spark.dynamicAllocation.enabled", "false") == "true":
        return most * int(conf("spark.executor.cores", "1"))
    return int(session.sparkContext.defaultParallelism)


def _cores_of_server(session: Any, seconds: float) -> int:
    """The cores behind a session that is then ended. The given session may be one of a server that has ended since."""
    connect_server.try_again_for(session, seconds)
    lost = True
    try:
        with connect_server.answering(session):
            # The client sees no context. Spark cuts a range into as many partitions as it has cores.
            cores = session.range(_RANGE).selectExpr("spark_partition_id() AS at").distinct().count()
        lost = False
        return int(cores)
    finally:
        connect_server.end(session, lost=lost)


_RANGE: Final = 1 << 20


def _lives(session: SparkSession) -> bool:
    """True unless the session's application has ended, or the process of its JVM."""
    try:
        return not (session.is_stopped if _is_connected(session) else session.sparkContext._jsc.sc().isStopped())
    except (Py4JError, OSError, AttributeError):
        return False


def _is_connected(session: Any) -> bool:
    """True for a session of Spark Connect, whose application is in another process."""
    return not isinstance(session, SparkSession)


def _stop(session: SparkSession) -> None:
    with suppress(Exception), warnings.catch_warnings(action="ignore"):
        if _is_connected(session):
            connect_server.try_again_for(session, 0)
        session.stop()


def _forget(session: SparkSession) -> None:
    """Have PySpark start a JVM for the next session. A session whose JVM has died cannot clear this by its `stop`."""
    _stop(session)
    gateway = SparkContext._gateway
    if gateway is None or _is_connected(session):
        return
    with suppress(Exception):
        gateway.jvm.java.lang.System.currentTimeMillis()
        return
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def _reads_a_file(session: Any, folder: Path) -> bool:
    """True if the session reads a file in this folder, with what this process has written to it."""
    content = uuid.uuid4().hex
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    probe = folder / f"probe-{content}"
    probe.write_text(content, encoding="ascii")
    try:
        return [row[0] for row in session.read.text(f"file://{probe}").collect()] == [content]
    except PySparkException as error:
        if connect_server.is_gone(error):
            raise
        return False
    finally:
        probe.unlink(missing_ok=True)


def _running(master: str) -> SparkSession | None:
    """The session of this process's application, if other code has started one. It is not the service's to stop.

    A process has at most one application.
    """
    context = None if master.startswith("sc://") else SparkContext._active_spark_context
    if context is None:
        return None
    if context.master != master:
        raise InvalidRequest(
            f"this process already has a Spark session at {context.master}, and cannot start another at {master}: "
            "give the session that it has (spark=session)",
            reason="SPARK_RUNNING",
        )
    return SparkSession.builder.getOrCreate()


def _start(master: str) -> SparkSession:
    if master.startswith("sc://"):
        session: SparkSession = connect_server.connect(master)
        return session
    session = SparkSession.builder.appName("tidegate").master(master).getOrCreate()
    prepare_workers(session.sparkContext, master)
    return session
