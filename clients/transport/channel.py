"""A gRPC channel that raises Tidegate's errors and outlives a broken connection.

The channel repeats calls itself. A retry policy in gRPC's service config makes at most five attempts, so a server that
restarts for `reconnect_seconds` is beyond it; it would also repeat calls where TLS is wrong, and does not repeat a
request on a call that stays open.
"""

from __future__ import annotations

import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any, Final, Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from ..proto.allocator import tune_allocator
from ..proto.encoding.error_status import error, is_ours
from ..proto.errors import Exhausted, TidegateError, Unauthenticated, Unavailable
from ..proto.tls import TROUBLES, trouble
from .access import Access, Metadata

A = TypeVar("A")

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
_RECOVERING: Final = "RECOVERING"
_TOO_LARGE: Final = "larger than max"  # gRPC's words
_ANSWER: Final = "Sent message"  # so it says of an answer: the client's own messages have no limit

OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),  # the client bounds the server's answers in its requests
    ("grpc.max_send_message_length", -1),  # the server refuses what is too much
    ("grpc.http2.max_frame_size", 1 << 20),
    (
        "SingleThreadedUnaryStream",
        1,
    ),  # the reader takes a stream from the network itself, with no thread between
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
)


class Answers(Protocol):
    """The answers of a streaming call."""

    def __iter__(self) -> Iterator[bytes]: ...
    def __next__(self) -> bytes: ...
    def cancel(self) -> bool: ...


class Line:
    """A call that stays open for many requests, each answered in turn. For one thread at a time."""

    def __init__(self, call: Callable[[Iterator[bytes]], Answers]) -> None:
        self._requests: SimpleQueue[bytes | None] = SimpleQueue()
        self._answers = call(iter(self._requests.get, None))
        self.close = weakref.finalize(self, _hang_up, self._answers, self._requests)

    def ask(self, request: bytes) -> bytes | None:
        """The answer; None if the server has ended the call before it took the request.

        The line is closed then, and also if this raises, be it `grpc.RpcError` or an interrupt.
        """
        self._requests.put(request)
        answer = None
        try:
            answer = next(self._answers, None)
        finally:
            if answer is None:
                self.close()
        return answer


def _hang_up(answers: Answers, requests: SimpleQueue[bytes | None]) -> None:
    answers.cancel()
    requests.put(None)  # gRPC's thread waits there


