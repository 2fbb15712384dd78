"""A task's results as a stream of frames, whichever messages they travel in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from ...proto.encoding import messages
from ...proto.tidegate.v1 import tasks_pb2 as pb
from ...proto.values import MIB, Barrier, Blocked, Finished, Frame, after
from ..calls.long_polls import Waiting
from .joined_batches import joined

ANSWER_BYTES: Final = 2 * MIB  # of rows in one answer, unless the client says otherwise
UNCOPIED_BYTES: Final = 8 * MIB  # the same where rows are sent from where they are
MOST_ANSWER_BYTES: Final = 16 * MIB
LONGEST_WAIT: Final = 300.0


class Following:
    """How far a stream is: frames until the task has finished, or with `ready` until a BARRIER or BLOCKED."""

    def __init__(self, request: pb.ResultsRequest, usual_bytes: int = ANSWER_BYTES) -> None:
        self.task = request.task
        self.cursor = messages.cursor_value(getattr(request, "from"))
        self.max_bytes = answer_bytes(request, usual_bytes)
        self._ready = request.ready
        self._said: Frame | None = None

    @property
    def wait(self) -> float:
        """How long there may be nothing new: BLOCKED is said once, then waited out."""
        return LONGEST_WAIT if isinstance(self._said, Blocked) else 0.0

    @property
    def ended(self) -> bool:
        return isinstance(self._said, Finished) or (self._ready and isinstance(self._said, Barrier | Blocked))

    def take(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """What there is to say of frames that were read at the cursor, which is then behind them."""
        if list(frames) == [self._said]:
            return ()
        for self._said in frames:
            self.cursor = after(self._said, self.cursor)
        return joined(frames)


async def results(waiting: Waiting, request: pb.ResultsRequest) -> AsyncGenerator[Sequence[Frame]]:
    """What `Results` answers."""
    following = Following(request)
    while not following.ended:
        frames = await waiting.frames(
            following.task, following.cursor, acknowledge=None, max_bytes=following.max_bytes, wait=following.wait
        )
        if told := following.take(frames):
            yield told


def answer_bytes(request: pb.NextRequest | pb.ResultsRequest | pb.Read, usual: int = ANSWER_BYTES) -> int:
    """How many bytes of rows one answer may have."""
    return min(request.max_bytes, MOST_ANSWER_BYTES) if request.HasField("max_bytes") else usual
