"""Answers a call in its place once it has taken too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Patience:
    """Gives an outcome the answer of `meanwhile` after some seconds, and then calls `leave`. If `meanwhile` answers
    None, it is asked again later. On the event loop.
    """

    def __init__(
        self,
        outcome: asyncio.Future[Any],
        meanwhile: Callable[[], Any | None],
        seconds: float,
        leave: Callable[[], None],
    ) -> None:
        self._outcome = outcome
        self._meanwhile = meanwhile
        self._seconds = seconds
        self._leave = leave
        self._handle = self._later()

    def _later(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._seconds, self._over)

    def _over(self) -> None:
        if self._outcome.done():
            return
        try:
            answer = self._meanwhile()
        except Exception as error:  # noqa: BLE001 - whoever waits for the call is told
            self._outcome.set_exception(error)
        else:
            if answer is None:
                self._handle = self._later()
                return
            self._outcome.set_result(answer)
        self._leave()

    def stop(self) -> None:
        self._handle.cancel()
