"""Cursors outside of what can be read are CURSOR_OUT_OF_RANGE, whichever call names them."""

from __future__ import annotations

from collections.abc import Callable

import grpc
import pytest

from tidegate.proto.tidegate.v1 import tasks_pb2 as pb

from .conftest import Stubs, inline, kinds
from .test_malformed import reason

SPLIT = inline(1, 2, 3)

BEYOND = {
    "an epoch that is acknowledged": (1, 0),
    "a row that is acknowledged": (2, 0),
    "a row beyond the end of its epoch": (2, 4),
    "an epoch before the first": (0, 0),
    "a row far beyond": (2, 2**63 - 1),
}


@pytest.fixture
def task(stubs: Stubs) -> str:
    """A task with two epochs of three rows, acknowledged up to row 1 of the second."""
    task = stubs.create()
    for epoch in (1, 2):
        stubs.tasks.AddSplit(pb.AddSplitRequest(task=task, source="a", split=SPLIT))
        stubs.tasks.RequestBarrier(pb.RequestBarrierRequest(task=task))
        assert "barrier" in kinds(stubs.next(task, epoch=epoch, wait_ms=60_000))
    stubs.tasks.Acknowledge(pb.AcknowledgeRequest(task=task, cursor=pb.Cursor(epoch=2, row=1)))
    return task


def refusal(error: grpc.RpcError) -> tuple[grpc.StatusCode, str]:
    return error.code(), reason(error)


OUT_OF_RANGE = (grpc.StatusCode.OUT_OF_RANGE, "CURSOR_OUT_OF_RANGE")


READS: dict[str, Callable[[Stubs, str, pb.Cursor], object]] = {
    "Next": lambda stubs, task, at: stubs.tasks.Next(pb.NextRequest(task=task, **{"from": at})),
    "Results": lambda stubs, task, at: list(
        stubs.tasks.Results(pb.ResultsRequest(task=task, ready=True, **{"from": at}))
    ),
    "AddSplits": lambda stubs, task, at: stubs.tasks.AddSplits(adding(task, at)),
    "Feed": lambda stubs, task, at: list(stubs.tasks.Feed(iter([adding(task, at)]))),
}


def adding(task: str, at: pb.Cursor) -> pb.AddSplitsRequest:
    return pb.AddSplitsRequest(task=task, read=pb.Read(**{"from": at}))


@pytest.mark.parametrize("where", BEYOND)
@pytest.mark.parametrize("call", READS)
def test_reading_there_is_out_of_range(stubs: Stubs, task: str, call: str, where: str) -> None:
    epoch, row = BEYOND[where]
    with pytest.raises(grpc.RpcError) as refused:
        READS[call](stubs, task, pb.Cursor(epoch=epoch, row=row))
    assert refusal(refused.value) == OUT_OF_RANGE


@pytest.mark.parametrize(("epoch", "row"), [(2, 4), (3, 1), (9, 0)])
def test_acknowledging_what_is_not_there_is_out_of_range(stubs: Stubs, task: str, epoch: int, row: int) -> None:
    with pytest.raises(grpc.RpcError, match="is not produced yet") as refused:
        stubs.tasks.Acknowledge(pb.AcknowledgeRequest(task=task, cursor=pb.Cursor(epoch=epoch, row=row)))
    assert refusal(refused.value) == OUT_OF_RANGE


@pytest.mark.parametrize(("epoch", "row"), [(3, 0), (3, 7), (4, 0), (900, 0)])
def test_what_is_not_complete_is_awaited_until_the_task_has_finished(
    stubs: Stubs, task: str, epoch: int, row: int
) -> None:
    assert kinds(stubs.next(task, epoch=epoch, row=row)) == ["blocked"]
    stubs.tasks.NoMoreSplits(pb.NoMoreSplitsRequest(task=task))
    if (epoch, row) == (3, 0):
        assert kinds(stubs.next(task, epoch=epoch, row=row)) == ["finished"]
        return
    with pytest.raises(grpc.RpcError, match="the task has finished with epoch 2") as refused:
        stubs.next(task, epoch=epoch, row=row)
    assert refusal(refused.value) == OUT_OF_RANGE
