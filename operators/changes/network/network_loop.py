"""A loop in a network: the ends at which rows enter its body, come back, and leave. One protocol governs all
channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import assert_never

import numpy as np

from ....proto.errors import ExecutionError
from ...core.operator import UNBOUNDED, least_watermark
from ..values.change import Change, Rounds
from .channel_nodes import Node, take_watermark
from .link_messages import Barrier, Event, Message, Prepare, Watermark, earliest
from .link_queues import Emitter, LinkQueue
from .locking import Locked, Locking
from .rounds_and_limits import LoopRounds
from .schedule import Schedule


class Inlet(Emitter):
    """One channel of an input of the body that no queue of the body leads to: the rows that came back, an input from
    outside, or the dummy read of a nested loop.
    """

    def send(self, event: Event) -> None:
        """Pass on an event that the loop sends into its body."""
        if type(event) is Prepare and event.rounds is not None:
            for queue in self.awaited:
                queue.push(event)
        else:
            self.tell(event)

    @cached_property
    def awaited(self) -> tuple[LinkQueue, ...]:
        """The queues that bring prepares which release a time."""
        return tuple(queue for outlet in self.outlets for queue in outlet.queues if not queue.quiet)


class Ingress(Inlet):
    """One channel of an input of the loop. An event has reached the channel when it has come on all its queues. Behind
    the event the queues are held.
    """

    def __init__(self, loop: LoopNode) -> None:
        super().__init__()
        self.queues: list[LinkQueue] = []
        self.reached = False
        self.marked = False
        self.due: Rounds | None = None
        self._loop = loop
        self._events = 0

    def take(self, queue: LinkQueue, message: Message) -> None:
        match message:
            case Change():
                self.receive(message)
            case Watermark(value):
                queue.watermark = value
            case Prepare(marked=marked, due=due):
                self.marked |= marked
                self.due = earliest(self.due, due)
                self._arrived(queue, message)
            case Barrier():
                self._arrived(queue, message)
            case _:
                assert_never(message)

    def receive(self, change: Change) -> None:
        """Take rows of an input. They exist from round 0 on."""
        if self._loop.counted:
            rounds = (*change.rounds, np.zeros(len(change), dtype=np.int64))
            change = Change(change.rows, change.weights, rounds, change.consolidated)
        self.emit(change)

    def send(self, event: Event) -> None:
        if isinstance(event, Prepare) and not self.reached:
            event = event.as_marked()
        super().send(event)

    def open(self) -> None:
        """Let messages behind the event come: it has left the loop."""
        self.reached, self.marked, self.due = False, False, None
        for queue in self.queues:
            queue.release()

    def on_event(self, event: Event) -> None:
        """Act on the event, which has come on all queues."""
        self._loop.moved(event)

    def _arrived(self, queue: LinkQueue, event: Event) -> None:
        queue.held = self._loop.locking.holds()
        self._events += 1
        if self._events == len(self.queues):
            self._events = 0
            self.reached = True
            self.on_event(event)


class Entering(Ingress):
    """One channel of the rows that enter the loop (input 1), or of the dummy read in their place. The loop learns of an
    event here.
    """

    def __init__(self, loop: LoopNode, channel: int) -> None:
        super().__init__(loop)
        self._channel = channel

    def receive(self, change: Change) -> None:
        self._loop.progress.enter(self._channel, change)

    def on_event(self, event: Event) -> None:
        self._loop.entered(event)


class Return(Node):
    """One channel of the body's answer, at its arrival in the loop."""

    def __init__(self, loop: LoopNode, channel: int) -> None:
        super().__init__()
        self._loop = loop
        self._channel = channel

    def receive(self, _port: int, change: Change) -> None:
        self._loop.progress.come_back(self._channel, change)

    def prepared(self, prepare: Prepare) -> None:
        self._loop.locking.came_back(prepare)

    def at_barrier(self, _barrier: Barrier) -> None:
        self.release()
        self._loop.locking.passed()


