"""A streaming call makes one answer ahead of the one that is on its way, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from collections.abc import AsyncGenerator

import grpc
import grpc.aio
import pytest

from tidegate.proto.errors import Refused
from tidegate.server.calls.answering import streaming
from tidegate.server.calls.unread_answers import UnreadAnswers

ANY = UnreadAnswers(sys.maxsize)


class Connection:
    """The receiver of a call's answers: each answer is on its way until the client has taken it."""

    def __init__(self) -> None:
        self.said: list[object] = []
        self.room = asyncio.Semaphore(0)

    async def write(self, answer: object) -> None:
        await self.room.acquire()
        self.said.append(answer[0] if isinstance(answer, bytes) else answer)

    async def abort(self, status: grpc.StatusCode, sentence: str, _metadata: object) -> None:
        self.said.append(status)
        raise asyncio.CancelledError(sentence)


class Numbers:
    """Answers 0, 1, ... up to `last`, a byte each, then an error; `made` is how many were asked for."""

    def __init__(self, last: int) -> None:
        self.count = 0
        self.ended = False
        self._last = last

    async def answer(self, _request: object, _context: object) -> AsyncGenerator[bytes]:
        try:
            while self.count <= self._last:
                self.count += 1
                yield bytes([self.count - 1])
            raise Refused("no more")
        finally:
            self.ended = True


async def turns() -> None:
    """Let everything go on that can."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_one_answer_is_made_ahead_of_a_client_that_takes_none() -> None:
    async def run() -> None:
        connection, numbers = Connection(), Numbers(last=9)
        call = asyncio.ensure_future(streaming(numbers.answer, ANY)(None, connection))
        for taken in range(3):
            await turns()
            assert (connection.said, numbers.count) == (list(range(taken)), taken + 2)
            connection.room.release()
        call.cancel()
        await asyncio.wait((call,))

    asyncio.run(run())


def test_what_was_made_before_an_error_arrives_before_it() -> None:
    async def run() -> None:
        connection = Connection()
        call = asyncio.ensure_future(streaming(Numbers(last=1).answer, ANY)(None, connection))
        await turns()
        connection.room.release()
        await turns()
        assert connection.said == [0]
        connection.room.release()
        await asyncio.wait((call,))
        assert connection.said == [0, 1, grpc.StatusCode.FAILED_PRECONDITION]

    asyncio.run(run())


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_a_client_that_leaves_mid_stream_leaves_no_task_and_no_answer(taken: int) -> None:
    class Answer:
        """Stands for the rows of an epoch."""

        def __len__(self) -> int:
            return 1 << 20

    references: list[weakref.ref[Answer]] = []

    async def answers(_request: object, _context: object) -> AsyncGenerator[Answer]:
        while True:
            answer_ = Answer()
            references.append(weakref.ref(answer_))
            yield answer_
            del answer_

    async def run() -> None:
        connection = Connection()
        call = asyncio.ensure_future(streaming(answers, ANY)(None, connection))
        for _ in range(taken):
            connection.room.release()
        await turns()
        call.cancel()
        await asyncio.wait((call,))
        assert call.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        connection.said.clear()
        del call
        gc.collect()
        assert [answer() for answer in references] == [None] * (taken + 2)

    asyncio.run(run())


def test_a_connection_that_breaks_ends_the_call_and_is_no_error_of_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Connection):
        async def write(self, answer: object) -> None:
            raise grpc.aio.InternalError(answer)

    async def run() -> None:
        connection, numbers = Broken(), Numbers(last=9)
        with pytest.raises(asyncio.CancelledError):
            await streaming(numbers.answer, ANY)(None, connection)
        assert (connection.said, numbers.count, numbers.ended) == ([grpc.StatusCode.UNAVAILABLE], 2, True)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_an_error_that_cannot_be_told_ends_the_call_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    class Gone(Connection):
        async def abort(self, status: grpc.StatusCode, sentence: str, _metadata: object) -> None:
            raise grpc.aio.InternalError("the client is gone")

    async def run() -> None:
        call = asyncio.ensure_future(streaming(Numbers(last=-1).answer, ANY)(None, Gone()))
        await asyncio.wait((call,))
        assert call.cancelled()

    with caplog.at_level("INFO"):
        asyncio.run(run())
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "client_vanished" in caplog.text
