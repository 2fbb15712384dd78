"""Pauses of random length where threads take turns. They change the order in which things happen, and no result."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from tidegate.executor.exchange.epoch_scheduler import EpochScheduler
from tidegate.executor.tasks.epoch_loop import EpochLoop


@contextmanager
def shaken(seed: int, pause: Callable[[float], float]) -> Iterator[None]:
    """A context in which each step of a task, and of one of its channels, waits before it begins.

    `pause` makes the seconds of a number from 0 to 1.
    """
    numbers = random.Random(seed)

    def later(step: Callable[..., Any]) -> Callable[..., Any]:
        def after_a_pause(*arguments: Any) -> Any:
            time.sleep(pause(numbers.random()))
            return step(*arguments)

        return after_a_pause

    with ExitStack() as stack:
        for owner, name in ((EpochLoop, "step"), (EpochScheduler, "advance")):
            stack.enter_context(patch.object(owner, name, later(getattr(owner, name))))
        yield
