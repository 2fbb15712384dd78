"""gRPC's standard services, health and reflection, for clients that leave before their answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from tidegate.server.calls.answering import HungUp
from tidegate.server.endpoints import health_service, reflection_service

SERVICE = "tidegate.v1.TaskService"


class Left:
    """The context of a call whose client has left."""

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    async def write(self, _: bytes) -> None:
        raise grpc.aio.InternalError("no such call")


class Details:
    """The parts of a call that a handler looks at before it answers."""

    invocation_metadata = ()

    def __init__(self, method: str) -> None:
        self.method = method


def watched_health() -> grpc.GenericRpcHandler[Any, Any]:
    health = health_service.Health()
    health.serve(SERVICE)
    return health.handler()


@pytest.mark.parametrize(
    ("handler", "method", "request_bytes"),
    [
        (watched_health(), "/grpc.health.v1.Health/Check", health_pb2.HealthCheckRequest(service=SERVICE)),
        (watched_health(), "/grpc.health.v1.Health/Watch", health_pb2.HealthCheckRequest(service=SERVICE)),
        (
            reflection_service.reflection_handler(SERVICE),
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            reflection_pb2.ServerReflectionRequest(list_services=""),
        ),
    ],
    ids=["check", "watch", "reflection"],
)
def test_a_client_that_leaves_before_its_answer_is_no_error_of_the_server(
    handler: grpc.GenericRpcHandler[Any, Any], method: str, request_bytes: Any
) -> None:
    async def requests() -> AsyncIterator[bytes]:
        yield request_bytes.SerializeToString()

    async def answer() -> None:
        called: Any = handler.service(Details(method))  # type: ignore[arg-type]  # as much of it as is asked for
        with pytest.raises(HungUp):
            await called.stream_stream(requests(), Left())

    asyncio.run(answer())
