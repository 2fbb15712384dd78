"""Work that a signal does not cut in two. Between any two steps of the main thread, Python raises `KeyboardInterrupt`
for Ctrl-C, and what the handlers of other signals raise: mostly `SystemExit` for SIGTERM.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from multiprocessing import parent_process
from multiprocessing.util import Finalize
from typing import Final

LEFT_SECONDS: Final = 5.0
"""The time that the work has after a signal, until its caller goes on without it: the server may be away."""


def uninterrupted(work: Callable[[], None]) -> None:
    """Do the work, and return or raise as it does. A signal ends the wait for the work, and not the work itself.

    Only the main thread gets signals. Once the interpreter ends, no thread begins, and the caller does the work itself.
    """
    if sys.is_finalizing() or threading.current_thread() is not threading.main_thread():
        work()
        return
    done: Future[None] = Future()
    thread = threading.Thread(target=partial(_complete, work, done), name="tidegate-training-task", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter is about to end
        work()
        return
    except BaseException:  # of a signal, maybe after the thread has begun
        if thread.is_alive():
            wait([done], LEFT_SECONDS)
        raise
    try:
        done.result()
    except BaseException:  # of a signal, or of the work, which then is done
        wait([done], LEFT_SECONDS)
        raise
    finally:
        del done  # an error that it has would have it, too


def at_its_end(owner: object, work: Callable[[], None]) -> None:
    """Do the work when Python collects the owner, or when the process ends."""
    weakref.finalize(owner, work)
    if parent_process() is not None:  # a process of a fork server ends without finalizers of the other kind
        Finalize(owner, work, exitpriority=0)


def _complete(work: Callable[[], None], done: Future[None]) -> None:
    try:
        work()
    except BaseException as error:  # noqa: BLE001 - it is raised where the work is waited for
        done.set_exception(error)
    else:
        done.set_result(None)
