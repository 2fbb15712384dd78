"""One line on standard error per step, so that a person knows what a long run is doing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

Step = TypeVar("Step")


def progress(steps: Sequence[Step], what: str) -> Iterator[Step]:
    start = time.perf_counter()
    for number, step in enumerate(steps, 1):
        if sys.stderr.isatty():
            print(f"\r{what} {number}/{len(steps)} {time.perf_counter() - start:.0f} s", end="", file=sys.stderr)
        yield step
    if sys.stderr.isatty():
        print(file=sys.stderr)
