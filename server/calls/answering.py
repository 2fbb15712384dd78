"""The common parts of all endpoints: errors become statuses, blocking calls run in threads, RPCs find their methods."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, aclosing, asynccontextmanager
from contextvars import ContextVar
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

import grpc
import grpc.aio
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message

from ...executor.api.ownership import acts_for
from ...executor.runtime.event_lines import refused, spill_failed, tell
from ...proto.encoding.error_status import failure
from ...proto.errors import Exhausted, InternalError, TidegateError, Unavailable
from .arrivals import Requests
from .call_threads import Threads
from .request_reading import Reading, RequestReader, only
from .unread_answers import UnreadAnswers

log = logging.getLogger("tidegate.server")

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
Context = grpc.aio.ServicerContext[Any, Any]
Answer = Message | bytes

_call: ContextVar[str] = ContextVar("tidegate-call", default="")
_task: ContextVar[str] = ContextVar("tidegate-task", default="")
"""The task that the current call is about. `_call` is the method that is called."""

_MAKES_A_TASK: Final = "CreateTask"
_LEFT_AT_ANY_TIME: Final = ("WatchTask", "Acknowledge")  # a client waits for no end of the one, no answer of the other


class HungUp(asyncio.CancelledError):
    """A client has left a conversation in which no answer is owed to it."""


def client_vanished(call: str, task: str) -> None:
    tell("client_vanished", {"task": task, "principal": acts_for(), "call": call})


class Endpoint:
    """A group of RPCs. The method `create_task` answers `CreateTask`, with a message or with encoded bytes."""

    descriptor: ServiceDescriptor
    large: frozenset[str] = frozenset()
    """Methods whose requests have data or plans in them. None of them takes one request and answers with a stream."""

    def __init__(self, reading: Reading, unread: UnreadAnswers) -> None:
        self._reading = reading
        self.unread = unread
        self.name = self.descriptor.full_name
        self.ending = False
        """True if the server is stopping, and itself ends calls."""

    async def stop(self) -> None:
        """End what calls have left. No call comes any more; the threads of calls end afterwards."""

    async def write(self, answer: bytes, context: Context) -> None:
        """Send one of several answers, which counts as unread until it is sent."""
        forget = self.unread.count(answer)
        try:
            await context.write(answer)
        finally:
            forget()

    def handler(self) -> grpc.GenericRpcHandler[Any, Any]:
        methods = {method.name: self._method(method) for method in self.descriptor.methods}
        return grpc.method_handlers_generic_handler(self.name, methods)

    def _method(self, method: MethodDescriptor) -> grpc.RpcMethodHandler[Any, Any]:
        """The handler of a method.

        It takes bytes, because gRPC would report an unreadable request as a server bug. It takes every request as a
        stream, because gRPC would wait for a single one without a deadline, and call nothing that counts the call.
        """
        answer = getattr(self, re.sub(r"(?<!^)(?=[A-Z])", "_", method.name).lower())
        request = RequestReader(method, self._reading, large=method.name in self.large)
        call: Callable[[Any, Context], Awaitable[Any]]
        if method.client_streaming:
            call = single(_of_stream(answer, request), self.unread)
        elif method.server_streaming:
            call = streaming(_of_small(answer, request), self.unread)
        else:
            call = single(_of_one(answer, request), self.unread)
        call = self._noticing(call, method)
        if method.server_streaming:
            return grpc.stream_stream_rpc_method_handler(call)
        return grpc.stream_unary_rpc_method_handler(call)

    def _noticing(
        self, call: Callable[[Any, Context], Awaitable[A]], method: MethodDescriptor
    ) -> Callable[[Any, Context], Awaitable[A]]:
        """The call, with a log line if the client is gone before it has its answer."""

        async def noticing(request: Any, context: Context) -> A:
            _call.set(method.name)
            try:
                return await call(request if isinstance(request, Requests) else Requests(context), context)
            except HungUp:
                raise
            except asyncio.CancelledError:
                if not self.ending and method.name not in _LEFT_AT_ANY_TIME:
                    client_vanished(method.name, _task.get())
                raise

        return noticing


def _of_one(
    answer: Callable[[Any, Context], Awaitable[A]], request: RequestReader
) -> Callable[[AsyncIterator[bytes], Context], Awaitable[A]]:
    async def call(requests: AsyncIterator[bytes], context: Context) -> A:
        data = await only(requests)
        with request.counted(len(data)):
            message = _noted(await request.read(data))
            del data
            return await answer(message, context)

    return call


def _of_small(
    answer: Callable[[Any, Context], AsyncGenerator[A]], request: RequestReader
) -> Callable[[AsyncIterator[bytes], Context], AsyncGenerator[A]]:
    async def call(requests: AsyncIterator[bytes], context: Context) -> AsyncGenerator[A]:
        message = _noted(request.read_now(await only(requests)))
        async with aclosing(answer(message, context)) as answers:
            async for one in answers:
                yield one

    return call


def _of_stream(
    answer: Callable[[Any, Context], Awaitable[A]], request: RequestReader
) -> Callable[[AsyncIterator[bytes], Context], Awaitable[A]]:
    async def call(data: AsyncIterator[bytes], context: Context) -> A:
        with ExitStack() as counted:
            return await answer(_Requests(data, request, counted), context)

    return call


def _noted(message: Message) -> Message:
    """The request itself, after noting its task for the log."""
    if task := getattr(message, "task", ""):
        _task.set(task)
    return message


class _Requests:
    """Requests of a stream, read as they are asked for. `counted` has the one that is being answered."""

    def __init__(self, data: AsyncIterator[bytes], request: RequestReader, counted: ExitStack) -> None:
        self._data = data
        self._request = request
        self._counted = counted

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        self._counted.close()
        data = await anext(self._data)
        self._counted.enter_context(self._request.counted(len(data)))
        return _noted(await self._request.read(data))


async def called(threads: Threads, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a call that may block, on threads where it delays only calls of its kind."""
    return await threads.call(functools.partial(function, *args, **kwargs))


