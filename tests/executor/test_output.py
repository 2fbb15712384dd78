"""Rows have places; what is unacknowledged is kept, in memory, then on disk, then the task waits."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.executor.runtime.batch_store import Holding, Quota
from tidegate.executor.tasks.output_log import OutputLog
from tidegate.proto.errors import Exhausted, InvalidRequest, NotFound, OutOfRange, Refused
from tidegate.proto.values import Barrier, Blocked, BlockedState, Cursor, Data

from .fakes import Client, FakeEngine, running

BATCH = 8_000  # bytes, of the numbers below


def numbers(start: int, count: int = 1_000) -> list[int]:
    return list(range(start, start + count))


def add_batches(task: Client, batches: int, source: str = "a") -> None:
    for start in range(batches):
        task.add(*numbers(start), source=source)


def fill(task: Client, batches: int) -> list[int]:
    """One epoch of so many batches of a thousand numbers: all its values."""
    values = numbers(0, 1_000 * batches)
    for start in range(0, len(values), 1_000):
        task.add(*values[start : start + 1_000])
    task.seal()
    return values


def test_reading_again_from_any_unacknowledged_cursor_gives_the_same_rows() -> None:
    with running() as task:
        values = fill(task, 3)
        assert task.epoch(1) == values
        for row in (0, 1, 999, 1_000, 2_500):
            (data, barrier) = task.next(1, row)
            assert [value for some in data.batches for value in some.column(0).to_pylist()] == values[row:]
            assert barrier.rows == 3_000


def test_reading_at_the_end_of_an_epoch_gives_its_barrier() -> None:
    with running() as task:
        fill(task, 1)
        task.epoch(1)
        assert [type(frame) for frame in task.next(1, 1_000)] == [Barrier]


def test_a_row_beyond_the_end_of_an_epoch_is_out_of_range() -> None:
    with running() as task:
        fill(task, 1)
        task.epoch(1)
        with pytest.raises(OutOfRange, match="epoch 1 has 1000 rows, so there is no row 1001"):
            task.next(1, 1_001)


def test_what_was_acknowledged_is_out_of_range_and_the_error_names_what_can_be_had() -> None:
    with running() as task:
        fill(task, 2)
        task.epoch(1)
        task.manager.acknowledge(task.id, Cursor(1, 500))
        with pytest.raises(OutOfRange, match="reading can start at row 500 of epoch 1"):
            task.next(1, 499)
        assert task.next(1, 500)[0].cursor == Cursor(1, 500)


def test_what_is_not_produced_cannot_be_acknowledged() -> None:
    with running() as task:
        fill(task, 1)
        task.epoch(1)
        for cursor in (Cursor(1, 1_001), Cursor(2, 1), Cursor(3)):
            with pytest.raises(OutOfRange, match="not produced yet"):
                task.manager.acknowledge(task.id, cursor)


def test_rows_of_an_epoch_that_fails_can_be_acknowledged_before_its_barrier() -> None:
    output = OutputLog(1 << 20, Quota(1 << 20), 0)
    batch = pa.record_batch({"a": pa.array(range(10))})
    assert output.offer(1, Holding((batch,))) is None
    output.void(1)
    assert output.acknowledge(Cursor(1, 10))


def test_acknowledging_twice_or_backwards_changes_nothing() -> None:
    with running() as task:
        fill(task, 1)
        task.epoch(1)
        for row in (700, 700, 300):
            task.manager.acknowledge(task.id, Cursor(1, row))
        assert task.info().acknowledged == Cursor(1, 700)


def test_answers_are_about_as_large_as_asked_and_never_empty() -> None:
    with running() as task:
        values = fill(task, 4)
        task.epoch(1)
        read: list[int] = []
        while not isinstance((frame := task.next(1, len(read), max_bytes=2_000)[0]), Barrier):
            assert sum(some.nbytes for some in frame.batches) <= 2_250
            read += [value for some in frame.batches for value in some.column(0).to_pylist()]
        assert read == values


def test_one_row_is_sent_even_when_it_is_larger_than_asked() -> None:
    with running() as task:
        fill(task, 1)
        task.epoch(1)
        assert task.next(1, max_bytes=1)[0].rows == 1


def test_acknowledged_output_is_freed_at_once() -> None:
    with running() as task:
        fill(task, 3)
        task.epoch(1)
        held = task.info().statistics.output_bytes_held
        task.manager.acknowledge(task.id, Cursor(1, 2_000))
        assert task.info().statistics.output_bytes_held == held // 3
        task.manager.acknowledge(task.id, Cursor(2))
        assert task.info().statistics.output_bytes_held == 0


def test_output_beyond_the_memory_limit_goes_to_disk_and_reads_the_same() -> None:
    with running(output_bytes=3 * BATCH) as task:
        values = fill(task, 20)
        assert task.epoch(1) == values
        statistics = task.info().statistics
        assert statistics.output_bytes_held <= 3 * BATCH
        assert statistics.spilled_bytes >= 16 * BATCH
        assert spill_files(task)
        assert task.epoch(1) == values


def test_acknowledged_files_are_deleted_at_once() -> None:
    with running(output_bytes=3 * BATCH) as task:
        fill(task, 20)
        task.epoch(1)
        task.manager.acknowledge(task.id, Cursor(2))
        assert task.info().statistics.spilled_bytes == 0
        assert not spill_files(task)


def test_with_the_quota_full_the_task_waits_for_its_reader() -> None:
    with running(output_bytes=2 * BATCH, spill_quota=6 * BATCH) as task:
        values = fill(task, 40)
        assert task.epoch(1, acknowledge=True) == values


def test_a_stalled_reader_never_makes_the_task_hold_more_than_its_limits() -> None:
    engine = FakeEngine(repeat=40)
    with running(engine, output_bytes=2 * BATCH, spill_quota=6 * BATCH) as task:
        task.add(*numbers(0))
        task.seal()
        wait_until_full(task)
        statistics = task.info().statistics
        assert statistics.output_bytes_held <= 3 * BATCH
        assert statistics.spilled_bytes <= 6 * BATCH
        assert statistics.output_rows < 10_000


def test_reading_ahead_of_unread_output_while_the_quota_is_full_is_refused() -> None:
    with running(FakeEngine(repeat=40), output_bytes=2 * BATCH, spill_quota=0) as task:
        task.add(*numbers(0))
        task.seal()
        wait_until_full(task)
        for cursor in (Cursor(1, 30_000), Cursor(2)):
            with pytest.raises(Refused, match="read from row 0 of epoch 1") as refused:
                task.next(cursor.epoch, cursor.row)
            assert refused.value.reason == "OUTPUT_FULL"


def test_acknowledging_lets_a_waiting_task_go_on() -> None:
    with running(FakeEngine(repeat=40), output_bytes=2 * BATCH, spill_quota=0) as task:
        task.add(*numbers(0))
        task.seal()
        wait_until_full(task)
        assert task.epoch(1, acknowledge=True) == numbers(0) * 40


def test_a_batch_larger_than_all_limits_still_comes_through() -> None:
    with running(output_bytes=10, spill_quota=0) as task:
        values = fill(task, 3)
        assert task.epoch(1, acknowledge=True) == values


def test_nothing_yet_says_whether_work_is_going_on_or_a_seal_is_awaited() -> None:
    gate = threading.Event()
    with running(FakeEngine(gate=gate)) as task:
        task.add(1)
        assert task.look(1) == [Blocked(state=BlockedState.UNSEALED)]
        task.seal()
        assert task.look(1) == [Blocked(state=BlockedState.WORKING)]
        assert task.look(2) == [Blocked(state=BlockedState.WORKING)]
        gate.set()
        assert task.epoch(1) == [1]


def test_an_answer_stops_at_a_barrier() -> None:
    with running() as task:
        for value in (1, 2):
            task.add(value)
            task.seal()
        task.epoch(2)
        assert [type(frame) for frame in task.next(1)] == [Data, Barrier]


def test_a_cursor_before_the_first_row_is_out_of_range() -> None:
    with running() as task:
        for cursor in (Cursor(0, 0), Cursor(1, -1)):
            with pytest.raises(OutOfRange, match="epochs count from 1, and rows from 0"):
                task.manager.poll(task.id, cursor)


def test_empty_batches_leave_no_trace() -> None:
    with running(FakeEngine(function=lambda some: some.slice(0, 0))) as task:
        task.add(1)
        task.seal()
        assert [type(frame) for frame in task.next(1)] == [Barrier]


# ------------------------------------------------------------------------------------------------ inline splits


def test_inline_splits_beyond_the_queue_s_bytes_go_to_disk() -> None:
    with running(queue_bytes=3 * BATCH) as task:
        values = [value for start in range(10) for value in numbers(start)]
        for start in range(10):
            task.add(*numbers(start))
        assert task.info().statistics.spilled_bytes >= 6 * BATCH
        task.seal()
        assert task.epoch(1) == values


def test_a_spilled_split_is_still_compared() -> None:
    with running(queue_bytes=1) as task:
        task.add(1, sequence=1)
        assert task.add(1, sequence=1).duplicate
        with pytest.raises(Refused, match="other content"):
            task.add(2, sequence=1)


def test_splits_that_no_seal_has_freed_are_refused_naming_the_source() -> None:
    with running(queue_bytes=2 * BATCH, spill_quota=4 * BATCH) as task:
        with pytest.raises(Exhausted, match="splits of source 'a' have") as refused:
            add_batches(task, 10)
        assert refused.value.reason == "WAITS_FOR_SEAL"
        held = task.info().sources[0].last_added
        task.seal()
        assert len(task.epoch(1)) == held * 1_000
        assert task.add(*numbers(0)).sequence == held + 1


def test_splits_that_wait_for_a_reader_are_refused_saying_so() -> None:
    engine = FakeEngine(repeat=10)
    with running(engine, queue_bytes=2 * BATCH, output_bytes=2 * BATCH, spill_quota=4 * BATCH) as task:
        task.add(*numbers(0))
        task.seal()
        wait_until_full(task)
        with pytest.raises(Exhausted) as refused:
            add_batches(task, 4)
        assert refused.value.reason == "OUTPUT_UNREAD"
        sequence = task.info().sources[0].last_added + 1
        task.epoch(1, acknowledge=True)
        task.manager.acknowledge(task.id, Cursor(2))
        assert task.add(*numbers(9), sequence=sequence).epoch == 2


def test_a_split_larger_than_all_limits_is_refused_for_good() -> None:
    with running(queue_bytes=100, spill_quota=100) as task, pytest.raises(Exhausted) as refused:
        task.add(*numbers(0))
    assert refused.value.reason == "SPLIT_TOO_LARGE"


def test_a_source_that_nothing_reads_yet_never_blocks_another_s() -> None:
    engine = FakeEngine(sources=("a", "b"), early=True)
    with running(engine, queue_bytes=8 * BATCH, spill_quota=8 * BATCH) as task:
        with pytest.raises(Exhausted, match="splits of source 'b' have"):
            add_batches(task, 20, source="b")
        for start in range(5):
            task.add(*numbers(start), source="a")
            task.next(1, start * 1_000)


def test_rows_of_splits_that_have_run_make_room_for_new_ones() -> None:
    with running(queue_bytes=3 * BATCH, spill_quota=0) as task:
        for epoch in range(1, 8):
            task.add(*numbers(epoch), sequence=epoch)
            task.seal()
            assert task.epoch(epoch) == numbers(epoch)
        assert task.add(*numbers(1), sequence=1).duplicate
        with pytest.raises(Refused, match="other content"):
            task.add(*numbers(2), sequence=1)


# ---------------------------------------------------------------------------------------------------- uploads


def test_an_upload_is_kept_with_the_task_and_its_name_s_ending() -> None:
    with running() as task:
        path = Path(task.manager.upload(task.id, "../dir/part-1.parquet", [b"ab", b"c"]))
        assert path.read_bytes() == b"abc"
        assert path.suffix == ".parquet"
        assert path.parent.name == task.id
        task.manager.delete_task(task.id)
        assert not path.exists()


def test_an_upload_beyond_the_quota_is_refused_and_leaves_nothing() -> None:
    with running(spill_quota=10_000) as task:
        with pytest.raises(Exhausted) as refused:
            task.manager.upload(task.id, "x.csv", [b"x" * 8_000, b"x" * 4_000])
        assert refused.value.reason == "UPLOAD_TOO_LARGE"
        assert not spill_files(task)
        assert task.manager.upload(task.id, "x.csv", [b"x" * 10_000])


def test_an_upload_s_name_cannot_lead_elsewhere() -> None:
    with running() as task, pytest.raises(InvalidRequest):
        task.manager.upload(task.id, "x.pa\0rquet", [b""])


def test_an_upload_s_name_has_no_long_ending() -> None:
    with running() as task, pytest.raises(InvalidRequest, match="at most 32 letters"):
        task.manager.upload(task.id, "x." + "y" * 300, [b""])


def test_an_upload_onto_a_full_disk_is_refused_and_leaves_nothing() -> None:
    with running() as task:
        task.manager.upload(task.id, "first.csv", [b"1"])
        reception = task.manager.begin_upload(task.id, "x.csv")
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        reception._sink = FullDisk(reception._sink, full)
        with pytest.raises(Exhausted, match=r"'x\.csv' cannot be kept: No space left on device") as refused:
            reception.write(b"data")
        assert refused.value.reason == "SPILL_FAILED"
        assert [path.read_bytes() for path in spill_files(task)] == [b"1"]
        with pytest.raises(NotFound, match="has ended"):
            reception.write(b"more")


class FullDisk:
    """A file that takes nothing."""

    def __init__(self, file: object, error: OSError) -> None:
        self._file = file
        self._error = error

    def write(self, data: bytes) -> int:
        raise self._error

    def close(self) -> None:
        self._file.close()


def test_an_upload_that_is_dropped_gives_back_its_room_at_once() -> None:
    with running(spill_quota=10_000) as task:
        reception = task.manager.begin_upload(task.id, "x.csv")
        reception.write(b"x" * 8_000)
        reception.drop()
        reception.drop()
        assert not spill_files(task)
        assert task.manager.upload(task.id, "x.csv", [b"x" * 10_000])


def spill_files(task: Client) -> list[Path]:
    return [path for path in task.manager.folder.rglob("*") if path.is_file()]


def wait_until_full(task: Client) -> None:
    """Until the task waits for its reader: a look beyond all rows is refused."""
    changed = threading.Event()
    stop = task.manager.subscribe(task.id, Cursor(1, 10**9), changed.set)
    while True:
        changed.clear()
        try:
            task.look(1, 10**9)
        except Refused:
            break
        assert changed.wait(20)
    stop()


def settled(task: Client, rows: int) -> None:
    """Return once the task has made so many rows and then no more for a while."""
    deadline = time.monotonic() + 30
    while task.info().statistics.output_rows < rows and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)


def test_rows_made_one_by_one_wait_for_their_reader_before_they_spill() -> None:
    with running(FakeEngine(early=True), output_bytes=3 * BATCH, spill_quota=1 << 20) as task:
        values = fill(task, 20)
        settled(task, 2_000)
        assert task.info().statistics.spilled_bytes == 0
        assert task.info().statistics.output_rows <= 4_000
        assert task.info().completed_epoch == 0
        assert task.epoch(1) == values


def test_a_reader_that_acknowledges_as_it_goes_spills_nothing() -> None:
    with running(FakeEngine(early=True), output_bytes=3 * BATCH, spill_quota=1 << 20) as task:
        fill(task, 20)
        row, spilled = 0, 0
        while row < 20_000:
            for frame in task.next(1, row, acknowledge=Cursor(1, row)):
                row += frame.rows if isinstance(frame, Data) else 0
            spilled = max(spilled, task.info().statistics.spilled_bytes)
        assert spilled == 0


def test_rows_that_were_read_and_not_acknowledged_make_room_on_disk() -> None:
    with running(FakeEngine(early=True), output_bytes=3 * BATCH, spill_quota=1 << 20) as task:
        values = fill(task, 20)
        assert task.epoch(1) == values
        assert task.info().statistics.spilled_bytes > 0
        assert task.epoch(1) == values


def test_what_starts_at_the_seal_does_not_wait_for_its_reader() -> None:
    with running(FakeEngine(), output_bytes=3 * BATCH, spill_quota=1 << 20) as task:
        fill(task, 20)
        settled(task, 20_000)
        assert task.info().completed_epoch == 1
