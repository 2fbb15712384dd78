"""The CPU time of contenders that work in several processes, such as a JVM and its Python workers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from .measure import Runs

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _TIMES = 1, slice(11, 15)  # of the fields behind the name: the processes waited for count, too


def seconds() -> float:
    """The CPU time of this process and of all processes below it so far, for themselves and in the system."""
    read = {int(folder.name): fields for folder in Path("/proc").glob("[0-9]*") if (fields := _fields(folder))}
    below = {os.getpid()}
    while more := {process for process, fields in read.items() if int(fields[_PARENT]) in below} - below:
        below |= more
    return sum(sum(map(int, read[process][_TIMES])) for process in below) / _TICKS


def _fields(process: Path) -> list[str]:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return []


class Used:
    """The CPU seconds of each call of contenders, at least one tick of the clock."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = {}

    def by(self, name: str, contender: Callable[[], object]) -> Callable[[], object]:
        """The contender, whose calls count under this name."""

        def counted() -> object:
            before = seconds()
            answer = contender()
            self._seconds.setdefault(name, []).append(max(seconds() - before, 1 / _TICKS))
            return answer

        return counted

    def runs(self, timed: Runs) -> Runs:
        """The CPU seconds of the rounds of `timed`, without those of warming up."""
        used = {name: tuple(self._seconds[name][-len(times) :]) for name, times in timed.seconds.items()}
        return Runs(used, timed.left_out, timed.stopped)
