"""Threads for each kind of call, so that slow calls delay only calls of their own kind."""

from __future__ import annotations

import time
from typing import Final

from ..calls.call_threads import Threads
from .settings import Settings

_CONTROL: Final = 4
_UPLOADS: Final = 4
_READING: Final = 2


class Pools:
    """The threads of a server, by the kind of call.

    | Pool | Its calls |
    |---|---|
    | `control` | look at a task, seal, cancel, delete; none of them waits for data or work |
    | `planning` | read plans; while they wait for folders and files, others have their places |
    | `feeding` | take rows; lent to tasks with short epochs |
    | `listing` | take files, which may be slow: others have their places meanwhile; lent to tasks with short epochs |
    | `uploads` | write clients' bytes to files |
    | `reading` | make messages of large requests |
    """

    def __init__(self, settings: Settings) -> None:
        self.control = Threads(_CONTROL, "tidegate-control")
        self.planning = Threads(settings.planning_calls, "tidegate-plan", gives_places=True)
        self.feeding = Threads(settings.feeding_calls, "tidegate-feed")
        self.listing = Threads(settings.feeding_calls, "tidegate-list", gives_places=True)
        self.uploads = Threads(_UPLOADS, "tidegate-upload")
        self.reading = Threads(_READING, "tidegate-read")

    def close(self, seconds: float) -> bool:
        """Wait for the calls in progress. False if some go on after these seconds."""
        deadline = time.monotonic() + seconds
        ended = [
            threads.close(seconds=max(0.0, deadline - time.monotonic()))
            for threads in (self.control, self.planning, self.feeding, self.listing, self.uploads, self.reading)
        ]
        return all(ended)
