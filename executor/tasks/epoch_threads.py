"""Gets a task's epoch loop a thread: one of the scheduler's, or that of a caller who waits for the task anyway."""

from __future__ import annotations

from typing import Final

from ...proto.errors import Refused
from ..api.computation import Computation
from ..checkpoints.taking import Checkpoints
from ..runtime.scheduler import Scheduler, Slot
from .epoch_loop import EpochLoop
from .task_state import TaskState

ANY_TIME: Final = 3600.0
_LEND_BELOW_US: Final = 50_000


class EpochThreads:
    """Runs the epochs of a task of `principal` on threads, in a loop of its own."""

    def __init__(
        self,
        task_state: TaskState,
        computation: Computation,
        checkpoints: Checkpoints | None,
        scheduler: Scheduler,
        principal: str,
        task: str,
    ) -> None:
        self._task_state = task_state
        self._loop = EpochLoop(task_state, computation, checkpoints, self.submit)
        self._slot = Slot(self._loop, principal, task)
        self._scheduler = scheduler

    def has_work(self) -> bool:
        """True if something is running or can run now. Called under the task's lock."""
        return self._loop.has_work()

    def submit(self) -> None:
        """Have the loop stepped, whether or not it has work."""
        self._scheduler.submit(self._slot)

    def may_run(self, *, wake: bool = True) -> None:
        """Have the loop stepped if it has work. Called under the task's lock.

        Without `wake` the caller calls `lend_if_short` or `wake` afterwards.
        """
        if self._task_state.full is None and self._loop.has_work():
            self._scheduler.submit(self._slot, wake=wake)

    def wake(self) -> None:
        """Find threads for what was submitted without one."""
        self._scheduler.wake()

    def go_on(self) -> None:
        """Let the producer go on: there is room again, or it need not wait any more. Called under the task's lock."""
        self._task_state.full = None
        self.submit()

    # -------------------------------------------------------------------------------------------- waiting callers

    def check_may_wait(self) -> None:
        """Raise `Refused` on a thread of the service, which must not wait for another one."""
        if self._scheduler.stepping:
            raise Refused(
                "the code of a node waits for a task of the same service, which could block all threads of the "
                "service: give the node its input as a stream, or run that task in another service "
                "(tidegate.local())",
                reason="WAIT_INSIDE",
            )

    def may_lend(self, seconds: float) -> bool:
        """True if a caller who waits for at most `seconds` should run the task itself.

        For short epochs, handing them to another thread costs more.
        """
        last_us = self._task_state.last_epoch_us
        return self._slot.waiting and last_us is not None and last_us < min(_LEND_BELOW_US, seconds * 1e6)

    def lend(self) -> None:
        """Run a slice of the task on the calling thread, if the task waits for a thread."""
        self._scheduler.lend(self._slot)

    def lend_if_short(self) -> None:
        """Run a slice of the task on the calling thread if its epochs are short, else find it a thread."""
        if self.may_lend(ANY_TIME):
            self.lend()
        if self._slot.waiting:
            self.wake()

    # ---------------------------------------------------------------------------------------------------- ending

    @property
    def closed(self) -> bool:
        return self._loop.closed

    def close_soon(self) -> bool:
        """Have the loop of an ended task close: at once, on this thread, if no other thread is running it.

        False if another thread is, which has to be interrupted.
        """
        if self._loop.closed:
            return True
        self.submit()
        return self._scheduler.lend(self._slot)

    def close(self) -> None:
        """Close the loop, after the scheduler was closed."""
        self._loop.close()
