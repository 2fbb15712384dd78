"""The journal's records: what may be in them, and how many there may be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.executor.journal import task_journal
from tidegate.executor.journal.records import Base, folded
from tidegate.executor.ledger.ledger_change import Change
from tidegate.executor.ledger.transactions import MOST_APPLICATIONS, Record
from tidegate.operators.user.user_code import UserCode
from tidegate.proto.errors import ExecutionError, InvalidRequest, NodeError
from tidegate.proto.values import AddRequest, Barrier, OnError, Seal, Transaction

from ..fakes import SCHEMA, rows
from .restarts import Restarts

SURROGATE = "\udcff"
"""A character that texts of Python may have, for example the name of a file, and UTF-8 has not."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Restarts]:
    with Restarts(tmp_path) as restarts:
        yield restarts


def test_an_error_with_a_surrogate_is_recorded_and_the_folder_stays_whole(service: Restarts) -> None:
    def fail_of_two(batch: pa.RecordBatch) -> pa.RecordBatch:
        if 2 in batch["x"].to_pylist():
            raise ExecutionError(f"there is no file {SURROGATE}")
        return batch

    service.engine.function = fail_of_two
    task = service.create(on_error=OnError.SKIP_EPOCH)
    for epoch in (1, 2, 3):
        task.add(epoch)
        task.seal()
        [*_, barrier] = task.next(epoch)
    service.engine.function = lambda batch: batch
    task = service.restart(task)
    assert (task.epoch(1), task.epoch(3)) == ([1], [3])
    [barrier] = task.next(2)
    assert isinstance(barrier, Barrier)
    assert barrier.error is not None
    assert barrier.error.message.endswith(r"there is no file \udcff")


def test_a_change_that_cannot_be_recorded_leaves_no_gap(service: Restarts, monkeypatch: pytest.MonkeyPatch) -> None:
    task = service.create()
    task.add(1)
    with monkeypatch.context() as broken:
        broken.setattr(task_journal, "change_message", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            task.add(2)
    task.seal(1)
    task = service.restart(task)
    assert task.info().sources[0].last_added >= 1


def test_a_transaction_whose_applications_name_has_a_surrogate_changes_nothing(service: Restarts) -> None:
    task = service.create()
    request = AddRequest(splits=[("a", rows(1), None)], seal=Seal())
    with pytest.raises(InvalidRequest, match="UTF-8") as refused:
        service.manager.transact(task.id, Transaction(application=f"app {SURROGATE}", version=1), request)
    assert refused.value.reason == "BAD_TRANSACTION"
    assert (task.info().sealed_epoch, task.info().sources[0].last_added) == (0, 0)


def test_the_text_of_an_exception_of_user_code_is_bounded() -> None:
    def fail() -> None:
        raise ValueError("begin" + "x" * 1_000_000 + "end")

    with pytest.raises(NodeError, match="ValueError: beginx") as raised:
        UserCode("node", SCHEMA).call("it", fail)
    assert raised.value.message.endswith("end")
    assert len(raised.value.message) < 50_000


def test_a_task_keeps_the_transactions_of_so_many_applications_and_of_no_more() -> None:
    base = Base()
    for number in range(1, MOST_APPLICATIONS + 3):
        record = Record(application=f"app-{number}", version=7, epoch=number, digest="")
        base = folded(base, number, Change(at_us=0, transaction=record))
    kept = [record.application for record in base.start.transactions]
    assert kept == [f"app-{number}" for number in range(3, MOST_APPLICATIONS + 3)]
