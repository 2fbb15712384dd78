"""A barrier seals what was added into an epoch."""

from __future__ import annotations

import pytest

from tests.adding import add_splits
from tidegate.executor.api.computation import Source
from tidegate.executor.ledger.epoch import FIRST
from tidegate.executor.ledger.ledger import Ledger
from tidegate.proto.errors import Exhausted, InvalidRequest, OutOfRange, Refused
from tidegate.proto.values import Barrier, Blocked, BlockedState, Cursor, Finished, Seal

from .fakes import SCHEMA, FakeEngine, rows, running

TWO = FakeEngine(sources=("a", "b"))


def test_a_small_epoch_comes_whole_in_one_answer() -> None:
    with running() as task:
        task.add(1, 2)
        task.seal()
        data, barrier = task.next(1)
        assert (data.rows, barrier.rows, barrier.epoch) == (2, 2, 1)


def test_a_barrier_on_an_empty_split_set_makes_an_empty_epoch() -> None:
    with running() as task:
        assert task.seal() == 1
        (barrier,) = task.next(1)
        assert isinstance(barrier, Barrier)
        assert (barrier.rows, barrier.statistics.splits) == (0, 0)


def test_adding_and_sealing_is_one_call() -> None:
    with running() as task:
        added, epoch = add_splits(task.manager, task.id, [("a", rows(1), None), ("a", rows(2), None)], barrier=True)
        assert ([one.sequence for one in added], epoch) == ([1, 2], 1)
        assert task.epoch(1) == [1, 2]


def test_a_second_request_joins_the_first_while_its_barrier_is_unread() -> None:
    with running() as task:
        task.add(1)
        assert [task.seal(), task.seal()] == [1, 1]
        task.epoch(1)
        assert task.seal() == 2


def test_a_second_request_does_not_join_once_something_was_added() -> None:
    with running() as task:
        task.add(1)
        task.seal()
        task.add(2)
        assert task.seal() == 2


@pytest.mark.parametrize(
    "seal",
    [Seal(after=1), Seal(after=1, checkpoint=""), Seal(after=1, checkpoint="mine"), Seal(after=1, watermarks={"a": 7})],
)
def test_a_repeated_request_joins_its_epoch_though_it_was_acknowledged_meanwhile(seal: Seal) -> None:
    ledger = Ledger((Source(name="a", schema=SCHEMA, static=False, split_kinds=("inline",)),), 100, FIRST)
    ledger.request_barrier(None, Seal(checkpoint="earlier"), 0)
    ledger.read(1)
    assert ledger.request_barrier(None, seal, 0) == (2, True)
    while ledger.epochs:
        ledger.finish(ledger.epochs[0])
    ledger.forget(3)
    assert ledger.request_barrier(None, seal, 0) == (2, False)
    assert ledger.checkpoints == 0


def test_a_request_for_another_checkpoint_does_not_join_an_acknowledged_epoch() -> None:
    ledger = Ledger((), 100, FIRST)
    ledger.request_barrier(None, Seal(checkpoint="theirs"), 0)
    ledger.finish(ledger.epochs[0])
    ledger.forget(2)
    assert ledger.request_barrier(None, Seal(after=0, checkpoint="mine"), 0) == (2, True)
    assert ledger.checkpoint(2) == "mine"


def test_a_request_that_names_a_sealed_epoch_changes_nothing() -> None:
    with running() as task:
        task.add(1)
        assert [task.seal(1), task.seal(1)] == [1, 1]
        task.epoch(1)
        task.add(2)
        assert task.seal(1) == 1
        assert task.info().sealed_epoch == 1


def test_a_request_that_names_the_next_epoch_seals_it_even_when_empty() -> None:
    with running() as task:
        assert [task.seal(1), task.seal(2)] == [1, 2]


def test_an_epoch_beyond_the_open_one_cannot_be_sealed() -> None:
    with running() as task:
        with pytest.raises(Refused, match="epoch 3 cannot be sealed: the open epoch is 1"):
            task.seal(3)
        with pytest.raises(InvalidRequest):
            task.seal(0)


