"""Reads requests as messages. Refuses bytes that are no message, are too large, or have a number out of its range."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from ...executor.api.ownership import acts_for
from ...executor.runtime.ceilings import InUse
from ...operators.core.wide_rows import PassingRows
from ...proto.encoding.number_ranges import check_request
from ...proto.encoding.request_parts import has_more_parts
from ...proto.errors import Exhausted, InvalidRequest, Unavailable
from .call_threads import Threads

SMALL: Final = 64 << 10
"""The most bytes of a request that carries neither data nor a plan."""
MARGIN: Final = 1 << 20
"""gRPC takes this many bytes beyond the largest request, because gRPC itself refuses requests without a reason."""
MOST_PARTS: Final = 1_000_000
_FREED_BYTES: Final = 8 << 20
REQUEST_SECONDS: Final = 60.0
"""The time that the request of a call may take to arrive."""
_READ_AT_ONCE: Final = 16 << 10
_GZIP: Final = b"\x1f\x8b"
"""The start of gzip's data, which no message has: 0x1f is a field of wire type 7, and there is none."""
_INSTEAD: Final = (
    ": give data as files, in uploads or in smaller splits, or start the server with a higher limit (tidegate serve "
    "--max-message-bytes SIZE)"
)


async def only(requests: AsyncIterator[bytes]) -> bytes:
    """The request of a call that has one. Raises `Unavailable` if it does not arrive in time."""
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            data = await anext(requests, None)
    except TimeoutError:
        raise Unavailable(
            f"the request did not arrive within {REQUEST_SECONDS:g} s: send it again", reason="REQUEST_STALLED"
        ) from None
    if data is None:
        raise InvalidRequest("the call has no request", reason="MALFORMED_REQUEST")
    return data


def check_size(method: str, size: int, most: int = SMALL, instead: str = "") -> None:
    """Raise `Exhausted` if a request of this method has more than `most` bytes."""
    if size > most:
        raise Exhausted(
            f"the {method} request has {size:,} bytes; at most {most:,} are allowed{instead}",
            reason="REQUEST_TOO_LARGE",
        )


def unreadable(data: bytes, message: str) -> InvalidRequest:
    """The error for a request that is no such message."""
    if data.startswith(_GZIP):
        return InvalidRequest(
            "the request is compressed (gzip), and this server unpacks none: send it without compression",
            reason="COMPRESSED_REQUEST",
        )
    return InvalidRequest(f"the request is not a {message} message", reason="MALFORMED_REQUEST")


@dataclass(frozen=True, slots=True)
class Reading:
    """Limits of reading: `threads` read larger requests, and a request may have `most` bytes.

    `in_progress` bounds the bytes of a principal's larger requests that have no answer yet. Each larger request is in
    memory several times, in blocks that one thread takes and another one frees: `passing` gives them back.
    """

    threads: Threads
    most: int
    in_progress: InUse
    passing: PassingRows = field(default_factory=lambda: PassingRows(_FREED_BYTES))


class RequestReader:
    """Reads a method's requests. Requests of a `large` method have data or plans in them."""

    def __init__(self, method: MethodDescriptor, reading: Reading, *, large: bool) -> None:
        self._method = method.name
        self._threads = reading.threads
        self._in_progress = reading.in_progress
        self._passing = reading.passing
        self._most = reading.most if large else min(SMALL, reading.most)
        self._instead = _INSTEAD if large else ""
        self._descriptor = method.input_type
        self._message = GetMessageClass(method.input_type)
        check_request(self._message())  # every number has a range, or the server does not start

    @contextmanager
    def counted(self, size: int) -> Iterator[None]:
        """Count a request while it is answered. Raises `Exhausted` if its principal has too much in progress."""
        if size <= _READ_AT_ONCE:
            yield
            return
        principal = acts_for()
        self._in_progress.take(principal, size)
        try:
            yield
        finally:
            self._in_progress.give(principal, size)

    async def read(self, data: bytes) -> Message:
        """The message, read on a thread if it is large, so that it delays no other call."""
        if _READ_AT_ONCE < len(data) <= self._most:
            return await self._threads.call(lambda: self._read_large(data))
        return self.read_now(data)

    def _read_large(self, data: bytes) -> Message:
        self._passing.add_bytes(len(data))
        return self.read_now(data)

    def read_now(self, data: bytes) -> Message:
        check_size(self._method, len(data), self._most, self._instead)
        try:
            self._check_parts(data)
            message = self._message.FromString(data)
        except (DecodeError, ValueError) as error:
            raise unreadable(data, self._descriptor.full_name) from error
        check_request(message)
        return message

    def _check_parts(self, data: bytes) -> None:
        """Refuse a request with too many parts. A part has at least two bytes."""
        if len(data) > 2 * MOST_PARTS and has_more_parts(data, self._descriptor, MOST_PARTS):
            raise Exhausted(
                "the request has too many fields and numbers, counted with those of nested messages; at most "
                f"{MOST_PARTS:,} are allowed: send several requests",
                reason="REQUEST_TOO_LARGE",
            )
