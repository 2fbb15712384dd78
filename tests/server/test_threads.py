"""Calls in threads: who answers, for whom, and what is left when they end."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import pytest

from tidegate.executor.api.ownership import act_for
from tidegate.proto.current_call import caller_has_left, elsewhere
from tidegate.proto.errors import Exhausted, Unavailable
from tidegate.server.calls.call_threads import Threads
from tidegate.server.calls.given_places import PATIENCE, GivenPlaces
from tidegate.server.calls.turns_elsewhere import TurnsElsewhere


@contextmanager
def threads(most: int, *, gives_places: bool = False) -> Iterator[Threads]:
    call_threads = Threads(most, "call", gives_places=gives_places)
    try:
        yield call_threads
    finally:
        assert call_threads.close(seconds=20)


def run(check: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await check()

    asyncio.run(bounded())


def name() -> str:
    return threading.current_thread().name


def test_a_call_goes_to_the_thread_that_was_the_last_to_end_one() -> None:
    async def check() -> None:
        with threads(4) as call_threads:
            first, second = threading.Event(), threading.Event()
            one = asyncio.ensure_future(call_threads.call(lambda: first.wait() and name()))
            two = asyncio.ensure_future(call_threads.call(lambda: second.wait() and name()))
            await asyncio.sleep(0)
            second.set()
            assert await two == "call-2"
            first.set()
            assert await one == "call-1"
            assert [await call_threads.call(name) for _ in range(3)] == ["call-1"] * 3

    run(check)


def test_more_calls_than_threads_wait_their_turn() -> None:
    async def check() -> None:
        with threads(2) as call_threads:
            names = await asyncio.gather(*(call_threads.call(name) for _ in range(50)))
        assert set(names) == {"call-1", "call-2"}

    run(check)


def test_a_call_is_made_for_whom_its_context_acts() -> None:
    caller: ContextVar[str] = ContextVar("caller")

    async def ask(call_threads: Threads, who: str) -> str:
        caller.set(who)
        return await call_threads.call(caller.get)

    async def check() -> None:
        with threads(1) as call_threads:
            assert await asyncio.gather(ask(call_threads, "alice"), ask(call_threads, "bob")) == ["alice", "bob"]

    run(check)


async def acting(who: str, call_threads: Threads, function: Callable[[], object]) -> object:
    act_for(who)
    return await call_threads.call(function)


def test_calls_that_wait_take_turns_by_principal() -> None:
    async def check() -> None:
        order: list[str] = []
        with threads(1) as call_threads:
            go_on = threading.Event()
            first = asyncio.ensure_future(acting("alice", call_threads, go_on.wait))
            await asyncio.sleep(0)
            callers = [*["alice"] * 20, "bob", "carol"]
            calls = [
                asyncio.ensure_future(acting(who, call_threads, lambda who=who: order.append(who))) for who in callers
            ]
            await asyncio.sleep(0)
            go_on.set()
            await asyncio.gather(first, *calls)
        assert sorted(order[:3]) == ["alice", "bob", "carol"]

    run(check)


def test_a_call_that_is_given_up_while_it_waits_leaves_nothing_of_its_request() -> None:
    class Request:
        """Stands for a large one."""

    async def check() -> None:
        with threads(1) as pool:
            go_on = threading.Event()
            first = asyncio.ensure_future(pool.call(go_on.wait))
            await asyncio.sleep(0)
            request = Request()
            held = weakref.ref(request)
            waits = asyncio.ensure_future(pool.call(lambda request=request: request))
            del request
            await asyncio.sleep(0)
            waits.cancel()
            await asyncio.wait((waits,))
            del waits
            gc.collect()
            assert held() is None
            go_on.set()
            assert await first
            assert await pool.call(name) == "call-1"

    run(check)


def test_a_principals_calls_leave_a_thread_to_others() -> None:
    async def check() -> None:
        with threads(3) as call_threads:
            go_on = threading.Event()
            held = [asyncio.ensure_future(acting("alice", call_threads, go_on.wait)) for _ in range(10)]
            await asyncio.sleep(0)
            assert [await asyncio.ensure_future(acting("bob", call_threads, lambda: "bob")) for _ in range(5)] == [
                "bob"
            ] * 5
            go_on.set()
            assert await asyncio.gather(*held) == [True] * 10

    run(check)


def test_callers_have_all_threads_where_there_are_no_principals() -> None:
    async def check() -> None:
        with threads(3) as call_threads:
            together = threading.Barrier(3)
            assert sorted(await asyncio.gather(*(call_threads.call(together.wait) for _ in range(3)))) == [0, 1, 2]

    run(check)


def test_what_a_call_raises_its_caller_gets_and_the_thread_goes_on() -> None:
    async def check() -> None:
        with threads(1) as call_threads:
            with pytest.raises(ZeroDivisionError):
                await call_threads.call(lambda: 1 // 0)
            assert await call_threads.call(lambda: 1) == 1

    run(check)


def test_a_call_that_nobody_waits_for_any_more_is_not_begun() -> None:
    async def check() -> None:
        begun: list[str] = []
        with threads(1) as call_threads:
            go_on = threading.Event()
            calls = [
                asyncio.ensure_future(call_threads.call(call)) for call in (go_on.wait, lambda: begun.append("two"))
            ]
            await asyncio.sleep(0)
            calls[1].cancel()
            await asyncio.wait(calls[1:])
            go_on.set()
            assert await call_threads.call(lambda: begun.append("three")) is None
            assert begun == ["three"]

    run(check)


def test_the_end_waits_for_the_call_in_progress_and_cancels_the_others() -> None:
    async def check() -> None:
        call_threads = Threads(1, "call")
        began, go_on, ended = threading.Event(), threading.Event(), threading.Event()

        def slow() -> None:
            began.set()
            go_on.wait()
            ended.set()

        calls = [asyncio.ensure_future(call_threads.call(slow)), asyncio.ensure_future(call_threads.call(name))]
        await asyncio.sleep(0)
        began.wait()
        go_on.set()
        assert call_threads.close(seconds=20)
        assert ended.is_set()
        assert await calls[0] is None
        with pytest.raises(asyncio.CancelledError):
            await calls[1]

    run(check)


def test_half_of_the_threads_are_for_calls_that_are_not_long() -> None:
    async def check() -> None:
        with threads(4) as call_threads:
            go_on = threading.Event()
            calls = []
            while call_threads.takes_long_calls:
                calls.append(asyncio.ensure_future(call_threads.long_call(go_on.wait, lambda: None, 0.01)))
                await asyncio.sleep(0)
            assert len(calls) == 2
            assert len(set(await asyncio.gather(*(call_threads.call(name) for _ in range(50))))) <= 2
            go_on.set()
            assert await asyncio.gather(*calls) == [True, True]
            assert call_threads.takes_long_calls

    run(check)


def test_a_long_call_is_answered_meanwhile_and_its_thread_is_no_longer_one_of_these() -> None:
    async def check() -> None:
        with threads(2) as call_threads:
            go_on, answers = threading.Event(), iter([None, None, "meanwhile"])
            assert await call_threads.long_call(go_on.wait, lambda: next(answers), 0.01) == "meanwhile"
            assert not call_threads.takes_long_calls
            names = set(
                await asyncio.gather(*(call_threads.call(lambda: time.sleep(0.01) or name()) for _ in range(10)))
            )
            assert names == {"call-2", "call-3"}
            go_on.set()
            while not call_threads.takes_long_calls:
                await asyncio.sleep(0.01)

    run(check)


def test_a_long_call_that_ends_in_time_answers_itself() -> None:
    async def check() -> None:
        with threads(2) as call_threads:
            assert [await call_threads.long_call(name, lambda: "meanwhile", 30.0) for _ in range(3)] == ["call-1"] * 3

    run(check)


def test_what_is_raised_meanwhile_is_what_the_caller_gets() -> None:
    async def check() -> None:
        with threads(2) as call_threads:
            go_on = threading.Event()
            with pytest.raises(ZeroDivisionError):
                await call_threads.long_call(go_on.wait, lambda: 1 // 0, 0.01)
            go_on.set()

    run(check)


def test_the_end_does_not_wait_for_ever() -> None:
    async def check() -> None:
        call_threads = Threads(2, "call")
        go_on = threading.Event()
        call = asyncio.ensure_future(call_threads.call(go_on.wait))
        await asyncio.sleep(0)
        assert not call_threads.close(seconds=0.05)
        go_on.set()
        assert await call

    run(check)


def test_a_call_can_tell_that_nobody_waits_for_it_any_more() -> None:
    async def check() -> None:
        with threads(1) as call_threads:
            began, ended = threading.Event(), threading.Event()

            def look() -> None:
                began.set()
                while not caller_has_left():
                    time.sleep(0.01)
                ended.set()

            call = asyncio.ensure_future(call_threads.call(look))
            await asyncio.sleep(0)
            began.wait()
            call.cancel()
            await asyncio.wait([call])
            assert ended.wait(20)
            assert not await call_threads.call(caller_has_left)

    run(check)


def test_calls_that_wait_elsewhere_keep_no_place_and_come_back_one_at_a_time() -> None:
    """As they do again where they wait a second time."""
    lock, most, waiting = threading.Lock(), [0, 0], threading.Semaphore(0)
    go_on = threading.Event()

    def working() -> None:
        with lock:
            most[0] += 1
            most[1] = max(most)
        time.sleep(0.001)
        with lock:
            most[0] -= 1

    def call() -> str:
        working()
        for _ in range(2):
            with elsewhere(in_turn=False):
                waiting.release()
                go_on.wait()
            working()
        return name()

    async def check() -> None:
        with threads(2, gives_places=True) as call_threads:
            calls = [asyncio.ensure_future(call_threads.call(call)) for _ in range(9)]
            while waiting._value < 9:
                await asyncio.sleep(0.001)
            await call_threads.call(working)
            go_on.set()
            assert len({await waiting_call for waiting_call in calls}) == 9
            await call_threads.call(working)
        assert most == [0, 2]

    run(check)


def test_a_call_that_waits_elsewhere_is_refused_when_it_comes_back_to_closed_threads() -> None:
    waiting, go_on = threading.Event(), threading.Event()

    def call() -> None:
        with elsewhere(in_turn=False):
            waiting.set()
            go_on.wait()

    async def check() -> None:
        call_threads = Threads(1, "call", gives_places=True)
        asked = asyncio.ensure_future(call_threads.call(call))
        while not waiting.is_set():
            await asyncio.sleep(0.001)
        assert await call_threads.call(name) == "call-2"
        threading.Timer(0.1, go_on.set).start()
        assert call_threads.close(seconds=20)
        with pytest.raises(Unavailable, match="the server is about to end: call again when it is back"):
            await asked

    run(check)


@pytest.mark.parametrize("most", [2, 3, 5])
def test_calls_that_wait_elsewhere_come_back_where_the_system_has_no_more_threads(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[threading.Thread] = []

    def has_started(thread: threading.Thread) -> bool:
        if sum(other.is_alive() for other in started) == most:
            return False
        started.append(thread)
        thread.start()
        return True

    def call() -> None:
        for _ in range(2):
            with elsewhere(in_turn=False):
                time.sleep(0.001)

    async def check() -> None:
        with threads(2, gives_places=True) as call_threads:
            await asyncio.gather(*(call_threads.call(call) for _ in range(50)))
            assert await call_threads.call(name)

    monkeypatch.setattr("tidegate.server.calls.call_threads.has_started", has_started)
    run(check)


BOUNDS = "tidegate.server.calls.given_places"


class Storage:
    """Answers nobody before `answers` is set."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = threading.Event()

    def ask(
        self, call_threads: Threads, who: str, then: Callable[[str], object] = lambda _: None
    ) -> asyncio.Future[object]:
        def call() -> str:
            with elsewhere(in_turn=False):
                self.asked.append(who)
                self.answers.wait()
            then(who)
            return who

        return asyncio.ensure_future(acting(who, call_threads, call))

    async def was_asked(self, times: int) -> None:
        while len(self.asked) < times:
            await asyncio.sleep(0.001)