class Channel:
    """Calls by name.

    Calls try again for the `reconnect_seconds` of the access after their connection broke. A call whose token the
    server does not know is made again if the access has another token meanwhile, as when its file was replaced. The
    answer of a unary call is waited for `answer_seconds`, or as long as the connection stands if that is None.
    """

    def __init__(self, access: Access, answer_seconds: float | None = None) -> None:
        tune_allocator()
        self.access = access
        self._answer_seconds = answer_seconds
        self.metadata = access.metadata()
        self.authorities = access.authorities_bytes()
        self._channel = access.channel(OPTIONS)
        # A call that is open at the end of the process has to end before gRPC's threads do, or the process waits for
        # them.
        self._close = weakref.finalize(self, self._channel.close)
        self._methods: dict[str, Callable[..., Any]] = {}
        self._closed = threading.Event()
        self._line: Line | None = None
        self._on_line = threading.Lock()

    def call(self, method: str, request: Message, answer: Callable[[bytes], A], *, again: bool = True) -> A:
        """Make a unary call. With `again`, it is repeated while the server cannot be reached."""
        send = self._method(method, self._channel.unary_unary)

        def once() -> A:
            return answer(send(request.SerializeToString(), metadata=self.metadata, timeout=self._answer_seconds))

        return self._retried(once, again)

    def converse(self, method: str, line: str, request: Message, answer: Callable[[bytes], A]) -> A:
        """Make a call as `call` does, but on an open line to the method `line`, where a message costs half as much.

        If another thread uses the line, makes a call of its own.
        """
        if self._answer_seconds is not None or not self._on_line.acquire(blocking=False):
            return self.call(method, request, answer)
        try:
            return self._retried(lambda: answer(self._ask(line, request.SerializeToString())), again=True)
        finally:
            self._on_line.release()

    def _ask(self, method: str, request: bytes) -> bytes:
        """Ask on the open line; on a new one if there is none, or if the server has ended it."""
        call = self._method(method, self._channel.stream_stream)
        line, self._line = self._line, None
        answer = None if line is None else line.ask(request)
        if line is None or answer is None:
            line = Line(lambda requests: call(requests, metadata=self.metadata))
            answer = line.ask(request)
        if answer is None:
            raise Unavailable(f"the server {self.access.address} ended a call without an answer")
        self._line = line
        return answer

    def send(self, method: str, requests: Callable[[], Iterator[Message]], answer: Callable[[bytes], A]) -> A:
        """Make a call with many messages. It is repeated from the first message."""
        send = self._method(method, self._channel.stream_unary)
        return self._retried(lambda: answer(send(map(_encoded, requests()), metadata=self.metadata)), again=True)

    def post(self, method: str, request: Message) -> grpc.Future[bytes]:
        """Make a call whose answer nobody waits for."""
        future: grpc.Future[bytes] = self._future(method)(request.SerializeToString(), metadata=self.metadata)
        return future

    def stream(self, method: str, request: Message) -> Answers:
        """The answers of a streaming call as bytes.

        Iterating raises `grpc.RpcError`, which `failed` turns into an error.
        """
        call = self._method(method, self._channel.unary_stream)
        stream: Answers = call(request.SerializeToString(), metadata=self.metadata)
        return stream

    def _method(self, name: str, kind: Callable[..., Any]) -> Callable[..., Any]:
        if self._closed.is_set():
            raise Unavailable("this client has been closed", reason="CLOSED")
        if name not in self._methods:
            self._methods[name] = kind(name)
        return self._methods[name]

    def _future(self, name: str) -> Callable[..., Any]:
        future: Callable[..., Any] = self._method(name, self._channel.unary_unary).future  # type: ignore[attr-defined]
        return future

    def _retried(self, call: Callable[[], A], again: bool) -> A:
        deadline: float | None = None  # a call may have taken long before its connection breaks
        pause = FIRST_PAUSE
        while True:
            used = self.metadata
            try:
                return call()
            except (grpc.RpcError, Unavailable) as broken:
                failed = self.failed(broken) if isinstance(broken, grpc.RpcError) else broken
                if isinstance(failed, Unauthenticated) and self._has_other_token(used):
                    continue
                hopeful = isinstance(failed, Unavailable) and failed.reason not in TROUBLES
                now = time.monotonic()
                if deadline is None or failed.reason == _RECOVERING:  # the server is there, and works
                    deadline = now + self.access.reconnect_seconds
                if not again or not hopeful or self._closed.is_set() or now + pause > deadline:
                    raise failed from None
            self._closed.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 (spreads clients, hides nothing)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _has_other_token(self, used: Metadata | None) -> bool:
        """True if the access has another token now. Later calls have it, too."""
        try:
            self.metadata = self.access.metadata()
        except TidegateError:  # the server's refusal says more than a file that is not there
            return False
        return self.metadata != used

    def failed(self, broken: grpc.RpcError) -> TidegateError:
        """The error that the server reported, or one that says that the server could not be reached."""
        if not isinstance(broken, grpc.Call):
            return Unavailable(str(broken))
        status, sentence, metadata = broken.code().name, broken.details() or "", broken.trailing_metadata() or ()
        address = self.access.address
        if status == "DEADLINE_EXCEEDED" and self._answer_seconds is not None:
            sentence = f"the server {address} has not answered within {self._answer_seconds:g} seconds"
        elif status in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED") and not is_ours(metadata):
            return self._unreached(status, sentence)
        elif status == "RESOURCE_EXHAUSTED" and _TOO_LARGE in sentence and not is_ours(metadata):
            return _too_large_for_grpc(address, sentence)
        return error(status, sentence, metadata)

    def _unreached(self, status: str, said: str) -> TidegateError:
        """The error for a server that cannot be reached.

        It says what is wrong with TLS, since retrying would not help.
        """
        access = self.access
        problem = trouble(access.address, tls=access.tls, authorities=self.authorities, file=access.authorities)
        if problem is not None:
            return Unavailable(
                f"the server {access.address} cannot be reached: {problem.sentence}", reason=problem.reason
            )
        start = f"`tidegate serve --listen {access.address}` starts one"
        return error(status, f"the server {access.address} cannot be reached: {said}; {start}", ())

    def close(self) -> None:
        self._closed.set()
        if self._line is not None:
            self._line.close()
        self._close()


def _encoded(message: Message) -> bytes:
    return message.SerializeToString()


def _too_large_for_grpc(address: str, said: str) -> Exhausted:
    """The error for a message that gRPC refuses: a call before the server sees it, or an answer."""
    if _ANSWER in said:
        return Exhausted(
            f"an answer of the server {address} is larger than a message may be ({said}): a row of the result is too "
            "large; give fewer or shorter values in a row, or start the server with a higher limit (tidegate serve "
            "--max-message-bytes SIZE)",
            reason="ANSWER_TOO_LARGE",
        )
    return Exhausted(
        f"the server {address} takes no call of this size ({said}): give data as files, in uploads or in smaller "
        "splits, or start the server with a higher limit (tidegate serve --max-message-bytes SIZE)",
        reason="REQUEST_TOO_LARGE",
    )
