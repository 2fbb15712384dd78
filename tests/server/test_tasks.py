"""The task service as any gRPC client sees it, through stock generated stubs."""

from __future__ import annotations

import grpc
import pyarrow as pa
import pytest

from tidegate.client import Client
from tidegate.proto.arrow import arrow_ipc
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.server.endpoints import task_service
from tidegate.transport.access import Access
from tidegate.transport.remote import RemoteService

from ..executor.fakes import POISON, FakeEngine
from .conftest import Results, Stubs, inline, kinds, rows


def test_a_created_task_names_its_sources_and_schema(stubs: Stubs) -> None:
    task = stubs.tasks.CreateTask(pb.CreateTaskRequest(plan=pb.PlanBytes(binary=b"plan"))).task
    assert pa.ipc.read_schema(pa.py_buffer(task.schema)).names == ["x"]
    assert [source.name for source in task.sources] == ["a"]
    assert task.state == pb.TASK_STATE_RUNNING


def test_a_task_created_twice_by_one_request_is_one(stubs: Stubs) -> None:
    request = pb.CreateTaskRequest(plan=pb.PlanBytes(binary=b"plan"), request="once")
    assert len({stubs.tasks.CreateTask(request).task.id for _ in range(2)}) == 1


def test_a_split_a_barrier_an_epoch(stubs: Stubs) -> None:
    task = stubs.create()
    added = stubs.tasks.AddSplit(pb.AddSplitRequest(task=task, source="a", split=inline(1, 2)))
    assert (added.sequence, added.epoch, added.duplicate) == (1, 1, False)
    assert stubs.tasks.RequestBarrier(pb.RequestBarrierRequest(task=task)).epoch == 1
    frames = stubs.next(task, wait_ms=60_000)
    assert (kinds(frames), rows(frames)) == (["data", "barrier"], [1, 2])


def test_a_repeated_split_is_a_duplicate(stubs: Stubs) -> None:
    request = pb.AddSplitRequest(task=stubs.create(), source="a", split=inline(1), sequence=1)
    assert [stubs.tasks.AddSplit(request).duplicate for _ in range(2)] == [False, True]


def test_a_small_epoch_in_one_call(stubs: Stubs) -> None:
    task = stubs.create()
    for number in (1, 2, 3):
        answer = stubs.tasks.AddSplits(
            pb.AddSplitsRequest(
                task=task,
                splits=[pb.SplitOfSource(source="a", split=inline(number), sequence=number)],
                epoch=number,
                barrier=pb.Seal(through={"a": number}),
                read=pb.Read(**{"from": pb.Cursor(epoch=number)}),
            )
        )
        assert (answer.epoch, answer.splits[0].epoch) == (number, number)
        frames = list(answer.read.frames)
        assert kinds(frames) in (["data", "barrier"], ["blocked"])
        assert rows(stubs.next(task, number, wait_ms=60_000)) == [number]


def test_one_call_feeds_epoch_after_epoch_and_ends_with_the_first_refusal(stubs: Stubs) -> None:
    task = stubs.create()

    def epoch(number: int, **more: object) -> pb.AddSplitsRequest:
        split = pb.SplitOfSource(source="a", split=inline(number), sequence=number)
        return pb.AddSplitsRequest(task=task, splits=[split], epoch=number, barrier=pb.Seal(), **more)

    answers = stubs.tasks.Feed(iter([epoch(1), epoch(2, read=pb.Read()), epoch(4), epoch(3)]))
    assert [next(answers).epoch for _ in range(2)] == [1, 2]
    with pytest.raises(grpc.RpcError, match="names epoch 4") as refused:
        next(answers)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert rows(stubs.next(task, 1, wait_ms=60_000)) == [1]
    assert rows(stubs.next(task, 2, wait_ms=60_000)) == [2]
    assert stubs.tasks.GetTask(pb.GetTaskRequest(task=task)).sealed_epoch == 2


def test_next_says_that_a_seal_is_awaited(stubs: Stubs) -> None:
    (frame,) = stubs.next(stubs.create())
    assert frame.blocked.state == pb.Blocked.STATE_UNSEALED


