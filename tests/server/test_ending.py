"""A server ends although its clients do not read."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator

import grpc
import pytest

from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.proto.tidegate.v1 import tasks_pb2_grpc
from tidegate.server import serving
from tidegate.server.access import connections
from tidegate.server.access.connections import ended_or_cut
from tidegate.server.cli import serve
from tidegate.server.setup.settings import Settings

from ..house.modules import TOP
from .conftest import inline
from .fake_process import server_process
from .raw_http2 import RawConnection

DEADLINE = 30.0
CUT_SECONDS = connections._CUT_SECONDS
NEXT = "/tidegate.v1.TaskService/Next"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(connections, "_CUT_SECONDS", 0.02)
    return


def test_the_table_of_how_long_an_end_takes_has_the_bounds_of_the_code() -> None:
    bounds = [
        Settings().grace_seconds,
        serving._CANCELLED_SECONDS,
        connections._CUTS * CUT_SECONDS,
        serving._LEFT_SECONDS,
        serve._CLOSING_SECONDS,
    ]
    page = (TOP / "docs" / "operations.md").read_text()
    table = page.partition("| After SIGTERM the server waits")[2].partition("\n\n")[0]
    assert [float(seconds) for seconds in re.findall(r"\| ([\d.]+) s \|", table)] == [*bounds, sum(bounds)]


def test_the_connections_of_clients_that_stall_are_cut() -> None:
    async def run() -> bool:
        ended = asyncio.Event()

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            ended.set()

        async with await asyncio.start_server(accepted, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            await ended_or_cut(ended.wait(), f"127.0.0.1:{port}", 0.02)
            writer.close()
            await writer.wait_closed()
        return ended.is_set()

    assert asyncio.run(run())


def test_an_end_that_does_not_come_is_logged_and_not_awaited(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        await ended_or_cut(asyncio.Event().wait(), "127.0.0.1:1", 0.02)

    asyncio.run(run())
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.message.startswith("the server at 127.0.0.1:1 has not ended")


def test_a_server_ends_while_nobody_reads_its_answers() -> None:
    with server_process("tests.server.fake_process", "1") as server, grpc.insecure_channel(server.address) as channel:
        tasks = tasks_pb2_grpc.TaskServiceStub(channel)
        task = tasks.CreateTask(pb.CreateTaskRequest(plan=pb.PlanBytes(binary=b"plan")), timeout=DEADLINE).task.id
        request = pb.AddSplitsRequest(task=task, barrier=pb.Seal())
        request.splits.add(source="a", split=inline(*range(10_000)))
        tasks.AddSplits(request, timeout=DEADLINE)
        read = pb.NextRequest(task=task, wait_ms=30_000, **{"from": pb.Cursor(epoch=1)})
        assert tasks.Next(read, timeout=DEADLINE).frames
        with RawConnection(server.address, window=0) as connection:
            for _ in range(100):
                connection.call(NEXT, read.SerializeToString())
            assert server.end() == 0
