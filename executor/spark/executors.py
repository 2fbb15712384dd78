"""Checks of the executors of an application, before a task runs there: settings that kill channels, and the folder for
staging.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...planner.physical.instance_memory import undivided_memory
from ...proto.errors import InvalidRequest
from ...proto.values import MIB, TaskOptions
from .sessions import Session
from .worker.executor_probe import SEEN_DDL, Probe, whoami

MEMORY: Final = "spark.executor.pyspark.memory"
IDLE_SECONDS: Final = "spark.python.worker.idleTimeoutSeconds"
KILL_IDLE: Final = "spark.python.worker.killOnIdleTimeout"
PROCESS_BYTES: Final = 3072 * MIB
"""The address space that a worker takes beside the engine: Python, Arrow, and mapped files."""
LEAST_IDLE_SECONDS: Final = 600
_POWERS: Final = {"k": 1 << 10, "m": MIB, "g": 1 << 30, "t": 1 << 40}
_SIZES: Final = {"": MIB, "b": 1, **_POWERS, **{f"{unit}b": size for unit, size in _POWERS.items()}}
_SECONDS: Final = {"": 1, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_TASKS: Final = 64
"""Tasks of a probe: Spark spreads them over its executors."""

_probed: set[tuple[str, Path]] = set()
"""Applications, and the folders that their executors write to."""


def check_settings(setting: Callable[[str], str | None], options: TaskOptions) -> None:
    """Refuse settings of Spark with which the system or Spark would kill channels that do what they should."""
    size = _amount(setting(MEMORY), _SIZES)
    cores = max(1, int(setting("spark.executor.cores") or 1))
    memory = undivided_memory(options)
    wanted = memory + PROCESS_BYTES
    if size and size // cores < wanted:
        named = "slot_memory" if options.slot_memory else "memory_limit"
        raise InvalidRequest(
            f"{MEMORY} leaves {size // cores // MIB} MiB of address space to each Python worker, and a channel with "
            f"{named}={memory} may need {wanted // MIB} MiB: unset {MEMORY} and give the memory by "
            f"spark.executor.memoryOverhead, raise {MEMORY} to {wanted * cores // MIB}m, or give a lower slot_memory",
            reason="SPARK_SETTING",
        )
    seconds = _amount(setting(IDLE_SECONDS), _SECONDS) or 0
    if setting(KILL_IDLE) == "true" and 0 < seconds < LEAST_IDLE_SECONDS:
        raise InvalidRequest(
            f"{KILL_IDLE} is true and {IDLE_SECONDS} is {seconds:g}: Spark would kill a channel that computes for so "
            f"long before it sends rows; raise {IDLE_SECONDS} to {LEAST_IDLE_SECONDS} at least, or unset {KILL_IDLE}",
            reason="SPARK_SETTING",
        )


def _amount(text: str | None, units: Mapping[str, float]) -> int | None:
    """A size or a time as Spark's settings have it."""
    matched = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", (text or "").lower())
    return int(int(matched[1]) * units[matched[2]]) if matched is not None and matched[2] in units else None


def check_staging(session: Session, folder: Path) -> None:
    """Refuse a folder that the executors cannot write to, or whose files the service does not find or cannot remove."""
    if (session.application, folder) in _probed:
        return
    content = uuid.uuid4().hex
    rows = session.probe(Probe(str(folder), content), SEEN_DDL, _TASKS)
    try:
        for row in rows:
            if row["error"]:
                raise _unwritable(folder, f"executors run as {row['user']} and cannot write there ({row['error']})")
            path = Path(row["path"])
            try:
                same = path.read_text(encoding="ascii") == content
                path.unlink()
            except OSError as error:
                raise _unwritable(
                    folder,
                    f"an executor, which runs as {row['user']}, has written {path.name}, and the service cannot read "
                    f"and remove that file ({type(error).__name__})",
                ) from error
            if not same:
                raise _unwritable(
                    folder, f"the service finds other content in {path.name} than an executor has written"
                )
    finally:
        for row in rows:
            with suppress(OSError):
                Path(row["path"]).unlink(missing_ok=True)
    _probed.add((session.application, folder))


def _unwritable(folder: Path, why: str) -> InvalidRequest:
    return InvalidRequest(
        f"the folder for staging, {folder.parent}, is not one that the service and Spark's executors both write to: "
        f"{why}; the service runs as {whoami()}. Give a folder of a file system that both see (tidegate serve "
        "--spark-staging DIR, tidegate.local(spark_staging=DIR)), and run the service and the executors as one user",
        reason="NO_STAGING",
    )
