"""Spark sessions: opened from a master's address, or handed over; what a task does in one does not change it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar

from pyspark import Accumulator, SparkContext, accumulators
from pyspark.sql import SparkSession

from ...proto.errors import InvalidRequest
from .job import SETTINGS
from .job_progress import Ended
from .watch import Tell, connected, watched

T = TypeVar("T")


class Session:
    """A task's own session, beside the one that it is given: settings are its own, the application is shared."""

    def __init__(self, given: SparkSession) -> None:
        self._given = given
        self._spark = given.newSession()
        self._context: SparkContext | None = self._spark.sparkContext if isinstance(self._spark, SparkSession) else None
        self._accumulators: list[int] = []
        for name, value in SETTINGS.items():
            self._spark.conf.set(name, value)

    @property
    def master(self) -> str:
        return str(self._spark.conf.get("spark.master", ""))

    @property
    def is_local(self) -> bool:
        """Whether all that it runs is on this machine."""
        return self.master.startswith("local")

    def run(self, work: Callable[[SparkSession], T], tag: str, tell: Tell) -> T:
        """On this thread, so that `interrupt` with the tag ends it. `tell` is told how far it is."""
        add, remove = self._tagging
        add(tag)
        try:
            with self._watched(tag, tell):
                return work(self._spark)
        finally:
            with suppress(Exception):
                remove(tag)

    def _watched(self, tag: str, tell: Tell) -> AbstractContextManager[None]:
        return connected(self._spark, tell) if self._context is None else watched(self._context, tag, tell)

    def ended(self, hear: Callable[[int, bytes], None]) -> Accumulator[Any] | None:
        """What channels report to when they have ended, and `hear` hears of on a thread of Spark's: of a classic
        session.
        """
        if self._context is None:
            return None
        made = self._context.accumulator((), Ended(hear))
        self._accumulators.append(made.aid)
        return made

    def interrupt(self, tag: str) -> None:
        """From any thread: end the jobs that have the tag now."""
        with suppress(Exception):
            if self._context is None:
                self._spark.interruptTag(tag)
            else:
                self._context.cancelJobsWithTag(tag)

    @property
    def _tagging(self) -> tuple[Callable[[str], None], Callable[[str], None]]:
        """A classic session knows its tags by their threads, so that no other thread could name one."""
        if self._context is None:
            return self._spark.addTag, self._spark.removeTag
        return self._context.addJobTag, self._context.removeJobTag

    def close(self) -> None:
        """The application is not this task's to stop."""
        for each in self._accumulators:
            accumulators._accumulatorRegistry.pop(each, None)  # PySpark keeps them for ever


class Sessions:
    """Those of a service, by their masters. Sessions that it has opened itself end with it."""

    def __init__(self, master: str = "") -> None:
        self._master = master
        self._given: dict[str, SparkSession] = {}
        self._opened: dict[str, SparkSession] = {}
        self._lock = threading.Lock()

    def adopt(self, session: object) -> str:
        """What a session that the caller has is called in options."""
        name = f"session {id(session)}"
        with self._lock:
            self._given[name] = session
        return name

    def open(self, name: str) -> Session:
        wanted = name or self._master
        if not wanted:
            raise InvalidRequest(
                'executor="spark": this service has no Spark of its own; give a session or a master '
                '(spark=..., "local[2]", "spark://...", "sc://..."), or start the service with tidegate serve --spark '
                "MASTER",
                reason="NO_SPARK",
            )
        with self._lock:
            if wanted in self._given:
                return Session(self._given[wanted])
            if wanted not in self._opened:
                running = _running(wanted)
                if running is not None:
                    return Session(running)
                self._opened[wanted] = _start(wanted)
            return Session(self._opened[wanted])

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, {}
            self._given.clear()
        for session in opened.values():
            with suppress(Exception):
                session.stop()


def _running(master: str) -> SparkSession | None:
    """What somebody else has started in this process, which has one application at most, and is theirs to stop."""
    context = None if master.startswith("sc://") else SparkContext._active_spark_context
    if context is None:
        return None
    if context.master != master:
        raise InvalidRequest(
            f"this process has a Spark already, at {context.master}, and cannot start another at {master}: give that "
            "one's session (spark=session)",
            reason="SPARK_RUNNING",
        )
    return SparkSession.builder.getOrCreate()


def _start(master: str) -> SparkSession:
    builder = SparkSession.builder.appName("tidegate")
    if master.startswith("sc://"):
        return builder.remote(master).getOrCreate()
    session = builder.master(master).getOrCreate()
    context = session.sparkContext
    context.pythonExec = workers_python(master, os.environ, context.getConf().get("spark.pyspark.python"))
    return session


def workers_python(master: str, environment: Mapping[str, str], configured: str | None) -> str:
    """The interpreter of an application's workers: the user's choice, else on this machine that of this process.

    PySpark alone takes the first `python3` of the PATH, which does not know the packages of a virtual environment that
    was not activated, and reads `spark.pyspark.python` only where `spark-submit` starts the driver.
    """
    chosen = environment.get("PYSPARK_PYTHON") or configured
    return chosen or (sys.executable if master.startswith("local") else "python3")
