"""Health for whoever asks, without a token: small, and bounded for each machine that calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tidegate.server.endpoints import health_service as health
from tidegate.server.endpoints.health_service import CALLS_OF_A_PEER, peer_of

from .conftest import Stubs
from .fake_process import server_process
from .raw_http2 import RawConnection

Answer = health_pb2.HealthCheckResponse
ASK = health_pb2.HealthCheckRequest(service="tidegate.v1.TaskService")


@pytest.fixture
def stub(stubs: Stubs) -> health_pb2_grpc.HealthStub:
    return health_pb2_grpc.HealthStub(stubs.channel)


def reason(error: grpc.RpcError) -> str:
    return dict(error.trailing_metadata())["tidegate-reason"]


def test_an_unknown_service_is_not_found(stub: health_pb2_grpc.HealthStub) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        stub.Check(health_pb2.HealthCheckRequest(service="other"))
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


def test_who_watches_an_unknown_service_is_told_that_it_is_unknown(stub: health_pb2_grpc.HealthStub) -> None:
    watch = stub.Watch(health_pb2.HealthCheckRequest(service="other"))
    assert next(watch).status == Answer.SERVICE_UNKNOWN
    watch.cancel()


def test_who_watches_is_told_of_the_end(stub: health_pb2_grpc.HealthStub) -> None:
    import asyncio

    async def check() -> list[int]:
        health_ = health.Health()
        health_.serve("s")
        said: list[int] = []

        class Context:
            def peer(self) -> str:
                return "ipv4:127.0.0.1:1"

            async def write(self, answer: bytes) -> None:
                said.append(Answer.FromString(answer).status)
                health_.stop()

        async def requests() -> Iterator[bytes]:
            yield health_pb2.HealthCheckRequest(service="s").SerializeToString()

        watch = asyncio.ensure_future(health_._watch(requests(), Context()))
        while len(said) < 2:
            await asyncio.sleep(0.01)
        watch.cancel()
        return said

    assert asyncio.run(check()) == [Answer.SERVING, Answer.NOT_SERVING]


def test_a_peer_has_a_few_streams_and_every_call_goes_on(stubs: Stubs, stub: health_pb2_grpc.HealthStub) -> None:
    watches = [stub.Watch(ASK) for _ in range(CALLS_OF_A_PEER)]
    assert {next(watch).status for watch in watches} == {Answer.SERVING}
    with pytest.raises(grpc.RpcError) as refused:
        stub.Check(ASK)
    assert (refused.value.code(), reason(refused.value)) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "HEALTH_BUSY")
    assert stubs.create()
    for watch in watches:
        watch.cancel()
    for _ in range(1_000):
        try:
            assert stub.Check(ASK).status == Answer.SERVING
            return
        except grpc.RpcError:
            threading.Event().wait(0.01)
    raise AssertionError("calls that have ended still count")


def test_all_peers_together_have_so_many_calls(
    stub: health_pb2_grpc.HealthStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "CALLS", CALLS_OF_A_PEER // 2)
    watches = [stub.Watch(ASK) for _ in range(health.CALLS)]
    assert {next(watch).status for watch in watches} == {Answer.SERVING}
    with pytest.raises(grpc.RpcError, match=f"and {health.CALLS} in all") as refused:
        stub.Check(ASK)
    assert reason(refused.value) == "HEALTH_BUSY"
    for watch in watches:
        watch.cancel()


@pytest.mark.parametrize(
    ("data", "said"), [(b"\xff" * 100, "MALFORMED_REQUEST"), (b"\x0a\xe0\x5d" + b"x" * 12_000, "REQUEST_TOO_LARGE")]
)
def test_what_is_no_small_request_is_refused(stubs: Stubs, data: bytes, said: str) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        stubs.channel.unary_unary("/grpc.health.v1.Health/Check")(data)
    assert reason(refused.value) == said


def test_a_request_that_does_not_arrive_is_given_up(stubs: Stubs) -> None:
    never = threading.Event()
    call = stubs.channel.stream_unary("/grpc.health.v1.Health/Check").future(iter(never.wait, None))
    assert reason(call.exception(timeout=20)) == "REQUEST_TOO_SLOW"
    never.set()


@pytest.mark.parametrize(
    ("peer", "machine"),
    [("ipv4:10.0.0.1:50", "ipv4:10.0.0.1"), ("ipv6:[::1]:50", "ipv6:[::1]"), ("unix:", "unix:")],
)
def test_a_peer_is_a_machine_whatever_its_port(peer: str, machine: str) -> None:
    assert peer_of(peer) == machine


STALLED = 12
DECLARED = 60 << 20


WINDOW = 4 << 20
"""The bytes of a request that gRPC takes before the server reads it."""
SPARE = 64 << 20


@pytest.mark.parametrize("method", ["Check", "Watch"])
def test_large_requests_that_stall_before_their_end_take_little_memory(method: str) -> None:
    """Few are read at a time. The others are in memory as far as they fit into their connections' windows."""
    with server_process("tests.server.fake_process", "1") as server, ExitStack() as stack:
        connections = [stack.enter_context(RawConnection(server.address)) for _ in range(CALLS_OF_A_PEER)]
        before = server.memory()
        with ThreadPoolExecutor(len(connections)) as callers:
            poured = [
                callers.submit(
                    connection.pour, connection.begin(f"/grpc.health.v1.Health/{method}", DECLARED), DECLARED - 1, 4.0
                )
                for connection in connections
            ]
        assert sum(future.result() for future in poured) > CALLS_OF_A_PEER * WINDOW - SPARE
        assert server.memory() - before < health._READS * DECLARED + CALLS_OF_A_PEER * WINDOW + SPARE


def test_requests_that_stall_keep_nobody_from_asking() -> None:
    with server_process("tests.server.fake_process", "1") as server, ExitStack() as stack:
        for _ in range(STALLED):
            stack.enter_context(RawConnection(server.address)).begin("/grpc.health.v1.Health/Check", DECLARED)
        channel = stack.enter_context(grpc.insecure_channel(server.address))
        assert health_pb2_grpc.HealthStub(channel).Check(ASK, timeout=20).status == Answer.SERVING
