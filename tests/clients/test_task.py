"""A task as its user sees it, in this process and over gRPC alike."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tidegate
from tidegate.client import Client
from tidegate.task import Task

from ..executor.fakes import POISON, FakeEngine
from .conftest import PLAN, Start


def numbers(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def values(data: pa.Table | pa.RecordBatch) -> list[int]:
    return data["x"].to_pylist()


WIDE = 5_000  # rows of a batch too large for a server to join it with its neighbours


def wide(first: int) -> pa.Table:
    return numbers(*range(first, first + WIDE))


def test_run_epoch_feeds_seals_and_reads(start: Start) -> None:
    epoch = start().run_epoch({"a": numbers(1, 2, 3)})
    assert (epoch.number, epoch.rows, values(epoch.table())) == (1, 3, [1, 2, 3])
    assert epoch.statistics.splits == 1


def test_run_epoch_adds_nothing_for_a_reader_that_is_ahead_of_the_task(client: Client) -> None:
    task = client.create_task(PLAN)
    ahead = client.task(task.id, cursor=tidegate.Cursor(7))  # as behind a data folder that was put back from a backup
    with pytest.raises(tidegate.OutOfRange, match="row 0 of epoch 7 is not produced yet"):
        ahead.run_epoch({"a": numbers(1)})
    assert task.statistics().splits["a"].added == 0
    assert values(task.run_epoch({"a": numbers(1)}).table()) == [1]


def test_a_task_lives_across_epochs(start: Start) -> None:
    task = start()
    assert [values(task.run_epoch({"a": numbers(n)}).table()) for n in range(5)] == [[n] for n in range(5)]


def test_a_list_is_several_splits_in_order(start: Start) -> None:
    epoch = start().run_epoch({"a": [numbers(2), numbers(1), numbers(3)]})
    assert (values(epoch.table()), epoch.statistics.splits) == ([2, 1, 3], 3)


def test_an_epoch_without_splits_is_empty(start: Start) -> None:
    assert start().run_epoch({}).table().num_rows == 0


def test_the_same_in_steps(start: Start) -> None:
    task = start()
    added = [task.add_split("a", numbers(n)) for n in (1, 2)]
    assert [(answer.sequence, answer.epoch, answer.duplicate) for answer in added] == [(1, 1, False), (2, 1, False)]
    assert task.request_barrier() == 1
    assert values(task.read_epoch()) == [1, 2]


def test_reading_when_nothing_is_sealed_is_an_error_and_no_hang(start: Start) -> None:
    task = start()
    task.add_split("a", numbers(1))
    with pytest.raises(tidegate.Refused, match="epoch 1 is not sealed") as refused:
        task.read_epoch()
    assert refused.value.reason == "NOTHING_SEALED"


def test_reading_behind_the_last_epoch_says_that_the_task_has_finished(start: Start) -> None:
    task = start()
    task.run_epoch({"a": numbers(1)})
    task.no_more_splits()
    with pytest.raises(tidegate.Refused, match="there are no more epochs") as refused:
        task.read_epoch()
    assert refused.value.reason == "TASK_FINISHED"


def test_reading_behind_the_last_epoch_of_a_cancelled_task_says_so(start: Start) -> None:
    task = start()
    task.cancel()
    with pytest.raises(tidegate.TaskCancelled):
        task.read_epoch()


def test_reading_what_another_client_sealed(start: Start) -> None:
    task = start()
    other = Task(task.service, task.info())
    other.run_epoch({"a": numbers(7)})
    assert values(task.read_epoch()) == [7]


def test_run_epoch_is_refused_while_epochs_are_unread(start: Start) -> None:
    task = start()
    task.add_split("a", numbers(1))
    task.request_barrier()
    with pytest.raises(tidegate.Refused, match=r"^epoch 1 is sealed and unread"):
        task.run_epoch({"a": numbers(2)})
    assert values(task.read_epoch()) == [1]
    assert values(task.run_epoch({"a": numbers(2)}).table()) == [2]


def test_run_epoch_is_refused_while_own_splits_are_unsealed(start: Start) -> None:
    task = start()
    task.add_split("a", numbers(1))
    with pytest.raises(tidegate.Refused, match="splits of a are not sealed"):
        task.run_epoch({"a": numbers(2)})


@pytest.mark.parametrize("call", [Task.run_epoch, Task.start_epoch])
def test_an_epoch_is_refused_while_own_splits_are_partly_read_and_unsealed(
    start: Start, call: Callable[..., tidegate.Epoch]
) -> None:
    task = start(early=True)
    task.add_split("a", numbers(1))
    assert values(next(next(task.epochs()))) == [1]
    with pytest.raises(tidegate.Refused, match="splits of a are not sealed"):
        call(task, {"a": numbers(2)})


def test_run_epoch_is_refused_when_somebody_else_has_added_unseen(start: Start) -> None:
    task = start(sources=("a", "b"))
    Task(task.service, task.info()).add_split("b", numbers(9))
    with pytest.raises(tidegate.Refused, match="split 1 of the source is already in the open epoch"):
        task.run_epoch({"a": numbers(1)})


def test_an_epoch_that_was_started_gives_its_rows_as_they_come(start: Start) -> None:
    task = start()
    expected = values(wide(0)) + values(wide(7))
    assert [row for batch in task.start_epoch({"a": [wide(0), wide(7)]}) for row in values(batch)] == expected
    assert values(task.start_epoch({"a": [wide(0), wide(7)]}).table()) == expected
    assert task.start_epoch({"a": [wide(0), wide(7)]}).rows == len(expected)


def test_the_next_epoch_begins_behind_the_rest_of_one_that_was_started(start: Start) -> None:
    task = start()
    left = task.start_epoch({"a": [wide(0), wide(1), wide(2)]})
    first = values(next(left))
    assert values(task.start_epoch({"a": numbers(5)}).table()) == [5]
    rest = [row for batch in left for row in values(batch)]
    assert first + rest == values(wide(0)) + values(wide(1)) + values(wide(2))


def test_iterating_consumes_and_moves_the_cursor(start: Start) -> None:
    task = start()
    epoch = task.run_epoch({"a": [wide(0), wide(7)]})
    assert task.cursor == tidegate.Cursor(1, 0)
    seen: list[int] = []
    for batch in epoch:
        seen += values(batch)
        assert task.cursor == tidegate.Cursor(1, len(seen))
    assert seen == values(wide(0)) + values(wide(7))
    assert task.cursor == tidegate.Cursor(2, 0)
    with pytest.raises(tidegate.Refused, match="has been consumed"):
        epoch.table()


def test_a_batch_is_acknowledged_when_the_next_one_is_pulled(start: Start) -> None:
    task = start()
    pulled = 0
    for batch in task.run_epoch({"a": [wide(0), wide(1), wide(2)]}):
        assert task.info().acknowledged == tidegate.Cursor(1, pulled)
        pulled += batch.num_rows
    assert pulled == 3 * WIDE


def test_the_table_may_be_asked_for_again(start: Start) -> None:
    epoch = start().run_epoch({"a": numbers(1)})
    assert epoch.table().equals(epoch.table())


def test_a_client_starts_again_in_the_middle_of_an_epoch(start: Start) -> None:
    task = start()
    epoch = task.run_epoch({"a": [wide(0), wide(1), wide(2)]})
    first = values(next(epoch))
    again = Task(task.service, task.info(), task.cursor)
    assert first + values(again.read_epoch()) == values(wide(0)) + values(wide(1)) + values(wide(2))
    assert values(again.run_epoch({"a": numbers(5)}).table()) == [5]


def test_a_cursor_that_was_acknowledged_is_out_of_range(start: Start) -> None:
    task = start()
    task.run_epoch({"a": numbers(1)})
    task.acknowledge(tidegate.Cursor(2, 0))
    with pytest.raises(tidegate.OutOfRange, match="reading can start at row 0 of epoch 2"):
        Task(task.service, task.info(), tidegate.Cursor(1, 0)).read_epoch()


def test_epochs_until_the_task_has_finished(start: Start) -> None:
    task = start()
    for n in range(3):
        task.add_split("a", numbers(n))
        task.request_barrier()
    task.add_split("a", numbers(3))
    task.no_more_splits()
    assert [(epoch.number, values(epoch.table())) for epoch in task.epochs()] == [(n + 1, [n]) for n in range(4)]


def test_epochs_wait_for_a_seal_that_comes_later(start: Start) -> None:
    task = start()
    feeder = Task(task.service, task.info())

    def feed() -> None:
        feeder.add_split("a", numbers(1))
        feeder.request_barrier()
        feeder.no_more_splits()

    thread = threading.Timer(0.05, feed)
    thread.start()
    assert [values(epoch.table()) for epoch in task.epochs(timeout=60)] == [[1]]
    thread.join()


def test_epochs_time_out_and_go_on(start: Start) -> None:
    task = start()
    task.add_split("a", numbers(1))
    with pytest.raises(TimeoutError, match="epoch 1 did not come within"):
        next(task.epochs(timeout=0.01)).table()
    task.request_barrier()
    assert values(next(task.epochs(timeout=60)).table()) == [1]


def test_rows_read_before_a_time_out_are_not_lost(start: Start) -> None:
    task = start(early=True)
    task.add_split("a", numbers(1))
    epoch = next(task.epochs(timeout=0.5))
    with pytest.raises(TimeoutError):
        epoch.table()
    task.add_split("a", numbers(2))
    task.request_barrier()
    assert values(epoch.table()) == [1, 2]


def test_an_epoch_larger_than_an_answer_comes_whole(inject: Start) -> None:
    task = inject(FakeEngine(repeat=200))
    epoch = task.run_epoch({"a": numbers(*range(10_000))})
    assert values(epoch.table()) == [*range(10_000)] * 200
    assert values(task.run_epoch({"a": numbers(*range(100))}).table()) == [*range(100)] * 200


def test_reading_may_go_elsewhere_or_end_in_the_middle_of_a_large_epoch(inject: Start) -> None:
    task = inject(FakeEngine(repeat=200))
    task.add_split("a", numbers(*range(10_000)))
    task.request_barrier()
    for first in (7, 500_008, 20_009):
        frames = [*task.next(tidegate.Cursor(1, first), wait=60), *task.next(), *task.next()]
        for frame in frames:
            if isinstance(frame, tidegate.Data):
                assert values(frame.batches[0])[0] == frame.cursor.row % 10_000
        assert task.cursor > tidegate.Cursor(1, first)
    task.delete()
    with pytest.raises(tidegate.NotFound, match="no task"):
        task.info()


def test_output_beyond_every_limit_is_read_while_it_is_made(inject: Start) -> None:
    task = inject(FakeEngine(repeat=100), output_bytes=100_000, spill_quota=200_000)
    assert task.run_epoch({"a": numbers(*range(5_000))}).rows == 500_000


def test_feeding_goes_on_by_reading_when_the_output_is_full(start: Start) -> None:
    limits = {"output_bytes": 50_000, "queue_bytes": 50_000, "spill_quota": 100_000}
    task = start(early=True, **limits)
    many = [numbers(*range(n * 3_000, (n + 1) * 3_000)) for n in range(40)]
    assert values(task.run_epoch({"a": many}).table()) == [*range(120_000)]


def test_a_failed_epoch_fails_its_task(inject: Start) -> None:
    task = inject()
    task.run_epoch({"a": numbers(1)})
    with pytest.raises(tidegate.TaskFailed, match="poison"):
        task.run_epoch({"a": numbers(POISON)})


def test_a_skipped_epoch_raises_and_the_task_goes_on(inject: Start) -> None:
    task = inject(on_error="skip_epoch")
    with pytest.raises(tidegate.EpochError, match="poison") as skipped:
        task.run_epoch({"a": numbers(POISON)})
    assert skipped.value.epoch == 1
    assert values(task.run_epoch({"a": numbers(2)}).table()) == [2]


def test_a_skipped_epoch_that_was_started_raises_when_it_is_read(inject: Start) -> None:
    task = inject(on_error="skip_epoch")
    skipped = task.start_epoch({"a": numbers(POISON)})
    with pytest.raises(tidegate.EpochError, match="poison"):
        next(skipped)
    assert task.start_epoch({"a": numbers(2)}).rows == 1


def test_epochs_yield_a_skipped_one_with_its_error(inject: Start) -> None:
    task = inject(on_error="skip_epoch")
    for n in (1, POISON, 3):
        task.add_split("a", numbers(n))
        task.request_barrier()
    task.no_more_splits()
    good, skipped, after = task.epochs()
    assert (good.error, after.error) == (None, None)
    assert isinstance(skipped.error, tidegate.EpochError)
    with pytest.raises(tidegate.EpochError, match="poison"):
        skipped.table()


def test_typed_frames_for_those_who_want_them(start: Start) -> None:
    task = start()
    assert task.next() == [tidegate.Blocked(state=tidegate.BlockedState.UNSEALED)]
    task.add_split("a", numbers(1, 2))
    task.request_barrier()
    data, *more = task.next(wait=60)
    (barrier,) = more or task.next(wait=60)
    assert isinstance(data, tidegate.Data)
    assert isinstance(barrier, tidegate.Barrier)
    assert (data.cursor, data.rows, barrier.epoch, barrier.rows) == (tidegate.Cursor(1, 0), 2, 1, 2)
    assert task.cursor == tidegate.Cursor(2, 0)


def test_frames_again_from_an_older_cursor_in_other_batches(start: Start) -> None:
    task = start()
    task.run_epoch({"a": numbers(1, 2, 3)})
    (one,) = task.next(tidegate.Cursor(1, 1), max_bytes=1)
    assert isinstance(one, tidegate.Data)
    assert [values(batch) for batch in one.batches] == [[2]]
    assert task.cursor == tidegate.Cursor(1, 2)


def test_a_seal_that_waits_for_missing_splits_says_which(start: Start) -> None:
    task = start()
    task.add_split("a", numbers(1))
    task.request_barrier(through={"a": 3})
    with pytest.raises(tidegate.Refused, match=r"waits for splits that are missing \(a: 2, 3\)"):
        task.read_epoch()
    task.add_split("a", numbers(3), sequence=3)
    task.add_split("a", numbers(2), sequence=2)
    assert values(task.read_epoch()) == [1, 2, 3]


def test_a_cancelled_task_says_so(start: Start) -> None:
    task = start()
    task.cancel()
    with pytest.raises(tidegate.TaskCancelled) as cancelled:
        task.run_epoch({"a": numbers(1)})
    assert str(cancelled.value) == "the task was cancelled"


def test_an_epoch_fed_in_several_calls_gives_back_the_one_before(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.transport.feeder.STEP_SPLITS", 1)
    task = start()
    task.run_epoch({"a": numbers(1)})
    assert values(task.run_epoch({"a": [numbers(2), numbers(3)]}).table()) == [2, 3]
    assert task.info().acknowledged == tidegate.Cursor(2, 0)


@pytest.mark.parametrize("number", [0, -1, "1", 1.5])
def test_what_is_no_number_from_one_on_is_refused(start: Start, number: Any) -> None:
    task = start()
    with pytest.raises(tidegate.InvalidRequest, match=f"sequence={number!r} must be a whole number from 1 on"):
        task.add_split("a", numbers(1), sequence=number)
    with pytest.raises(tidegate.InvalidRequest, match=f"epoch={number!r} must be a whole number from 1 on"):
        task.request_barrier(number)


def test_a_task_deletes_itself_at_the_end_of_its_context(start: Start) -> None:
    with start() as task:
        task.run_epoch({"a": numbers(1)})
    with pytest.raises(tidegate.NotFound, match=task.id):
        task.info()


def test_deleting_twice_does_nothing(start: Start) -> None:
    task = start()
    task.delete()
    task.delete()


def test_an_unknown_source_names_the_known_ones(start: Start) -> None:
    task = start()
    for feed in (lambda: task.run_epoch({"b": numbers(1)}), lambda: task.add_split("b", numbers(1))):
        with pytest.raises(tidegate.NotFound, match="no source 'b'; its sources are: a") as refused:
            feed()
        assert refused.value.reason == "UNKNOWN_SOURCE"


def test_a_source_is_fed_whatever_the_case_of_its_name(start: Start) -> None:
    task = start()
    assert values(task.run_epoch({"A": numbers(1)}).table()) == [1]
    assert [task.add_split(name, numbers(n)).sequence for name, n in (("A", 2), ("a", 3), ("A", 4))] == [2, 3, 4]
    task.request_barrier(through={"A": 4})
    assert values(task.read_epoch()) == [2, 3, 4]


def test_statistics_count_splits_and_barriers(start: Start) -> None:
    task = start()
    task.run_epoch({"a": [numbers(1), numbers(2)]})
    statistics = task.statistics()
    assert (statistics.barriers_completed, statistics.splits["a"].finished) == (1, 2)


def test_watermarks_are_handed_on(start: Start) -> None:
    task = start()
    task.add_split("a", numbers(1), watermark=70)
    task.add_split("a", numbers(2), watermark=50)
    task.request_barrier()
    assert next(task.epochs()).watermark == 50


@pytest.mark.parametrize(
    ("wrong", "call"),
    [
        ("epoch -1", lambda task: task.next(tidegate.Cursor(-1, 0))),
        (r"Cursor\(epoch, row\), not \(1, 0\)", lambda task: task.next((1, 0))),
        ("row -1", lambda task: task.next(acknowledge=tidegate.Cursor(1, -1))),
        ("row -1", lambda task: task.acknowledge(tidegate.Cursor(1, -1))),
        ("epoch 9223372036854775808", lambda task: task.acknowledge(tidegate.Cursor(2**63, 0))),
        ("max_bytes=-1", lambda task: task.next(max_bytes=-1)),
        ("wait=-1", lambda task: task.next(wait=-1.0)),
        ("through=-1 of source 'a'", lambda task: task.request_barrier(through={"a": -1})),
        ("through=-1 of source 'a'", lambda task: task.no_more_splits(through={"a": -1})),
        ("sequence=-1", lambda task: task.add_split("a", pa.table({"x": [1]}), sequence=-1)),
    ],
)
def test_a_number_that_cannot_be_is_named(start: Start, wrong: str, call: Callable[[tidegate.Task], object]) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=wrong):
        call(start())


def test_a_second_feeder_is_told_what_to_do(client: tidegate.Client) -> None:
    first = client.create_task(PLAN)
    second = client.task(first.id)
    first.add_split("a", pa.table({"x": [1]}))
    with pytest.raises(tidegate.Refused, match=r"the next number is 2.*attach to the task again") as refused:
        second.add_split("a", pa.table({"x": [2]}))
    assert refused.value.reason == "SEQUENCE_REUSED"
    client.task(first.id).add_split("a", pa.table({"x": [2]}))
    first.request_barrier()
    assert first.read_epoch()["x"].to_pylist() == [1, 2]
