"""Decides which thread runs which channel in an epoch of several channels; the rows do not depend on the threads.

Each channel of each pipeline has a `Driver`: a generator that takes one step (about a block) each time it is resumed.
It pulls what it needs from the exchanges that it reads, and pushes its rows into the exchanges that it feeds. Drivers
are advanced in two ways:

- *On demand*: a thread that waits for a slice advances the driver that it waits for, unless another thread is running
  that driver. Then the thread advances another driver upstream, if that is of use, or waits.
- *Ahead*: a few threads of the scheduler help. They take the driver nearest to the result that can go on, so that rows
  are consumed rather than piled up, and rest while an exchange is crowded.

A thread only waits for drivers upstream of those that it is running, in a graph without circles. So one thread can run
any plan, and no number of threads can deadlock. The rows of a driver do not depend on which thread advances it, or
when.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Sequence

from ...operators.core.interrupts import Watch, current, looking
from ...proto.errors import ExecutionError, TidegateError
from ..runtime.scheduler import Scheduler, Slot
from .exchange import Exchange, Meanwhile

_log = logging.getLogger(__name__)
_INTERRUPT_AGAIN_SECONDS = 0.05


class Driver:
    """One channel of one pipeline in one epoch.

    `steps` reports its errors to the exchanges that it feeds and raises none. `inlets` are the exchanges that it reads,
    each with its number as consumer; `outlets` are those it feeds, each with its number as producer. `above` are all
    drivers that it may have to wait for, nearest first.
    """

    def __init__(
        self,
        steps: Generator[None],
        *,
        inlets: Sequence[tuple[Exchange, int]],
        outlets: Sequence[tuple[Exchange, int]],
        above: Sequence[Driver],
        interrupt: Callable[[], None],
    ) -> None:
        self.steps = steps
        self.inlets = tuple(inlets)
        self.outlets = tuple(outlets)
        self.above = tuple(above)
        self.interrupt = interrupt
        self.busy = False
        self.done = False

    @property
    def wanted(self) -> bool:
        return any(exchange.wanted(producer) for exchange, producer in self.outlets)

    @property
    def worthwhile(self) -> bool:
        """True if the driver should be advanced before a thread waits for it.

        One without readers should, to be closed.
        """
        return not self.wanted or not any(exchange.crowded for exchange, _ in self.outlets)


class EpochScheduler:
    """Runs the drivers of an epoch.

    The caller adds every driver after those above it with `add`, then calls `start`, reads the result, and calls
    `close`.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        starter = current()
        self._starter = starter
        self._watch = Watch(self._look, None if starter is None else starter.start)
        self._lock = threading.RLock()
        self._step_ended = threading.Condition(self._lock)
        self._runs: list[Driver] = []
        self._resting: list[Slot] = []
        self._closed = False

    def add(self, run: Driver) -> None:
        self._runs.append(run)

    def lender(self, producers: Sequence[Driver], above: Sequence[Driver]) -> Meanwhile:
        """A function that lends a waiting thread to the producers of an exchange.

        It advances the driver that the thread waits for, or else any other in `above`.
        """

        def lend(awaited: int) -> bool:
            if self._claim(producers[awaited]):
                self.advance(producers[awaited])
                return True
            for run in above:
                if self._claim(run, ahead=True):
                    self.advance(run)
                    return True
            return False

        return lend

    def start(self) -> None:
        """Ask the scheduler's threads for help."""
        for _ in range(min(self._scheduler.helpers, len(self._runs) - 1)):
            self._scheduler.submit(_Helper(self).slot)

    def offer(self) -> None:
        """Wake a resting helper if there is a driver to advance ahead."""
        with self._lock:
            if self._closed or not self._resting or self._ahead() is None:
                return
            slot = self._resting.pop()
        self._scheduler.submit(slot)

    def close(self) -> None:
        """Stop the drivers that other threads are running, then close all.

        Called by the thread that reads the result.
        """
        with self._lock:
            self._closed = True
            self._resting.clear()
        self._cancel()
        while True:
            with self._lock:
                busy = [run for run in self._runs if run.busy]
            if not busy:
                break
            for run in busy:
                run.interrupt()
            with self._lock:
                if any(run.busy for run in busy):  # an interrupt just before a statement starts is lost: repeat
                    self._step_ended.wait(_INTERRUPT_AGAIN_SECONDS)
        for run in reversed(self._runs):
            _close(run)
        self._runs.clear()  # else drivers, exchanges and this object refer to each other

    def take(self, helper: Slot) -> Driver | None:
        """A driver to advance ahead, marked as busy. Without one the helper rests, and the answer is None."""
        with self._lock:
            if self._closed:
                return None
            run = self._ahead()
            if run is None:
                self._resting.append(helper)
            else:
                run.busy = True
            return run

    def advance(self, run: Driver) -> None:
        """Run one step of a driver that is busy for the calling thread."""
        ended = True
        try:
            if run.wanted:
                with looking(self._watch):
                    ended = next(run.steps, run) is run
            else:
                _close(run)
        finally:
            if ended:
                for exchange, consumer in run.inlets:
                    exchange.close(consumer)
            with self._lock:
                run.busy, run.done = False, ended
                if self._closed:
                    self._step_ended.notify_all()
            for exchange, _ in run.outlets:
                exchange.wake()
            self.offer()

    # ---------------------------------------------------------------------------------------------------- inside

    def _ahead(self) -> Driver | None:
        """The driver nearest to the result that is worth advancing ahead. Called under the lock."""
        for run in reversed(self._runs):
            if not run.busy and not run.done and run.worthwhile:
                return run
        return None

    def _claim(self, run: Driver, *, ahead: bool = False) -> bool:
        with self._lock:
            if self._closed or run.busy or run.done or (ahead and not run.worthwhile):
                return False
            run.busy = True
            return True

    def _look(self) -> None:
        """Raise if the scheduler is ending, or if the watch of the thread that started it says so.

        Called during steps.
        """
        if self._closed:
            raise ExecutionError("the epoch has ended", reason="INTERRUPTED")
        if self._starter is not None:
            self._starter.look()

    def _cancel(self) -> None:
        error = ExecutionError("the epoch has ended", reason="INTERRUPTED")
        for run in self._runs:
            for exchange, _ in run.outlets:
                exchange.cancel(error)


class _Helper:
    """The work of a thread that helps a scheduler."""

    def __init__(self, scheduler: EpochScheduler) -> None:
        self.slot = Slot(self)
        self._scheduler = scheduler

    def step(self, until_ns: int) -> bool:
        while (run := self._scheduler.take(self.slot)) is not None:
            self._scheduler.advance(run)
            if time.monotonic_ns() > until_ns:
                return True
        return False


def _close(run: Driver) -> None:
    """Close a driver. An error from here on is logged only, because no row depends on it any more."""
    run.done = True
    try:
        run.steps.close()
    except TidegateError:
        _log.debug("closing a channel failed", exc_info=True)
    except Exception:  # noqa: BLE001
        _log.exception("a bug in Tidegate: closing a channel failed")
