"""Reads the rest of a large epoch as a stream: the server sends rows before `next` asks for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import grpc
import pyarrow as pa

from ..proto.encoding import messages
from ..proto.tidegate.v1 import tasks_pb2 as pb
from ..proto.values import Blocked, Cursor, Data, Frame, after
from .channel import Channel
from .result_streams import BrokenError, Streams

ACKNOWLEDGE = "/tidegate.v1.TaskService/Acknowledge"


class ReadAhead:
    """A stream of results that follows `frames`. It is `done` at the epoch's barrier, and after any error.

    The server ends the stream; `close` is for a reader that stops earlier. gRPC keeps a little memory of each cancelled
    call (of those read by one thread, see `Channel`) until the channel is closed, so streams are not cancelled at every
    barrier.
    """

    def __init__(
        self, channel: Channel, streams: Streams, task: str, schema: pa.Schema, frames: Sequence[Frame]
    ) -> None:
        self._channel = channel
        self._task = task
        self._cursor = after(frames[-1], Cursor(0, 0))
        self._unsaid: Cursor | None = None
        self._saying: grpc.Future[bytes] | None = None
        self.done = False
        request = pb.ResultsRequest(task=task, ready=True)
        getattr(request, "from").CopyFrom(messages.cursor_message(self._cursor))
        self._stream = streams.open(request, schema)

    @staticmethod
    def worthwhile(frames: Sequence[Frame]) -> bool:
        """True if an answer ended because it was full: there are more rows."""
        return bool(frames) and isinstance(frames[-1], Data)

    def take(self, cursor: Cursor, acknowledge: Cursor | None) -> Sequence[Frame]:
        """The next frames, if they are those at `cursor`; nothing if they have to be asked for after all."""
        if cursor != self._cursor or cursor.run != self._cursor.run:
            self.close()
            return ()
        self._acknowledge(acknowledge)
        try:
            frames = next(self._stream)
        except (BrokenError, StopIteration):
            self.done = True  # asking for the frames says why, or gets through again
            return ()
        if isinstance(frames[-1], Blocked):
            self.end()
            return frames[:-1]
        self._cursor = after(frames[-1], self._cursor)
        if not self.worthwhile(frames):
            self._acknowledge(None, last=True)
            self.end()
        return frames

    def _acknowledge(self, cursor: Cursor | None, *, last: bool = False) -> None:
        """Acknowledge without waiting. While one acknowledgement is on its way, the newest cursor is kept for later."""
        self._unsaid = self.unsaid(cursor)
        if self._unsaid is not None and (last or self._saying is None or self._saying.done()):
            request = pb.AcknowledgeRequest(task=self._task, cursor=messages.cursor_message(self._unsaid))
            self._saying = self._channel.post(ACKNOWLEDGE, request)
            self._unsaid = None

    def unsaid(self, cursor: Cursor | None) -> Cursor | None:
        """The newest cursor among `cursor` and those that have not been acknowledged yet."""
        return max((known for known in (cursor, self._unsaid) if known is not None), default=None)

    def end(self) -> None:
        """Take the rest of the stream. The server has ended it, or is about to."""
        self.done = True
        with suppress(BrokenError):
            deque(self._stream, maxlen=0)

    def close(self) -> None:
        """Stop the server where it is."""
        if not self.done:
            self.done = True
            self._stream.cancel()
