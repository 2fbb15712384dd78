"""Few of a principal's requests may be slow to arrive, because the server keeps what has come of them."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.server.calls import arrivals, call_bounds

from ..searching import in_search
from ..waiting import until
from .principals import TOKENS, Callers, calling, of, reason, stalled
from .raw_http2 import RawConnection

MOST = 3
STALLED_BYTES = 1 << 20


@pytest.fixture
def callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callers]:
    monkeypatch.setattr(call_bounds, "SLOW_AT_ONCE", MOST)
    monkeypatch.setattr(call_bounds, "IDLE_FEEDS", MOST)
    monkeypatch.setattr(arrivals, "SOON", 0.05)
    with calling(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("method", ["GetTask", "Results", "Upload", *in_search("CreateTask", "WatchTask")])
def test_a_request_is_refused_that_is_slow_where_too_many_are(callers: Callers, method: str) -> None:
    with RawConnection(callers.address) as connection:

        def full() -> bool:
            connection.begin(f"/tidegate.v1.TaskService/{method}", STALLED_BYTES, b"x", TOKENS["alice"])
            return _refusal(stalled(callers, "alice")) == "TOO_MANY_CALLS"

        until(full)
        assert callers.create("alice")
        assert _refusal(stalled(callers, "bob")) is None
    until(lambda: _refusal(stalled(callers, "alice")) is None)


def _refusal(call: grpc.Future) -> str | None:
    """Why the call was ended although its request has not come. A call that waits is cancelled."""
    try:
        return reason(call.exception(timeout=0.5))
    except grpc.FutureTimeoutError:
        call.cancel()
        return None


class _Feed:
    """A `Feed` that has asked once, and asks now and then."""

    def __init__(self, callers: Callers, who: str) -> None:
        self._requests: queue.Queue[pb.AddSplitsRequest] = queue.Queue()
        self._task = callers.create(who)
        self._answers = callers.tasks[who].Feed(iter(self._requests.get, None), metadata=of(who))
        self.ask()

    def ask(self) -> pb.AddSplitsResponse | None:
        self._requests.put(pb.AddSplitsRequest(task=self._task))
        return next(self._answers, None)

    def is_over(self) -> bool:
        return not self._answers.is_active()

    def cancel(self) -> None:
        self._answers.cancel()
        self._requests.put(None)


def test_feeds_that_are_idle_beyond_the_bound_end_and_the_others_go_on(callers: Callers) -> None:
    feeds = [_Feed(callers, "alice") for _ in range(MOST + 2)]
    until(lambda: sum(feed.is_over() for feed in feeds) == 2)
    assert all(feed.ask() is not None for feed in feeds if not feed.is_over())
    for feed in feeds:
        feed.cancel()
