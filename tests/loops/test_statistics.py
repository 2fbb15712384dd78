"""Statistics of loops and of the operators in them; outside of a loop only its fixpoint is seen."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import pyarrow as pa
import pytest

import tidegate
from tidegate.operators.changes.network import link_queues as lanes
from tidegate.operators.changes.network.link_messages import Event
from tidegate.operators.changes.network.link_queues import Emitter
from tidegate.operators.changes.network.network_loop import LoopNode
from tidegate.operators.changes.values.change import Change
from tidegate.proto.errors import EpochError

from ..continuous.histories import changes, rows_of, table
from ..on_channels import on_channels
from ..searching import in_search
from .queries import QUERIES, SCHEMAS, Looped, Query

PLAN: Final = Query(
    {"x": Looped("select x.a, e.b from x join edges e on x.b = e.a", "select a, b from seeds", rounds=50, fails=True)}
).plan()
FAN: Final = table([*((0, at, 1) for at in range(1, 99)), *((at, 100, 1) for at in range(1, 99))], SCHEMAS["edges"])
SEED: Final = table([(0, 0)], SCHEMAS["seeds"])
MORE: Final = table([(0, 1), (1, 2)], SCHEMAS["more"])
NESTED: Final = QUERIES["a loop in a loop"].plan()
RANKS: Final = Query(
    {
        "x": Looped(
            "select a, sum(b) as b from (select a, cast(b as double) as b from seeds union all"
            " select e.b as a, x.b * 0.5 as b from x join edges e on x.a = e.a) p group by a",
            rounds=6,
            columns=pa.schema([("a", pa.int64()), ("b", pa.float64())]),
        )
    }
).plan()


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_a_task_says_how_its_loop_went(mode: str) -> None:
    with tidegate.local(roots=()) as client, client.create_task(PLAN, mode=mode) as task:
        task.run_epoch({"edges": FAN, "seeds": SEED}).table()
        [loop] = task.info().statistics.loops
    assert loop.name == "x"
    assert (loop.rows, loop.most_rows_a_round, loop.last_rows[:3]) == (100, 98, (1, 98, 1))
    assert loop.rounds >= 3
    assert loop.prepares_sent > loop.rounds
    assert loop.prepares_resent <= loop.prepares_sent
    assert loop.quiesce_us > 0


def test_gauges_of_a_loops_operators_are_seen_in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "BOUND", 8)
    with tidegate.local(roots=()) as client, client.create_task(PLAN, mode="continuous") as task:
        task.run_epoch({"edges": FAN, "seeds": SEED}).table()
        joins = [operator for operator in task.info().statistics.operators if operator.operator == "Join"]
        everything = task.info().statistics.operators
    assert joins
    assert all(0 < join.busy <= 1 and join.health == 1 and join.rows_out > 0 for join in joins)
    assert any(0 < entry.backpressure <= 1 for entry in everything)


def test_a_task_that_has_failed_says_whose_health_is_gone() -> None:
    many = changes([((0, 1, 1), 1 << 62)], SCHEMAS["edges"])
    seeds = changes([((0, 0), 4)], SCHEMAS["seeds"])
    with tidegate.local(roots=()) as client, client.create_task(PLAN, mode="continuous") as task:
        with pytest.raises(tidegate.TaskFailed, match="64 bits"):
            task.run_epoch({"edges": many, "seeds": seeds}).table()
        assert min(operator.health for operator in task.info().statistics.operators) == 0


@pytest.mark.parametrize("plan", [PLAN, NESTED, RANKS], ids=["a loop", "a loop in a loop", "computed anew"])
def test_in_an_epoch_by_itself_every_operator_and_loop_has_its_gauges(plan: bytes) -> None:
    with tidegate.local(roots=()) as client, client.create_task(plan, loops="general") as task:
        task.run_epoch({name: {"edges": FAN, "seeds": SEED, "more": MORE}[name] for name in task.sources}).table()
        statistics = task.info().statistics
    assert statistics.loops
    for entry in (*statistics.operators, *statistics.loops):
        assert 0 < entry.busy <= 1, entry
        assert 0 <= entry.backpressure <= 1, entry
        assert entry.health == 1, entry
    assert any(operator.backpressure > 0 for operator in statistics.operators)


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_operators_in_a_loops_body_are_told_one_by_one_and_count_over_all_epochs(mode: str) -> None:
    with tidegate.local(roots=()) as client, client.create_task(PLAN, mode=mode, loops="general") as task:
        counted = []
        for edges in (FAN, FAN.slice(0, 1)):  # of another size class
            task.run_epoch({"edges": edges, "seeds": SEED}).table()
            counted.append([operator for operator in task.info().statistics.operators if operator.operator == "Join"])
    [[first], [both]] = counted
    assert ".iteration" in first.place or "[" in first.place
    assert (first.place, first.operator) == (both.place, both.operator)
    assert first.rows_out >= 99
    assert both.rows_in > first.rows_in
    assert both.rows_out > first.rows_out


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_the_health_of_an_operator_in_a_body_is_gone_until_an_epoch_ends_well(mode: str, channels: int) -> None:
    body = "select x.a, cast(cast(e.b as varchar) || 'x' as bigint) from x join edges e on x.b = e.a where e.b > 99"
    plan = Query(
        {
            "x": Looped(
                f"{body} union all select x.a, e.b from x join edges e on x.b = e.a and e.b < 99",
                "select a, b from seeds",
                rounds=50,
            )
        }
    ).plan()
    how = {"mode": mode, **on_channels(channels, mode), "on_error": "skip_epoch", "loops": "general"}
    with tidegate.local(roots=()) as client, client.create_task(plan, **how) as task:
        health = []
        for edges in (FAN, FAN.filter(pa.compute.less(FAN["b"], 99)), FAN):
            with suppress(EpochError):
                task.run_epoch({"edges": edges, "seeds": SEED}).table()
            statistics = task.info().statistics
            ill = sorted(operator.operator for operator in statistics.operators if not operator.health)
            health.append((ill, [loop_entry.health for loop_entry in statistics.loops]))
    ill = ["Compute", "Loop"] if mode == "per_epoch" else ["Compute"]
    assert health == [(ill, [0]), ([], [1]), (ill, [0])]


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_the_health_of_a_loop_that_fails_at_its_limit_is_gone(mode: str) -> None:
    cycle = table([(0, 1, 1), (1, 0, 1)], SCHEMAS["edges"])
    with tidegate.local(roots=()) as client, client.create_task(PLAN, mode=mode) as task:
        with pytest.raises(tidegate.TaskFailed, match="50 rounds"):
            task.run_epoch({"edges": cycle, "seeds": SEED}).table()
        statistics = task.info().statistics
    assert [loop_entry.health for loop_entry in statistics.loops] == [0]
    ill = [operator.operator for operator in statistics.operators if not operator.health]
    assert ill == (["Loop"] if mode == "per_epoch" else [])


def test_the_health_of_a_loop_around_what_fails_is_gone_and_no_other_ones() -> None:
    many = changes([((0, 1, 1), 1 << 62)], SCHEMAS["edges"])
    fails = Looped("select x.a, e.b from x join edges e on x.b = e.a", "select a, b from seeds", rounds=50)
    goes_on = Looped("select distinct y.a, m.b from y join more m on y.b = m.a", "select a, b from seeds")
    plan = Query({"x": fails, "y": goes_on}, "select a, b from x union all select a, b from y").plan()
    with tidegate.local(roots=()) as client, client.create_task(plan, mode="continuous") as task:
        with pytest.raises(tidegate.TaskFailed, match="64 bits"):
            task.run_epoch({"edges": many, "seeds": changes([((0, 0), 4)], SCHEMAS["seeds"]), "more": MORE}).table()
        assert {loop_entry.name: loop_entry.health for loop_entry in task.info().statistics.loops} == {"x": 0, "y": 1}


def test_an_epoch_that_ends_well_is_health_again() -> None:
    cycle = table([(0, 1, 1), (1, 0, 1)], SCHEMAS["edges"])
    with tidegate.local(roots=()) as client, client.create_task(PLAN, on_error="skip_epoch") as task:
        health = []
        for edges in (FAN, cycle, FAN):
            with suppress(EpochError):
                task.run_epoch({"edges": edges, "seeds": SEED}).table()
            statistics = task.info().statistics
            [loop] = statistics.loops
            health.append((loop.health, min(operator.health for operator in statistics.operators)))
    assert health == [(1, 1), (0, 0), (1, 1)]


@pytest.mark.parametrize(
    ("mode", "channels"), [("per_epoch", 3), ("continuous", 1), *in_search(("per_epoch", 1), ("continuous", 3))]
)
@pytest.mark.parametrize("name", ["reachability", "cheapest path", "components"])
def test_no_row_leaves_a_loop_before_it_is_quiet(
    name: str, mode: str, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an epoch that inserts a cycle, and in one that cuts it off: nothing is emitted until the loop passes on."""
    early, passed, passing = [], [], []
    emit, pass_on, initialise = Emitter.emit, LoopNode.pass_on, LoopNode.__init__
    outputs: set[int] = set()

    def emitted(self: Emitter, change: Change) -> None:
        if id(self) in outputs and len(change):
            (passed if passing else early).append(len(change))
        emit(self, change)

    def passes(self: LoopNode, event: Event, due: object) -> None:
        passing.append(event)
        pass_on(self, event, due)
        passing.pop()

    def makes(self: LoopNode, *arguments: object, **more: object) -> None:
        initialise(self, *arguments, **more)
        outputs.update(map(id, self.outputs))

    monkeypatch.setattr(Emitter, "emit", emitted)
    monkeypatch.setattr(LoopNode, "pass_on", passes)
    monkeypatch.setattr(LoopNode, "__init__", makes)
    cycle = [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 1, 1), (0, 3, 9)]
    with (
        tidegate.local(roots=()) as client,
        client.create_task(QUERIES[name].plan(), **on_channels(channels, mode), loops="general") as task,
    ):
        first = {"edges": table(cycle, SCHEMAS["edges"]), "seeds": SEED}
        cut = changes([((0, 1, 1), -1), ((0, 3, 9), -1)], SCHEMAS["edges"])
        epochs = (first, {"edges": cut} if mode == "continuous" else first)
        fed = [{source: epoch[source] for source in task.sources if source in epoch} for epoch in epochs]
        rows = [len(rows_of(task.run_epoch(splits).table())) for splits in fed]
    assert all(rows)
    assert early == []
    assert sum(passed) == sum(rows)