def test_next_names_the_splits_that_a_seal_waits_for(stubs: Stubs) -> None:
    task = stubs.create()
    stubs.tasks.RequestBarrier(pb.RequestBarrierRequest(task=task, through={"a": 2}))
    (frame,) = stubs.next(task)
    assert list(frame.blocked.missing["a"].numbers) == [1, 2]


def test_a_long_poll_ends_with_blocked_when_its_time_is_over(stubs: Stubs) -> None:
    assert kinds(stubs.next(stubs.create(), wait_ms=10)) == ["blocked"]


def test_reading_again_gives_the_same_rows_until_they_are_acknowledged(stubs: Stubs) -> None:
    task = stubs.create()
    stubs.tasks.AddSplit(pb.AddSplitRequest(task=task, source="a", split=inline(1, 2, 3)))
    stubs.tasks.RequestBarrier(pb.RequestBarrierRequest(task=task))
    assert rows(stubs.next(task, wait_ms=60_000)) == rows(stubs.next(task)) == [1, 2, 3]
    stubs.tasks.Acknowledge(pb.AcknowledgeRequest(task=task, cursor=pb.Cursor(epoch=1, row=2)))
    assert rows(stubs.next(task, row=2)) == [3]
    with pytest.raises(grpc.RpcError, match="reading can start at row 2 of epoch 1") as refused:
        stubs.next(task, row=1)
    assert refused.value.code() is grpc.StatusCode.OUT_OF_RANGE


def test_results_are_the_same_frames_until_the_task_has_finished(stubs: Stubs, results: Results) -> None:
    task = stubs.create()
    for number in (1, 2):
        stubs.tasks.AddSplit(pb.AddSplitRequest(task=task, source="a", split=inline(number)))
        stubs.tasks.RequestBarrier(pb.RequestBarrierRequest(task=task))
    stubs.tasks.NoMoreSplits(pb.NoMoreSplitsRequest(task=task))
    frames = [frame for answer in results(pb.ResultsRequest(task=task)) for frame in answer]
    said = [frame for frame in frames if frame.WhichOneof("kind") != "blocked"]
    assert kinds(said) == ["data", "barrier", "data", "barrier", "finished"]
    assert rows(said) == [1, 2]


def test_results_begin_at_any_row_and_say_where_each_batch_stands(stubs: Stubs, results: Results) -> None:
    task = stubs.create()
    stubs.tasks.AddSplit(pb.AddSplitRequest(task=task, source="a", split=inline(*range(1000))))
    stubs.tasks.RequestBarrier(pb.RequestBarrierRequest(task=task))
    stubs.next(task, wait_ms=60_000)
    request = pb.ResultsRequest(task=task, ready=True, max_bytes=2000, **{"from": pb.Cursor(epoch=1, row=300)})
    frames = [frame for answer in results(request) for frame in answer]
    assert rows(frames) == list(range(300, 1000))
    first_rows = [frame.data.row for frame in frames if frame.HasField("data")]
    assert len(first_rows) > 2
    assert first_rows == [300 + sum(frame.data.rows for frame in frames[:at]) for at in range(len(first_rows))]


def test_results_say_once_that_nothing_comes_and_then_wait(stubs: Stubs, results: Results) -> None:
    task = stubs.create()
    answers = results(pb.ResultsRequest(task=task))
    assert kinds(next(answers)) == ["blocked"]
    stubs.tasks.NoMoreSplits(pb.NoMoreSplitsRequest(task=task))
    assert [kinds(answer) for answer in answers] == [["finished"]]


def test_results_that_are_ready_end_with_a_barrier_or_where_nothing_is_there(stubs: Stubs, results: Results) -> None:
    task = stubs.create()
    stubs.tasks.AddSplit(pb.AddSplitRequest(task=task, source="a", split=inline(1)))
    stubs.tasks.RequestBarrier(pb.RequestBarrierRequest(task=task))
    stubs.next(task, wait_ms=60_000)
    for epoch, expected in ((1, ["data", "barrier"]), (2, ["blocked"])):
        request = pb.ResultsRequest(task=task, ready=True, **{"from": pb.Cursor(epoch=epoch)})
        assert [kind for answer in results(request) for kind in kinds(answer)] == expected