def test_a_seal_waits_for_missing_numbers_and_says_which() -> None:
    with running() as task:
        task.add(1, sequence=1)
        task.add(4, sequence=4)
        task.seal()
        assert task.look(1) == [Blocked(state=BlockedState.UNSEALED, missing={"a": (2, 3)})]
        assert task.add(2, sequence=2).epoch == 1
        task.add(3, sequence=3)
        assert task.epoch(1) == [1, 2, 3, 4]


def test_through_makes_a_seal_wait_for_numbers_that_are_yet_to_come() -> None:
    with running(TWO) as task:
        task.add(1, source="a")
        task.seal(a=2, b=1)
        assert task.look(1)[0].missing == {"a": (2,), "b": (1,)}
        task.add(3, source="a", sequence=3)
        task.add(9, source="b")
        task.add(2, source="a", sequence=2)
        assert task.epoch(1) == [1, 2, 9]
        task.seal()
        assert task.epoch(2) == [3]


def test_through_below_a_number_already_accepted_is_refused() -> None:
    with running() as task:
        task.add(1)
        task.add(2)
        with pytest.raises(Refused) as refused:
            task.seal(a=1)
        assert refused.value.reason == "THROUGH_BELOW_ACCEPTED"
        assert task.info().sealed_epoch == 0


def test_through_that_asks_for_more_does_not_join_the_last_seal() -> None:
    with running() as task:
        task.add(1)
        assert [task.seal(), task.seal(a=1), task.seal(a=2)] == [1, 1, 2]


def test_sealed_epochs_may_queue_up_to_a_bound() -> None:
    with running(max_pending_epochs=2) as task:
        for value in (1, 2):
            task.add(value)
            task.seal()
        task.add(3)
        with pytest.raises(Exhausted) as refused:
            task.seal()
        assert refused.value.reason == "TOO_MANY_PENDING_EPOCHS"
        assert task.epoch(1) == [1]
        assert task.seal() == 3


def test_with_one_pending_epoch_adding_during_a_barrier_is_refused() -> None:
    with running(max_pending_epochs=1) as task:
        task.add(1)
        task.seal()
        with pytest.raises(Refused) as refused:
            task.add(2)
        assert refused.value.reason == "BARRIER_IN_PROGRESS"
        task.epoch(1)
        assert task.add(2).epoch == 2


def test_with_one_pending_epoch_what_its_seal_waits_for_may_be_added() -> None:
    with running(max_pending_epochs=1) as task:
        task.seal(a=1)
        assert task.add(1).epoch == 1
        assert task.epoch(1) == [1]


def test_sources_with_unequal_numbers_of_splits_and_one_with_none_make_an_epoch() -> None:
    with running(FakeEngine(sources=("a", "b", "c"))) as task:
        for value in (1, 2, 3):
            task.add(value, source="a")
        task.add(4, source="b")
        task.seal()
        assert task.epoch(1) == [1, 2, 3, 4]


def test_barriers_do_not_count_among_splits() -> None:
    with running() as task:
        task.add(1)
        task.seal()
        task.epoch(1)
        task.seal()
        task.epoch(2)
        statistics = task.info().statistics
        assert (statistics.barriers_requested, statistics.barriers_completed) == (2, 2)
        assert (statistics.splits["a"].added, statistics.splits["a"].finished, statistics.splits["a"].queued) == (
            1,
            1,
            0,
        )


def test_a_barrier_hands_on_the_smallest_watermark() -> None:
    with running() as task:
        splits = [("a", rows(1, watermark=30), None), ("a", rows(2), None), ("a", rows(3, watermark=20), None)]
        add_splits(task.manager, task.id, splits, barrier=True)
        task.epoch(1)
        assert task.barrier.watermark == 20


def test_the_clock_is_read_with_the_first_split_and_shared_by_the_epoch() -> None:
    engine = FakeEngine(early=True)
    with running(engine) as task:
        task.add(1)
        while not engine.computations[0].clocks:
            task.next(1, wait=0.1)
        task.add(2)
        task.seal()
        task.epoch(1)
        assert len(engine.computations[0].clocks) == 1


# ------------------------------------------------------------------------------------------------- the end


def test_splits_then_no_more_splits_make_a_last_epoch_without_a_barrier() -> None:
    with running() as task:
        task.add(1)
        task.end()
        assert task.epoch(1) == [1]
        assert task.finished(2)


