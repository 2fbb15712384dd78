"""A split's order is its number, per source, from 1, for the task's life."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.adding import add_splits
from tidegate.operators.core.piece import FilePiece
from tidegate.proto.errors import Exhausted, InvalidRequest, NotFound, Refused, SplitError
from tidegate.proto.values import Added, AddRequest, Cursor, FileSplit, Transaction

from .fakes import FakeComputation, FakeEngine, rows, running


def test_splits_are_read_in_the_order_of_their_numbers_not_of_their_arrival() -> None:
    with running() as task:
        for sequence in (3, 1, 2):
            task.add(sequence * 10, sequence=sequence)
        task.seal()
        assert task.epoch(1) == [10, 20, 30]


def test_numbers_go_on_over_the_task_s_life() -> None:
    with running() as task:
        assert [task.add(1).sequence, task.add(2).sequence] == [1, 2]
        task.seal()
        assert task.add(3).sequence == 3


def test_each_source_counts_its_own_splits() -> None:
    with running(FakeEngine(sources=("a", "b"))) as task:
        assert [task.add(1, source="a").sequence, task.add(2, source="b").sequence] == [1, 1]


def test_a_split_given_twice_with_the_same_content_is_a_duplicate() -> None:
    with running() as task:
        task.add(1, 2, sequence=1)
        again = task.add(1, 2, sequence=1)
        assert again.duplicate
        assert again.epoch == 1
        task.seal()
        assert task.epoch(1) == [1, 2]


def test_a_duplicate_may_be_cut_into_other_batches() -> None:
    with running() as task:
        split = rows(1, 2, 3)
        add_splits(task.manager, task.id, [("a", split, 1)])
        whole = split.batches[0]
        pieces = type(split)(schema=split.schema, batches=(whole.slice(0, 1), whole.slice(1)))
        assert add_splits(task.manager, task.id, [("a", pieces, 1)])[0][0].duplicate


def test_a_number_given_twice_with_other_content_is_refused() -> None:
    with running() as task:
        task.add(1, sequence=1)
        with pytest.raises(
            Refused, match=r"split 1 of source 'a' was added before with other content.*next number is 2"
        ):
            task.add(2, sequence=1)


def test_content_is_compared_until_the_epoch_is_acknowledged() -> None:
    with running() as task:
        task.add(1, sequence=1)
        task.seal()
        task.epoch(1)
        with pytest.raises(Refused) as refused:
            task.add(2, sequence=1)
        assert refused.value.reason == "SEQUENCE_REUSED"
        assert task.add(1, sequence=1).duplicate
        task.next(2, acknowledge=Cursor(2), wait=0.0)
        assert task.add(2, sequence=1).duplicate


def test_a_file_given_twice_is_a_duplicate_and_another_file_is_not() -> None:
    with running() as task:
        add_splits(task.manager, task.id, [("a", FileSplit(path="7"), 1)])
        assert add_splits(task.manager, task.id, [("a", FileSplit(path="7"), 1)])[0][0].duplicate
        with pytest.raises(Refused, match="other content"):
            add_splits(task.manager, task.id, [("a", FileSplit(path="8"), 1)])


def test_a_split_that_names_the_open_epoch_is_accepted() -> None:
    with running() as task:
        assert task.add(1, epoch=1).epoch == 1


def test_a_retry_that_names_its_epoch_cannot_slip_past_the_seal() -> None:
    with running() as task:
        task.add(1, epoch=1)
        task.seal()
        with pytest.raises(Refused) as refused:
            task.add(2, epoch=1)
        assert refused.value.reason == "WRONG_EPOCH"


def test_a_duplicate_after_the_seal_still_belongs_to_its_epoch() -> None:
    with running() as task:
        task.add(1, sequence=1, epoch=1)
        task.seal()
        assert task.add(1, sequence=1, epoch=1).epoch == 1
        with pytest.raises(Refused, match="belongs to epoch 1"):
            task.add(1, sequence=1, epoch=2)


def test_a_split_after_a_barrier_belongs_to_the_next_epoch() -> None:
    with running() as task:
        task.add(1)
        task.seal()
        assert task.add(2).epoch == 2
        task.seal()
        assert (task.epoch(1), task.epoch(2)) == ([1], [2])


def test_an_unknown_source_is_refused_naming_the_known_ones() -> None:
    with (
        running(FakeEngine(sources=("orders", "lineitem"), static=("nation",))) as task,
        pytest.raises(NotFound, match="no source 'x'; its sources are: lineitem, nation, orders"),
    ):
        task.add(1, source="x")


def test_a_static_source_takes_no_splits() -> None:
    with running(FakeEngine(static=("nation",))) as task, pytest.raises(Refused) as refused:
        task.add(1, source="nation")
    assert refused.value.reason == "STATIC_SOURCE"


def test_a_source_is_found_whatever_the_case_of_its_name() -> None:
    with running(FakeEngine(sources=("Orders",))) as task:
        task.add(1, source="oRDERS")
        assert task.info().sources[0].last_added == 1


def test_a_name_that_fits_two_sources_but_for_its_case_is_refused() -> None:
    with running(FakeEngine(sources=("Orders", "ORDERS"))) as task:
        task.add(1, source="ORDERS")
        with pytest.raises(NotFound, match="could be any of ORDERS, Orders"):
            task.add(1, source="orders")


def test_a_split_that_cannot_be_read_is_refused_and_its_number_stays_free() -> None:
    with running() as task:
        with pytest.raises(SplitError, match="split 1 of source 'a'"):
            add_splits(task.manager, task.id, [("a", FileSplit(path="missing"), None)])
        assert task.add(1).sequence == 1


def test_a_negative_number_is_refused() -> None:
    with (
        running() as task,
        pytest.raises(InvalidRequest, match="split -1 of source 'a' is out of range"),
    ):
        task.add(1, sequence=-1)


def test_a_duplicate_has_its_own_epoch_however_long_ago_that_was_acknowledged() -> None:
    with running() as task:
        for epoch in range(1, 6):
            task.add(epoch)
            task.add(epoch)
            task.seal()
            task.epoch(epoch)
        task.next(6, acknowledge=Cursor(6, 0), wait=0)
        for sequence in range(1, 11):
            epoch = (sequence + 1) // 2
            assert task.add(7, sequence=sequence) == Added(sequence=sequence, duplicate=True, epoch=epoch)
            assert task.add(7, sequence=sequence, epoch=epoch).duplicate
            with pytest.raises(Refused, match=f"it belongs to epoch {epoch}") as refused:
                task.add(7, sequence=sequence, epoch=epoch % 5 + 1)
            assert refused.value.reason == "WRONG_EPOCH"


def test_splits_before_a_refused_one_stay_added() -> None:
    with running() as task:
        with pytest.raises(NotFound):
            add_splits(task.manager, task.id, [("a", rows(1), 1), ("x", rows(2), 1)], barrier=True)
        assert task.info().sources[0].last_added == 1
        assert task.info().sealed_epoch == 0


@pytest.mark.parametrize("values", [(), (7,)], ids=["no rows", "one row"])
def test_splits_count_against_queue_bytes_whatever_is_in_them(values: tuple[int, ...]) -> None:
    most = 1_100
    with running(queue_bytes=512 * most) as task:
        split = rows(*values)
        add_splits(task.manager, task.id, [("a", split, None)] * most)
        with pytest.raises(Exhausted, match=r"1,100 splits wait.* request a barrier") as refused:
            add_splits(task.manager, task.id, [("a", split, None)])
        assert refused.value.reason == "WAITS_FOR_SEAL"
        assert add_splits(task.manager, task.id, [("a", split, 1)])[0][0].duplicate
        task.seal()
        task.epoch(1)
        with pytest.raises(Exhausted, match="read and acknowledge") as refused:
            add_splits(task.manager, task.id, [("a", split, None)])
        assert refused.value.reason == "OUTPUT_UNREAD"
        task.manager.acknowledge(task.id, Cursor(2))
        add_splits(task.manager, task.id, [("a", split, None)])


def test_files_count_as_splits_too_and_a_transaction_is_refused_before_any_of_its_splits_is_taken() -> None:
    first = Transaction(application="a", version=1)
    with running(queue_bytes=1) as task:
        add_splits(task.manager, task.id, [("a", FileSplit(path=str(n)), None) for n in range(999)])
        with pytest.raises(Exhausted, match="999 splits wait"):
            task.manager.transact(
                task.id,
                first,
                AddRequest(splits=[("a", FileSplit(path="x"), None)] * 2),
            )
        task.manager.transact(task.id, first, AddRequest(splits=[("a", FileSplit(path="x"), None)]))


def test_a_slow_folder_of_one_source_holds_up_no_other_source() -> None:
    begun, let = threading.Event(), threading.Event()

    def listing(source: str, split: FileSplit, origin: str) -> tuple[FilePiece, ...]:
        if source == "a":
            begun.set()
            assert let.wait(60)
        return accept(source, split, origin)

    engine = FakeEngine(sources=("a", "x"))
    with running(engine) as task:
        computation = engine.computations[0]
        accept, computation.accept_file = computation.accept_file, listing  # type: ignore[method-assign]
        slow = threading.Thread(target=add_splits, args=(task.manager, task.id, [("a", FileSplit(path="1"), None)]))
        slow.start()
        assert begun.wait(60)
        [file], _ = add_splits(task.manager, task.id, [("x", FileSplit(path="2"), None)])
        [inline], _ = add_splits(task.manager, task.id, [("x", rows(3), None)])
        assert (file.sequence, inline.sequence) == (1, 2)
        let.set()
        slow.join(60)
        assert {source.name: source.last_added for source in task.info().sources} == {"a": 1, "x": 2}


class SlowFolder:
    """Makes a task's listing of the path "slow" wait until `let` is set."""

    def __init__(self, computation: FakeComputation) -> None:
        self.begun, self.let = threading.Event(), threading.Event()
        self._accept = computation.accept_file
        computation.accept_file = self._listing  # type: ignore[method-assign]

    def _listing(self, source: str, split: FileSplit, origin: str) -> tuple[FilePiece, ...]:
        if split.path == "slow":
            self.begun.set()
            assert self.let.wait(60)
            split = FileSplit(path="1")
        return self._accept(source, split, origin)

    @contextmanager
    def listed_for(self, call: Callable[[], object]) -> Iterator[None]:
        """A context in which the call waits for the folder; the call has answered when the context is left."""
        with ThreadPoolExecutor(1) as thread:
            slow = thread.submit(call)
            assert self.begun.wait(60)
            try:
                yield
                assert not slow.done()
            finally:
                self.let.set()
            slow.result(60)


