"""`tidegate serve` and who may call it: its options, what it refuses, what it says."""

from __future__ import annotations

import logging
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate
from tidegate.proto.values import TaskOptions
from tidegate.server.access.certificate import Certificate
from tidegate.server.access.tokens import Tokens
from tidegate.server.cli import main
from tidegate.server.setup.settings import Settings
from tidegate.server.setup.trust import warning

from ..executor import plans
from .running import fake_server

TOKEN = "alice-has-this-token-0001"


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"alice {TOKEN}\n")
    path.chmod(0o600)
    (tmp_path / "token").write_text(TOKEN)
    return path


@pytest.fixture
def serving(tokens: Path, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    (tmp_path / "data").mkdir()
    command = [sys.executable, "-m", "tidegate.server.cli", "serve", "--listen", "127.0.0.1:0", "--log-level", "debug"]
    command += ["--tokens", str(tokens), "--root", str(tmp_path / "data"), "--spill", str(tmp_path / "spill")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process.stdout.readline().rpartition(" ")[2].strip(), process
    process.kill()
    process.communicate()


def test_commands_give_their_token_by_file(
    serving: tuple[str, subprocess.Popen[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address, process = serving
    assert main(["tasks", "--server", address, "--token-file", str(tmp_path / "token")]) == 0
    assert main(["tasks", "--server", address]) == 1
    said = capsys.readouterr()
    assert said.out == "no tasks\n"
    assert re.fullmatch("tidegate: the call has no token, and this server needs one: .*--token-file.*\n", said.err)
    process.send_signal(signal.SIGTERM)
    output, log = process.communicate(timeout=60)
    assert TOKEN not in output + log


def test_a_principal_may_ask_for_no_more_than_the_defaults_where_the_operator_says_nothing(
    serving: tuple[str, subprocess.Popen[str]],
) -> None:
    most = TaskOptions(idle_seconds=86_400.0)
    bounded = ("memory_limit", "queue_bytes", "output_bytes", "spill_quota", "write_quota", "max_pending_epochs")
    with tidegate.connect(serving[0], token=TOKEN) as client:
        for name in (*bounded, "idle_seconds"):
            with pytest.raises(tidegate.InvalidRequest) as refused:
                client.create_task(plans.passed_through("l"), **{name: getattr(most, name) + 1})
            assert refused.value.reason == "ABOVE_CEILING", name
        with client.create_task(plans.passed_through("l"), idle_seconds=0) as task:
            assert task.info().options.idle_seconds == most.idle_seconds


@pytest.mark.parametrize(
    "option", [["--token-file", "token"], ["--tls"], ["--tls-ca", "ca.pem"], ["--plaintext-token"]]
)
def test_how_a_server_is_reached_means_nothing_without_one(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "plan.bin", *option]) == 1
    assert capsys.readouterr().err == f"tidegate: {option[0]} needs --server, which is not given\n"


@pytest.mark.parametrize("option", ["--spill", "--checkpoint-root"])
def test_the_servers_own_folders_are_not_below_its_roots_when_it_has_tokens(
    option: str, tokens: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = tmp_path / "root" / "inside"
    inside.mkdir(parents=True)
    (tmp_path / "link").symlink_to(inside)
    folders = {"--spill": str(tmp_path / "spill"), option: str(tmp_path / "link")}
    folder_options = [argument for pair in folders.items() for argument in pair]
    assert main(["serve", "--tokens", str(tokens), "--root", str(tmp_path / "root"), *folder_options]) == 2
    assert f"{option} {tmp_path}/link is below --root {tmp_path}/root" in capsys.readouterr().err


def test_a_certificate_without_its_key_is_no_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--tls-cert", "server.pem"])
    assert ended.value.code == 2
    assert "--tls-cert and --tls-key must be given together" in capsys.readouterr().err


def test_tokens_that_cannot_be_taken_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--tokens", str(tmp_path / "nowhere")]) == 2
    assert re.fullmatch(r"tidegate: the tokens cannot be read: .*nowhere: No such file.*\n", capsys.readouterr().err)


def test_a_server_that_others_reach_says_what_they_may(tokens: Path) -> None:
    known, shown = Tokens(tokens), Certificate(Path("server.pem"), Path("server.key"))
    others = "0.0.0.0:50051"
    assert "may use this server" in (warning(Settings(), [others]) or "")
    assert "may use this server" in (warning(Settings(certificate=shown), [others]) or "")
    assert "everybody on the way can read" in (warning(Settings(tokens=known), [others]) or "")
    assert warning(Settings(tokens=known, certificate=shown), [others]) is None
    assert f"everybody who reaches {others}" in (warning(Settings(), ["127.0.0.1:50051", others]) or "")
    assert warning(Settings(), ["127.0.0.1:50051", "unix:s"]) is None


def test_it_says_so_when_it_starts(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), fake_server(listen="0.0.0.0:0") as address:
        assert [record.getMessage() for record in caplog.records if record.name == "tidegate.server"] == [
            f"everybody who reaches {address} may use this server: give --tokens FILE to restrict access"
        ]
