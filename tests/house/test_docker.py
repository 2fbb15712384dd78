"""The commands of the image, run without Docker."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidegate.server.setup.settings import Settings

from ..server.certificates import Authority
from .dockerfile import Dockerfile
from .modules import FOLDERS, TOP

IMAGE = Dockerfile(TOP / "docker" / "Dockerfile")
PORT, FLIGHT = "50051", "50052"


def here(command: list[str], port: str, folder: Path) -> list[str]:
    """The image's command with this machine's programs, free ports of the loopback and folders of our own."""
    programs = {"tidegate": str(Path(sys.executable).with_name("tidegate")), "python": sys.executable}
    folders = {"/data": str(folder / "data"), "/var/lib/tidegate": str(folder / "spill")}
    first, *rest = command
    moved = [folders.get(argument, argument).replace("0.0.0.0", "127.0.0.1").replace(PORT, port) for argument in rest]
    moved = [argument.replace(f":{FLIGHT}", ":0") for argument in moved]
    return [programs[first], *moved]


@pytest.fixture
def port() -> str:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return str(held.getsockname()[1])


@pytest.fixture(params=[False, True], ids=["plain", "TLS"])
def container(port: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """What the image starts, and the same with a certificate for a name that is not the loopback's."""
    (tmp_path / "data").mkdir()
    (tmp_path / "spill").mkdir()
    command = here(IMAGE.command, port, tmp_path)
    if request.param:
        chain, key = Authority.new().issue(tmp_path, "tidegate.example")
        command += ["--tls-cert", str(chain), "--tls-key", str(key)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    yield process
    process.kill()
    process.communicate()


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((TOP / "docker" / "compose.yaml").read_text())


@pytest.fixture(scope="module")
def service(compose: dict[str, Any]) -> dict[str, Any]:
    return compose["services"]["tidegate"]


def test_the_image_runs_as_a_user_in_numbers_who_is_not_root() -> None:
    user, group = IMAGE.last("USER").split(":")
    assert (user.isdigit(), group.isdigit()) == (True, True)
    assert 0 not in (int(user), int(group))
    (user_command,) = [command for command in IMAGE.all("RUN") if "useradd" in command]
    assert f"useradd --create-home --uid {user} --gid {group} " in user_command
    assert f"chown {user}:{group} /var/lib/tidegate" in user_command


def test_the_image_is_labelled_with_what_it_is() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in IMAGE.labels.items()}
    assert {name: labels.pop(name) for name in ("title", "description", "version", "licenses")} == {
        "title": project["name"],
        "description": project["description"],
        "version": project["version"],
        "licenses": project["license"],
    }
    assert labels.pop("revision") == "${REVISION}"
    assert labels.pop("base.name") == f"docker.io/library/{IMAGE.last('FROM')}"
    assert labels == {}
    assert IMAGE.last("ARG") == 'REVISION=""'


def test_the_ports_that_are_exposed_are_those_that_are_served_and_one_is_checked() -> None:
    assert IMAGE.last("EXPOSE") == f"{PORT} {FLIGHT}"
    assert any(argument.endswith(f":{FLIGHT}") for argument in IMAGE.command)
    assert any(argument.endswith(f":{PORT}") for argument in IMAGE.command)
    assert IMAGE.health_command[-1].endswith(f":{PORT}")


def test_the_build_context_holds_every_package_folder_and_only_what_a_build_needs() -> None:
    lines = (TOP / "docker" / "Dockerfile.dockerignore").read_text().split()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    assert lines[0] == "*"
    assert let_in == {*FOLDERS.values(), "pyproject.toml", "README.md", "LICENSE"}


def test_the_image_installs_what_it_runs() -> None:
    assert shutil.which(IMAGE.command[0], path=str(Path(sys.executable).parent)) is not None


def test_the_compose_file_builds_this_image_and_keeps_to_the_loopback(service: dict[str, Any]) -> None:
    folder = TOP / "docker" / service["build"]["context"]
    assert (folder / service["build"]["dockerfile"]).resolve() == TOP / "docker" / "Dockerfile"
    assert set(service["build"]["args"]) == {"REVISION"}
    assert service["ports"] == [f"127.0.0.1:{port}:{port}" for port in (PORT, FLIGHT)]


def test_what_the_compose_file_mounts_is_what_the_image_reads_and_writes(
    compose: dict[str, Any], service: dict[str, Any]
) -> None:
    mounts = dict(re.fullmatch(r"(.+?):(/[^:]+)(?::ro)?", volume).groups() for volume in service["volumes"])  # type: ignore[union-attr]
    assert list(mounts.values()) == IMAGE.volumes
    assert service["volumes"][0].endswith(":/data:ro")
    kept = [name for name in mounts if not re.match(r"[./$]", name)]
    assert kept == list(compose["volumes"])


def test_the_compose_file_takes_away_what_the_service_does_not_need(service: dict[str, Any]) -> None:
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]  # the container's
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "user", "pid", "network_mode", "healthcheck", "command"} & set(service)


def test_a_container_has_more_time_to_end_than_the_server_takes(service: dict[str, Any]) -> None:
    assert float(service["stop_grace_period"].removesuffix("s")) > Settings().grace_seconds


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
