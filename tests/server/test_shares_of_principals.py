"""One principal's uploads, calls and requests leave other principals room for theirs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from pyarrow import flight

from tidegate.executor.tasks.task_uploads import FILE_BYTES
from tidegate.proto.address import beside
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.server import serving
from tidegate.server.calls import request_reading
from tidegate.server.endpoints.upload_endpoint import AT_ONCE

from ..executor.fakes import FakeEngine
from ..waiting import until
from .principals import DEADLINE, QUOTA, TOKENS, calling, of, reason, stalled


def test_a_principals_uploads_without_a_task_leave_another_its_room(tmp_path: Path) -> None:
    with calling(tmp_path) as callers:
        callers.upload("alice", b"x" * QUOTA)
        with pytest.raises(grpc.RpcError) as refused:
            callers.upload("alice", b"x")
        assert reason(refused.value) == "UPLOAD_TOO_LARGE"
        assert "of your uploads" in refused.value.details()
        assert Path(callers.upload("bob", b"x" * QUOTA)).stat().st_size == QUOTA


def test_a_principals_stalled_uploads_leave_another_its_own(tmp_path: Path) -> None:
    with calling(tmp_path, spill_quota=2 * AT_ONCE * FILE_BYTES) as callers:
        over = threading.Event()

        def endless() -> Iterator[pb.UploadRequest]:
            yield pb.UploadRequest(name="x.csv", data=b"x")
            over.wait(DEADLINE)

        uploads = [callers.tasks["alice"].Upload.future(endless(), metadata=of("alice")) for _ in range(AT_ONCE + 1)]
        until(lambda: any(upload.done() for upload in uploads))
        [refused] = [upload.exception() for upload in uploads if upload.done()]
        assert reason(refused) == "TOO_MANY_UPLOADS"
        assert Path(callers.upload("bob", b"all")).read_bytes() == b"all"
        over.set()
        for upload in uploads:
            upload.cancel()


@pytest.mark.parametrize("with_task", [False, True])
def test_files_without_bytes_use_the_room_of_files(tmp_path: Path, with_task: bool) -> None:
    with calling(tmp_path) as callers:
        task = callers.create("alice") if with_task else ""
        for _ in range(QUOTA // FILE_BYTES):
            callers.upload("alice", b"", task)
        with pytest.raises(grpc.RpcError) as refused:
            callers.upload("alice", b"", task)
        assert reason(refused.value) == "UPLOAD_TOO_LARGE"


def test_a_principal_has_half_of_the_streams_of_flight(tmp_path: Path) -> None:
    with calling(tmp_path, flight_streams=4) as callers:
        where = beside(callers.address, callers.capabilities("alice").flight)

        def stream(who: str, task: str) -> flight.FlightStreamReader:
            options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKENS[who]}".encode())])
            ticket = flight.Ticket(json.dumps({"task": task, "epoch": 1}))
            return flight.connect(f"grpc://{where}").do_get(ticket, options)

        tasks = {who: callers.create(who) for who in TOKENS}
        held = [stream("alice", tasks["alice"]) for _ in range(2)]
        with pytest.raises(flight.FlightError) as refused:
            stream("alice", tasks["alice"])
        assert refused.value.extra_info == b"FLIGHT_BUSY"
        held += [stream("bob", tasks["bob"]) for _ in range(2)]
        for reader in held:
            reader.cancel()


def test_a_principals_calls_of_any_method_leave_a_quarter_to_others(tmp_path: Path) -> None:
    with calling(tmp_path, max_calls=8) as callers:
        waiting = [stalled(callers, "alice") for _ in range(6)]

        def full() -> bool:
            ended = [call for call in waiting if call.done()]  # the server ends calls whose requests do not come
            for call in ended:
                waiting[waiting.index(call)] = stalled(callers, "alice")
            try:
                callers.capabilities("alice")
            except grpc.RpcError as error:
                return reason(error) == "TOO_MANY_CALLS"
            return False

        until(full)
        assert callers.capabilities("bob").principal == "bob"
        for call in waiting:
            call.cancel()
        waiting.clear()
        until(lambda: not full())


def test_a_request_that_does_not_arrive_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_reading, "REQUEST_SECONDS", 0.2)
    with calling(tmp_path) as callers:
        error = stalled(callers, "alice").exception(timeout=DEADLINE)
        assert (error.code(), reason(error)) == (grpc.StatusCode.UNAVAILABLE, "REQUEST_STALLED")


class _Slow(FakeEngine):
    """Prepares no plan before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.plans = 0

    def prepare(self, *arguments: object) -> object:
        self.plans += 1
        self.go_on.wait(DEADLINE)
        return super().prepare(*arguments)


def test_the_bytes_of_a_principals_requests_that_have_no_answer_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "LARGEST_AT_ONCE", 2)
    engine = _Slow()
    large = b"x" * 60_000
    with calling(tmp_path, engine, max_message_bytes=65_536) as callers:
        request = pb.CreateTaskRequest(plan=pb.PlanBytes(binary=large))
        held = [callers.tasks["alice"].CreateTask.future(request, metadata=of("alice")) for _ in range(2)]
        until(lambda: engine.plans == len(held))
        with pytest.raises(grpc.RpcError) as refused:
            callers.create("alice", large)
        assert reason(refused.value) == "TOO_MANY_CALLS"
        bob = callers.tasks["bob"].CreateTask.future(request, metadata=of("bob"))
        until(lambda: engine.plans == len(held) + 1)
        engine.go_on.set()
        assert all(call.result(timeout=DEADLINE).task.id for call in (*held, bob))
        assert callers.create("alice", large)
