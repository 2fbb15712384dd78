"""A continuous task restored at any barrier, on any number of channels, goes on as the undisturbed one does."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidegate
from examples import cheapest_path, connected_components, group_permissions, org_chart, transitive_closure
from tidegate.operators.arrays.digest import digest

from ..conformance.test_random_plans import QUERIES, SCHEMA, planned
from ..searching import one_of_each, tries
from .histories import Epochs, changes
from .histories import planned as planned_over
from .test_random_changes import histories
from .test_types import VALUES

Splits = Mapping[str, object]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tidegate.Client]:
    with tidegate.local(roots=(), checkpoint_root=tmp_path_factory.mktemp("checkpoints")) as client:
        yield client


def outcome(epoch: tidegate.Epoch) -> tuple[int, str]:
    """The number of an epoch and the digest of its rows, in their order."""
    table = epoch.table()
    return epoch.number, digest(table.schema, table.to_batches())


def check_restores(client: tidegate.Client, plan: object, epochs: Sequence[Splits], **options: object) -> None:
    """From the checkpoint of each barrier, the epochs that remain are those of the undisturbed task."""
    with client.create_task(plan, mode="continuous", **options) as task:
        ran = [task.run_epoch(epoch, checkpoint=True) for epoch in epochs]
        expected = [outcome(epoch) for epoch in ran]
    for number, epoch in enumerate(ran, 1):
        with client.create_task(plan, mode="continuous", restore=epoch.checkpoint, **options) as again:
            assert [outcome(again.run_epoch(splits)) for splits in epochs[number:]] == expected[number:]


def splits_of(history: Epochs, names: Sequence[str]) -> list[Splits]:
    return [{name: changes(epoch[name], SCHEMA) for name in names} for epoch in history]


@settings(max_examples=tries(7), deadline=None, suppress_health_check=list(HealthCheck))
@given(sql=QUERIES, history=histories(), channels=st.integers(min_value=1, max_value=2))
def test_random_plans_go_on_from_every_barrier(
    client: tidegate.Client, sql: str, history: Epochs, channels: int
) -> None:
    plan = planned(sql)
    with client.create_task(plan, mode="continuous") as task:
        names = tuple(task.sources)
    check_restores(client, plan, splits_of(history, names), channels=channels)


@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_groups_by_keys_of_every_type_go_on_from_every_barrier(client: tidegate.Client, type_: pa.DataType) -> None:
    one, other = VALUES[type_]
    schema = pa.schema([("x", type_)])
    epochs = [{"a": pa.table({"x": pa.array(values, type_)})} for values in ([one, other, None], [other], [None, one])]
    check_restores(client, planned_over("SELECT x, count(*) AS n FROM a GROUP BY x", {"a": schema}), epochs)


# The loops of the examples, over histories in which edges come and go.


@dataclass(frozen=True)
class LoopExample:
    """A plan, and the rows that its sources may have: rows of `edges` come and go, those of `fixed` stay."""

    plan: Callable[[], object]
    edges: tuple[str, pa.Table]
    fixed: Mapping[str, pa.Table] = field(default_factory=dict)


LOOPS = {
    "cheapest path": LoopExample(cheapest_path.costs, ("roads", cheapest_path.ROADS), {"start": cheapest_path.START}),
    "components": LoopExample(connected_components.components, ("links", connected_components.ONE_MORE)),
    "permissions": LoopExample(
        group_permissions.permissions,
        ("memberships", group_permissions.MEMBERSHIPS),
        {"grants": group_permissions.GRANTS},
    ),
    "org chart": LoopExample(org_chart.chart, ("people", org_chart.PEOPLE)),
    "trips": LoopExample(transitive_closure.trips, ("flights", transitive_closure.DAYS[0])),
}


def coming_and_going(example: LoopExample, seed: int) -> list[Splits]:
    """In the first epoch all rows are there but one; then in each a random one is inserted or deleted."""
    source, rows = example.edges
    luck = random.Random(seed)
    there = [True] * rows.num_rows
    there[luck.randrange(rows.num_rows)] = False
    epochs: list[Splits] = [{**example.fixed, source: rows.filter(pa.array(there))}]
    for _ in range(5):
        at = luck.randrange(rows.num_rows)
        weight = pa.array([-1 if there[at] else 1], pa.int64())
        there[at] = not there[at]
        epochs.append({source: tidegate.Changes(rows.slice(at, 1).append_column("change", weight), "change")})
    return epochs


def test_no_example_with_a_loop_is_left_out(project: Path) -> None:
    looping = {path.stem for path in (project / "examples").glob("*.py") if "iterate(" in path.read_text()}
    assert looping == {example.plan.__module__.removeprefix("examples.") for example in LOOPS.values()}


@pytest.mark.parametrize(("name", "channels"), one_of_each(product(LOOPS, [1, 3])))
def test_loops_go_on_from_every_barrier(client: tidegate.Client, name: str, channels: int) -> None:
    example = LOOPS[name]
    check_restores(client, example.plan(), coming_and_going(example, seed=channels), channels=channels)


# What is kept, and what is not.

SUMS = "select k, count(*) as n, sum(v) as total from a group by k"
PAIRS = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def pairs(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(keys, pa.int64())}, PAIRS)


def sums() -> bytes:
    return planned_over(SUMS, {"a": PAIRS})


GO_ON = """
import json, sys, tidegate
from tidegate.operators.arrays.digest import digest
import pyarrow as pa