def test_cancelling_ends_a_stream_that_waits(stubs: Stubs, results: Results) -> None:
    task = stubs.create()
    answers = results(pb.ResultsRequest(task=task))
    assert kinds(next(answers)) == ["blocked"]
    stubs.tasks.CancelTask(pb.CancelTaskRequest(task=task))
    with pytest.raises(grpc.RpcError) as ended:
        next(answers)
    assert dict(ended.value.trailing_metadata())["tidegate-error"] == "TaskCancelled"


@pytest.mark.parametrize("engine", [FakeEngine(early=True)], ids=["early"])
def test_the_error_of_an_epoch_follows_the_rows_that_were_read_of_it(stubs: Stubs, results: Results) -> None:
    task = stubs.create()
    stubs.tasks.AddSplit(pb.AddSplitRequest(task=task, source="a", split=inline(1, 2)))
    answers = results(pb.ResultsRequest(task=task))
    said: list[pb.Frame] = []
    while not rows(said):
        said += next(answers)
    assert rows(said) == [1, 2]
    stubs.tasks.AddSplit(pb.AddSplitRequest(task=task, source="a", split=inline(POISON)))
    with pytest.raises(grpc.RpcError, match="poison") as failed:
        list(answers)
    assert dict(failed.value.trailing_metadata())["tidegate-error"] == "TaskFailed"


def test_a_skipped_epochs_barrier_has_its_error_and_the_stream_goes_on(stubs: Stubs, results: Results) -> None:
    task = stubs.create(on_error=pb.ON_ERROR_SKIP_EPOCH)
    for number in (POISON, 2):
        stubs.tasks.AddSplit(pb.AddSplitRequest(task=task, source="a", split=inline(number)))
        stubs.tasks.RequestBarrier(pb.RequestBarrierRequest(task=task))
    stubs.tasks.NoMoreSplits(pb.NoMoreSplitsRequest(task=task))
    frames = [frame for answer in results(pb.ResultsRequest(task=task)) for frame in answer]
    said = [frame for frame in frames if frame.WhichOneof("kind") != "blocked"]
    assert kinds(said) == ["barrier", "data", "barrier", "finished"]
    assert "poison" in said[0].barrier.error.message
    assert rows(said) == [2]


def test_reading_what_was_acknowledged_is_refused_in_a_stream(stubs: Stubs, results: Results) -> None:
    task = stubs.create()
    stubs.tasks.AddSplit(pb.AddSplitRequest(task=task, source="a", split=inline(1, 2)))
    stubs.tasks.RequestBarrier(pb.RequestBarrierRequest(task=task))
    stubs.next(task, wait_ms=60_000)
    stubs.tasks.Acknowledge(pb.AcknowledgeRequest(task=task, cursor=pb.Cursor(epoch=1, row=1)))
    with pytest.raises(grpc.RpcError, match="reading can start at row 1 of epoch 1") as refused:
        list(results(pb.ResultsRequest(task=task)))
    assert dict(refused.value.trailing_metadata())["tidegate-error"] == "OutOfRange"


def test_watching_a_task_shows_its_statistics_change_and_ends_with_it(stubs: Stubs) -> None:
    task = stubs.create()
    watch = iter(stubs.tasks.WatchTask(pb.WatchTaskRequest(task=task, interval_ms=50)))
    assert next(watch).statistics.splits["a"].added == 0
    stubs.tasks.AddSplit(pb.AddSplitRequest(task=task, source="a", split=inline(1)))
    assert next(watch).statistics.splits["a"].added == 1
    stubs.tasks.CancelTask(pb.CancelTaskRequest(task=task))
    assert [seen.state for seen in watch] == [pb.TASK_STATE_CANCELLED]


