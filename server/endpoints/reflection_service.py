"""The standard reflection service, which lists the services. It refuses unreadable requests as other endpoints do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection, reflection_pb2

from ..calls.answering import Context, refusing
from ..calls.request_reading import check_size, unreadable

NAME: Final = reflection.SERVICE_NAME
_METHOD: Final = "ServerReflectionInfo"
_REQUEST: Final = reflection_pb2.ServerReflectionRequest


def reflection_handler(*services: str) -> grpc.GenericRpcHandler[Any, Any]:
    """The handler of a service that shows these services.

    It takes bytes, because gRPC would report an unreadable request as a server bug.
    """
    shown = reflection.aio.ReflectionServicer(services)  # type: ignore[attr-defined]  # it is not in `__all__` alone

    async def answer(requests: AsyncIterator[bytes], context: Context) -> None:
        async with refusing(context):
            async for answer in shown.ServerReflectionInfo(_messages(requests), context):
                await context.write(answer.SerializeToString())

    return grpc.method_handlers_generic_handler(NAME, {_METHOD: grpc.stream_stream_rpc_method_handler(answer)})


async def _messages(requests: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    async for data in requests:
        check_size(_METHOD, len(data))
        try:
            message = _REQUEST.FromString(data)
        except DecodeError as error:
            raise unreadable(data, _REQUEST.DESCRIPTOR.full_name) from error
        yield message
