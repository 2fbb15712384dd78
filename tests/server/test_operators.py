"""Operators of a server's owner: `tidegate serve --operators MODULE`, from a plan to its rows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import tidegate
from tidegate.proto.encoding import error_status as failures
from tidegate.proto.errors import InvalidRequest, NodeError
from tidegate.relations import UserOperator
from tidegate.server.cli import main
from tidegate.server.setup.registered import registered

from ..executor.operated_plans import I64, operated, plan, read
from .fake_process import server_process

MODULE = "tests.server.owners_operators"


def doubled(name: str = "double") -> bytes:
    return plan(operated(UserOperator(name=name), read("numbers", {"k": I64})), ["k"])


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    arguments = ("serve", "--listen=127.0.0.1:0", f"--operators={MODULE}")
    with server_process("tidegate.server.cli", *arguments) as server, tidegate.connect(server.address) as opened:
        yield opened


def test_a_plan_runs_an_operator_by_its_name(client: tidegate.Client) -> None:
    with client.create_task(doubled()) as task:
        for _ in range(2):
            assert task.run_epoch({"numbers": pa.table({"k": [1, 2]})}).table()["k"].to_pylist() == [1, 2, 1, 2]
    assert "user operator 'double'" in client.explain(doubled()).text


def test_an_unknown_operator_is_refused_with_those_that_are_known(client: tidegate.Client) -> None:
    with pytest.raises(tidegate.PlanError) as refused:
        client.create_task(doubled("dubble"))
    assert "there is no operator 'dubble' in this service; there are: double" in str(refused.value)


def test_the_traceback_of_its_code_reaches_the_client(client: tidegate.Client) -> None:
    with client.create_task(doubled()) as task, pytest.raises(tidegate.TaskFailed) as failed:
        task.run_epoch({"numbers": pa.table({"k": [1, None]})})
    assert "node 'double', channel 0, epoch 1: execute on stream 'rows' raised ValueError" in failed.value.message
    assert 'raise ValueError("a null among the keys")' in failed.value.message


def test_a_long_traceback_travels_by_its_last_lines() -> None:
    lines = "".join(f"\n  line {at}" for at in range(1_000))
    sent = failures.failure(NodeError(f"done raised\nTraceback (most recent call last):{lines}", node="n"))
    assert sum(len(value) for _, value in sent.metadata) < 3_000
    message = failures.error(sent.status, sent.sentence, sent.metadata).message
    assert message.startswith("node 'n': done raised\nTraceback (most recent call last):\n  ...\n")
    assert message.endswith("\n  line 998\n  line 999")


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("no.such.module", "cannot be imported: ModuleNotFoundError"),
        (f"{MODULE}:THESE", f"there is no 'THESE' in module '{MODULE}'"),
        (f"{MODULE}:NO_MAPPING", "'NO_MAPPING' must be a mapping, not int"),
        (f"{MODULE}:WRONG", "map names to the results of tidegate.user_operator"),
    ],
)
def test_a_module_without_operators_is_said_before_the_server_starts(
    module: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--operators", module]) == 2
    assert text in capsys.readouterr().err


def test_two_operators_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="operator 'double' is also in another module"):
        registered([MODULE, MODULE])
