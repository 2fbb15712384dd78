"""Progress while a graph or a query runs: snapshots for a function, or a line for a person."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from .progress import PLAIN_SECONDS, Ticker, clear, draw, somebody_looks, write
from .proto.errors import InvalidRequest
from .proto.statistics import OperatorStatistics, SourceProgress, Statistics, share_of


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphProgress:
    """The progress of a run after so many `seconds`.

    `sources` has the progress of each input; `nodes` has the statistics of each node and channel (`NodeStatistics`).

    >>> seen: list[tidegate.GraphProgress] = []
    >>> dataset = client.run_graph(graph, progress=seen.append)
    >>> seen[-1].rows, seen[-1].share
    (3, 1.0)
    """

    seconds: float
    sources: Mapping[str, SourceProgress]
    nodes: tuple[OperatorStatistics, ...]

    @property
    def rows(self) -> int:
        """The rows read so far, of all inputs."""
        return sum(source.rows for source in self.sources.values())

    @property
    def share(self) -> float | None:
        """The part that is read, from 0 to 1, of the inputs that know their number of rows. If no input does, of the
        bytes of text files; None without text files.
        """
        return share_of(self.sources.values())


ShowProgress: TypeAlias = bool | Callable[[GraphProgress], object]


@contextmanager
def watched(progress: ShowProgress, statistics: Callable[[], Statistics], *, anywhere: bool = False) -> Iterator[None]:
    """Call `progress` every 0.2 seconds inside the context, on a thread of its own, and once more after success.

    An error of `progress` ends the calls, and is raised at the end of the context. A line is for terminals, unless it
    is wanted `anywhere`: elsewhere a line is written every 5 seconds and after success.
    """
    started = time.monotonic()

    def now() -> GraphProgress:
        current = statistics()
        return GraphProgress(seconds=time.monotonic() - started, sources=current.progress, nodes=current.operators)

    if isinstance(progress, bool):
        if progress and somebody_looks():
            try:
                with Ticker(lambda: _draw(now())):
                    yield
            finally:
                clear()
        elif progress and anywhere:
            with Ticker(lambda: write(_text(now())), seconds=PLAIN_SECONDS):
                yield
            write(_text(now()))
        else:
            yield
        return
    if not callable(progress):
        raise InvalidRequest(
            f"progress must be True, False or a function of a GraphProgress, not {type(progress).__name__}",
            reason="PROGRESS",
        )
    with Ticker(lambda: progress(now())) as ticker:
        yield
    if ticker.error is not None:
        raise ticker.error
    progress(now())


def _draw(progress: GraphProgress) -> None:
    draw(progress.share, _text(progress))


def _text(progress: GraphProgress) -> str:
    known = "" if progress.share is None else f"{progress.share:.0%}, "
    return f"{known}{progress.rows:,} rows read, {progress.seconds:.0f} s"
