"""A loader's state fits every loader of the same order, and no other: its options, its tables, a server's ceilings."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.client import Client
from tidegate.executor.runtime.ceilings import Ceilings
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.proto.values import TaskOptions
from tidegate.training import Loader
from tidegate.training.loader_state import ORDER, ROWS

from ...executor.fakes import manager_of
from ...server.running import served
from .conftest import SPLIT_ROWS, numbers

FIXED: Final = {"mode", "determinism", "on_error"}
"""Options that a loader sets itself."""

NEITHER: Final[dict[str, Any]] = {
    "max_pending_epochs": 7,
    "queue_bytes": 32 << 20,
    "output_bytes": 32 << 20,
    "spill_quota": 1 << 30,
    "write_quota": 1 << 30,
    "idle_seconds": 60,
    "epoch_seconds": 60,
    "loop_seconds": 60,
    "loop_rows": 1_000,
    "durability": "none",
    "checkpoint_epochs": 7,
    "checkpoint_seconds": 7,
    "retries": 2,
    "spark": "",
    "result_files": False,
}
"""Options with which an epoch has the same rows in the same order, or fails."""

CHANGES: Final[dict[str, Any]] = {
    "channels": 2,
    "auto_cores": 2,
    "parallel_threshold_seconds": 0,
    "executor": "local",
    "spark_threshold_bytes": TaskOptions().spark_threshold_bytes,  # no other one fits an executor that is not Spark
    "broadcast": ["samples"],
    "memory_limit": 1 << 30,
    "slot_memory": 1 << 28,
    "spill": "ordered",
    "loops": "general",
}


def labelled() -> bytes:
    """The rows of `samples(n)` with their labels."""
    samples, labels = (
        sub.read_named_table(*table) for table in (("samples", {"n": sub.i64}), ("labels", {"m": sub.i64}))
    )
    return bytes(samples.join(labels, sub.col("n") == sub.col("m")).to_plan().SerializeToString())


def loader(client: Client, folder: Path, labels: Any = None, **options: Any) -> Loader:
    tables = {} if labels is None else {"labels": labels}
    plan = numbers() if labels is None else labelled()
    return Loader(client, plan, {"samples": folder}, batch_size=16, tables=tables, **options)


def test_every_option_of_a_task_is_known_to_change_rows_or_order_or_neither() -> None:
    """A new option has to be put where it belongs: into the state, or among those that change nothing."""
    known = sorted(field.name for field in fields(TaskOptions))
    assert sorted([*ROWS, *ORDER, *NEITHER, *FIXED]) == known
    assert CHANGES.keys() == ORDER


@pytest.mark.parametrize("labels", [None, pa.table({"m": [5, 50]})], ids=["row-wise", "join"])
def test_a_state_fits_loaders_with_other_options_that_change_nothing(
    local_client: Client, folder: Path, labels: pa.Table | None
) -> None:
    state = loader(local_client, folder, labels).state_dict()
    loader(local_client, folder, labels, **NEITHER).load_state_dict(state)
    if labels is None:
        loader(local_client, folder, labels, **CHANGES).load_state_dict(state)
        earlier = {**state, "options": {"channels": "2", "memory_limit": "9", "durability": "none"}}  # of old releases
        loader(local_client, folder, labels).load_state_dict(earlier)
        return
    whole = loader(local_client, folder, labels)
    for name in CHANGES:
        with pytest.raises(tidegate.Refused, match=f"options .*{name}"):
            whole.load_state_dict({**state, "options": {name: "other"}})


def test_a_state_fits_a_table_with_the_same_files_alone(local_client: Client, folder: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels"
    labels.mkdir()
    pq.write_table(pa.table({"m": [1, 2, 3]}), labels / "labels.parquet")
    whole = loader(local_client, folder, labels)
    assert next(iter(whole))["n"].tolist() == [1, 2, 3]
    state = whole.state_dict()  # while a task reads
    whole.close()
    shutil.copytree(labels, tmp_path / "copy")
    for same in (labels, tmp_path / "copy", [labels / "labels.parquet"]):
        loader(local_client, folder, same).load_state_dict(state)
    size = (labels / "labels.parquet").stat().st_size
    pq.write_table(pa.table({"m": [1, 2, 4]}), labels / "labels.parquet")
    assert (labels / "labels.parquet").stat().st_size == size
    with pytest.raises(tidegate.Refused, match="tables"):
        loader(local_client, folder, labels).load_state_dict(state)


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Client]:
    """A server that deletes tasks after a minute, and lets a task have one epoch that nobody has read."""
    most = TaskOptions(idle_seconds=60, max_pending_epochs=1)
    ceilings = Ceilings(options={"idle_seconds": 60, "max_pending_epochs": 1})
    engine = PlanEngine(["/"], tmp_path / "spill")
    with (
        closing(manager_of(engine, threads=2, ceilings=ceilings)) as service,
        served(service, defaults=most) as address,
        tidegate.connect(address) as client,
    ):
        yield client


@pytest.mark.parametrize("readers", [1, 2])
def test_a_loader_takes_what_a_server_allows(narrow: Client, folder: Path, readers: int) -> None:
    batches = iter(loader(narrow, folder, readers=readers))
    read = next(batches)["n"].tolist()
    assert {task.options.idle_seconds for task in narrow.tasks()} == {60}
    assert [*read, *(n for batch in batches for n in batch["n"].tolist())] == list(range(sum(SPLIT_ROWS)))
    with pytest.raises(tidegate.InvalidRequest) as refused:
        next(iter(loader(narrow, folder, idle_seconds=61)))
    assert refused.value.reason == "ABOVE_CEILING"


ODD: Final = (None, "x", -1, 1, 3, 2**62, 2**70, 1.5, [], [1], [0, 0], {}, {"a": 1}, True)


def edited(state: dict[str, Any], kept: set[str]) -> Iterator[dict[str, Any]]:
    """The state without each of its fields, and with another value in each of them."""
    for name in state.keys() - kept:
        if state[name] not in (None, [0, 0]):  # what a state without the field means
            yield {field: value for field, value in state.items() if field != name}
        yield from ({**state, name: odd} for odd in ODD if odd != state[name])


@pytest.mark.parametrize("options", [{}, {"turns": 2}, {"worker": 1, "workers": 2}, {"on_error": "skip"}])
def test_a_state_is_refused_with_any_other_value_in_any_field(
    local_client: Client, folder: Path, options: dict[str, Any]
) -> None:
    whole = loader(local_client, folder, **options)
    batches = iter(whole)
    read = [next(batches)["n"].tolist() for _ in range(2)]
    state = whole.state_dict()
    # Earlier states have no checksum and no turns, and options on which the order does not depend.
    for wrong in edited(state, {"checksum", "turns", "options"}):
        with pytest.raises(tidegate.TidegateError, match="state") as refused:
            whole.load_state_dict(wrong)
        assert refused.value.reason in ("BAD_STATE", "STATE_MISMATCH"), wrong
    rest = [batch["n"].tolist() for batch in batches]
    assert read + rest == [batch["n"].tolist() for batch in loader(local_client, folder, **options)]


def test_a_state_of_an_earlier_release_has_no_checksum(local_client: Client, folder: Path) -> None:
    whole = loader(local_client, folder)
    batches = iter(whole)
    next(batches)
    state = whole.state_dict()
    del state["checksum"]
    whole.load_state_dict(state)
    assert next(iter(whole)).number == 1
