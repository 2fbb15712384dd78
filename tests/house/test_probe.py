"""The health probe: what a container asks."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from tidegate.server import probe

NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def standard_health() -> Iterator[tuple[str, health.HealthServicer]]:
    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    servicer = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", servicer
    server.stop(None).wait()


def test_a_serving_server_is_healthy(standard_health: tuple[str, health.HealthServicer]) -> None:
    address, _ = standard_health
    assert probe.main([address]) == 0


def test_a_server_that_says_it_does_not_serve_is_not_healthy(
    standard_health: tuple[str, health.HealthServicer], capsys: pytest.CaptureFixture[str]
) -> None:
    address, servicer = standard_health
    servicer.set("", NOT_SERVING)
    assert probe.main([address]) == 1
    assert capsys.readouterr().err == f"{address}: NOT_SERVING\n"


def test_an_address_without_a_server_is_not_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    assert probe.main(["127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith("127.0.0.1:1: UNAVAILABLE")
