"""A server takes the path of a Unix socket only where no other server, and nothing else, is there."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from pathlib import Path

import pytest

import tidegate
from tidegate.proto.errors import Unavailable
from tidegate.server.serving import Server
from tidegate.server.setup.settings import Settings

from ..executor.fakes import FakeEngine
from .running import fake_server, manager


def refusal(listen: str) -> str:
    """The words with which a server refuses to listen there."""

    async def run() -> None:
        with manager(FakeEngine()) as backend:
            async with Server(backend, Settings(listen=listen)):
                raise AssertionError("it listens")

    with pytest.raises(Unavailable) as refused:
        asyncio.run(run())
    assert refused.value.reason == "CANNOT_LISTEN"
    return str(refused.value)


def test_the_socket_of_a_running_server_is_not_taken(tmp_path: Path) -> None:
    with fake_server(listen=f"unix:{tmp_path}/s") as address, tidegate.connect(address) as client:
        assert "another server listens there" in refusal(address)
        assert "another server listens there" in refusal(f"{address}.flight")
        assert client.capabilities().version == "0"
    assert not os.listdir(tmp_path)


def test_a_flight_socket_that_cannot_be_made_leaves_no_socket_behind(tmp_path: Path) -> None:
    (tmp_path / "s.flight").write_text("precious")
    assert "something else than a socket" in refusal(f"unix:{tmp_path}/s")
    assert (tmp_path / "s.flight").read_text() == "precious"
    assert os.listdir(tmp_path) == ["s.flight"]


def test_the_socket_of_a_killed_server_is_taken(tmp_path: Path) -> None:
    for name in ("s", "s.flight"):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(tmp_path / name))
    with fake_server(listen=f"unix:{tmp_path}/s") as address, tidegate.connect(address) as client:
        assert client.capabilities().version == "0"


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_what_is_no_socket_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s"
    if kind == "file":
        path.write_text("precious")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    before = stat.S_IFMT(path.lstat().st_mode)
    assert "something else than a socket" in refusal(f"unix:{path}")
    assert stat.S_IFMT(path.lstat().st_mode) == before


def test_a_path_that_no_socket_can_have_is_refused_with_what_would_be_right(tmp_path: Path) -> None:
    assert "give the path of a socket" in refusal("unix:")
    assert f"there is no folder {tmp_path}/none" in refusal(f"unix:{tmp_path}/none/s")
    long = f"{tmp_path}/" + "s" * (110 - len(str(tmp_path)))
    assert f"{len(long)} bytes, and that of a socket may have 107" in refusal(f"unix:{long}")
    for_flight_alone = long[:104]
    assert "111 bytes" in refusal(f"unix:{for_flight_alone}")
