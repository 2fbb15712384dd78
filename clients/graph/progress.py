"""Progress while a graph runs: snapshots for a function, or a line for a person who is looking."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeAlias

from ..proto.errors import InvalidRequest
from ..proto.values import OperatorStatistics, SourceProgress, Statistics

_INTERVAL: Final = 0.2
_WIDTH: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphProgress:
    """How far a run is after so many seconds. `sources` are the inputs, `nodes` what each node and channel did
    (`NodeStatistics`).
    """

    seconds: float
    sources: Mapping[str, SourceProgress]
    nodes: tuple[OperatorStatistics, ...]

    @property
    def rows(self) -> int:
        """Read so far, of all inputs."""
        return sum(each.rows for each in self.sources.values())

    @property
    def share(self) -> float | None:
        """From 0 to 1, by the rows of the inputs that tell how many they have; None where none does."""
        known = [(each.rows, each.total) for each in self.sources.values() if each.total is not None]
        total = sum(rows for _, rows in known)
        return sum(rows for rows, _ in known) / total if total else None


Told: TypeAlias = bool | Callable[[GraphProgress], object]


class Watch:
    """Inside the context the function is called every 0.2 seconds, by a thread of its own, and once more at a good end.
    What it raises ends the telling, and is raised at the end of the context.
    """

    def __init__(self, told: Told, statistics: Callable[[], Statistics]) -> None:
        self._line = told is True
        self._tell = _teller(told)
        self._statistics = statistics
        self._started = time.monotonic()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._thread = None if self._tell is None else threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None or self._tell is None:
            return
        self._ended.set()
        self._thread.join()
        if self._line:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        elif error is None:
            if self._error is not None:
                raise self._error
            self._tell(self._now())

    def _watch(self) -> None:
        assert self._tell is not None
        try:
            while not self._ended.wait(_INTERVAL):
                self._tell(self._now())
        except BaseException as error:  # noqa: BLE001 - raised at the end of the context
            self._error = error

    def _now(self) -> GraphProgress:
        found = self._statistics()
        return GraphProgress(seconds=time.monotonic() - self._started, sources=found.progress, nodes=found.operators)


def _teller(told: Told) -> Callable[[GraphProgress], object] | None:
    if isinstance(told, bool):
        return _draw if told and sys.stderr.isatty() else None
    if not callable(told):
        raise InvalidRequest(
            f"progress is True, False or a function of a GraphProgress, not {type(told).__name__}", reason="PROGRESS"
        )
    return told


def _draw(progress: GraphProgress) -> None:
    share = progress.share
    bar = "" if share is None else f"[{('#' * round(share * _WIDTH)).ljust(_WIDTH)}] {share:.0%}, "
    sys.stderr.write(f"\r{bar}{progress.rows:,} rows read, {progress.seconds:.0f} s\x1b[K")
    sys.stderr.flush()
