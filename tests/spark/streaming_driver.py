"""A driver that streams a folder into a task, and kills itself in the middle: `streaming_driver.py FOLDER ADDRESS TASK
POINT BATCH`, where POINT is before or after the batch's transaction.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import tidegate
from tidegate.task import Task

from ..sparks import start
from .driving import drive

FOLDER, ADDRESS, TASK, POINT, BATCH = sys.argv[1:]
transact = Task.transact


def killed(self: Task, application: str, version: int, *args: Any, **kwargs: Any) -> tidegate.Transacted:
    if POINT == "before" and version == int(BATCH):
        os.kill(os.getpid(), signal.SIGKILL)
    done = transact(self, application, version, *args, **kwargs)
    if POINT == "after" and version == int(BATCH):
        os.kill(os.getpid(), signal.SIGKILL)
    return done


Task.transact = killed  # type: ignore[method-assign]
drive(start("local[1]", Path(FOLDER) / POINT), Path(FOLDER), ADDRESS, TASK)
