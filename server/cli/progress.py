"""A progress line, when a person is looking."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...progress import Ticker, clear, draw, somebody_looks


@contextmanager
def progress(total: int, state: Callable[[], tuple[int, int]]) -> Iterator[None]:
    """Inside the context a line on the terminal says how far things are; `state` gives splits finished (of `total`) and
    rows produced.
    """
    started = time.monotonic()

    def tell() -> None:
        finished, rows = state()
        seconds = time.monotonic() - started  # a single large split shows no other progress
        draw(finished / total if total else 0.0, f"{finished}/{total} splits, {rows:,} rows, {seconds:.0f} s")

    if not somebody_looks():
        yield
        return
    try:
        with Ticker(tell):
            yield
    finally:
        clear()
