"""Something is idle once nobody has used it for long, has it in use, or watches it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from tidegate.executor.runtime.idle_timer import IdleTimer

LONG, SHORT = 3600.0, 1e-9


@dataclass
class Timer:
    calls: list[Timer]
    call: Callable[[], None]

    def cancel(self) -> None:
        self.calls.remove(self)


@dataclass
class Watched:
    """An idle timer whose timed calls are made by hand."""

    seconds: float
    watchers: int = 0
    ends: int = 0
    calls: list[Timer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.timer = IdleTimer(self.seconds, self.call_later, self.idle, watched=lambda: self.watchers > 0)

    def call_later(self, _: float, call: Callable[[], None]) -> Timer:
        self.calls.append(Timer(self.calls, call))
        return self.calls[-1]

    def idle(self) -> None:
        self.ends += 1

    def look(self) -> None:
        self.calls.pop().call()


def test_something_that_was_used_lately_is_not_idle() -> None:
    thing = Watched(LONG)
    thing.timer.used()
    for _ in range(3):
        thing.look()
    assert thing.ends == 0
    assert len(thing.calls) == 1, "it looks again"


def test_any_number_of_uses_takes_one_timed_call() -> None:
    thing = Watched(LONG)
    for _ in range(5):
        thing.timer.used()
    assert len(thing.calls) == 1


def test_something_that_is_not_used_is_idle_once_until_it_is_used_again() -> None:
    thing = Watched(SHORT)
    thing.timer.used()
    thing.look()
    assert (thing.ends, thing.calls) == (1, [])
    thing.timer.used()
    thing.look()
    assert (thing.ends, thing.calls) == (2, [])


def test_something_in_use_or_watched_is_not_idle() -> None:
    thing = Watched(SHORT)
    thing.timer.used()
    with thing.timer.in_use(), thing.timer.in_use():
        thing.look()
    thing.watchers = 1
    thing.look()
    assert thing.ends == 0
    thing.watchers = 0
    thing.look()
    assert thing.ends == 1


def test_a_failing_use_ends_too() -> None:
    thing = Watched(SHORT)
    thing.timer.used()
    with suppress(ValueError), thing.timer.in_use():
        raise ValueError
    thing.look()
    assert thing.ends == 1


def test_nothing_is_idle_after_the_end_or_without_a_limit() -> None:
    thing = Watched(SHORT)
    thing.timer.used()
    look = thing.calls[0].call
    thing.timer.close()
    assert thing.calls == []
    look()
    thing.timer.used()
    unlimited = Watched(0)
    unlimited.timer.used()
    assert (thing.ends, thing.calls, unlimited.calls) == (0, [], [])
