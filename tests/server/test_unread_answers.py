"""A principal's answers that its clients do not read are bounded, and count among its calls."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from tidegate.executor.api.ownership import act_for
from tidegate.proto.errors import Exhausted
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.server import serving
from tidegate.server.calls.unread_answers import UnreadAnswers

from ..waiting import until
from .conftest import inline
from .principals import DEADLINE, TOKENS, Callers, calling, of, reason
from .raw_http2 import RawConnection

KIB = 1 << 10
LIST = "/tidegate.v1.TaskService/ListTasks"
NEXT = "/tidegate.v1.TaskService/Next"


def is_full(callers: Callers, who: str) -> bool:
    try:
        callers.capabilities(who)
    except grpc.RpcError as error:
        return reason(error) == "TOO_MANY_CALLS"
    return False


def test_a_call_counts_until_its_answer_is_read(tmp_path: Path) -> None:
    with calling(tmp_path, max_calls=8) as callers:
        with RawConnection(callers.address, window=0) as connection:
            for _ in range(20):
                connection.call(LIST, token=TOKENS["alice"])
            until(lambda: is_full(callers, "alice"))
            assert callers.capabilities("bob").principal == "bob"
        until(lambda: not is_full(callers, "alice"))


def task_with_rows(callers: Callers, who: str, rows: int) -> str:
    task = callers.create(who)
    request = pb.AddSplitsRequest(task=task, barrier=pb.Seal())
    request.splits.add(source="a", split=inline(*range(rows)))
    callers.tasks[who].AddSplits(request, metadata=of(who), timeout=DEADLINE)
    read = pb.NextRequest(task=task, wait_ms=30_000, **{"from": pb.Cursor(epoch=1)})
    assert callers.tasks[who].Next(read, metadata=of(who), timeout=DEADLINE).frames
    return task


def next_request(task: str) -> bytes:
    return pb.NextRequest(task=task, **{"from": pb.Cursor(epoch=1)}).SerializeToString()


def test_a_principal_has_no_more_answers_than_may_be_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "LARGEST_AT_ONCE", 2)
    with calling(tmp_path, max_message_bytes=128 * KIB) as callers, ExitStack() as stack:
        tasks = {who: task_with_rows(callers, who, 12 * KIB) for who in TOKENS}
        connection = stack.enter_context(RawConnection(callers.address, window=0))
        for _ in range(8):
            connection.call(NEXT, next_request(tasks["alice"]), TOKENS["alice"])

        def said(who: str) -> str | None:
            request = pb.NextRequest.FromString(next_request(tasks[who]))
            error = callers.tasks[who].Next.future(request, metadata=of(who)).exception(timeout=DEADLINE)
            return None if error is None else reason(error)

        until(lambda: said("alice") == "TOO_MANY_CALLS")
        assert said("bob") is None
        stack.close()
        until(lambda: said("alice") is None)


def test_an_answer_has_a_part_of_what_is_left() -> None:
    act_for("alice")
    answers = UnreadAnswers(1024 * KIB)
    assert [answers.room(asked) for asked in (10, 256 * KIB, 9_999 * KIB)] == [10, 256 * KIB, 256 * KIB]
    forget = answers.count(bytes(512 * KIB))
    assert answers.room(9_999 * KIB) == 128 * KIB
    act_for("bob")
    assert answers.room(9_999 * KIB) == 256 * KIB
    act_for("alice")
    forget()
    assert answers.room(9_999 * KIB) == 256 * KIB


def test_an_answer_has_room_for_some_rows_whatever_is_unread() -> None:
    answers = UnreadAnswers(100 * KIB)
    answers.count(bytes(100 * KIB))
    assert answers.room(9_999 * KIB) == 64 * KIB
    answers.count(bytes(KIB))
    with pytest.raises(Exhausted, match="have not read answers of 102,400 bytes") as refused:
        answers.count(bytes(64 * KIB))
    assert refused.value.reason == "TOO_MANY_CALLS"
