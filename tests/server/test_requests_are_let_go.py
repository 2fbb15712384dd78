"""A request is gone once its call has ended: no cycle of references keeps its bytes until Python collects garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tidegate.proto.tidegate.v1 import tasks_pb2 as pb

from ..waiting import until
from .conftest import Stubs
from .principals import calling, of

SIZE = 1 << 20
CALLS = 6
DATA = pb.AddSplitRequest(task="none", split=pb.Split(inline=pb.InlineSplit(arrow=bytes(SIZE)))).SerializeToString()


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def kept() -> int:
    """The number of requests, apart from the one that is sent, that something refers to."""
    sent = {id(DATA)}
    for holder in gc.get_objects():
        sent.update(id(thing) for thing in gc.get_referents(holder) if type(thing) is bytes and len(thing) >= SIZE)
    return len(sent) - 1


def calls(channel: grpc.Channel, **more: object) -> None:
    add = channel.unary_unary("/tidegate.v1.TaskService/AddSplit")
    for _ in range(CALLS):
        with pytest.raises(grpc.RpcError):
            add(DATA, **more)


@pytest.mark.usefixtures("without_collector")
def test_requests_of_calls_that_have_ended_are_let_go(stubs: Stubs) -> None:
    calls(stubs.channel)
    until(lambda: kept() <= 1)


@pytest.mark.usefixtures("without_collector")
def test_requests_of_principals_are_let_go(tmp_path: Path) -> None:
    with calling(tmp_path) as callers:
        calls(callers.channels["alice"], metadata=of("alice"))
        until(lambda: kept() <= 1)
