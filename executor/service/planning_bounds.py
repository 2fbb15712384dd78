"""Bounds the work of planning: by its time, and by whether its caller still waits.

Limits on what a plan has bound the plans that were thought of. The time bounds the others, too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ...operators.core.interrupts import Watch, current, looking
from ...planner.decode.encoding.limits import REASON
from ...proto.current_call import caller_has_left
from ...proto.errors import PlanError, Problem, Unavailable

MOST_SECONDS: Final = 30.0
"""Seconds of a core in which a plan is decoded, and as many in which it is prepared. A plan within the limits takes
about 10 s together on a core of today.
"""


@contextmanager
def bounded_time() -> Iterator[None]:
    """Raise `PlanError` in the work inside the context once this thread has computed for `MOST_SECONDS`."""
    around = current()
    begun, computed = time.monotonic(), time.thread_time()

    def look() -> None:
        if around is not None:
            around.look()
        if time.monotonic() - begun < MOST_SECONDS:  # less than a thread's own time costs to ask for
            return
        if time.thread_time() - computed > MOST_SECONDS:
            message = f"the plan takes more than {MOST_SECONDS:g} s to plan: split it into several plans"
            raise PlanError(Problem(place="", reason=REASON, message=message))

    with looking(Watch(look)):
        yield


def _look_for_caller() -> None:
    if caller_has_left():
        raise Unavailable("the caller has disconnected while its plan was planned")


def while_caller_waits() -> looking:
    """Raise `Unavailable` in the work inside the context once nobody waits for its answer."""
    return looking(Watch(_look_for_caller))
