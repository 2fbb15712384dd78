"""The client: forms of plans, options, queries, several tasks."""

from __future__ import annotations

import errno
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from substrait.plan_pb2 import Plan

import tidegate
from tidegate.client import Client
from tidegate.plans import plan_bytes
from tidegate.proto.values import Determinism, PlanBytes

from .conftest import PLAN


def test_query_is_one_epoch_of_a_task_that_is_gone_afterwards(client: Client) -> None:
    assert client.query(PLAN, {"a": pa.table({"x": [1, 2]})}).to_pydict() == {"x": [1, 2]}
    assert list(client.tasks()) == []


def test_query_reads_a_result_beyond_the_limits(client: Client) -> None:
    numbers = pa.table({"x": range(1_000_000)})
    table = client.query(PLAN, {"a": numbers}, output_bytes=100_000, spill_quota=0)
    assert table.num_rows == 1_000_000


def test_tasks_are_strict_and_queries_relaxed_unless_told_otherwise(client: Client) -> None:
    assert client.create_task(PLAN).options.determinism is Determinism.STRICT
    assert client.create_task(PLAN, determinism="relaxed").options.determinism is Determinism.RELAXED


def test_options_are_the_tasks(client: Client) -> None:
    client.create_task(PLAN, max_pending_epochs=3, idle_seconds=60.0)
    (task,) = client.tasks()
    assert (task.options.max_pending_epochs, task.options.idle_seconds) == (3, 60.0)


def test_an_unknown_option_names_the_known_ones(client: Client) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=r"there is no option chanels; there are: mode, .*channels"):
        client.create_task(PLAN, chanels=1)


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
def test_an_option_of_the_wrong_type_is_named(client: Client, name: str, value: object) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=f"{name} must be .*, not {re.escape(repr(value))}"):
        client.create_task(PLAN, **{name: value})


def test_an_unknown_choice_names_the_known_ones(client: Client) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="determinism must be one of strict, relaxed, not 'lax'"):
        client.create_task(PLAN, determinism="lax")


def test_attaching_goes_on_after_what_was_acknowledged(client: Client) -> None:
    task = client.create_task(PLAN)
    task.run_epoch({"a": pa.table({"x": [1]})})
    task.acknowledge(tidegate.Cursor(2, 0))
    again = client.task(task.id)
    assert again.run_epoch({"a": pa.table({"x": [2]})}).table().to_pydict() == {"x": [2]}


def test_attaching_to_a_task_that_is_not_there(client: Client) -> None:
    with pytest.raises(tidegate.NotFound, match="no task 'nobody'"):
        client.task("nobody")


def test_a_plan_may_be_bytes_json_a_file_or_a_message(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text("{}")
    (tmp_path / "p.bin").write_bytes(b"\0")
    message = Plan(expected_type_urls=["t"])
    assert plan_bytes(b"p") == PlanBytes(binary=b"p")
    assert plan_bytes("{}") == plan_bytes(tmp_path / "p.json") == PlanBytes(json="{}")
    assert plan_bytes(tmp_path / "p.bin") == PlanBytes(binary=b"\0")
    assert plan_bytes(message) == PlanBytes(binary=message.SerializeToString())


def test_a_plan_file_that_is_missing_is_looked_for_on_the_clients_side(tmp_path: Path) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=r"nowhere\.bin cannot be read on the client's machine"):
        plan_bytes(tmp_path / "nowhere.bin")


def test_what_is_not_a_plan_is_named() -> None:
    with pytest.raises(tidegate.InvalidRequest, match="not int"):
        plan_bytes(7)  # type: ignore[arg-type]


def test_explain_validate_and_capabilities(client: Client) -> None:
    assert client.explain(PLAN).text
    assert list(client.validate(PLAN)) == []
    assert client.capabilities().version


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.tasks(),
        lambda client: client.task("0" * 32),
        lambda client: client.create_task(PLAN),
        lambda client: client.query(PLAN),
        lambda client: client.validate(PLAN),
        lambda client: client.explain(PLAN),
        lambda client: client.capabilities(),
        lambda client: client.checkpoints("0" * 32),
    ],
)
def test_a_client_that_was_closed_answers_nothing_any_more(client: Client, call: Callable[[Client], object]) -> None:
    client.close()
    with pytest.raises((tidegate.Refused, tidegate.Unavailable), match="closed") as refused:
        call(client)
    assert refused.value.reason in ("SERVICE_CLOSED", "CLOSED")


@pytest.mark.parametrize("name", ["file/spill", "file"])
def test_a_spill_directory_that_cannot_be_written_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(tidegate.InvalidRequest, match=rf"{tmp_path}/{name}, its folder for data .*: ") as refused:
        tidegate.local(spill_directory=tmp_path / name)
    assert refused.value.reason == "SPILL_DIRECTORY"


def test_a_spill_directory_that_may_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(**named: object) -> str:  # as for a user who is not root
        raise PermissionError(errno.EACCES, "Permission denied", str(named["dir"]))

    monkeypatch.setattr(tempfile, "mkdtemp", denied)
    with pytest.raises(tidegate.InvalidRequest, match=rf"{tmp_path}, its folder for data .*: Permission denied"):
        tidegate.local(spill_directory=tmp_path)
