"""The progress line on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ...progress import Ticker, clear, draw, somebody_looks


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Progress: finished splits, rows of the result, and the share of its inputs that the epoch has read."""

    finished: int
    rows: int
    read: float | None


@contextmanager
def progress(total: int, state: Callable[[], State]) -> Iterator[None]:
    """Show progress on the terminal inside the context; `total` is the number of all splits."""
    started = time.monotonic()

    def tell() -> None:
        now = state()
        read = "" if now.read is None else f", {now.read:.0%} of the epoch read"
        text = f"{now.finished}/{total} splits{read}, {now.rows:,} rows, {time.monotonic() - started:.0f} s"
        draw(now.finished / total if total else 0.0, text)

    if not somebody_looks():
        yield
        return
    try:
        with Ticker(tell):
            yield
    finally:
        clear()
