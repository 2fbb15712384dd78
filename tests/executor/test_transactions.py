"""Transactions: splits, and the seal that may go with them, that happen once however often they are said."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.executor.ledger.epoch import Start
from tidegate.executor.ledger.ledger import Ledger
from tidegate.executor.ledger.split_book import AcceptedSplit
from tidegate.executor.ledger.transactions import MOST_APPLICATIONS, Record, Transactions
from tidegate.executor.runtime.batch_store import Quota, SpillFiles
from tidegate.executor.tasks.task_uploads import PassingUploads
from tidegate.proto.errors import Exhausted, InvalidRequest, NotFound, Refused, SplitError, TidegateError
from tidegate.proto.values import (
    AddRequest,
    Committed,
    Cursor,
    FileSplit,
    InlineSplit,
    Seal,
    Split,
    Transacted,
    Transaction,
)

from .fakes import Client, rows, running


def transact(task: Client, version: int, *splits: InlineSplit, seal: bool = True, **more: Any) -> Transacted:
    """A version of the application "app" with splits of source a."""
    follows = more.pop("follows", None)
    named = Transaction(application=more.pop("application", "app"), version=version, follows=follows)
    source = more.pop("source", "a")
    request = AddRequest(splits=[(source, split, None) for split in splits], seal=Seal() if seal else None, **more)
    return task.manager.transact(task.id, named, request)


def test_a_transaction_adds_its_splits_in_order_and_seals_them() -> None:
    with running() as task:
        transaction = transact(task, 0, rows(1, 2), rows(3))
        assert (
            transaction.epoch,
            transaction.replayed,
            [added_split.sequence for added_split in transaction.added],
        ) == (1, False, [1, 2])
        assert task.epoch(1) == [1, 2, 3]


def test_a_replay_changes_nothing_and_answers_the_same() -> None:
    with running() as task:
        first = transact(task, 0, rows(1), rows(2))
        again = transact(task, 0, rows(1), rows(2))
        assert (again.replayed, again.same, again.epoch) == (True, True, first.epoch)
        assert [added_split.sequence for added_split in again.added] == [
            added_split.sequence for added_split in first.added
        ]
        assert task.info().sealed_epoch == 1
        assert task.epoch(1) == [1, 2]


def test_a_replay_is_answered_after_its_epoch_was_read_and_acknowledged() -> None:
    with running() as task:
        transact(task, 5, rows(1))
        task.epoch(1)
        task.manager.acknowledge(task.id, Cursor(2))
        again = transact(task, 5, rows(1))
        assert (again.epoch, again.replayed, again.same) == (1, True, True)
        assert task.info().sealed_epoch == 1


def test_a_replay_with_other_content_is_told_and_changes_nothing() -> None:
    with running() as task:
        transact(task, 0, rows(1))
        assert transact(task, 0, rows(2)) == Transacted(epoch=1, replayed=True, same=False)
        assert transact(task, 0, rows(1), seal=False) == Transacted(epoch=1, replayed=True, same=False)
        assert task.epoch(1) == [1]


def test_a_version_below_the_last_is_a_replay_of_which_no_more_is_known() -> None:
    with running() as task:
        transact(task, 3, rows(1))
        assert transact(task, 2, rows(9)) == Transacted(epoch=None, replayed=True, same=None)
        assert task.info().sealed_epoch == 1


def test_versions_may_leave_gaps_unless_they_say_what_they_follow() -> None:
    with running() as task:
        transact(task, 3, rows(1))
        transact(task, 7, rows(2))
        with pytest.raises(Refused, match="follows version 8, but the last version in this task is 7") as gap:
            transact(task, 9, rows(3), follows=8)
        assert gap.value.reason == "TRANSACTION_GAP"
        assert transact(task, 9, rows(3), follows=7).epoch == 3


def test_what_follows_a_version_that_the_task_never_saw_is_refused() -> None:
    with running() as task, pytest.raises(Refused, match="the task has no version of this application"):
        transact(task, 9, rows(3), follows=8)


def test_applications_do_not_know_of_each_other() -> None:
    with running() as task:
        assert transact(task, 0, rows(1), seal=False, application="other").epoch == 1
        assert transact(task, 0, rows(2)).epoch == 1
        assert task.epoch(1) == [1, 2]
        assert task.manager.last_transaction(task.id, "other") == Committed(version=0, epoch=1)
        assert task.manager.last_transaction(task.id, "stranger") is None


def test_a_transaction_with_a_seal_and_no_splits_is_an_epoch_of_its_own() -> None:
    with running() as task:
        assert [transact(task, version).epoch for version in (0, 1, 1, 2)] == [1, 2, 2, 3]


def test_the_seal_may_come_later_and_names_the_epoch() -> None:
    with running() as task:
        for _ in range(2):
            added = transact(task, 0, rows(1), seal=False)
            assert task.seal(added.epoch) == 1
        assert task.info().sealed_epoch == 1


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (("a", FileSplit("missing")), SplitError),
        (("unknown", rows(3)), NotFound),
        (("a", InlineSplit(schema=pa.schema([("y", pa.int64())]), batches=())), SplitError),
    ],
)
def test_a_refused_split_leaves_nothing_of_its_transaction(bad: tuple[str, Split], error: type[TidegateError]) -> None:
    with running() as task:
        named, good = Transaction(application="app", version=0), [("a", rows(1), None), ("a", rows(2), None)]
        with pytest.raises(error):
            task.manager.transact(task.id, named, AddRequest(splits=[*good, (*bad, None)], seal=Seal()))
        assert task.manager.last_transaction(task.id, "app") is None
        assert task.info().sources[0].last_added == 0
        assert task.manager.transact(task.id, named, AddRequest(splits=good, seal=Seal())).epoch == 1
        assert task.epoch(1) == [1, 2]


def test_a_refused_seal_leaves_nothing_of_its_transaction() -> None:
    with running(max_pending_epochs=2) as task:
        transact(task, 0, rows(1))
        transact(task, 1, rows(2))
        with pytest.raises(Exhausted, match="read to the BARRIER"):
            transact(task, 2, rows(3))
        assert task.info().sources[0].last_added == 2
        task.epoch(1)
        assert transact(task, 2, rows(3)).epoch == 3


def test_rows_beyond_all_room_are_refused_together() -> None:
    with running(queue_bytes=2_000, spill_quota=0) as task:
        many = [rows(*range(100)) for _ in range(5)]
        with pytest.raises(Exhausted):
            transact(task, 0, *many)
        assert transact(task, 0, *many[:2]).epoch == 1


def test_a_transaction_goes_behind_numbers_that_a_sealed_epoch_waits_for() -> None:
    with running() as task:
        task.add(1, sequence=1)
        task.seal(a=2)
        transaction = transact(task, 0, rows(3))
        assert ([added_split.sequence for added_split in transaction.added], transaction.epoch) == ([3], 2)
        task.add(2, sequence=2)
        assert [task.epoch(1), task.epoch(2)] == [[1, 2], [3]]


def test_a_transaction_that_ends_the_last_source_seals_once() -> None:
    with running() as task:
        task.manager.no_more_splits(task.id, None, {"a": 1})
        assert transact(task, 0, rows(1)).epoch == 1
        assert task.info().sealed_epoch == 1
        assert transact(task, 0, rows(1)).replayed


def test_a_transaction_that_names_another_epoch_is_refused() -> None:
    with running() as task:
        with pytest.raises(Refused, match="the open epoch is 1"):
            transact(task, 0, rows(1), epoch=2)
        assert transact(task, 0, rows(1), epoch=1).epoch == 1


@pytest.mark.parametrize(
    ("application", "version", "follows"), [("", 0, None), ("x" * 201, 0, None), ("app", -1, None), ("app", 3, 3)]
)
def test_what_can_be_no_transaction_is_refused(application: str, version: int, follows: int | None) -> None:
    with running() as task:
        with pytest.raises(InvalidRequest) as refused:
            transact(task, version, rows(1), application=application, follows=follows)
        assert refused.value.reason == "BAD_TRANSACTION"


def test_the_applications_that_were_there_least_recently_are_forgotten() -> None:
    known = Transactions()
    for number in range(MOST_APPLICATIONS + 1):
        known.record(Record(application=f"app {number}", version=1, epoch=1, digest=""), finished=0)
        known.record(Record(application="app 0", version=number + 2, epoch=1, digest=""), finished=0)
    assert known.last("app 1") is None
    assert known.last("app 0") is not None
    assert len(known.by(1)) == MOST_APPLICATIONS


def test_what_is_remembered_of_an_application_does_not_grow_with_its_versions() -> None:
    known = Transactions()
    sizes = []
    for version in range(1_000, 2_000):
        known.record(Record(application="app", version=version, epoch=version // 10 + 1, digest=""), version // 10)
        sizes.append(len(pickle.dumps(known)))
    assert max(sizes) <= max(sizes[:20])


@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=12),
    crashed=st.lists(st.integers(0, 3), min_size=12, max_size=12),
)
def test_a_sender_that_starts_again_anywhere_loses_and_doubles_nothing(
    steps: list[tuple[bool, int]], crashed: list[int]
) -> None:
    """Each step is sent once more for each of its crashes, with all that came before its last answer in doubt."""
    with running(max_pending_epochs=100) as task:
        expected: list[list[int]] = [[]]
        for version, ((seal, count), crashes) in enumerate(zip(steps, crashed, strict=False)):
            splits = [rows(version, part) for part in range(count)]
            answers = [transact(task, version, *splits, seal=seal) for _ in range(crashes + 1)]
            if crashes and version:
                assert transact(task, version - 1, rows(99)).replayed
            assert {answer.epoch for answer in answers} == {len(expected)}
            assert [answer.replayed for answer in answers] == [False] + [True] * crashes
            expected[-1] += [value for part in range(count) for value in (version, part)]
            if seal:
                expected.append([])
        assert [task.epoch(number) for number in range(1, len(expected))] == expected[:-1]


@given(
    steps=st.lists(st.tuples(st.sampled_from(("a", "b")), st.booleans(), st.booleans()), max_size=20),
    finish=st.lists(st.booleans(), min_size=20, max_size=20),
)
def test_a_checkpoint_has_the_last_version_of_each_application_by_its_barrier(
    steps: list[tuple[str, bool, bool]], finish: list[bool]
) -> None:
    ledger = Ledger((), 100, Start())
    last: dict[str, int] = {}
    by: dict[int, dict[str, int]] = {}

    def reach_a_barrier() -> None:
        epoch = ledger.epochs[0]
        versions = {
            transaction.application: transaction.version for transaction in ledger.transactions.by(epoch.number)
        }
        assert versions == by[epoch.number]
        ledger.finish(epoch)

    for version, ((application, seals, _), reached) in enumerate(zip(steps, finish, strict=False)):
        named = Transaction(application=application, version=version)
        assert ledger.transactions.repeated(named) is None
        record, _added = ledger.commit(named, (), "", Seal() if seals else None, 0)
        last[application] = version
        if seals:
            by[record.epoch] = dict(last)
        if reached and ledger.epochs:
            reach_a_barrier()
    while ledger.epochs:
        reach_a_barrier()


def test_a_group_of_uploads_may_be_dropped_more_than_once() -> None:
    with running() as task:
        paths = [Path(task.manager.upload(task.id, "x.arrow", [b"data"], group=group)) for group in ("one", "two")]
        for _ in range(2):
            task.manager.drop_uploads(task.id, "one")
            assert [path.exists() for path in paths] == [False, True]


class Later:
    """Timers whose time comes when a test says so."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def __call__(self, _seconds: float, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def come(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


