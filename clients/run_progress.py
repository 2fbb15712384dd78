"""Progress while a graph or a query runs: snapshots for a function, or a line for a person."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from .progress import Ticker, clear, draw, somebody_looks, write
from .proto.errors import InvalidRequest
from .proto.statistics import OperatorStatistics, SourceProgress, Statistics


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


_PLAIN_SECONDS: Final = 5.0

Told: TypeAlias = bool | Callable[[GraphProgress], object]


@contextmanager
def watched(told: Told, statistics: Callable[[], Statistics], *, anywhere: bool = False) -> Iterator[None]:
    """Inside the context the function is called every 0.2 seconds, by a thread of its own, and once more at a good end.
    What it raises ends the telling, and is raised at the end of the context. A line is for terminals, unless it is
    wanted `anywhere`: elsewhere it is written every 5 seconds and at a good end.
    """
    started = time.monotonic()

    def now() -> GraphProgress:
        found = statistics()
        return GraphProgress(seconds=time.monotonic() - started, sources=found.progress, nodes=found.operators)

    if isinstance(told, bool):
        if told and somebody_looks():
            try:
                with Ticker(lambda: _draw(now())):
                    yield
            finally:
                clear()
        elif told and anywhere:
            with Ticker(lambda: write(_text(now())), seconds=_PLAIN_SECONDS):
                yield
            write(_text(now()))
        else:
            yield
        return
    if not callable(told):
        raise InvalidRequest(
            f"progress is True, False or a function of a GraphProgress, not {type(told).__name__}", reason="PROGRESS"
        )
    with Ticker(lambda: told(now())) as ticker:
        yield
    if ticker.error is not None:
        raise ticker.error
    told(now())


def _draw(progress: GraphProgress) -> None:
    draw(progress.share, _text(progress))


def _text(progress: GraphProgress) -> str:
    known = "" if progress.share is None else f"{progress.share:.0%}, "
    return f"{known}{progress.rows:,} rows read, {progress.seconds:.0f} s"