def test_a_task_that_several_readers_share_is_deleted_once_all_of_them_have_read(stubs: Stubs) -> None:
    task = stubs.create()
    for reader in (1, 3, 1):
        stubs.tasks.DeleteTask(pb.DeleteTaskRequest(task=task, reader=reader, readers=3))
    assert stubs.tasks.GetTask(pb.GetTaskRequest(task=task)).id == task
    stubs.tasks.DeleteTask(pb.DeleteTaskRequest(task=task, reader=2, readers=3))
    with pytest.raises(grpc.RpcError, match="there is no task"):
        stubs.tasks.GetTask(pb.GetTaskRequest(task=task))


@pytest.mark.parametrize(("reader", "readers"), [(0, 3), (4, 3), (1, 0)])
def test_a_reader_is_one_of_the_readers(stubs: Stubs, reader: int, readers: int) -> None:
    with pytest.raises(grpc.RpcError, match=f"reader={reader} must be a number from 1 to readers={readers}"):
        stubs.tasks.DeleteTask(pb.DeleteTaskRequest(task=stubs.create(), reader=reader, readers=readers))


def test_tasks_are_listed_until_they_are_deleted(stubs: Stubs) -> None:
    task = stubs.create()
    assert [listed.id for listed in stubs.tasks.ListTasks(pb.ListTasksRequest()).tasks] == [task]
    stubs.tasks.DeleteTask(pb.DeleteTaskRequest(task=task))
    assert not stubs.tasks.ListTasks(pb.ListTasksRequest()).tasks


def test_an_upload_gives_a_path_for_splits(stubs: Stubs) -> None:
    task = stubs.create()
    parts = [pb.UploadRequest(task=task, name="n.parquet", data=b"ab"), pb.UploadRequest(data=b"cd")]
    path = stubs.tasks.Upload(iter(parts)).path
    assert path.endswith(".parquet")
    with open(path, "rb") as kept:
        assert kept.read() == b"abcd"


def test_cancelling_releases_a_waiter(stubs: Stubs) -> None:
    task = stubs.create()
    request = pb.NextRequest(task=task, wait_ms=60_000)
    waiting = stubs.tasks.Next.future(request)
    stubs.tasks.CancelTask(pb.CancelTaskRequest(task=task))
    assert waiting.exception(timeout=30).code() is grpc.StatusCode.CANCELLED