def test_calls_of_a_principal_that_wait_elsewhere_have_a_bound_and_further_ones_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{BOUNDS}.MOST_OF_PRINCIPAL", 2)

    async def check() -> None:
        storage = Storage()
        with threads(2, gives_places=True) as call_threads:
            calls = [storage.ask(call_threads, "alice") for _ in range(10)]
            await storage.was_asked(2)
            assert [await asyncio.ensure_future(acting("bob", call_threads, lambda: "bob")) for _ in range(5)] == [
                "bob"
            ] * 5
            calls += [storage.ask(call_threads, "bob")]
            await storage.was_asked(3)
            assert storage.asked == ["alice", "alice", "bob"]
            storage.answers.set()
            assert await asyncio.gather(*calls) == ["alice"] * 10 + ["bob"]

    run(check)


@pytest.mark.parametrize(
    ("bound", "callers", "refused", "sentence"),
    [
        ("MOST_OF_PRINCIPAL", ["alice", "alice", "bob"], "alice", "2 of your calls wait for slow folders or files"),
        ("MOST", ["alice", "bob", "carol"], "alice", "3 calls wait for slow folders or files"),
        ("MOST", ["", ""], "", "2 calls wait for slow folders or files"),
    ],
    ids=["of_a_principal", "of_all", "without_principals"],
)
def test_a_call_beyond_the_calls_that_may_wait_elsewhere_is_refused_after_a_while(
    bound: str, callers: list[str], refused: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A principal that has no such call may have one, however many others have."""
    monkeypatch.setattr(f"{BOUNDS}.{bound}", 2)
    monkeypatch.setattr("tidegate.server.calls.call_threads.PATIENCE", 0.02)

    async def check() -> None:
        storage = Storage()
        with threads(1, gives_places=True) as call_threads:
            calls = [storage.ask(call_threads, who) for who in callers]
            await storage.was_asked(len(callers))
            with pytest.raises(Exhausted, match=sentence) as error:
                await storage.ask(call_threads, refused)
            assert error.value.reason == "TOO_MANY_CALLS"
            storage.answers.set()
            assert await asyncio.gather(*calls, storage.ask(call_threads, refused)) == [*callers, refused]

    run(check)


def test_a_call_that_comes_back_goes_before_calls_that_have_not_begun() -> None:
    async def check() -> None:
        order: list[str] = []
        storage, go_on = Storage(), threading.Event()
        with threads(1, gives_places=True) as call_threads:
            came_back = storage.ask(call_threads, "first", order.append)
            await storage.was_asked(1)
            calls = [asyncio.ensure_future(call_threads.call(go_on.wait))]
            calls += [asyncio.ensure_future(call_threads.call(lambda: order.append("new"))) for _ in range(3)]
            await asyncio.sleep(0)
            storage.answers.set()
            while not call_threads._coming_back:
                await asyncio.sleep(0.001)
            go_on.set()
            await asyncio.gather(came_back, *calls)
        assert order == ["first", "new", "new", "new"]

    run(check)


def test_a_call_whose_place_nobody_wants_keeps_its_thread_while_it_waits_elsewhere() -> None:
    def call() -> tuple[str, str]:
        before = name()
        with elsewhere(in_turn=False):
            time.sleep(0.001)
        return before, name()

    async def check() -> None:
        with threads(2, gives_places=True) as call_threads:
            assert {await call_threads.call(call) for _ in range(20)} == {("call-1", "call-1")}

    run(check)


@pytest.mark.parametrize("waits_again", [False, True])
def test_a_long_call_that_has_been_answered_takes_no_place_again(waits_again: bool) -> None:
    """Whether it waits elsewhere once more, or has a thread stand still for it."""
    go_on, answered = threading.Event(), threading.Event()
    storage = Storage()

    def call() -> None:
        with elsewhere(in_turn=False):
            storage.asked.append("")
            storage.answers.wait()
        answered.set()
        go_on.wait()
        if waits_again:
            with elsewhere(in_turn=False):
                storage.asked.append("")

    async def check() -> None:
        with threads(2, gives_places=True) as call_threads:
            long = asyncio.ensure_future(
                call_threads.long_call(call, lambda: True if answered.is_set() else None, 0.01)
            )
            await storage.was_asked(1)
            together = threading.Barrier(2)
            assert sorted(await asyncio.gather(*(call_threads.call(together.wait) for _ in range(2)))) == [0, 1]
            storage.answers.set()
            assert await long
            assert sorted(await asyncio.gather(*(call_threads.call(together.wait) for _ in range(2)))) == [0, 1]
            go_on.set()
            if waits_again:
                await storage.was_asked(2)
            assert sorted(await asyncio.gather(*(call_threads.call(together.wait) for _ in range(2)))) == [0, 1]

    run(check)


@pytest.mark.parametrize("principal", ["alice", ""])
def test_a_call_may_wait_for_as_long_as_those_before_it_end(principal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(f"{BOUNDS}.MOST_OF_PRINCIPAL" if principal else f"{BOUNDS}.MOST", 2)
    monkeypatch.setattr(f"{BOUNDS}.time.monotonic", lambda: now)
    bound = GivenPlaces()
    for _ in range(2):
        assert bound.may_free_room(principal)
        bound.add(principal)
    assert not bound.may_free_room(principal)
    bound.remove(principal)
    bound.add(principal)
    now += PATIENCE - 1
    assert bound.may_free_room(principal)
    assert not bound.have_room(principal)
    now += 1
    assert not bound.may_free_room(principal)


@pytest.mark.parametrize(("principal", "at_once"), [("alice", 2), ("", 20)])
def test_few_calls_of_a_principal_work_elsewhere_at_once_and_others_go_on(principal: str, at_once: int) -> None:
    go_on, begun = threading.Event(), threading.Semaphore(0)

    def work() -> str:
        with elsewhere():
            begun.release()
            go_on.wait()
        return name()

    def other() -> str:
        with elsewhere():
            return "bob"

    async def check() -> None:
        with threads(3, gives_places=True) as call_threads:
            calls = [asyncio.ensure_future(acting(principal, call_threads, work)) for _ in range(20)]
            while begun._value < at_once:
                await asyncio.sleep(0.001)
            assert [await asyncio.ensure_future(acting("bob", call_threads, other)) for _ in range(5)] == ["bob"] * 5
            assert begun._value == at_once
            go_on.set()
            own_threads = len(set(await asyncio.gather(*calls)))
            assert own_threads == 20 if at_once == 20 else own_threads < 10

    run(check)


def test_a_call_that_waits_for_its_turn_elsewhere_ends_with_the_threads() -> None:
    turns, closed = TurnsElsewhere(1, 1), threading.Event()
    with turns.turn("alice", closed.is_set):
        closed.set()
        with pytest.raises(Unavailable, match="while it waited"), turns.turn("alice", closed.is_set):
            """Never here."""
    with turns.turn("alice", lambda: True):
        """There is room."""
