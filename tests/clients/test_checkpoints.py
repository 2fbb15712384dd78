"""Checkpoints as their user sees them, in this process and over gRPC: asked for at barriers, gone on from elsewhere."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest

import tidegate
from tidegate.client import Client
from tidegate.executor.checkpoints import manifest
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.operators.core.operator import StateReader, StateWriter

from ..executor.fakes import POISON, FakeEngine, batch
from ..on_channels import on_channels
from . import plans

OpenClient = Callable[..., Client]


@dataclass
class Adding(FakeEngine):
    """Answers each row with the sum of all so far, over all epochs."""

    total: int = 0
    broken: list[Exception] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.function, self.save, self.load = self._add, self._save, self._load

    def _add(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        self.total += sum(rows.column(0).to_pylist())
        return batch(self.total)

    def _save(self, state: StateWriter) -> None:
        state.write("total", 1, pa.table({"total": [self.total]}))
        if self.broken:
            raise self.broken.pop()

    def _load(self, state: StateReader) -> None:
        [self.total] = state.read("total")[1]["total"].to_pylist()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints"


@pytest.fixture
def adding(open_client: OpenClient, root: Path) -> Callable[..., Client]:
    """A client of a service that adds up, which nobody else uses."""
    return lambda **how: open_client(Adding(**how), checkpoint_root=root)


def numbers(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def values(epoch: tidegate.Epoch) -> list[int]:
    return epoch.table()["x"].to_pylist()


def test_a_task_goes_on_elsewhere_behind_the_epoch_of_its_checkpoint(adding: Callable[..., Client]) -> None:
    with adding().create_task(b"plan") as task:
        task.run_epoch({"a": [numbers(1), numbers(2)]})
        taken = task.run_epoch({"a": numbers(3)}, checkpoint=True).checkpoint
        task.run_epoch({"a": numbers(100)})
    again = adding().create_task(b"plan", restore=taken)
    assert again.cursor == tidegate.Cursor(3, 0)
    added = again.add_split("a", numbers(4))
    assert (added.sequence, added.epoch, again.request_barrier()) == (4, 3, 3)
    assert again.read_epoch()["x"].to_pylist() == [10]


def test_a_checkpoints_id_is_its_task_and_its_name(adding: Callable[..., Client]) -> None:
    task = adding().create_task(b"plan")
    taken = [task.run_epoch({}, checkpoint=wanted).checkpoint for wanted in (True, "mine", False)]
    assert taken == [f"{task.id}/epoch-1", f"{task.id}/mine", None]


def test_a_split_that_was_sealed_before_the_checkpoint_is_a_duplicate(adding: Callable[..., Client]) -> None:
    client = adding()
    taken = client.create_task(b"plan").run_epoch({"a": [numbers(1), numbers(2)]}, checkpoint=True).checkpoint
    again = client.create_task(b"plan", restore=taken)
    assert again.add_split("a", numbers(2), sequence=2).duplicate
    assert not again.add_split("a", numbers(3), sequence=3).duplicate


def test_what_was_added_but_not_sealed_is_no_part_of_a_checkpoint(adding: Callable[..., Client]) -> None:
    client = adding()
    task = client.create_task(b"plan")
    task.add_split("a", numbers(1))
    task.request_barrier(checkpoint=True)
    task.add_split("a", numbers(2))
    task.read_epoch()
    [taken] = task.checkpoints()
    again = client.create_task(b"plan", restore=taken.id)
    assert again.sources["a"].last_added == 1


def test_checkpoints_outlive_their_task_and_are_listed_by_epoch(adding: Callable[..., Client]) -> None:
    client = adding()
    with client.create_task(b"plan") as task:
        for name in ("z", "a"):
            task.run_epoch({"a": tidegate.FileSplit("1", watermark=7)}, checkpoint=name)
    listed = client.checkpoints(task.id)
    assert [(checkpoint.id, checkpoint.epoch, checkpoint.watermark) for checkpoint in listed] == [
        (f"{task.id}/z", 1, 7),
        (f"{task.id}/a", 2, 7),
    ]
    assert all(checkpoint.size > 0 for checkpoint in listed)


def test_a_name_that_is_given_again_replaces_the_checkpoint(adding: Callable[..., Client]) -> None:
    client = adding()
    task = client.create_task(b"plan")
    for number in (1, 2):
        task.run_epoch({"a": numbers(number)}, checkpoint="last")
    assert [checkpoint.epoch for checkpoint in task.checkpoints()] == [2]


def test_a_checkpoint_that_fails_leaves_the_epoch_and_the_older_checkpoints_as_they_are(
    open_client: OpenClient, root: Path
) -> None:
    engine = Adding()
    client = open_client(engine, checkpoint_root=root)
    task = client.create_task(b"plan")
    task.run_epoch({"a": numbers(1)}, checkpoint="last")
    engine.broken.append(OSError("no space"))
    epoch = task.run_epoch({"a": numbers(2)}, checkpoint="last")
    assert values(epoch) == [3]
    with pytest.raises(tidegate.CheckpointError, match="'last' cannot be written: no space"):
        _ = epoch.checkpoint
    assert [checkpoint.epoch for checkpoint in task.checkpoints()] == [1]
    assert task.run_epoch({"a": numbers(3)}, checkpoint="last").checkpoint == f"{task.id}/last"


def test_a_skipped_epoch_can_have_a_checkpoint(adding: Callable[..., Client]) -> None:
    client = adding()
    task = client.create_task(b"plan", on_error="skip_epoch")
    with pytest.raises(tidegate.EpochError):
        task.run_epoch({"a": numbers(POISON)}, checkpoint=True)
    [taken] = task.checkpoints()
    assert client.create_task(b"plan", restore=taken.id).cursor == tidegate.Cursor(2, 0)


def test_a_request_that_joins_a_seal_may_ask_for_its_checkpoint(adding: Callable[..., Client]) -> None:
    task = adding().create_task(b"plan")
    task.add_split("a", numbers(1), sequence=2)
    assert task.request_barrier() == 1
    assert [task.request_barrier(checkpoint="x"), task.request_barrier(1, checkpoint=True)] == [1, 1]
    task.add_split("a", numbers(1), sequence=1)
    epoch = next(task.epochs())
    assert epoch.checkpoint == f"{task.id}/x"


def test_a_checkpoint_without_a_name_is_asked_for_again_by_its_epochs(adding: Callable[..., Client]) -> None:
    task = adding().create_task(b"plan")
    task.add_split("a", numbers(1))
    assert task.request_barrier(checkpoint=True) == 1
    epoch = next(task.epochs())
    for again in (True, "epoch-1"):
        assert task.request_barrier(1, checkpoint=again) == 1
    assert epoch.checkpoint == f"{task.id}/epoch-1"


def test_an_epoch_that_has_reached_its_barrier_gets_no_checkpoint(adding: Callable[..., Client]) -> None:
    task = adding().create_task(b"plan")
    task.run_epoch({})
    with pytest.raises(tidegate.Refused, match="barrier of epoch 1: the epoch has reached") as refused:
        task.request_barrier(1, checkpoint=True)
    assert refused.value.reason == "CHECKPOINT_TOO_LATE"


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "", "a" * 101, "dotted.name"])
def test_a_name_that_could_lead_elsewhere_is_refused(adding: Callable[..., Client], name: str) -> None:
    with pytest.raises(tidegate.InvalidRequest) as refused:
        adding().create_task(b"plan").request_barrier(checkpoint=name)
    assert refused.value.reason == "CHECKPOINT_NAME"


@pytest.mark.parametrize("identity", ["../x", "/etc/passwd", "a/b/c", "a/../b", "only", "a/.b"])
def test_an_id_that_could_lead_elsewhere_is_refused(adding: Callable[..., Client], identity: str) -> None:
    with pytest.raises(tidegate.InvalidRequest) as refused:
        adding().create_task(b"plan", restore=identity)
    assert refused.value.reason == "CHECKPOINT_ID"


def test_without_a_folder_for_them_checkpoints_are_refused_with_a_sentence(open_client: OpenClient) -> None:
    client = open_client(Adding())
    task = client.create_task(b"plan")
    calls = (
        lambda: task.request_barrier(checkpoint=True),
        lambda: client.create_task(b"plan", restore="a/b"),
        task.checkpoints,
    )
    for call in calls:
        with pytest.raises(tidegate.Refused, match=r"--checkpoint-root DIR, tidegate\.local\(checkpoint_root=DIR\)"):
            call()
    assert task.run_epoch({}).number == 1


def test_another_plan_is_refused(adding: Callable[..., Client]) -> None:
    client = adding()
    taken = client.create_task(b"plan").run_epoch({}, checkpoint=True).checkpoint
    with pytest.raises(tidegate.CheckpointError, match="is of another plan") as refused:
        client.create_task(b"other", restore=taken)
    assert refused.value.reason == "CHECKPOINT_OTHER_PLAN"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("channels", 2), ("time_zone", "Europe/Paris"), ("memory_limit", 1 << 30), ("loops", "general")),
        *(("parallel_threshold_seconds", 0.0), ("missing_columns", "null"), ("write_format", "arrow")),
    ],
)
def test_other_options_are_refused_and_named(adding: Callable[..., Client], name: str, value: object) -> None:
    client = adding()
    task = client.create_task(b"plan")
    taken = task.run_epoch({}, checkpoint=True).checkpoint
    before = getattr(task.options, name)
    before = before.value if isinstance(before, enum.Enum) else before
    with pytest.raises(tidegate.CheckpointError, match=rf"of a task with {name}={before!r}.* give {name}=") as refused:
        client.create_task(b"plan", restore=taken, **{name: value})
    assert refused.value.reason == "CHECKPOINT_OTHER_OPTIONS"
    assert client.create_task(b"plan", restore=taken, max_pending_epochs=3, on_error="skip_epoch")


def test_an_option_that_is_newer_than_the_checkpoint_had_its_default(adding: Callable[..., Client], root: Path) -> None:
    client = adding()
    task = client.create_task(b"plan")
    taken = task.run_epoch({}, checkpoint=True).checkpoint
    [file] = (root / task.id).glob("*.json")
    then = manifest.decode(file.read_bytes(), "it")
    options = {name: value for name, value in then.origin.options.items() if name != "parallel_threshold_seconds"}
    assert options != then.origin.options
    file.write_bytes(manifest.encode(replace(then, origin=replace(then.origin, options=options))))
    assert client.create_task(b"plan", restore=taken)
    with pytest.raises(tidegate.CheckpointError, match=r"of a task with parallel_threshold_seconds=0\.075"):
        client.create_task(b"plan", restore=taken, parallel_threshold_seconds=0.0)


def test_a_damaged_checkpoint_makes_no_task(adding: Callable[..., Client], root: Path) -> None:
    client = adding()
    task = client.create_task(b"plan")
    taken = task.run_epoch({}, checkpoint=True).checkpoint
    [file] = (root / task.id).glob("*.arrow")
    file.write_bytes(b"")
    with pytest.raises(tidegate.CheckpointError, match="is damaged"):
        client.create_task(b"plan", restore=taken)
    assert [listed_task.id for listed_task in client.tasks()] == [task.id]


def test_state_of_another_version_makes_no_task(open_client: OpenClient, root: Path) -> None:
    taken = open_client(Adding(), checkpoint_root=root).create_task(b"plan").run_epoch({}, checkpoint=True).checkpoint
    with pytest.raises(tidegate.CheckpointError, match="has 'total', which this version of Tidegate does not keep"):
        open_client(FakeEngine(), checkpoint_root=root).create_task(b"plan", restore=taken)


# Real plans, whose epochs leave nothing behind: a checkpoint is their place.


@pytest.fixture
def client(open_client: OpenClient, tmp_path: Path, root: Path) -> Client:
    return open_client(PlanEngine([], tmp_path), checkpoint_root=root)


def rows(*values: int) -> pa.Table:
    return pa.table({"k": [1] * len(values), "v": values})


@pytest.mark.parametrize("channels", [1, 2])
def test_a_per_epoch_task_goes_on_with_the_next_number(client: Client, channels: int) -> None:
    task = client.create_task(plans.totals(), **on_channels(channels))
    taken = task.run_epoch({"rows": rows(1, 2)}, checkpoint=True).checkpoint
    expected = task.run_epoch({"rows": rows(3, 4)})
    again = client.create_task(plans.totals(), restore=taken, **on_channels(channels)).run_epoch({"rows": rows(3, 4)})
    assert (again.number, again.table()) == (expected.number, expected.table())


def test_the_plan_may_come_in_another_encoding(client: Client) -> None:
    taken = client.create_task(plans.totals()).run_epoch({}, checkpoint=True).checkpoint
    assert client.create_task(plans.totals_json(), restore=taken).cursor == tidegate.Cursor(2, 0)


def test_other_rows_in_a_static_table_are_refused(client: Client) -> None:
    task = client.create_task(plans.totals(), tables={"rows": rows(1, 2)})
    taken = task.run_epoch({}, checkpoint=True).checkpoint
    with pytest.raises(tidegate.CheckpointError, match=r"2 rows in .* 'rows', .* has 3 rows in .* 'rows'"):
        client.create_task(plans.totals(), tables={"rows": rows(1, 2, 3)}, restore=taken)
    with pytest.raises(tidegate.CheckpointError, match=r"2 rows in .* 'rows', .* has no static source 'rows'"):
        client.create_task(plans.totals(), restore=taken)
