"""A progress line, when a person is looking."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

WIDTH = 30
INTERVAL = 0.2


class Progress:
    """Inside the context a line on the terminal says how far things are; in a pipe nothing is said."""

    def __init__(self, total: int, state: Callable[[], tuple[int, int]]) -> None:
        """`state` gives splits finished (of `total`) and rows produced."""
        self._total = total
        self._state = state
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True) if sys.stderr.isatty() else None

    def _draw(self) -> None:
        started = time.monotonic()
        while not self._ended.wait(INTERVAL):
            finished, rows = self._state()
            share = finished / self._total if self._total else 0.0
            seconds = time.monotonic() - started  # a single large split shows no other progress
            bar = ("#" * round(share * WIDTH)).ljust(WIDTH)
            sys.stderr.write(f"\r[{bar}] {finished}/{self._total} splits, {rows:,} rows, {seconds:.0f} s")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
