"""Loops that go on too long, through the service: what is said, what becomes of the task, and of the others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final

import pytest

import tidegate
from tidegate.client import Client
from tidegate.executor.service.manager import TaskManager
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.proto.values import TaskPhase

from ..continuous.histories import rows_of, table
from ..on_channels import on_channels
from ..searching import in_search, one_of_each
from ..server.running import served
from .queries import SCHEMAS, Looped, Query

STEP: Final = "select x.a, e.b from x join edges e on x.b = e.a"
EVERY_PATH: Final = f"select a, b from seeds union all {STEP}"
TWICE: Final = "select a, b from seeds union all select a, b from x union all select a, b from x"
ENDLESS: Final = Query({"x": Looped(EVERY_PATH, rounds=1 << 40, fails=True)}).plan()
MOST: Final = 2**63 - 1

EDGES: Final = table([(0, 1, 1), (1, 0, 1)], SCHEMAS["edges"])
"""A cycle of two."""
LINE: Final = table([(0, 1, 1), (1, 2, 1)], SCHEMAS["edges"])
SEEDS: Final = table([(0, 0)], SCHEMAS["seeds"])
ROWS: Final = [(0, 0), (0, 1), (0, 2)]
"""What is reached along the line."""

LIMITS: Final = {
    "LOOP_ROUNDS": (
        Query({"x": Looped(EVERY_PATH, rounds=20, fails=True)}),
        {},
        r"loop 'x' has not ended after 20 rounds: round 21 would change 1 of its 20 rows ",
    ),
    "LOOP_ROWS": (
        Query({"x": Looped(EVERY_PATH)}),
        {"loop_rows": 50},
        r"loop 'x' has 51 rows \(weights counted\) after round 51; its limit is 50",
    ),
    "LOOP_SECONDS": (
        Query({"x": Looped(EVERY_PATH, rounds=1 << 40, fails=True)}),
        {"loop_seconds": 0.05},
        r"loop 'x' has not ended after 0.05 seconds: round \d+ changes 1 of its \d+ rows ",
    ),
    "WEIGHT_OVERFLOW": (
        Query({"x": Looped(TWICE, rounds=100, fails=True)}),
        {"loop_rows": MOST},
        r"loop 'x' cannot go on in round 6\d, with \d+ rows \(weights counted\): ",
    ),
}


@pytest.fixture(params=["embedded", "grpc"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """Of a service with one thread."""
    manager = TaskManager(PlanEngine((), tmp_path), folder=tmp_path, threads=1)
    try:
        if request.param == "embedded":
            yield Client(manager)
        else:
            with served(manager) as address, tidegate.connect(address) as client:
                yield client
    finally:
        manager.close()


def without_weight(task: tidegate.Task, epoch: object) -> list[tuple[object, ...]]:
    width = sum(name != "_weight" for name in task.schema.names)
    return [row[:width] for row in rows_of(epoch)]


@pytest.mark.parametrize(
    ("reason", "mode", "channels"),
    [
        *((reason, *how) for reason in LIMITS for how in [("per_epoch", 1), ("continuous", 2)]),
        *in_search(*((reason, *how) for reason in LIMITS for how in [("per_epoch", 2), ("continuous", 1)])),
    ],
)
def test_a_loop_that_does_not_end_fails_its_task_and_no_other(
    client: Client, reason: str, mode: str, channels: int
) -> None:
    query, options, message = LIMITS[reason]
    reads = {"edges", "seeds"} if reason != "WEIGHT_OVERFLOW" else {"seeds"}
    last = {"edges": EDGES, "seeds": SEEDS}
    with (
        client.create_task(query.plan(), **on_channels(channels, mode), **options) as task,
        client.create_task(Query({"x": Looped(EVERY_PATH)}).plan(), mode=mode) as other,
    ):
        assert task.run_epoch({name: last[name] for name in reads - {"seeds"}}).rows == 0
        with pytest.raises(tidegate.TaskFailed, match=message) as caught:
            task.run_epoch({name: last[name] for name in reads if (name, mode) != ("edges", "continuous")}).table()
        assert caught.value.reason == reason
        assert task.info().state is TaskPhase.FAILED
        assert without_weight(other, other.run_epoch({"edges": LINE, "seeds": SEEDS}).table()) == ROWS


@pytest.mark.parametrize(("mode", "channels"), one_of_each(product(["per_epoch", "continuous"], [1, 2])))
def test_a_loop_may_return_what_it_has_at_its_limit(client: Client, mode: str, channels: int) -> None:
    """And go on from there, in the next epoch."""
    query = Query({"x": Looped(EVERY_PATH, rounds=3)})
    expected = [(0, 0), (0, 0), (0, 1)]
    with client.create_task(query.plan(), **on_channels(channels, mode)) as task:
        result_rows = rows_of(task.run_epoch({"edges": EDGES, "seeds": SEEDS}).table())
        again = rows_of(task.run_epoch({"edges": EDGES, "seeds": SEEDS}).table())
    if mode == "per_epoch":
        assert result_rows == again == expected
    else:
        assert result_rows == [(0, 0, 2), (0, 1, 1)]
        assert again == [(0, 0, 8), (0, 1, 3)]  # 10 and 4: two seeds, each edge twice


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_an_epoch_may_be_skipped_for_its_loop(client: Client, mode: str) -> None:
    query, options, message = LIMITS["LOOP_ROWS"]
    with client.create_task(query.plan(), mode=mode, on_error="skip_epoch", **options) as task:
        with pytest.raises(tidegate.TidegateError, match=message):
            task.run_epoch({"edges": EDGES, "seeds": SEEDS}).table()
        result_rows = rows_of(task.run_epoch({"edges": LINE, "seeds": SEEDS}).table())
        assert result_rows == [row if mode == "per_epoch" else (*row, 1) for row in ROWS]


@pytest.mark.parametrize(("mode", "channels"), one_of_each(product(["per_epoch", "continuous"], [1, 3])))
def test_a_loop_without_end_can_be_cancelled(client: Client, mode: str, channels: int) -> None:
    """After which the service's only thread is free for another task."""
    with client.create_task(ENDLESS, **on_channels(channels, mode)) as task:
        task.add_split("edges", EDGES)
        task.add_split("seeds", SEEDS)
        task.request_barrier()
        while not any(loop.rounds for loop in task.info().statistics.loops):
            pass
        task.cancel()
        with pytest.raises(tidegate.TaskCancelled):
            task.read_epoch()
    with client.create_task(Query({"x": Looped(EVERY_PATH)}).plan()) as other:
        assert rows_of(other.run_epoch({"edges": LINE, "seeds": SEEDS}).table()) == ROWS
