"""A task's results as a stream of frames, whichever messages they travel in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from ..proto import messages
from ..proto.tidegate.v1 import tasks_pb2 as pb
from ..proto.values import MIB, Barrier, Blocked, Finished, Frame, after
from .joining import joined
from .waiting import Waiting

ANSWER_BYTES: Final = 2 * MIB  # of rows in one answer, unless the client says otherwise
MOST_ANSWER_BYTES: Final = 16 * MIB
LONGEST_WAIT: Final = 300.0


async def results(waiting: Waiting, request: pb.ResultsRequest) -> AsyncGenerator[Sequence[Frame]]:
    """What `Results` answers: frames until the task has finished, or with `ready` until a BARRIER or BLOCKED."""
    cursor = messages.cursor_value(getattr(request, "from"))
    max_bytes = answer_bytes(request)
    said: Frame | None = None
    while not isinstance(said, Finished):
        # BLOCKED is said once, then waited out.
        wait = LONGEST_WAIT if isinstance(said, Blocked) else 0.0
        frames = await waiting.frames(request.task, cursor, acknowledge=None, max_bytes=max_bytes, wait=wait)
        if list(frames) == [said]:
            continue
        yield joined(frames)
        for said in frames:
            cursor = after(said, cursor)
        if request.ready and isinstance(said, Barrier | Blocked):
            return


def answer_bytes(request: pb.NextRequest | pb.ResultsRequest | pb.Read) -> int:
    """How many bytes of rows one answer may have."""
    return min(request.max_bytes, MOST_ANSWER_BYTES) if request.HasField("max_bytes") else ANSWER_BYTES
