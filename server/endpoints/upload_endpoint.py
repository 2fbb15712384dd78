"""Uploads: files that clients send in chunks. A stalled upload holds no thread, and is dropped after a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from ...executor.api.ownership import acts_for
from ...executor.runtime.ceilings import InUse
from ...proto.errors import Exhausted, InvalidRequest, Unavailable
from ...proto.tidegate.v1 import tasks_pb2 as pb
from ..calls.answering import called
from ..calls.backend import Backend, Reception
from ..calls.call_threads import Threads

AT_ONCE: Final = 32
"""The most uploads of one principal at a time; of all callers together if the server has no principals."""
CHUNK_SECONDS: Final = 60.0
_CANCELLED_SECONDS: Final = 0.002


class Uploads:
    """Receives uploads. All methods are called on the event loop; `threads` touch the files."""

    def __init__(self, backend: Backend, threads: Threads) -> None:
        self._backend = backend
        self._threads = threads
        self._under_way = InUse(AT_ONCE, _too_many)
        self._receptions: set[Reception] = set()
        """Those that are neither kept nor dropped."""
        self._working: set[asyncio.Future[Any]] = set()
        """What threads begin and drop."""

    async def receive(self, requests: AsyncIterator[pb.UploadRequest]) -> str:
        """The path of the file in these requests."""
        with self._under_way.one(acts_for()):
            request = await _next(requests)
            if request is None:
                raise InvalidRequest("an upload needs at least one message, which names the task and the file")
            reception = await self._begin(request)
            try:
                while request is not None:
                    await called(self._threads, reception.write, request.data)
                    request = await _next(requests)
                # A cancelled call first looks as if its client had sent everything; the cancellation comes a little
                # later.
                await called(self._threads, reception.finish)
                await asyncio.sleep(_CANCELLED_SECONDS)
                path = reception.keep()
                self._receptions.discard(reception)
                return path
            except BaseException:
                self._drop(reception)
                raise

    async def stop(self) -> None:
        """Drop what ended calls have left, while there are threads that can."""
        await asyncio.gather(*self._working, return_exceptions=True)
        for reception in self._receptions:
            self._drop(reception)
        await asyncio.gather(*self._working)

    async def _begin(self, request: pb.UploadRequest) -> Reception:
        """A thread that has begun an upload goes on when its call is cancelled: what it has begun then is dropped."""
        beginning = asyncio.ensure_future(self._begun(request))
        self._note(beginning)
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            beginning.add_done_callback(self._drop_begun)
            raise

    async def _begun(self, request: pb.UploadRequest) -> Reception:
        begin = self._backend.begin_upload
        reception = await called(self._threads, begin, request.task, request.name, group=request.group)
        self._receptions.add(reception)
        return reception

    def _drop_begun(self, beginning: asyncio.Future[Reception]) -> None:
        if not beginning.cancelled() and beginning.exception() is None:
            self._drop(beginning.result())

    def _drop(self, reception: Reception) -> None:
        if reception not in self._receptions:
            return
        dropping = asyncio.ensure_future(called(self._threads, reception.drop))
        dropping.add_done_callback(lambda _: self._receptions.discard(reception))
        self._note(dropping)

    def _note(self, work: asyncio.Future[Any]) -> None:
        self._working.add(work)
        work.add_done_callback(self._working.discard)


def _too_many() -> Exhausted:
    return Exhausted(
        f"{AT_ONCE} uploads are under way, and the server takes no more: wait until an upload has ended",
        reason="TOO_MANY_UPLOADS",
    )


async def _next(requests: AsyncIterator[pb.UploadRequest]) -> pb.UploadRequest | None:
    try:
        async with asyncio.timeout(CHUNK_SECONDS):
            return await anext(requests, None)
    except TimeoutError:
        raise Unavailable(
            f"the server received nothing of the upload for {CHUNK_SECONDS:g} s: send the upload again",
            reason="UPLOAD_STALLED",
        ) from None
