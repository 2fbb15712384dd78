"""The iteration-locking protocol through the service: right with all its parts, and wrong without any one of them.

What enters has ended while the edges that the body reads are still to come: a per-epoch task feeds a loop's inputs one
after the other, and in a continuous one a grouping before the loop gives its rows out only at the barrier.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

import tidegate
from tidegate.executor.plans.continuous import ContinuousComputation
from tidegate.operators.changes.network.locking import Locking
from tidegate.operators.changes.network.network import Network

from ..continuous.histories import Row, rows_of, table
from ..on_channels import on_channels
from ..operators.changes.network.running import change
from .queries import SCHEMAS, Looped, Query


def slow(levels: int = 12) -> str:
    """The edges, behind so many groupings."""
    return "edges" if not levels else f"(select a, b, max(c) + 1 as c from {slow(levels - 1)} group by a, b)"


def step(edges: str) -> str:
    return f"select x.a, e.b from x join {edges} e on x.b = e.a"


def dummy_read(edges: str) -> bytes:
    """What enters is a part of the body."""
    return Query({"x": Looped(f"select distinct a, b from (select a, b from seeds union all {step(edges)})")}).plan()


ENTERING: Final = Query({"x": Looped(f"select distinct a, b from ({step(slow())})", "select a, b from seeds")}).plan()
PATH: Final = table([(0, 1, 1), (1, 2, 1), (2, 3, 1)], SCHEMAS["edges"])
REACHED: Final = [(0, 0), (0, 1), (0, 2), (0, 3)]
SEED: Final = table([(0, 0)], SCHEMAS["seeds"])
FORMS: Final = [("per_epoch", dummy_read("edges")), ("continuous", dummy_read(slow())), ("continuous", ENTERING)]
FORM: Final = pytest.mark.parametrize(
    ("mode", "plan"), FORMS, ids=["per epoch, dummy read", "continuous, dummy read", "continuous, entering"]
)
CHANNELS: Final = pytest.mark.parametrize("channels", [1, 3])


@pytest.fixture
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


def reached(client: tidegate.Client, mode: str, plan: bytes, channels: int) -> list[Row]:
    with client.create_task(plan, **on_channels(channels, mode), loops="general") as task:
        result = task.run_epoch({"seeds": SEED, "edges": PATH}).table()
        return [row[:2] for row in rows_of(result)]


@CHANNELS
@FORM
def test_a_loop_waits_for_what_its_body_reads(client: tidegate.Client, mode: str, plan: bytes, channels: int) -> None:
    assert reached(client, mode, plan, channels) == REACHED


@CHANNELS
@FORM
def test_without_sending_the_prepare_again_the_epoch_never_ends(
    client: tidegate.Client, mode: str, plan: bytes, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is found out when there is no more work, and said at once."""
    monkeypatch.setattr(Locking, "moved", lambda _: None)
    with pytest.raises(tidegate.TidegateError):
        reached(client, mode, plan, channels)


@CHANNELS
@pytest.mark.parametrize("plan", [dummy_read(slow()), ENTERING], ids=["dummy read", "entering"])
def test_without_marks_rows_are_missing(
    client: tidegate.Client, plan: bytes, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a continuous task: in a per-epoch one rows have always come by the time that a prepare is back."""
    monkeypatch.setattr(Locking, "marks", lambda *_: False)
    result_rows = reached(client, "continuous", plan, channels)
    assert set(result_rows) < set(REACHED)


class Ahead:
    """In the first epoch a second seed stands behind the barrier of what enters, before the edges' barrier comes."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._done = False

    def end(self, network: Network) -> None:
        if self._done:
            network.end()
            return
        self._done = True
        network.end(self._port)
        network.feed(self._port, 0, change([((9, 1), 1)]))
        assert not network.run()
        for port in (0, 1):
            if port != self._port:
                network.end(port)


def two_epochs(client: tidegate.Client, channels: int, monkeypatch: pytest.MonkeyPatch) -> list[set[Row]]:
    """The rows of an epoch, and of the next, whose only row has come early."""
    complete = ContinuousComputation.complete
    ahead: dict[int, Ahead] = {}

    def completed(self: ContinuousComputation, number: int) -> Iterator[object]:
        network = self._network
        order = ahead.setdefault(id(network), Ahead(self._fed["seeds"].entry.port))
        with monkeypatch.context() as patch:
            patch.setattr(self, "_network", Ending(network, order))
            yield from complete(self, number)

    monkeypatch.setattr(ContinuousComputation, "complete", completed)
    with client.create_task(ENTERING, mode="continuous", channels=channels) as task:
        first = task.run_epoch({"seeds": SEED, "edges": PATH})
        return [{row[:2] for row in rows_of(epoch.table())} for epoch in (first, task.run_epoch({}))]


class Ending:
    """A network whose entries are ended in another order."""

    def __init__(self, network: Network, order: Ahead) -> None:
        self._network = network
        self._order = order

    def __getattr__(self, name: str) -> object:
        return getattr(self._network, name)

    def end_all(self, _watermarks: object) -> None:
        self._order.end(self._network)


@CHANNELS
def test_what_enters_behind_the_barrier_is_held_for_the_next_epoch(
    client: tidegate.Client, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert two_epochs(client, channels, monkeypatch) == [set(REACHED), {(9, 1), (9, 2), (9, 3)}]


@CHANNELS
def test_without_holding_what_enters_the_next_epoch_gets_into_this_one(
    client: tidegate.Client, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Locking, "holds", lambda _: False)
    assert (9, 1) in two_epochs(client, channels, monkeypatch)[0]