def test_uploads_whose_sender_is_gone_go_after_a_while_and_give_back_their_room(tmp_path: Path) -> None:
    later, quota = Later(), Quota(8_000)
    uploads = PassingUploads(SpillFiles(tmp_path), quota, later)
    left = Path(uploads.begin("x.arrow", "killed").receive([b"x" * 5_000]))
    later.come()
    assert (left.exists(), quota.take(8_000), later.calls) == (False, True, [])


def test_uploads_stay_while_others_of_their_group_come_or_are_given_as_splits(tmp_path: Path) -> None:
    later = Later()
    uploads = PassingUploads(SpillFiles(tmp_path), Quota(8_192), later)
    path = Path(uploads.begin("x.arrow", "job").receive([b"one"]))
    for touch in (
        lambda: uploads.begin("y.arrow", "job").receive([b"two"]),
        lambda: uploads.with_content_digest(FileSplit(str(path))),
    ):
        touch()
        later.come()
        assert path.exists()
    later.come()
    assert not path.exists()


def test_an_upload_that_a_split_has_is_not_taken_from_it(tmp_path: Path) -> None:
    later = Later()
    uploads = PassingUploads(SpillFiles(tmp_path), Quota(8_192), later)
    path = Path(uploads.begin("x.arrow", "job").receive([b"one"]))
    accepted = AcceptedSplit("rows", 1, "split 1", None)
    uploads.used_by(accepted, FileSplit(str(path)))
    later.come()
    assert path.exists()
    uploads.forget([accepted])
    assert not path.exists()


def test_an_upload_without_a_group_stays() -> None:
    with running() as task:
        path = Path(task.manager.upload(task.id, "x.arrow", [b"data"]))
        task.manager.drop_uploads(task.id, "")
        assert path.exists()


def test_dropped_uploads_give_back_their_room() -> None:
    with running(spill_quota=10_000) as task:
        for _ in range(5):
            task.manager.upload(task.id, "x.arrow", [b"x" * 8_000], group="g")
            task.manager.drop_uploads(task.id, "g")
        task.manager.upload(task.id, "x.arrow", [b"x" * 8_000], group="g")
        with pytest.raises(Exhausted, match="spill_quota"):
            task.manager.upload(task.id, "x.arrow", [b"x" * 8_000], group="g")