def version(application: str, *splits: tuple[str, str]) -> tuple[Transaction, AddRequest]:
    """The first transaction of an application, with splits of these sources and paths."""
    added = AddRequest(splits=[(source, FileSplit(path=path), None) for source, path in splits])
    return Transaction(application=application, version=1), added


def test_a_transaction_that_lists_a_slow_folder_holds_up_neither_transactions_nor_splits_of_any_source() -> None:
    engine = FakeEngine(sources=("a", "x"))
    with running(engine) as task:
        folder = SlowFolder(engine.computations[0])
        slow = version("slow", ("a", "slow"), ("x", "2"))
        with folder.listed_for(lambda: task.manager.transact(task.id, *slow)):
            task.manager.transact(task.id, *version("other", ("a", "3"), ("x", "4")))
            assert [task.add(5, source="x").sequence, task.add(6, source="a").sequence] == [2, 2]
            task.manager.find_files(task.id, "a", FileSplit(path="7"))
        task.seal()
        assert sorted(task.epoch(1)) == [1, 2, 3, 4, 5, 6]


def test_a_split_whose_folder_is_slow_takes_the_next_number_once_its_files_are_known() -> None:
    engine = FakeEngine()
    with running(engine) as task:
        folder = SlowFolder(engine.computations[0])
        with folder.listed_for(lambda: add_splits(task.manager, task.id, [("a", FileSplit(path="slow"), None)])):
            assert task.add(5).sequence == 1
        task.seal()
        assert task.epoch(1) == [5, 1]


def test_a_number_that_was_given_while_its_folder_was_listed_is_refused() -> None:
    engine = FakeEngine()
    with running(engine) as task:
        folder = SlowFolder(engine.computations[0])
        with (
            pytest.raises(Refused, match="split 1 of source 'a' was added before with other content"),
            folder.listed_for(lambda: add_splits(task.manager, task.id, [("a", FileSplit(path="slow"), 1)])),
        ):
            task.add(5, sequence=1)
        task.seal()
        assert task.epoch(1) == [5]


def test_a_transaction_that_comes_twice_while_its_folder_is_listed_happens_once() -> None:
    engine = FakeEngine()
    with running(engine) as task:
        folder = SlowFolder(engine.computations[0])
        twice = version("app", ("a", "slow"))
        with ThreadPoolExecutor(2) as threads:
            both = [threads.submit(task.manager.transact, task.id, *twice) for _ in range(2)]
            assert folder.begun.wait(60)
            folder.let.set()
            assert sorted(call.result(60).replayed for call in both) == [False, True]
        assert task.info().sources[0].last_added == 1
