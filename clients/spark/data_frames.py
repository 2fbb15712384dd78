"""Facts about a DataFrame without running it: its kind of session, its settings, whether its order repeats."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ..proto.errors import InvalidRequest
from .report import Order

_NARROW: Final = {
    "ProjectExec": "projections",
    "FilterExec": "filters",
    "FileSourceScanExec": "files",
    "LocalTableScanExec": "rows of the driver",
    "RangeExec": "a range",
    "UnionExec": "a union",
    "ExpandExec": "repeated rows",
    "GenerateExec": "generated rows",
}
_PYTHON: Final = ("Python", "Pandas", "Arrow", "MapIn", "FlatMap")

_IMPOSSIBLE_BYTES: Final = 1 << 50

_settings_lock = threading.Lock()


def as_frame(data: DataFrame | str | os.PathLike[str]) -> DataFrame:
    """The DataFrame itself; for a path, the DataFrame that the active session loads."""
    if isinstance(data, str | os.PathLike):
        return active_session("a path can be loaded").read.load(os.fspath(data))
    return data_frame(data, "the data to feed", "a Spark DataFrame or a path")


def data_frame(data: Any, what: str, wanted: str = "a Spark DataFrame") -> DataFrame:
    """The DataFrame itself; for one of pandas-on-Spark, its columns without its index."""
    # A DataFrame of Spark Connect has every attribute: a column of this name, should there be one.
    frame = data.to_spark() if hasattr(type(data), "to_spark") else data
    if not isinstance(frame, DataFrame):
        raise InvalidRequest(f"{what} must be {wanted}, not {type(data).__name__}", reason="NOT_A_FRAME")
    return frame


def active_session(what: str) -> SparkSession:
    """This thread's session, or this process's. Raises `InvalidRequest` if there is none and `what` needs one."""
    try:
        return SparkSession.active()
    except PySparkException as none:
        raise InvalidRequest(
            f"{what} only by an active Spark session, and this process has no active session", reason="NO_SESSION"
        ) from none


def is_classic(session: Any) -> bool:
    """True if this process has Spark's own objects. With Spark Connect they are in another process."""
    return hasattr(session, "_jsparkSession")


def runs_here(session: Any) -> bool:
    """True if all of a classic session runs in this process."""
    return is_classic(session) and re.fullmatch(r"local(\[.*\])?", session.sparkContext.master) is not None


def setting(session: Any, name: str) -> str | None:
    """A setting of the session, if the session knows it."""
    with suppress(PySparkException):
        value: str | None = session.conf.get(name, None)
        return value
    return None


def case_sensitive(session: Any) -> bool:
    """True if the session tells names apart by case."""
    return setting(session, "spark.sql.caseSensitive") == "true"


@contextmanager
def settings(session: Any, wanted: Mapping[str, str]) -> Iterator[None]:
    """A context with other settings of the session, one at a time in this process.

    At its end the settings are as before.
    """
    with _settings_lock:
        before = {name: setting(session, name) for name in wanted}
        changed = {name: value for name, value in wanted.items() if before[name] != value}
        try:
            for name, value in changed.items():
                session.conf.set(name, value)
            yield
        finally:
            for name in changed:
                old = before[name]
                session.conf.unset(name) if old is None else session.conf.set(name, old)


def estimated_bytes(frame: DataFrame) -> int | None:
    """The estimate of Spark's optimizer for the DataFrame's bytes; None over Spark Connect, and if Spark knows nothing.

    Spark then takes a number that no data reaches, or multiplies the sizes of a join's sides.
    """
    if not is_classic(frame.sparkSession):
        return None
    size = int(str(_plan(frame).optimizedPlan().stats().sizeInBytes()))
    return size if size < _IMPOSSIBLE_BYTES else None


def order_of(frame: DataFrame, order_by: Sequence[str], ties: Sequence[str]) -> tuple[Order, str]:
    """The guarantee for the order of the rows as Spark computes them, and the reason.

    `ties` are columns that decide nothing between rows that are equal in `order_by`.
    """
    if order_by:
        if ties:
            return Order.NOBODY, (
                f"Spark cannot sort by {', '.join(ties)}: rows that differ in these columns alone come in any order"
            )
        return Order.SORTED, f"sorted by {', '.join(order_by)}, and then by all the other columns"
    if not is_classic(frame.sparkSession):
        return Order.NOBODY, "Spark Connect does not show how the rows are computed; order_by gives them an order"
    plan = _plan(frame)
    if not plan.optimizedPlan().deterministic():
        return (
            Order.NOBODY,
            "the DataFrame has an expression that gives other values on each run; order_by does not change that",
        )
    kinds = set(_kinds(plan.sparkPlan()))
    if others := sorted(kinds - _NARROW.keys()):
        python = any(word in kind for kind in others for word in _PYTHON)
        what = "runs Python code, whose order of rows Spark does not know" if python else "moves rows between tasks"
        return Order.NOBODY, f"the DataFrame {what} ({', '.join(others)}); order_by gives the rows an order"
    return Order.SPARK, (
        "every partition is computed from its own rows alone, and partitions are the same as long as the files, the "
        "session's settings and its number of cores are"
    )


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution()


def _kinds(node: Any) -> Iterator[str]:
    yield node.getClass().getSimpleName()
    for child in elements(node.children()):
        yield from _kinds(child)


def elements(sequence: Any) -> Iterator[Any]:
    """The elements of a Scala sequence."""
    return (sequence.apply(i) for i in range(sequence.size()))
