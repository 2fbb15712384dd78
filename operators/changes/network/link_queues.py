"""The queues of a link: one from each channel of its source to each channel of its target that it can reach."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from time import perf_counter
from typing import Final, Protocol

import numpy as np

from ...arrays.hashing import channel_of
from ..values.change import Change
from .link_messages import Message
from .network_graph import ByKey, Route
from .schedule import Schedule

BOUND: Final = 1 << 18
"""The rows in a queue beyond which its source counts as held up by backpressure."""

WEIGHED_BYTES: Final = 4 << 20
"""The bytes of texts and lists that pass through a queue between two looks at its size: few rows may be large."""


class Target(Protocol):
    """The end of a queue."""

    def take(self, queue: LinkQueue, message: Message) -> None: ...


class LinkQueue:
    """A queue of messages in the order of their sending. While the queue is `held`, messages wait in it. `port` is the
    target's input. A `quiet` queue leads from an input of the loop to a target of other queues, and brings no prepare
    that releases a time.
    """

    __slots__ = (
        "_over_since",
        "_queue",
        "_queued",
        "_rows",
        "_schedule",
        "_source",
        "_target",
        "_unweighed",
        "held",
        "port",
        "quiet",
        "watermark",
    )

    def __init__(self, source: Emitter, target: Target, port: int, schedule: Schedule) -> None:
        self._source = source
        self._target = target
        self._schedule = schedule
        self._queue: deque[Message] = deque()
        self._queued = False
        self._rows = 0
        self._unweighed = 0
        self._over_since = 0.0
        self.port = port
        self.held = False
        self.quiet = False
        self.watermark: int | None = None

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def nbytes(self) -> int:
        """About the bytes that wait in the queue."""
        first = next((message for message in self._queue if type(message) is Change), None) if self._rows else None
        return self._rows * first.nbytes // len(first) if first is not None else 0

    def push(self, message: Message) -> None:
        self._queue.append(message)
        if not self._queued and not self.held:
            self._queued = True
            self._schedule.add(self)
        if type(message) is Change:
            self._rows += message.rows.count
            if self._rows > BOUND:
                if not self._over_since:
                    self._over_since = perf_counter()
                self._schedule.pressed()
            self._unweighed += message.rows.long_bytes
            if self._unweighed > WEIGHED_BYTES:
                self._unweighed = 0
                self._schedule.pressed()

    def work(self) -> None:
        """Deliver the next message; all messages, if the schedule wants that."""
        self._queued = False
        queue, whole = self._queue, self._schedule.whole
        while queue and not self.held:
            message = queue.popleft()
            if type(message) is Change:
                if whole and queue and type(queue[0]) is Change:
                    message = self._together(message)
                self._rows -= message.rows.count
                if self._over_since and self._rows <= BOUND:
                    self._source.pressed_seconds += perf_counter() - self._over_since
                    self._over_since = 0.0
            self._target.take(self, message)
            if not whole:
                self._enqueue()
                return

    def release(self) -> None:
        """Let the waiting messages be delivered."""
        self.held = False
        self._enqueue()

    def _enqueue(self) -> None:
        if self._queue and not self._queued and not self.held:
            self._queued = True
            self._schedule.add(self)

    def _together(self, first: Change) -> Change:
        """The changes at the queue's head as one change."""
        parts, rows = [first], len(first)
        while self._queue and rows < BOUND and isinstance(part := self._queue[0], Change):
            self._queue.popleft()
            parts.append(part)
            rows += len(part)
        return Change.concat(parts)


class Outlet:
    """One channel's end of a link: its queues, by the channel that each leads to, or the only queue."""

    __slots__ = ("_by", "queues")

    def __init__(self, route: Route, queues: Sequence[LinkQueue]) -> None:
        self.queues = tuple(queues)
        self._by = route.columns if isinstance(route, ByKey) and len(queues) > 1 else None

    def send(self, change: Change) -> None:
        if self._by is not None:
            self._deal(change, self._by)
            return
        for queue in self.queues:
            queue.push(change)

    def tell(self, message: Message) -> None:
        """Send a message to all channels."""
        for queue in self.queues:
            queue.push(message)

    def _deal(self, change: Change, columns: tuple[int, ...]) -> None:
        if not columns:
            self.queues[0].push(change)
            return
        channels = channel_of(change.rows.select(columns).hashes(), len(self.queues))
        for channel in np.unique(channels).tolist():
            rows = np.flatnonzero(channels == channel)
            self.queues[channel].push(change if len(rows) == len(change) else change.take(rows))


class Emitter:
    """One channel's instance of a vertex, as its readers see it."""

    def __init__(self) -> None:
        self.outlets: list[Outlet] = []
        self.pressed_seconds = 0.0

    def emit(self, change: Change) -> None:
        if change.rows.count:
            for outlet in self.outlets:
                outlet.send(change)

    def tell(self, message: Message) -> None:
        for outlet in self.outlets:
            outlet.tell(message)


def connect(
    sources: Sequence[Emitter], route: Route, targets: Sequence[Target], port: int, schedule: Schedule
) -> list[list[LinkQueue]]:
    """Link all channels of a vertex to all channels of another one, and return the new queues of each target."""
    incoming: list[list[LinkQueue]] = [[] for _ in targets]
    across = route is not None and len(targets) > 1
    for channel, source in enumerate(sources):
        reached = range(len(targets)) if across else (channel,)
        queues = [LinkQueue(source, targets[to], port, schedule) for to in reached]
        for to, queue in zip(reached, queues, strict=True):
            incoming[to].append(queue)
        source.outlets.append(Outlet(route if across else None, queues))
    return incoming
