"""The client: forms of plans, options, queries, several tasks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from substrait.plan_pb2 import Plan

import tidegate
from tidegate.client import Client
from tidegate.plans import plan_bytes
from tidegate.proto.values import Determinism, PlanBytes

from ..executor.fakes import FakeEngine

Open = Callable[..., Client]


def test_query_is_one_epoch_of_a_task_that_is_gone_afterwards(open_client: Open) -> None:
    client = open_client()
    assert client.query(b"plan", {"a": pa.table({"x": [1, 2]})}).to_pydict() == {"x": [1, 2]}
    assert list(client.tasks()) == []


def test_query_reads_a_result_beyond_the_limits(open_client: Open) -> None:
    table = open_client(FakeEngine(repeat=100)).query(
        b"plan", {"a": pa.table({"x": range(10_000)})}, output_bytes=100_000, spill_quota=0
    )
    assert table.num_rows == 1_000_000


def test_tasks_are_strict_and_queries_relaxed_unless_told_otherwise(open_client: Open) -> None:
    client = open_client()
    assert client.create_task(b"plan").options.determinism is Determinism.STRICT
    assert client.create_task(b"plan", determinism="relaxed").options.determinism is Determinism.RELAXED


def test_options_are_the_tasks(open_client: Open) -> None:
    client = open_client()
    client.create_task(b"plan", max_pending_epochs=3, idle_seconds=60.0)
    (task,) = client.tasks()
    assert (task.options.max_pending_epochs, task.options.idle_seconds) == (3, 60.0)


def test_an_unknown_option_names_the_known_ones(open_client: Open) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=r"no option is called chanels; there are: mode, .*channels"):
        open_client().create_task(b"plan", chanels=1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory_limit", "1GB"),
        ("memory_limit", -1),
        ("memory_limit", 2**70),
        ("channels", True),
        ("idle_seconds", "1"),
        ("time_zone", 3),
        ("mode", None),
    ],
)
def test_an_option_of_the_wrong_type_is_named(open_client: Open, name: str, value: object) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=f"{name} is .*, not {re.escape(repr(value))}"):
        open_client().create_task(b"plan", **{name: value})


def test_an_unknown_choice_names_the_known_ones(open_client: Open) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="determinism is one of strict, relaxed, not 'lax'"):
        open_client().create_task(b"plan", determinism="lax")


def test_attaching_goes_on_after_what_was_acknowledged(open_client: Open) -> None:
    client = open_client()
    task = client.create_task(b"plan")
    task.run_epoch({"a": pa.table({"x": [1]})})
    task.acknowledge(tidegate.Cursor(2, 0))
    again = client.task(task.id)
    assert again.run_epoch({"a": pa.table({"x": [2]})}).table().to_pydict() == {"x": [2]}


def test_attaching_to_a_task_that_is_not_there(open_client: Open) -> None:
    with pytest.raises(tidegate.NotFound, match="no task 'nobody'"):
        open_client().task("nobody")


def test_a_plan_may_be_bytes_json_a_file_or_a_message(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text("{}")
    (tmp_path / "p.bin").write_bytes(b"\0")
    message = Plan(expected_type_urls=["t"])
    assert plan_bytes(b"p") == PlanBytes(binary=b"p")
    assert plan_bytes("{}") == plan_bytes(tmp_path / "p.json") == PlanBytes(json="{}")
    assert plan_bytes(tmp_path / "p.bin") == PlanBytes(binary=b"\0")
    assert plan_bytes(message) == PlanBytes(binary=message.SerializeToString())


def test_a_plan_file_that_is_missing_is_looked_for_on_the_clients_side(tmp_path: Path) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=r"nowhere\.bin cannot be read on this machine, the client's"):
        plan_bytes(tmp_path / "nowhere.bin")


def test_what_is_not_a_plan_is_named() -> None:
    with pytest.raises(tidegate.InvalidRequest, match="not int"):
        plan_bytes(7)  # type: ignore[arg-type]


def test_explain_validate_and_capabilities(open_client: Open) -> None:
    client = open_client()
    assert client.explain(b"plan").text == "fake"
    assert list(client.validate(b"plan")) == []
    assert client.capabilities().version == "0"