root, restore, plan = sys.argv[1:]
with tidegate.local(roots=(), checkpoint_root=root) as client:
    with client.create_task(open(plan, "rb").read(), mode="continuous", channels=2, restore=restore) as task:
        for keys in json.load(sys.stdin):
            column = pa.array(keys, pa.int64())
            table = task.run_epoch({"a": pa.table({"k": column, "v": column})}).table()
            print(digest(table.schema, table.to_batches()))
"""


def test_another_process_goes_on_with_the_same_rows(tmp_path: Path) -> None:
    keys = [[number * at % 23 for at in range(60)] for number in range(1, 6)]
    (tmp_path / "plan").write_bytes(sums())
    with tidegate.local(roots=(), checkpoint_root=tmp_path) as client:
        task = client.create_task(sums(), mode="continuous", channels=2)
        ran = [
            task.run_epoch({"a": pairs(*key_lists)}, checkpoint="last" if n == 2 else False)
            for n, key_lists in enumerate(keys)
        ]
        expected = [outcome(epoch)[1] for epoch in ran[3:]]
    done = subprocess.run(
        [sys.executable, "-c", GO_ON, tmp_path, ran[2].checkpoint, tmp_path / "plan"],
        input=json.dumps(keys[3:]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == expected


def test_a_checkpoint_writes_what_has_changed_and_shares_the_rest(tmp_path: Path) -> None:
    with tidegate.local(roots=(), checkpoint_root=tmp_path) as client:
        task = client.create_task(sums(), mode="continuous")
        task.run_epoch({"a": pairs(*range(20_000))}, checkpoint=True)
        folder = tmp_path / task.id
        before = {file.name: file.stat().st_ino for file in folder.glob("*.arrow")}
        task.run_epoch({"a": pairs(1, 2, 3)}, checkpoint=True)
        new = [file for file in folder.glob("*.arrow") if file.name not in before]
        assert sum(file.stat().st_size for file in new) < 20_000
        assert {file.name: file.stat().st_ino for file in folder.glob("*.arrow") if file not in new} == before


def test_a_restored_task_has_the_files_of_the_first_one(tmp_path: Path) -> None:
    with tidegate.local(roots=(), checkpoint_root=tmp_path) as client:
        task = client.create_task(sums(), mode="continuous")
        for keys in ([*range(5_000)], [1, 2], [*range(900)]):
            taken = task.run_epoch({"a": pairs(*keys)}, checkpoint="last").checkpoint
        again = client.create_task(sums(), mode="continuous", restore=taken)
        again.run_epoch({}, checkpoint="last")
        first, second = ({file.name for file in (tmp_path / either.id).glob("*.arrow")} for either in (task, again))
        assert first == second


def test_a_static_table_arrives_once_though_it_is_given_again(tmp_path: Path) -> None:
    with tidegate.local(roots=(), checkpoint_root=tmp_path) as client:
        how = {"mode": "continuous", "tables": {"a": pairs(1, 1, 2)}}
        taken = client.create_task(sums(), **how).run_epoch({}, checkpoint=True).checkpoint
        assert client.create_task(sums(), restore=taken, **how).run_epoch({}).table().num_rows == 0


def test_a_row_can_be_deleted_that_was_there_before_the_checkpoint_and_no_other(tmp_path: Path) -> None:
    with tidegate.local(roots=(), checkpoint_root=tmp_path) as client:
        task = client.create_task(sums(), mode="continuous")
        taken = task.run_epoch({"a": pairs(1)}, checkpoint=True).checkpoint
        weight = pa.array([-1], pa.int64())
        for key, there in ((1, True), (2, False)):
            again = client.create_task(sums(), mode="continuous", restore=taken)
            deleted = {"a": tidegate.Changes(pairs(key).append_column("change", weight), "change")}
            if there:
                assert again.run_epoch(deleted).table()["_weight"].to_pylist() == [-1]
            else:
                with pytest.raises(tidegate.TaskFailed, match="deleted more often than inserted"):
                    again.run_epoch(deleted)


def test_a_plan_in_the_other_mode_is_refused(tmp_path: Path) -> None:
    with tidegate.local(roots=(), checkpoint_root=tmp_path) as client:
        taken = client.create_task(sums(), mode="continuous").run_epoch({}, checkpoint=True).checkpoint
        with pytest.raises(tidegate.CheckpointError, match="of a task with mode='continuous'"):
            client.create_task(sums(), restore=taken)