def _encoded(answer: Answer) -> bytes:
    return answer.SerializeToString() if isinstance(answer, Message) else answer


def single(
    answer: Callable[[Any, Context], Awaitable[Answer | None]], unread: UnreadAnswers
) -> Callable[[Any, Context], Awaitable[bytes | None]]:
    async def call(request: Any, context: Context) -> bytes | None:
        try:
            said = await answer(request, context)
            if said is None:  # the call has sent its answers itself
                return None
            data = _encoded(said)
            forget = unread.count(data)
        except Exception as error:  # noqa: BLE001 (told to the client, and logged if it is a bug)
            await _refuse(context, error)
        at_end(context, forget)
        return data

    return call


def streaming(
    answer: Callable[[Any, Context], AsyncGenerator[Answer]], unread: UnreadAnswers
) -> Callable[[Any, Context], Awaitable[None]]:
    async def call(request: Any, context: Context) -> None:
        try:
            async with aclosing(answer(request, context)) as answers:
                await _send(answers, context, unread)
        except Exception as error:  # noqa: BLE001 (told to the client, and logged if it is a bug)
            await _refuse(context, error)

    return call


async def _send(answers: AsyncGenerator[Answer], context: Context, unread: UnreadAnswers) -> None:
    """Send the answers. Each is made while the previous one is on its way; at the end none is on its way any more."""
    sending: asyncio.Future[None] = asyncio.ensure_future(asyncio.sleep(0))
    try:
        async for answer in answers:
            sending = await _after(sending, _encoded(answer), context, unread)
            await asyncio.sleep(0)  # let the write begin before work on the next answer
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError):
            sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)  # earlier answers arrive before the error
        raise
    await sending


async def _after(
    earlier: asyncio.Future[None], data: bytes, context: Context, unread: UnreadAnswers
) -> asyncio.Future[None]:
    """Begin to send an answer once the earlier one is sent."""
    forget = unread.count(data)
    try:
        await earlier
    except BaseException:
        forget()
        raise
    sending = asyncio.ensure_future(context.write(data))
    sending.add_done_callback(lambda _: forget())
    return sending


def at_end(context: Context, function: Callable[[], None]) -> None:
    """Call the function once the call's answer is sent, or the client is gone."""
    context.add_done_callback(lambda _: function())  # type: ignore[arg-type]  # the stubs name another context


async def abort(context: Context, error: TidegateError) -> NoReturn:
    """End the call with the error, as a client may see it. Raises `HungUp` where the client is gone."""
    said = failure(error)
    try:
        await context.abort(grpc.StatusCode[said.status], said.sentence, said.metadata)
    except grpc.aio.InternalError:
        client_vanished(_call.get(), _task.get())
        raise HungUp from None


@asynccontextmanager
async def refusing(context: Context) -> AsyncIterator[None]:
    """A context for calls of gRPC's standard services, which anybody may make: their clients get its refusals. Nothing
    is said of a client that has left.
    """
    try:
        yield
    except TidegateError as error:
        await abort(context, error)
    except grpc.aio.InternalError:
        raise HungUp from None


async def _refuse(context: Context, error: Exception) -> NoReturn:
    if isinstance(error, grpc.aio.InternalError):
        await abort(context, Unavailable("the server could not send the answer"))
    refusal = tellable(error)
    if _call.get() == _MAKES_A_TASK:
        refused(acts_for(), refusal)
    if isinstance(refusal, Exhausted) and refusal.reason == "SPILL_FAILED":
        spill_failed(_task.get(), acts_for(), _call.get(), refusal)
    await abort(context, refusal)


def tellable(error: Exception) -> TidegateError:
    """The error that a client may see. Any other error is logged, and becomes an internal error."""
    if isinstance(error, InternalError) or not isinstance(error, TidegateError):
        log.error("a call failed with an error that is not a refusal", exc_info=error)
    if isinstance(error, TidegateError):
        return error
    return InternalError("a bug in Tidegate stopped this call; the server's log has the traceback")