def test_no_epoch_is_invented_when_nothing_is_unsealed() -> None:
    with running() as task:
        task.add(1)
        task.seal()
        task.end()
        assert task.epoch(1) == [1]
        assert task.finished(2)


def test_a_task_that_was_fed_nothing_finishes_without_an_epoch() -> None:
    with running() as task:
        task.end()
        assert task.finished(1)


def test_the_last_barrier_and_finished_come_together() -> None:
    with running() as task:
        task.add(1)
        task.end()
        assert [type(frame) for frame in task.next(1)][1:] == [Barrier, Finished]


def test_ending_is_idempotent() -> None:
    with running() as task:
        task.add(1)
        task.end()
        task.end()
        task.end("a")
        assert task.epoch(1) == [1]


def test_ending_during_a_barrier_ends_the_task_after_it() -> None:
    with running() as task:
        task.seal(a=1)
        task.end()
        task.add(1)
        assert task.epoch(1) == [1]
        assert task.finished(2)


def test_sources_end_one_by_one() -> None:
    with running(TWO) as task:
        task.add(1, source="a")
        task.end("a")
        assert task.look(1) == [Blocked(state=BlockedState.UNSEALED)]
        task.add(2, source="b")
        task.end("b")
        assert task.epoch(1) == [1, 2]


def test_an_ended_source_is_empty_in_later_epochs() -> None:
    with running(TWO) as task:
        task.add(1, source="a")
        task.end("a")
        task.seal()
        task.add(2, source="b")
        task.seal()
        assert (task.epoch(1), task.epoch(2)) == ([1], [2])


def test_a_split_beyond_the_end_of_its_source_is_refused() -> None:
    with running(TWO) as task:
        task.end("a")
        with pytest.raises(Refused) as refused:
            task.add(1, source="a")
        assert refused.value.reason == "SOURCE_ENDED"


def test_an_end_through_a_number_takes_effect_once_all_are_there() -> None:
    with running() as task:
        task.add(1, sequence=1)
        task.end(a=3)
        assert task.look(1) == [Blocked(state=BlockedState.UNSEALED, missing={"a": (2, 3)})]
        task.add(3, sequence=3)
        task.add(2, sequence=2)
        assert task.epoch(1) == [1, 2, 3]
        assert task.finished(2)


def test_an_end_below_what_was_accepted_is_refused() -> None:
    with running() as task:
        task.add(1)
        task.add(2)
        with pytest.raises(Refused):
            task.end(a=1)
        assert task.add(3).sequence == 3


def test_an_end_cannot_be_moved() -> None:
    with running() as task:
        task.end(a=2)
        task.end(a=2)
        with pytest.raises(Refused, match="already ended with split 2"):
            task.end(a=3)


def test_a_barrier_after_the_end_is_refused_but_a_retry_is_not() -> None:
    with running() as task:
        task.add(1)
        task.seal(1)
        task.end()
        with pytest.raises(Refused) as refused:
            task.seal(2)
        assert refused.value.reason == "TASK_ENDED"
        with pytest.raises(Refused):
            task.seal()
        assert task.seal(1) == 1


def test_a_task_of_static_sources_alone_makes_an_epoch_when_it_ends() -> None:
    with running(FakeEngine(sources=(), static=("nation",))) as task:
        assert task.look(1) == [Blocked(state=BlockedState.UNSEALED)]
        task.end()
        assert task.epoch(1) == [1000]
        assert task.finished(2)


def test_a_task_of_static_sources_alone_is_whole_at_every_barrier() -> None:
    with running(FakeEngine(sources=(), static=("nation",))) as task:
        for epoch in (1, 2):
            assert task.seal() == epoch
            assert task.epoch(epoch) == [1000]
        task.end()
        assert task.finished(3)


def test_static_rows_still_unread_make_an_epoch_when_the_task_ends() -> None:
    with running(FakeEngine(sources=("a",), static=("nation",))) as task:
        task.end()
        assert task.epoch(1) == [1000]
        assert task.finished(2)


def test_there_is_nothing_to_read_beyond_the_end() -> None:
    with running() as task:
        task.add(1)
        task.end()
        task.epoch(1)
        with pytest.raises(OutOfRange):
            task.manager.next(task.id, Cursor(3))
