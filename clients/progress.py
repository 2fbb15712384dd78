"""Reports of progress: a function that is called again and again, or a line on a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

_INTERVAL: Final = 0.2
_WIDTH: Final = 30
PLAIN_SECONDS: Final = 5.0


class Ticker:
    """Calls a function every so many seconds inside the context, on a thread of its own.

    An error of the function ends the calls, and is `error` afterwards.
    """

    def __init__(self, tell: Callable[[], object], *, seconds: float | None = None) -> None:
        self._seconds = _INTERVAL if seconds is None else seconds
        self.error: BaseException | None = None
        self._tell = tell
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _tick(self) -> None:
        try:
            while not self._ended.wait(self._seconds):
                self._tell()
        except BaseException as error:  # noqa: BLE001 - whoever made it decides
            self.error = error


@contextmanager
def line_shown(text: Callable[[], str]) -> Iterator[None]:
    """Show a line while the context lasts: rewritten in its place on a terminal, else written anew now and then, and at
    the end.
    """
    if somebody_looks():
        try:
            with Ticker(lambda: draw(None, text())):
                yield
        finally:
            clear()
        return
    try:
        with Ticker(lambda: write(text()), seconds=PLAIN_SECONDS):
            yield
    finally:
        write(text())


def somebody_looks() -> bool:
    """True if a person can see a line: standard error is a terminal, not a pipe."""
    return sys.stderr.isatty()


def draw(share: float | None, text: str) -> None:
    """Write the line over the one before: a bar of this share, if it is known, and the text."""
    bar = "" if share is None else f"[{('#' * round(share * _WIDTH)).ljust(_WIDTH)}] "
    sys.stderr.write(f"\r{bar}{text}\x1b[K")
    sys.stderr.flush()


def write(text: str) -> None:
    """Write a line of its own, for outputs where nothing can be written over."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def clear() -> None:
    """Remove the line."""
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()
