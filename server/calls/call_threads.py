"""Threads for calls that may block, so that the event loop never blocks.

The standard library's `ThreadPoolExecutor` is no substitute: it runs calls in the order in which they came, whoever
makes them, and a long call cannot leave it.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

from ...executor.api.ownership import acts_for
from ...executor.runtime.fair_queue import FairQueue
from ...executor.runtime.starting import has_started
from ...proto.current_call import wait_in, work_for
from ...proto.errors import Exhausted
from .call_place import CallPlace
from .given_places import PATIENCE, GivenPlaces
from .patience import Patience
from .turns_elsewhere import TurnsElsewhere

R = TypeVar("R")

_TIMES_ELSEWHERE: Final = 16
"""Without principals, so many times as many calls as threads work elsewhere at once: slow storage of some should not
stop all.
"""


class Threads:
    """Up to `most` threads, each started when there is a call for it.

    Calls that wait take turns by principal, and one thread is left for other principals, so nobody's calls keep a
    principal waiting alone. The next call goes to the thread that was the last to end one: its data is still in its
    core's caches. With `gives_places`, a call that waits `elsewhere` gives its place to others, up to a bound; a call
    that comes back for a place goes before calls that have not begun. All methods are called on the event loop, so
    nothing here needs a lock.
    """

    def __init__(self, most: int, name: str, *, gives_places: bool = False) -> None:
        self._most = most
        self._of_principal = max(1, most - 1)
        self._name = name
        self._given_places = GivenPlaces() if gives_places else None
        self.turns = TurnsElsewhere(self._of_principal, _TIMES_ELSEWHERE * most)
        self.closed = False
        self._started = 0
        self._all: list[_Thread] = []
        self._idle: list[_Thread] = []
        self._calls: FairQueue[_Call[Any]] = FairQueue()
        self._coming_back: FairQueue[_Call[Any]] = FairQueue()
        """Calls that stand still for others, which want their places back."""
        self._running: Counter[str] = Counter()
        """The number of threads that each principal has."""
        self._long = 0
        self._awaited: set[_Call[Any]] = set()
        self._away: set[_Thread] = set()

    async def call(self, function: Callable[[], R]) -> R:
        """Run the function on a thread, for the principal of this context; its result or its error."""
        call = self._placed(_new_call(function))
        self.begin(call)
        self._bound_its_wait(call)
        return await self._outcome(call)

    def _placed(self, call: _Call[R]) -> _Call[R]:
        """The call, which gives its place away while it waits elsewhere, if calls of this pool do so."""
        if self._given_places is not None:
            _give_place(call, CallPlace(_PoolOfCall(self, call, asyncio.get_running_loop())))
        return call

    def _bound_its_wait(self, call: _Call[Any]) -> None:
        if self._given_places is not None and call.waits:
            self._refuse_without_room(call, self._given_places)

    def _refuse_without_room(self, call: _Call[Any], bound: GivenPlaces) -> None:
        """Refuse the call if it still waits after a time, since so many calls have given their places away."""

        def look() -> None:
            if call.waits and bound.may_free_room(call.principal):
                self._refuse_without_room(call, bound)
            elif call.waits and not call.outcome.done():
                call.outcome.set_exception(bound.refusal(call.principal))

        call.timer = asyncio.get_running_loop().call_later(PATIENCE, look)

    @property
    def takes_long_calls(self) -> bool:
        """True if one more call may be long. Half of the threads are kept for other calls."""
        return self._long < self._most // 2

    async def long_call(self, function: Callable[[], R], meanwhile: Callable[[], R | None], patience: float) -> R:
        """As `call`, but `meanwhile` answers in its place if it has not ended after `patience` seconds.

        If `meanwhile` answers None, it is asked again later. After its answer, the thread leaves the pool, and ends
        with the call.
        """
        call = self._placed(_new_call(function))
        self._long += 1
        call.on_end = self._long_call_ended
        timer = Patience(call.outcome, meanwhile, patience, lambda: self._leave_for_good(call))
        try:
            self.begin(call)
            self._bound_its_wait(call)
            return await self._outcome(call)
        finally:
            timer.stop()

    async def _outcome(self, call: _Call[R]) -> R:
        """The call's result or error. A call that is given up leaves the line, with the request that it holds."""
        self._awaited.add(call)
        try:
            return await call.outcome
        finally:
            self._awaited.discard(call)
            if call.timer is not None:
                call.timer.cancel()
            if call.waits:
                self._calls.remove(call)
                if call.on_end is not None:
                    call.on_end()

    def give_up(self, error: BaseException) -> None:
        """Answer all calls with this error. Threads in the middle of one go on with it."""
        for call in self._awaited:
            if not call.outcome.done():
                call.outcome.set_exception(error)

    def _long_call_ended(self) -> None:
        self._long -= 1

    def begin(self, call: _Call[Any]) -> None:
        """Run the call on a thread, at once or when it is its turn."""
        may_have_thread = self._may_run if call.stands_still else self._may_begin
        if may_have_thread(call.principal) and self._has_thread:
            self._give_thread(call)
        else:
            self._wait(call)

    @property
    def _has_thread(self) -> bool:
        return bool(self._idle) or len(self._all) < self._most

    def _give_thread(self, call: _Call[Any]) -> bool:
        """True unless the system has no thread for the call."""
        if not self._idle:
            return self._start(call)
        self._run(call, self._idle.pop())
        return True

    def _wait(self, call: _Call[Any]) -> None:
        self._stand_in_line(call)
        self.offer_places()

    def _stand_in_line(self, call: _Call[Any]) -> None:
        call.waits = True
        (self._coming_back if call.stands_still else self._calls).append(call)

    @property
    def has_waiting(self) -> bool:
        """True if calls wait for a thread. Any thread may ask."""
        return bool(self._calls) or bool(self._coming_back)

    def offer_places(self) -> None:
        """Give the places of calls that are elsewhere to those that wait for a thread. A principal's call that may work
        there keeps its place from the principal's own calls: they would only begin to wait for it with more threads.
        """
        for thread in tuple(self._all):
            if not self.has_waiting:
                return
            if (call := thread.call) is not None and call.call_place is not None:
                call.call_place.leave(for_others=self._others_wait(call.principal))

    def _others_wait(self, principal: str) -> bool:
        return not principal or self._calls.has_other_than(principal) or self._coming_back.has_other_than(principal)

    def _may_begin(self, principal: str) -> bool:
        """True if a call of the principal may begin. One that comes back has begun: only `_may_run` bounds it."""
        return self._may_run(principal) and (self._given_places is None or self._given_places.have_room(principal))

    def _may_run(self, principal: str) -> bool:
        """True if the principal leaves a thread for others with one more call. Without principals there are none."""
        return not principal or self._running[principal] < self._of_principal

    def _run(self, call: _Call[Any], thread: _Thread) -> None:
        self._running[call.principal] += 1
        thread.take(call)

    def _release(self, call: _Call[Any]) -> None:
        """Record that the call has no thread of these any more."""
        self._running[call.principal] -= 1
        if not self._running[call.principal]:
            del self._running[call.principal]

    def _start(self, call: _Call[Any]) -> bool:
        self._started += 1
        thread = _Thread(f"{self._name}-{self._started}", asyncio.get_running_loop(), self._ended)
        if not has_started(thread):
            self._wait_for_thread(call)
            return False
        self._all.append(thread)
        self._run(call, thread)
        return True

    def _wait_for_thread(self, call: _Call[Any]) -> None:
        """Put the call in line for a thread of another call, since the system has no other one. Without a thread in the
        pool nothing stands still: the calls whose places it would keep go on, so that their threads come back.
        """
        if self._all or (self._away and not call.stands_still):
            self._stand_in_line(call)
        else:
            _refuse(call)
        while not self._all and self._coming_back:
            waiting = self._coming_back.popleft()
            waiting.waits = False
            _refuse(waiting)

    def _leave_for_good(self, call: _Call[Any]) -> None:
        """Take the thread of a call out of the pool, with its call, which will want no place again."""
        if call.call_place is not None:
            call.call_place.end()
        self.leave(call)

    def leave(self, call: _Call[Any]) -> None:
        """Take the thread of a call out of the pool, with its call. It comes back if the pool has no other one then."""
        thread = call.thread
        if thread is None or thread in self._away:
            return
        self._all.remove(thread)
        self._away.add(thread)
        if self._given_places is not None:
            self._given_places.add(call.principal)
        self._release(call)
        if (following := self._next()) is not None:
            self._start(following)

    def _ended(self, thread: _Thread, call: _Call[Any], value: Any, error: BaseException | None) -> None:
        if call.on_end is not None:
            call.on_end()
        if not call.outcome.done():  # nobody waits for a cancelled call
            if error is None:
                call.outcome.set_result(value)
            else:
                call.outcome.set_exception(error)
        if thread in self._away:
            self._come_back(thread, call)
            return
        self._release(call)
        self._go_on_with(thread)

    def _go_on_with(self, thread: _Thread) -> None:
        """Give a thread of the pool the next call, if there is one."""
        if (following := self._next()) is not None:
            self._run(following, thread)
        else:
            thread.call = None
            self._idle.append(thread)

    def _come_back(self, thread: _Thread, call: _Call[Any]) -> None:
        """End the thread of a call that has left, unless the pool has no other one. Then calls may begin for which so
        many others had left.
        """
        self._away.remove(thread)
        if self._given_places is not None:
            self._given_places.remove(call.principal)
        if self._all:
            thread.calls.put(None)
        else:
            self._all.append(thread)
            self._go_on_with(thread)
        while self._has_thread and (following := self._next()) is not None and self._give_thread(following):
            """Another call may begin."""

    def _next(self) -> _Call[Any] | None:
        """The waiting call whose turn it is."""
        following = self._coming_back.next_of(self._may_run)
        if following is None:
            following = self._calls.next_of(self._may_begin)
        if following is not None:
            following.waits = False
        return following

    def close(self, *, seconds: float) -> bool:
        """Begin no more calls, and cancel those that have not begun; wait for the others, none of which needs the loop.

        False if some go on after `seconds`: their threads end with the process.
        """
        self.closed = True
        for waiting in (self._calls, self._coming_back):
            while waiting:
                call = waiting.popleft()
                call.waits = False
                call.outcome.cancel()
        for thread in (*self._all, *self._away):
            thread.calls.put(None)
        deadline = time.monotonic() + seconds
        for thread in (*self._all, *self._away):
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in (*self._all, *self._away))


