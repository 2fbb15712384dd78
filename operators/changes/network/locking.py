"""The iteration-locking protocol, by which a loop finds out that a round, and in the end the loop, is quiet.

::

              reached                    came_back, marked
      OPEN ────────────► PREPARING ──────────────────────────► WAITING
       ▲                 │ ▲   ▲                                  │
       │ came_back:      │ │   └──────────────────────────────────┘
       │ quiet, and the  │ │     work: an input of the body has moved
       │ event was an    │ │
       │ outer prepare   │ └─ came_back: a round is due; it is released with the next prepare
       ◄─────────────────┤
       ▲                 │ came_back: quiet, and the event was the barrier
       │ passed          ▼
       └──────────── BARRIER

The protocol begins when an *event* has reached the loop's entry (or the dummy read in its place) on all channels. The
event is the barrier. In a nested loop each prepare of the loop around it is an event, too, once it has come on all
inputs. From then on, messages behind the event are held before the loop. A prepare goes into the body, and comes back
behind all messages that it could have met there. If the prepare is marked, an input of the body has not reached the
event: the prepare is sent again once an input has moved, and nothing is released. If rows have come back, or a change
in the body is due, the next prepare releases the earliest time of all of these. Otherwise the loop is quiet. The
barrier goes through the body, and leaves the loop behind the watermark; an outer prepare leaves the loop at once.
"""

from __future__ import annotations

import enum
from typing import Protocol

from ..values.change import Rounds
from .link_messages import Barrier, Event, Gathering, Prepare
from .schedule import Schedule


class Phase(enum.Enum):
    """The phase of the protocol; see the module's picture."""

    OPEN = "open"
    PREPARING = "preparing"
    WAITING = "waiting"
    BARRIER = "barrier"


class Locked(Protocol):
    """The calls that the protocol makes of its loop, for all channels at once."""

    def begin(self) -> None:
        """Begin: an event has reached the loop."""

    def next_time(self, due: Rounds | None, released: Rounds | None) -> Rounds | None:
        """The earliest time of all rows that came back and of all changes that the body has `due`; None if there are
        none up to the time that the loop around this one has `released`.
        """

    def hand_in(self, time: Rounds) -> Rounds:
        """Send the rows that came back for this time into the body, and return the time that the prepare behind them
        releases there.
        """

    def send(self, event: Event) -> None:
        """Send the event to all inputs of the body."""

    def quiet(self, event: Event) -> None:
        """Note that the fixpoint of all changes up to the event has been reached."""

    def pass_on(self, event: Event, due: Rounds | None) -> None:
        """Send the loop's rows and then the event to the loop's readers, and let held messages go on. The changes that
        the body has `due` are after the event.
        """


class Locking:
    """The protocol of one loop. The channels decide together: a prepare counts as back when it is back on each of
    them.

    `sent` counts prepares, `resent` those that were sent again only because an input was awaited.
    """

    def __init__(self, loop: Locked, channels: int, schedule: Schedule) -> None:
        self.phase = Phase.OPEN
        self.sent = 0
        self.resent = 0
        self._loop = loop
        self._schedule = schedule
        self._gathering = Gathering(channels)
        self._channels = channels
        self._passed = 0
        self._event: Event | None = None
        self._moved = False
        self._resending = False

    def holds(self) -> bool:
        """True where an input of the loop on which the event has come is held."""
        return True

    def marks(self, prepare: Prepare) -> bool:
        """True where an input of the body is still awaited."""
        return prepare.marked

    def reached(self, event: Event) -> None:
        """Begin the protocol: the event has reached the loop, on all channels."""
        assert self.phase is Phase.OPEN, "an event reached a loop that is locked"
        self._event = event
        self._moved = False
        self._loop.begin()
        self._prepare(None)

    def moved(self) -> None:
        """Note that an input of the body has reached the event. A waiting loop sends its prepare again now."""
        self._moved = True
        self._resend_if_waiting()

    def came_back(self, prepare: Prepare) -> None:
        """Take the prepare that has come back on one channel."""
        gathered = self._gathering.add(prepare)
        if gathered is None:
            return
        assert self._event is not None
        if self.marks(gathered):
            self.phase = Phase.WAITING
            self._resend_if_waiting()
            return
        released = () if isinstance(self._event, Barrier) else self._event.rounds
        time = self._loop.next_time(gathered.due, released)
        if time is not None:
            self._prepare(self._loop.hand_in(time))
            return
        self._loop.quiet(self._event)
        if isinstance(self._event, Barrier):
            self.phase = Phase.BARRIER
            self._loop.send(self._event)
        else:
            self._leave(gathered.due)

    def work(self) -> None:
        """Send the prepare again."""
        self._resending, self._moved = False, False
        self.resent += 1
        self._prepare(None)

    def passed(self) -> None:
        """Note that the barrier has passed through the body, on one channel."""
        self._passed += 1
        if self._passed == self._channels:
            self._passed = 0
            self._leave(None)

    def _prepare(self, rounds: Rounds | None) -> None:
        assert self._event is not None
        self.phase = Phase.PREPARING
        self.sent += 1
        self._loop.send(Prepare(self._event.epoch, rounds, self.sent))

    def _resend_if_waiting(self) -> None:
        if self.phase is Phase.WAITING and self._moved and not self._resending:
            self._resending = True
            self._schedule.add(self)

    def _leave(self, due: Rounds | None) -> None:
        event, self._event = self._event, None
        assert event is not None
        self.phase = Phase.OPEN
        self._loop.pass_on(event, due)
