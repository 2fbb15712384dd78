"""The counts of what principals have in use agree with a plain model, in whatever order calls begin, stall and end."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest

from tidegate.executor.runtime import ceilings
from tidegate.executor.runtime.ceilings import InUse
from tidegate.proto.errors import Exhausted
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.server.endpoints import upload_endpoint

from ..waiting import until
from .principals import DEADLINE, TOKENS, Callers, calling, of, reason, stalled

STREAMS, CALLS, UPLOADS = 5, 12, 3
STEPS = 40


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> dict[str, InUse]:
    """The counts of a server that starts during the test, each by the words of its refusal that are its own."""
    known: dict[str, InUse] = {}
    begin = InUse.__init__

    def remembered(self: InUse, most: int, refusal: Callable[[], Exhausted]) -> None:
        begin(self, most, refusal)
        known[str(refusal())] = self

    monkeypatch.setattr(ceilings.InUse, "__init__", remembered)
    return known


@dataclass
class Model:
    """The open calls of a principal, by what they count as."""

    open: list[tuple[str, Callable[[], object]]] = field(default_factory=list)

    def count(self, *kinds: str) -> int:
        return sum(kind in kinds for kind, _ in self.open)


class Game:
    """Calls of principals that begin and end in the order of a seed."""

    def __init__(self, callers: Callers, counts: dict[str, InUse], draw: random.Random) -> None:
        self._callers = callers
        self._draw = draw
        self._counts = {
            name: next(count for refusal, count in counts.items() if words in refusal)
            for name, words in (
                ("stream", "wait for results, return results or feed"),
                ("call", "of your calls are in progress"),
                ("upload", "uploads are under way"),
            )
        }
        self._models = {who: Model() for who in TOKENS}
        self._tasks = {who: callers.create(who) for who in TOKENS}
        self._over = threading.Event()

    def step(self) -> str:
        who = self._draw.choice(sorted(TOKENS))
        begin = (self._wait, self._results, self._feed, self._stall, self._upload)
        act = self._draw.choice((*begin, self._end, self._end))
        act(who)
        self._await_agreement(who)
        return f"{act.__name__} {who}"

    def end(self) -> None:
        for who, model in self._models.items():
            while model.open:
                self._end(who)
            self._await_agreement(who)
        self._over.set()

    def _await_agreement(self, who: str) -> None:
        try:
            until(lambda: self._seen(who) == self._modelled(who), seconds=20.0)
        except AssertionError:
            raise AssertionError(f"{who} has {self._seen(who)}, and should have {self._modelled(who)}") from None

    def _seen(self, who: str) -> dict[str, int]:
        most = {"stream": STREAMS, "call": CALLS * 3 // 4, "upload": UPLOADS}
        return {name: most[name] - count.left(who) for name, count in self._counts.items()}

    def _modelled(self, who: str) -> dict[str, int]:
        model = self._models[who]
        return {"stream": model.count("stream"), "call": len(model.open), "upload": model.count("upload")}

    def _begun(self, who: str, kind: str, most: int, call: grpc.Call) -> None:
        """Model a call. The server ends it at once if it is one too many."""
        model = self._models[who]
        full = sum(len(model.open) for model in self._models.values()) >= CALLS
        if full or len(model.open) >= CALLS * 3 // 4 or model.count(kind) >= most:
            assert reason(call.exception(timeout=DEADLINE)) in (
                "TOO_MANY_CALLS",
                "TOO_MANY_STREAMS",
                "TOO_MANY_UPLOADS",
            )
        else:
            model.open.append((kind, call.cancel))

    def _wait(self, who: str) -> None:
        self._begun(who, "stream", STREAMS, self._callers.next(who, self._tasks[who]))

    def _results(self, who: str) -> None:
        request = pb.ResultsRequest(task=self._tasks[who], **{"from": pb.Cursor(epoch=1)})
        self._begun(who, "stream", STREAMS, self._callers.tasks[who].Results(request, metadata=of(who)))

    def _feed(self, who: str) -> None:
        self._begun(who, "stream", STREAMS, self._callers.tasks[who].Feed(self._silence(), metadata=of(who)))

    def _stall(self, who: str) -> None:
        self._begun(who, "call", CALLS, stalled(self._callers, who))

    def _upload(self, who: str) -> None:
        self._begun(who, "upload", UPLOADS, self._callers.tasks[who].Upload.future(self._silence(), metadata=of(who)))

    def _end(self, who: str) -> None:
        model = self._models[who]
        if model.open:
            _, cancel = model.open.pop(self._draw.randrange(len(model.open)))
            cancel()

    def _silence(self) -> Iterator[object]:
        """Requests that do not come."""
        self._over.wait(DEADLINE)
        yield from ()


@pytest.mark.parametrize("seed", range(4))
def test_counts_follow_the_calls_that_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: dict[str, InUse], seed: int
) -> None:
    monkeypatch.setattr(upload_endpoint, "AT_ONCE", UPLOADS)
    with calling(tmp_path, streams_per_principal=STREAMS, max_calls=CALLS) as callers:
        game = Game(callers, counts, random.Random(seed))
        steps = [game.step() for _ in range(STEPS)]
        assert len(Counter(steps)) > 1
        game.end()
