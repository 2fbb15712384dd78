"""A server with as many calls as it takes refuses further ones with a reason, and still answers health probes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import tidegate
from tidegate.proto.tidegate.v1 import plans_pb2_grpc, tasks_pb2_grpc
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb

from ..waiting import until
from .conftest import Stubs
from .principals import DEADLINE, calling, reason
from .running import fake_server

CALLS = 8


@contextmanager
def full(most: int) -> Iterator[tuple[Stubs, str, list[grpc.Future]]]:
    """A server without tokens that has `most` calls, the most that it takes."""
    with fake_server(max_calls=most) as address, grpc.insecure_channel(address) as channel:
        stubs = Stubs(channel, tasks_pb2_grpc.TaskServiceStub(channel), plans_pb2_grpc.PlanServiceStub(channel))
        request = pb.NextRequest(task=stubs.create(), wait_ms=60_000, **{"from": pb.Cursor(epoch=1)})
        waiting = [stubs.tasks.Next.future(request) for _ in range(most)]
        until(lambda: _refusal(stubs) is not None)
        yield stubs, address, waiting
        for call in waiting:
            call.cancel()


def _refusal(stubs: Stubs) -> grpc.RpcError | None:
    try:
        stubs.tasks.ListTasks(pb.ListTasksRequest(), timeout=DEADLINE)
    except grpc.RpcError as error:
        return error
    return None


def test_a_call_beyond_the_limit_is_refused_with_a_reason() -> None:
    with full(CALLS) as (stubs, _, waiting):
        refused = _refusal(stubs)
        assert (refused.code(), reason(refused)) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_CALLS")
        assert "--max-calls" in refused.details()
        waiting[0].cancel()
        until(lambda: _refusal(stubs) is None)


def test_the_client_raises_what_the_server_says() -> None:
    with full(CALLS) as (_, address, _), tidegate.connect(address) as client:
        with pytest.raises(tidegate.Exhausted, match=f"{CALLS} calls are in progress") as refused:
            client.tasks()
        assert refused.value.reason == "TOO_MANY_CALLS"


def test_a_full_server_says_that_it_is_healthy_and_refuses_reflection() -> None:
    with full(CALLS) as (stubs, _, _):
        answer = health_pb2_grpc.HealthStub(stubs.channel).Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        asked = reflection_pb2_grpc.ServerReflectionStub(stubs.channel).ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        )
        with pytest.raises(grpc.RpcError) as refused:
            list(asked)
        assert reason(refused.value) == "TOO_MANY_CALLS"


def test_many_times_the_limit_at_the_same_time_are_all_answered_with_a_reason() -> None:
    with full(CALLS) as (stubs, _, _):
        calls = [stubs.tasks.ListTasks.future(pb.ListTasksRequest(), timeout=120) for _ in range(1_500)]
        answers = Counter((call.exception().code(), reason(call.exception())) for call in calls)
    assert answers == {(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_CALLS"): 1_500}


def test_calls_without_a_token_take_no_place(tmp_path: Path) -> None:
    with calling(tmp_path, max_calls=CALLS) as callers:
        calls = [callers.tasks["bob"].ListTasks.future(pb.ListTasksRequest(), timeout=120) for _ in range(20 * CALLS)]
        assert callers.capabilities("alice").principal == "alice"
        assert {reason(call.exception()) for call in calls} == {"TOKEN_MISSING"}


def test_principals_are_refused_when_they_have_all_calls_together(tmp_path: Path) -> None:
    with calling(tmp_path, max_calls=CALLS) as callers:
        tasks = {who: callers.create(who) for who in ("alice", "bob")}
        waiting = [callers.next("alice", tasks["alice"]) for _ in range(CALLS * 3 // 4)]
        waiting += [callers.next("bob", tasks["bob"]) for _ in range(CALLS - len(waiting))]

        def refused() -> str:
            try:
                callers.capabilities("bob")
            except grpc.RpcError as error:
                return f"{reason(error)}: {error.details()}"
            return ""

        until(lambda: refused().startswith(f"TOO_MANY_CALLS: {CALLS} calls are in progress"))
        for call in waiting:
            call.cancel()