EMPTY = pb.Split()
REFUSALS = [
    ("AddSplit", pb.AddSplitRequest(task="none", source="a", split=inline(1)), "NOT_FOUND", "UNKNOWN_TASK"),
    ("GetTask", pb.GetTaskRequest(task="none"), "NOT_FOUND", "UNKNOWN_TASK"),
    ("Next", pb.NextRequest(task="none"), "NOT_FOUND", "UNKNOWN_TASK"),
    ("RequestBarrier", pb.RequestBarrierRequest(task="none"), "NOT_FOUND", "UNKNOWN_TASK"),
    ("NoMoreSplits", pb.NoMoreSplitsRequest(task="none"), "NOT_FOUND", "UNKNOWN_TASK"),
    ("Acknowledge", pb.AcknowledgeRequest(task="none"), "NOT_FOUND", "UNKNOWN_TASK"),
    ("CancelTask", pb.CancelTaskRequest(task="none"), "NOT_FOUND", "UNKNOWN_TASK"),
    ("DeleteTask", pb.DeleteTaskRequest(task="none"), "NOT_FOUND", "UNKNOWN_TASK"),
    ("CreateTask", pb.CreateTaskRequest(), "INVALID_ARGUMENT", "PLAN_MISSING"),
    ("AddSplit", pb.AddSplitRequest(task="{task}", source="b", split=inline(1)), "NOT_FOUND", "UNKNOWN_SOURCE"),
    ("AddSplit", pb.AddSplitRequest(task="{task}", source="a", split=EMPTY), "INVALID_ARGUMENT", "SPLIT_MISSING"),
    (
        "AddSplit",
        pb.AddSplitRequest(task="{task}", source="a", split=pb.Split(inline=pb.InlineSplit(arrow=b"no"))),
        "INVALID_ARGUMENT",
        "MALFORMED_ARROW",
    ),
    ("RequestBarrier", pb.RequestBarrierRequest(task="{task}", epoch=7), "FAILED_PRECONDITION", None),
    ("Upload", [], "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("Upload", [pb.UploadRequest(task="none", name="f.csv")], "NOT_FOUND", "UNKNOWN_TASK"),
]


@pytest.mark.parametrize(("method", "request_", "status", "reason"), REFUSALS, ids=lambda value: str(value)[:30])
def test_a_refusal_has_a_status_a_sentence_and_a_reason(
    stubs: Stubs, method: str, request_: object, status: str, reason: str | None
) -> None:
    if getattr(request_, "task", "") == "{task}":
        request_ = type(request_).FromString(request_.SerializeToString())
        request_.task = stubs.create()
    with pytest.raises(grpc.RpcError) as refused:
        getattr(stubs.tasks, method)(iter(request_) if isinstance(request_, list) else request_)
    said = dict(refused.value.trailing_metadata())
    assert refused.value.code().name == status
    assert len(refused.value.details()) > 10
    assert said["tidegate-reason"] == reason or reason is None


def test_a_stream_of_results_is_refused_with_a_status_and_a_reason(stubs: Stubs, results: Results) -> None:
    with pytest.raises(grpc.RpcError, match="no task 'none'") as refused:
        list(results(pb.ResultsRequest(task="none")))
    assert dict(refused.value.trailing_metadata())["tidegate-reason"] == "UNKNOWN_TASK"


def test_watching_is_refused_with_a_status_and_a_reason(stubs: Stubs) -> None:
    with pytest.raises(grpc.RpcError, match="no task 'none'") as refused:
        list(stubs.tasks.WatchTask(pb.WatchTaskRequest(task="none")))
    assert dict(refused.value.trailing_metadata())["tidegate-reason"] == "UNKNOWN_TASK"


@pytest.mark.parametrize(
    ("asked", "watches", "seconds"), [(0.0, 1, 0.05), (0.0, 20, 0.05), (0.0, 2_000, 5.0), (7.0, 2_000, 7.0)]
)
def test_many_watches_of_a_principal_look_less_often(asked: float, watches: int, seconds: float) -> None:
    assert task_service.interval(asked, watches) == seconds


def test_watching_a_task_that_is_over_ends_at_once(stubs: Stubs) -> None:
    task = stubs.create()
    stubs.tasks.CancelTask(pb.CancelTaskRequest(task=task))
    watch = stubs.tasks.WatchTask(pb.WatchTaskRequest(task=task, interval_ms=3_600_000), timeout=60)
    assert [seen.state for seen in watch] == [pb.TASK_STATE_CANCELLED]


def test_tasks_that_fill_several_answers_are_listed_part_by_part(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.proto.encoding.messages.LISTED_BYTES", 300)
    ids = [stubs.create() for _ in range(5)]
    first = stubs.tasks.ListTasks(pb.ListTasksRequest())
    assert first.more
    listed = [task.id for task in first.tasks]
    while len(listed) < 5:
        answer = stubs.tasks.ListTasks(pb.ListTasksRequest(after=listed[-1]))
        listed += [task.id for task in answer.tasks]
    assert listed == ids
    assert not answer.more
    stubs.tasks.DeleteTask(pb.DeleteTaskRequest(task=ids[2]))
    with pytest.raises(grpc.RpcError) as failure:
        stubs.tasks.ListTasks(pb.ListTasksRequest(after=ids[2]))
    assert failure.value.code() is grpc.StatusCode.NOT_FOUND


def test_lists_of_tasks_encode_no_schema_that_they_have_encoded_before(stubs: Stubs) -> None:
    for _ in range(3):
        stubs.create()
    stubs.tasks.ListTasks(pb.ListTasksRequest())
    encoded = set(arrow_ipc._schema_bytes)
    stubs.tasks.ListTasks(pb.ListTasksRequest())
    assert encoded
    assert encoded >= set(arrow_ipc._schema_bytes)


def test_a_client_lists_the_tasks_of_all_answers(stubs: Stubs, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.proto.encoding.messages.LISTED_BYTES", 300)
    ids = [stubs.create() for _ in range(7)]
    with Client(RemoteService(Access(address=address, reconnect_seconds=10.0))) as client:
        assert [task.id for task in client.tasks()] == ids
