"""The ceilings that an operator sets with options of `tidegate serve`: callers of such a server meet each of them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path

import pytest

import tidegate
from tidegate.server import serving
from tidegate.server.cli import main
from tidegate.server.cli.serve_options import SIZES
from tidegate.server.setup.settings import Settings

from ..executor.plans import passed_through
from .principals import TOKENS

PLAN = passed_through("l")
MIB = 1 << 20
LEAST = {"memory_limit": 32 * MIB, **{name: MIB for name in SIZES if name != "memory_limit"}}
"""The limits of a small task."""

Serve = Callable[[list[str], Callable[[str], None]], None]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Run `tidegate serve` with options, in this process, for as long as a caller of its address takes."""

    def run(options: list[str], call: Callable[[str], None]) -> None:
        async def serve_a_caller(service: serving.Backend, settings: Settings, _ready: object) -> bool:
            async with serving.Server(service, settings) as server:
                await asyncio.to_thread(call, server.address)
            return True

        monkeypatch.setattr(serving, "serve", serve_a_caller)
        folders = ["--root", str(tmp_path / "root"), "--spill", str(tmp_path / "spill")]
        assert main(["serve", "--listen", "127.0.0.1:0", "--no-flight", *folders, *options]) == 0
        gc.freeze()  # as all other tests are run

    (tmp_path / "root").mkdir()
    return run


@pytest.fixture
def tokens(tmp_path: Path) -> str:
    """The option for a file with the tokens of Alice and Bob."""
    path = tmp_path / "tokens"
    path.write_text("".join(f"{name} {token}\n" for name, token in TOKENS.items()))
    path.chmod(0o600)
    return f"--tokens={path}"


def refusal(client: tidegate.Client, **options: object) -> tuple[str, str]:
    """The reason and the sentence with which the server makes no task of these options."""
    with pytest.raises(tidegate.TidegateError) as refused:
        client.create_task(PLAN, **options)
    return refused.value.reason, str(refused.value)


def flag(name: str, value: object) -> str:
    return f"--{name.replace('_', '-')}={value}"


def test_no_task_has_more_of_an_option_than_the_server(serve: Serve) -> None:
    most = {**dict.fromkeys(SIZES, 64 * MIB), "max_pending_epochs": 3, "idle_seconds": 40.0, "epoch_seconds": 50.0}

    def call(address: str) -> None:
        with tidegate.connect(address) as client:
            for name, value in most.items():
                reason, sentence = refusal(client, **{name: value + 1})
                assert (reason, f"{name}={value + 1} is too high" in sentence) == ("ABOVE_CEILING", True), name
            with client.create_task(PLAN, idle_seconds=0, epoch_seconds=0) as task:
                options = task.info().options
                assert {name: getattr(options, name) for name in most} == most

    serve([flag(name, value) for name, value in most.items()], call)


def test_callers_without_tokens_may_ask_for_all_but_more_memory_than_there_is(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = {"memory_limit": 5 << 30, "queue_bytes": 5 << 30, "output_bytes": 5 << 30}
    monkeypatch.setattr("tidegate.operators.core.machine.usable_memory", lambda: 5 << 30)

    def call(address: str) -> None:
        with tidegate.connect(address) as client:
            tasks = [client.create_task(PLAN, **most, spill_quota=1 << 50, idle_seconds=0) for _ in range(3)]
            assert tasks[0].info().options.idle_seconds == 0
            assert refusal(client)[0] == "TOO_MANY_TASKS"
            tasks[0].delete()
            for name, value in most.items():
                assert refusal(client, **{name: value + 1})[0] == "ABOVE_CEILING", name

    serve(["--max-tasks=3"], call)


def test_a_small_machine_refuses_no_default_and_nothing_that_its_operator_allows(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.operators.core.machine.usable_memory", lambda: 1 << 30)

    def call(address: str) -> None:
        with tidegate.connect(address) as client:
            client.create_task(PLAN, memory_limit=4 << 30, queue_bytes=2 << 30).delete()
            assert refusal(client, memory_limit=(4 << 30) + 1)[0] == "ABOVE_CEILING"

    serve(["--queue-bytes=2GiB"], call)


def test_all_tasks_of_a_principal_have_no_more_of_an_option_than_a_principal_may(serve: Serve, tokens: str) -> None:
    def call(address: str) -> None:
        with (
            tidegate.connect(address, token=TOKENS["alice"]) as alice,
            tidegate.connect(address, token=TOKENS["bob"]) as bob,
            alice.create_task(PLAN, **LEAST),
        ):
            for name, least in LEAST.items():
                more = {**LEAST, name: 2 * least + 1}
                reason, sentence = refusal(alice, **more)
                asked = f"{name}={3 * least}: your tasks have {least}, and the new task asks for {2 * least + 1};"
                assert (reason, asked in sentence) == ("PRINCIPAL_CEILING", True), sentence
                bob.create_task(PLAN, **more).delete()
            alice.create_task(PLAN, **{name: 2 * least for name, least in LEAST.items()}).delete()

    serve([tokens, *(flag(f"{name}_per_principal", 3 * least) for name, least in LEAST.items())], call)


@pytest.mark.parametrize(
    ("options", "of_alice", "of_bob"),
    [
        (["--max-tasks=5", "--max-tasks-per-principal=4"], (4, "you have 4 tasks"), (1, "there are 5 tasks")),
        (["--max-tasks=5"], (2, "you have 2 tasks"), (2, "you have 2 tasks")),  # half of all for each
        (["--max-tasks=1"], (1, "you have 1 tasks"), (0, "there are 1 tasks")),
    ],
)
def test_there_are_so_many_tasks_and_so_many_of_a_principal(
    options: list[str], of_alice: tuple[int, str], of_bob: tuple[int, str], serve: Serve, tokens: str
) -> None:
    def call(address: str) -> None:
        for who, (count, said) in (("alice", of_alice), ("bob", of_bob)):
            with tidegate.connect(address, token=TOKENS[who]) as client:
                for _ in range(count):
                    client.create_task(PLAN)
                reason, sentence = refusal(client)
                assert (reason, said in sentence) == ("TOO_MANY_TASKS", True), sentence

    serve([tokens, *options], call)