class _Call(Generic[R]):
    """`waits` while the call is in line for a thread. A call that `stands_still` keeps a place for another call."""

    __slots__ = (
        "__weakref__",
        "call_place",
        "context",
        "function",
        "on_end",
        "outcome",
        "principal",
        "stands_still",
        "task",
        "thread",
        "timer",
        "waits",
    )

    def __init__(self, function: Callable[[], R], context: contextvars.Context, outcome: asyncio.Future[R]) -> None:
        self.principal = acts_for()
        self.task = ""
        self.function = function
        self.context = context
        self.outcome = outcome
        self.thread: _Thread | None = None
        self.waits = False
        self.stands_still = False
        self.on_end: Callable[[], None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.call_place: CallPlace | None = None


def _refuse(call: _Call[Any]) -> None:
    if not call.outcome.done():
        problem = "the system has no thread left for this call: try again, or give the server more processes"
        call.outcome.set_exception(Exhausted(problem, reason="NO_THREAD"))


def _new_call(function: Callable[[], R]) -> _Call[R]:
    outcome: asyncio.Future[R] = asyncio.get_running_loop().create_future()
    context = contextvars.copy_context()
    context.run(work_for, outcome.cancelled)
    return _Call(function, context, outcome)


def _give_place(call: _Call[Any], call_place: CallPlace) -> None:
    """Let the call give its place away while it waits elsewhere."""
    function = call.function

    def with_place() -> Any:
        try:
            return function()
        finally:
            call_place.end()

    call.call_place = call_place
    call.function = with_place
    call.context.run(wait_in, call_place.given_away)


class _PoolOfCall:
    """Implements `call_place.Pool`. It does not keep the call, whose context has it, nor the call's request."""

    def __init__(self, threads: Threads, call: _Call[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._threads = threads
        self._call = weakref.ref(call)
        self._principal = call.principal
        self._loop = loop

    @property
    def closed(self) -> bool:
        return self._threads.closed

    def turn(self) -> AbstractContextManager[None]:
        return self._threads.turns.turn(self._principal, lambda: self.closed)

    def offer(self) -> None:
        if self._threads.has_waiting:
            self._on_loop(self._threads.offer_places)

    def leave(self) -> None:
        if (call := self._call()) is not None:
            self._threads.leave(call)

    def begin(self, hold: Callable[[], None], given_up: Callable[[], None]) -> None:
        def begin() -> None:
            if self.closed:
                given_up()
                return
            call = _new_call(hold)
            call.stands_still = True
            its_call = self._call()
            call.call_place = None if its_call is None else its_call.call_place
            call.outcome.add_done_callback(lambda done: done.cancelled() or done.exception())
            call.outcome.add_done_callback(lambda _: given_up())
            self._threads.begin(call)

        self._on_loop(begin)

    def _on_loop(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has been closed, as the pool has
            self._loop.call_soon_threadsafe(function)


class _Thread(threading.Thread):
    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        ended: Callable[[_Thread, _Call[Any], Any, BaseException | None], None],
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.calls: SimpleQueue[_Call[Any] | None] = SimpleQueue()
        self.call: _Call[Any] | None = None
        """The call that has the thread, for the pool."""
        self._loop = loop
        self._ended = ended

    def take(self, call: _Call[Any]) -> None:
        call.thread = self
        self.call = call
        self.calls.put(call)

    def run(self) -> None:
        while (call := self.calls.get()) is not None:
            value, error = None, None
            try:
                value = call.context.run(call.function)
            except BaseException as raised:  # noqa: BLE001 - whoever waits for the call is told
                error = raised
            with suppress(RuntimeError):  # the loop has been closed, so nobody waits
                self._loop.call_soon_threadsafe(self._ended, self, call, value, error)
            del call, value, error  # while the thread waits for the next call, it holds nothing of the last one