class LoopNode(Locked):
    """The node of a loop, for all channels."""

    def __init__(
        self,
        progress: LoopRounds,
        *,
        counted: bool,
        plan_path: str,
        channels: int,
        schedule: Schedule,
        locking: Callable[[Locked, int, Schedule], Locking],
    ) -> None:
        self.progress = progress
        self.counted = counted
        self.plan_path = plan_path
        self.locking = locking(self, channels, schedule)
        self.backs = [Inlet() for _ in range(channels)]
        self.returns = [Return(self, channel) for channel in range(channels)]
        self.entering = [Entering(self, channel) for channel in range(channels)]
        self.inputs: dict[int, list[Ingress]] = {}
        """The body's entries that its answer needs, by port."""
        self.dummies: list[Inlet] = []
        self.outputs = [Emitter() for _ in range(channels)]
        self.quiesce_seconds = 0.0
        self._entered = 0
        self._since = 0.0

    @property
    def ingresses(self) -> list[Ingress]:
        return [ingress for channels in self.inputs.values() for ingress in channels]

    @property
    def ends(self) -> Sequence[Emitter]:
        """The emitters that put rows into the body, and those by which the loop's rows leave."""
        return (*self.backs, *self.ingresses, *self.outputs)

    def entered(self, event: Event) -> None:
        """Note that an event has reached the loop's entry on one channel.

        The loop is a merge point of the prepares of the loop around it: such a prepare has arrived when it has come on
        all inputs. The barrier may take long on some inputs, so the loop learns of it at its entry.
        """
        self._entered += 1
        inputs = len(self.entering) + (len(self.ingresses) if isinstance(event, Prepare) else 0)
        if self._entered == inputs:
            self._entered = 0
            self.locking.reached(event)

    def moved(self, event: Event) -> None:
        """Note that an event has reached another input of the loop on one channel."""
        if isinstance(event, Prepare):
            self.entered(event)
        else:
            self.locking.moved()

    def overflow(self, error: OverflowError) -> ExecutionError:
        return self.progress.overflow(error)

    def check_time(self) -> None:
        self.progress.check_time()

    def begin(self) -> None:
        self._since = perf_counter()
        self.progress.begin()

    def next_time(self, due: Rounds | None, released: Rounds | None) -> Rounds | None:
        if released is None:
            return None
        time = self.progress.next_time(due)
        return time if time is not None and time[: len(released)] <= released else None

    def hand_in(self, time: Rounds) -> Rounds:
        for back, change in zip(self.backs, self.progress.hand_in(time), strict=True):
            if change is not None:
                back.emit(change)
        return time if self.counted else time[:-1]

    def send(self, event: Event) -> None:
        releases = type(event) is Prepare and event.rounds is not None
        if type(event) is Barrier:
            self._send_watermarks()
        for inlet in self._awaited if releases else self._inlets:
            inlet.send(event)

    def _send_watermarks(self) -> None:
        """Send the watermarks into the body, in front of the barrier. An input has its own; the rows that came back
        have the least of all.
        """
        whole = least_watermark(
            queue.watermark for source in (*self.ingresses, *self.entering) for queue in source.queues
        )
        of = [(ingress, least_watermark(queue.watermark for queue in ingress.queues)) for ingress in self.ingresses]
        for inlet, watermark in (*((back, whole) for back in self.backs), *of):
            if watermark is not None:
                inlet.tell(Watermark(watermark))
        for dummy in self.dummies:
            dummy.tell(Watermark(UNBOUNDED))

    @cached_property
    def _inlets(self) -> tuple[Inlet, ...]:
        return (*self.backs, *self.ingresses, *self.dummies)

    @cached_property
    def _awaited(self) -> tuple[Inlet, ...]:
        return tuple(inlet for inlet in self._inlets if inlet.awaited)

    def quiet(self, event: Event) -> None:
        self.progress.settle(() if isinstance(event, Barrier) else event.rounds)
        self.quiesce_seconds += perf_counter() - self._since

    def pass_on(self, event: Event, due: Rounds | None) -> None:
        for output, change in zip(self.outputs, self.progress.take_changed(), strict=True):
            if change is not None:
                output.emit(change)
        inputs: Sequence[Ingress] = (*self.ingresses, *self.entering)
        watermark = take_watermark(queue for ingress in inputs for queue in ingress.queues)
        if isinstance(event, Prepare):
            event = self._merged(event, due, inputs)
        for output in self.outputs:
            if watermark is not None:
                output.tell(Watermark(watermark))
            output.tell(event)
        for ingress in inputs:
            ingress.open()

    def _merged(self, event: Prepare, due: Rounds | None, inputs: Sequence[Ingress]) -> Prepare:
        """The prepare of the outer loop as it goes on: with its findings from before this loop and from inside."""
        time = self.progress.next_time(due)
        least = None if time is None else time[:-1]
        marked = event.marked
        for ingress in inputs:
            marked |= ingress.marked
            least = earliest(least, ingress.due)
        return replace(event, marked=marked, due=least)
