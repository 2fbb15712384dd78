"""What the image runs, run without Docker."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from .dockerfile import Dockerfile
from .modules import FOLDERS, TOP

IMAGE = Dockerfile(TOP / "docker" / "Dockerfile")
PORT, FLIGHT = "50051", "50052"


def here(command: list[str], port: str, folder: Path) -> list[str]:
    """The image's command with this machine's programs, free ports of the loopback and folders of our own."""
    programs = {"tidegate": str(Path(sys.executable).with_name("tidegate")), "python": sys.executable}
    places = {"/data": str(folder / "data"), "/var/lib/tidegate": str(folder / "spill")}
    first, *rest = command
    moved = [places.get(each, each).replace("0.0.0.0", "127.0.0.1").replace(PORT, port) for each in rest]
    moved = [each.replace(f":{FLIGHT}", ":0") for each in moved]
    return [programs[first], *moved]


@pytest.fixture
def port() -> str:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return str(held.getsockname()[1])


@pytest.fixture
def container(port: str, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "data").mkdir()
    (tmp_path / "spill").mkdir()
    command = here(IMAGE.command, port, tmp_path)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    yield process
    process.kill()
    process.communicate()


def test_the_image_does_not_run_as_root() -> None:
    assert IMAGE.last("USER") not in ("root", "0")


def test_the_ports_that_are_exposed_are_those_that_are_served_and_one_is_checked() -> None:
    assert IMAGE.last("EXPOSE") == f"{PORT} {FLIGHT}"
    assert any(each.endswith(f":{FLIGHT}") for each in IMAGE.command)
    assert any(each.endswith(f":{PORT}") for each in IMAGE.command)
    assert IMAGE.health_command[-1].endswith(f":{PORT}")


def test_the_build_context_holds_every_package_folder_and_only_what_a_build_needs() -> None:
    lines = (TOP / "docker" / "Dockerfile.dockerignore").read_text().split()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    assert lines[0] == "*"
    assert let_in == {*FOLDERS.values(), "pyproject.toml", "README.md", "LICENSE"}


def test_the_image_installs_what_it_runs() -> None:
    assert shutil.which(IMAGE.command[0], path=str(Path(sys.executable).parent)) is not None


def test_the_compose_file_builds_this_image_and_keeps_to_the_loopback() -> None:
    service = yaml.safe_load((TOP / "docker" / "compose.yaml").read_text())["services"]["tidegate"]
    folder = TOP / "docker" / service["build"]["context"]
    assert (folder / service["build"]["dockerfile"]).resolve() == TOP / "docker" / "Dockerfile"
    assert service["ports"] == [f"127.0.0.1:{port}:{port}" for port in (PORT, FLIGHT)]


def test_the_entry_command_serves_and_its_health_check_says_so(
    container: subprocess.Popen[str], port: str, tmp_path: Path
) -> None:
    assert container.stdout is not None
    ready = container.stdout.readline()
    assert port in ready
    assert subprocess.run(here(IMAGE.health_command, port, tmp_path)).returncode == 0


def test_the_entry_command_ends_cleanly_when_it_is_asked_to(
    container: subprocess.Popen[str], port: str, tmp_path: Path
) -> None:
    assert container.stdout is not None
    container.stdout.readline()
    container.send_signal(signal.SIGTERM)
    assert container.wait(timeout=30) == 0
    assert subprocess.run(here(IMAGE.health_command, port, tmp_path), stderr=subprocess.DEVNULL).returncode == 1
