"""A task's results as a stream of frames, for gRPC and for Flight."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from ...proto.encoding import messages
from ...proto.tidegate.v1 import tasks_pb2 as pb
from ...proto.values import MIB, Barrier, Blocked, Finished, Frame, after
from ..calls.long_polls import Waiting
from .joined_batches import joined

ANSWER_BYTES: Final = 2 * MIB  # of rows in one answer, unless the client says otherwise
UNCOPIED_BYTES: Final = 8 * MIB  # the same for answers that copy no rows
MOST_ANSWER_BYTES: Final = 16 * MIB
LONGEST_WAIT: Final = 300.0


class Following:
    """The position of a stream. It ends when the task has finished, or with `ready` at a BARRIER or BLOCKED."""

    def __init__(self, request: pb.ResultsRequest, usual_bytes: int = ANSWER_BYTES) -> None:
        self.task = request.task
        self.cursor = messages.cursor_value(getattr(request, "from"))
        self.max_bytes = answer_bytes(request, usual_bytes)
        self._ready = request.ready
        self._said: Frame | None = None

    @property
    def wait(self) -> float:
        """Seconds to wait for something new. The stream sends BLOCKED once, then waits."""
        return LONGEST_WAIT if isinstance(self._said, Blocked) else 0.0

    @property
    def ended(self) -> bool:
        return isinstance(self._said, Finished) or (self._ready and isinstance(self._said, Barrier | Blocked))

    def take(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """The frames to send, of those that were read at the cursor. Moves the cursor behind them."""
        if list(frames) == [self._said]:
            return ()
        for self._said in frames:
            self.cursor = after(self._said, self.cursor)
        return joined(frames)


async def results(waiting: Waiting, request: pb.ResultsRequest) -> AsyncGenerator[Sequence[Frame]]:
    """The frames of a `Results` stream."""
    following = Following(request)
    while not following.ended:
        frames = await waiting.frames(
            following.task, following.cursor, acknowledge=None, max_bytes=following.max_bytes, wait=following.wait
        )
        if message := following.take(frames):
            yield message


def answer_bytes(request: pb.NextRequest | pb.ResultsRequest | pb.Read, usual: int = ANSWER_BYTES) -> int:
    """The bytes of rows that one answer may have."""
    return min(request.max_bytes, MOST_ANSWER_BYTES) if request.HasField("max_bytes") else usual
