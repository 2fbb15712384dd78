"""The lifecycle of a durable task against a model: random calls, and kills between them.

The model knows the splits, the seals and the acknowledged cursor. A restart changes nothing of that. A task that is
restored from a checkpoint knows what the model knew at its barrier.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidegate.proto.errors import TaskCancelled
from tidegate.proto.values import AddRequest, Cursor, Mode, Seal, TaskPhase, Transaction

from ...searching import tries
from ..fakes import CountingEngine, FakeEngine, counting, rows
from .restarts import Restarts

SOURCES = ("a", "b")
VALUES = st.lists(st.integers(0, 99), max_size=4)
WISHES = ({}, {"checkpoint": "again"}, {"watermarks": {"a": 7}}, {"idle": ("b",), "checkpoint": ""})


class Durable(RuleBasedStateMachine):
    @initialize(early=st.booleans(), continuous=st.booleans(), checkpoint_epochs=st.integers(0, 3))
    def start(self, early: bool, continuous: bool, checkpoint_epochs: int) -> None:
        memory = Path("/dev/shm")
        folder = tempfile.mkdtemp(prefix="tidegate-test-", dir=memory if memory.is_dir() else None)
        engine = CountingEngine(SOURCES) if continuous else FakeEngine(SOURCES, early=early)
        self.service = Restarts(Path(folder), engine, checkpoints=Path(folder))
        self.continuous = continuous
        mode = Mode.CONTINUOUS if continuous else Mode.PER_EPOCH
        self.options = {"mode": mode, "max_pending_epochs": 100, "checkpoint_epochs": checkpoint_epochs}
        self.task = self.service.create(**self.options)
        self.checkpoints: dict[int, str] = {}
        self.splits: dict[str, dict[int, list[int]]] = {source: {} for source in SOURCES}
        self.seals: list[dict[str, int]] = []
        self.ends: dict[str, int] = {}
        self.versions: dict[int, int] = {}
        """The last version of a transaction that is in each epoch."""
        self.read = 0
        self.acknowledged = Cursor(1)
        self.cancelled = False

    def teardown(self) -> None:
        if hasattr(self, "service"):
            self.service.close()

    # ------------------------------------------------------------------------------------------------ the model

    def last(self, source: str) -> int:
        sealed = self.seals[-1][source] if self.seals else 0
        return max([sealed, *self.splits[source]])

    def whole(self, through: dict[str, int]) -> bool:
        return all(set(range(1, through[source] + 1)) <= self.splits[source].keys() for source in SOURCES)

    @property
    def ended(self) -> bool:
        return len(self.ends) == len(SOURCES) and self.whole(self.ends)

    def bounds(self, epoch: int) -> dict[str, int]:
        return self.seals[epoch - 1] if epoch else dict.fromkeys(SOURCES, 0)

    def expected(self, epoch: int) -> list[int]:
        values = self.values_of(epoch)
        if not self.continuous:
            return values
        before = sum(len(self.values_of(earlier)) for earlier in range(1, epoch))
        return [counting(value, at) for at, value in enumerate(values, before)]

    def values_of(self, epoch: int) -> list[int]:
        before, through = self.bounds(epoch - 1), self.bounds(epoch)
        return [
            value
            for source in SOURCES
            for number in range(before[source] + 1, through[source] + 1)
            for value in self.splits[source][number]
        ]

    def settle(self) -> None:
        """Seal what is left once all sources have ended."""
        unsealed = any(self.last(source) > self.bounds(len(self.seals))[source] for source in SOURCES)
        if self.ended and unsealed:
            self.seals.append({source: self.last(source) for source in SOURCES})

    @property
    def version(self) -> int:
        return max(self.versions.values(), default=0)

    # ------------------------------------------------------------------------------------------------ the rules

    @rule()
    def kill(self) -> None:
        self.task = self.service.restart(self.task)
        self.read = 0

    @precondition(lambda self: not self.cancelled)
    @rule(source=st.sampled_from(SOURCES), ahead=st.integers(0, 2), values=VALUES)
    def add(self, source: str, ahead: int, values: list[int]) -> None:
        missing = next(number for number in range(1, 10_000) if number not in self.splits[source])
        number = missing + ahead if missing + ahead > self.last(source) else missing
        if number > self.ends.get(source, number):
            return
        self.give(source, number, values)

    @precondition(lambda self: not self.cancelled and not self.ends)
    @rule(values=VALUES, late=VALUES, part=st.booleans(), killed=st.booleans())
    def run_an_epoch(self, values: list[int], late: list[int], part: bool, killed: bool) -> None:
        """Fill all gaps, seal, and read and acknowledge everything, or all but the last rows. A split comes late."""
        self.fill(values)
        bounds = {source: self.last(source) + (source == "a") for source in SOURCES}
        self.task.seal(len(self.seals) + 1, **bounds)
        self.seals.append(bounds)
        self.give("a", bounds["a"] + 1, values)
        if killed:
            self.kill()
        self.give("a", bounds["a"], late)
        self.read_all()
        rows_of_last = len(self.expected(self.read))
        cursor = Cursor(self.read, rows_of_last // 2) if part else Cursor(self.read + 1)
        self.acknowledge_to(max(cursor, self.acknowledged))

    def fill(self, values: list[int]) -> None:
        """Fill all gaps, and give each source one more split."""
        for source in SOURCES:
            for number in range(1, self.last(source) + 2):
                if number not in self.splits[source]:
                    self.give(source, number, values)

    def read_all(self) -> None:
        for epoch in range(self.acknowledged.epoch, len(self.seals) + 1):
            row = self.acknowledged.row if epoch == self.acknowledged.epoch else 0
            assert self.task.epoch(epoch, row) == self.expected(epoch)[row:]
        self.read = len(self.seals)

    @precondition(lambda self: self.continuous and not self.cancelled and not self.ends)
    @rule(values=VALUES, killed=st.booleans(), restores=st.booleans())
    def take_a_checkpoint(self, values: list[int], killed: bool, restores: bool) -> None:
        self.fill(values)
        bounds, epoch = {source: self.last(source) for source in SOURCES}, len(self.seals) + 1
        self.service.manager.request_barrier(self.task.id, epoch, Seal(through=bounds, checkpoint=f"at-{epoch}"))
        self.seals.append(bounds)
        if killed:
            self.kill()
        self.read_all()
        assert self.task.barrier.checkpoint == f"{self.task.id}/at-{epoch}"
        self.checkpoints[epoch] = self.task.barrier.checkpoint
        if restores:
            self.go_on_from(epoch)

    @precondition(lambda self: not self.cancelled and not self.ends)
    @rule(values=VALUES, wishes=st.sampled_from(WISHES), reads=st.booleans(), kills=st.integers(0, 2))
    def repeat_a_barrier(self, values: list[int], wishes: dict[str, object], reads: bool, kills: int) -> None:
        """A barrier whose answer is lost is requested again, perhaps once its epoch is acknowledged."""
        self.fill(values)
        seal = Seal(after=len(self.seals), **wishes)
        self.seals.append({source: self.last(source) for source in SOURCES})
        assert self.service.manager.request_barrier(self.task.id, None, seal) == len(self.seals)
        if reads:
            self.read_all()
            self.acknowledge_to(Cursor(self.read + 1))
        for _ in range(kills):
            self.kill()
        assert self.service.manager.request_barrier(self.task.id, None, seal) == len(self.seals)

    @precondition(lambda self: self.checkpoints)
    @rule(data=st.data(), deletes=st.booleans(), killed=st.booleans())
    def restore(self, data: st.DataObject, deletes: bool, killed: bool) -> None:
        before = self.task
        self.go_on_from(data.draw(st.sampled_from(sorted(self.checkpoints))))
        if deletes:
            self.service.manager.delete_task(before.id)
        if killed:
            self.kill()

    def go_on_from(self, epoch: int) -> None:
        """Go on with a new task, as this one was at the barrier of a checkpoint."""
        self.task = self.service.create(restore=self.checkpoints[epoch], **self.options)
        self.seals = self.seals[:epoch]
        for source, splits in self.splits.items():
            self.splits[source] = {number: splits[number] for number in splits if number <= self.bounds(epoch)[source]}
        self.checkpoints = {at: name for at, name in self.checkpoints.items() if at <= epoch}
        self.versions = {at: version for at, version in self.versions.items() if at <= epoch}
        self.ends, self.cancelled = {}, False
        self.read, self.acknowledged = 0, Cursor(epoch + 1)

    def acknowledge_to(self, cursor: Cursor) -> None:
        self.service.manager.acknowledge(self.task.id, cursor)
        self.acknowledged = max(self.acknowledged, cursor)
        self.service.durable.flush()  # an acknowledgement alone may be lost

    def give(self, source: str, number: int, values: list[int]) -> None:
        assert not self.task.add(*values, source=source, sequence=number).duplicate
        self.splits[source][number] = values
        self.settle()

    @precondition(lambda self: not self.cancelled and self.acknowledged.epoch <= len(self.seals))
    @rule(rows=st.integers(1, 5))
    def acknowledge_before_it_is_computed_again(self, rows: int) -> None:
        """A reader that has read on before a kill acknowledges at once behind it."""
        epoch = self.acknowledged.epoch
        if not self.whole(self.seals[epoch - 1]):
            return
        self.task.epoch(epoch, self.acknowledged.row)
        self.service.durable.flush()
        self.kill()
        self.acknowledge_to(max(self.acknowledged, Cursor(epoch, min(rows, len(self.expected(epoch))))))

    @precondition(lambda self: not self.cancelled and any(self.splits.values()))
    @rule(data=st.data())
    def add_again(self, data: st.DataObject) -> None:
        source = data.draw(st.sampled_from([source for source in SOURCES if self.splits[source]]))
        number = data.draw(st.sampled_from(sorted(self.splits[source])))
        assert self.task.add(*self.splits[source][number], source=source, sequence=number).duplicate

    @precondition(lambda self: not self.cancelled and not self.ended)
    @rule(more=st.dictionaries(st.sampled_from(SOURCES), st.sampled_from((0, 0, 1))))
    def seal(self, more: dict[str, int]) -> None:
        bounds = {source: self.last(source) + more.get(source, 0) for source in SOURCES}
        if any(last > self.ends.get(source, last) for source, last in bounds.items()):
            return
        assert self.task.seal(len(self.seals) + 1, **bounds) == len(self.seals) + 1
        self.seals.append(bounds)
        self.settle()

    @precondition(lambda self: not self.cancelled and not self.ends)
    @rule(values=VALUES, seals=st.booleans(), again=st.booleans())
    def transact(self, values: list[int], seals: bool, again: bool) -> None:
        numbers = {source: self.last(source) + 1 for source in SOURCES}
        transaction = Transaction(application="x", version=self.version + 1)
        for replayed in (False, True) if again else (False,):
            request = AddRequest(
                splits=[(name, rows(*values), None) for name in SOURCES], seal=Seal() if seals else None
            )
            answer = self.service.manager.transact(self.task.id, transaction, request)
            assert (answer.replayed, answer.epoch) == (replayed, len(self.seals) + 1)
        self.versions[len(self.seals) + 1] = transaction.version
        for source in SOURCES:
            self.splits[source][numbers[source]] = values
        if seals:
            self.seals.append(numbers)

    @precondition(lambda self: not self.cancelled and len(self.seals) >= 5)
    @rule(source=st.sampled_from((*SOURCES, None)), more=st.sampled_from((0, 0, 1)))
    def end(self, source: str | None, more: int) -> None:
        through = {name: self.last(name) + more for name in ([source] if source else SOURCES) if name not in self.ends}
        self.task.end(source, **through)
        self.ends.update(through)
        self.settle()

    def end_all(self, values: list[int]) -> None:
        """Fill all gaps, and end the sources that have not ended."""
        for source in SOURCES:
            for number in range(1, self.ends.get(source, self.last(source)) + 1):
                if number not in self.splits[source]:
                    self.give(source, number, values)
        through = {source: self.last(source) for source in SOURCES if source not in self.ends}
        if through:
            self.task.end(None, **through)
            self.ends.update(through)
            self.settle()

    @precondition(lambda self: not self.cancelled and self.seals)
    @rule(data=st.data())
    def read_epoch(self, data: st.DataObject) -> None:
        first = self.acknowledged.epoch
        known = [epoch for epoch in range(1, len(self.seals) + 1) if self.whole(self.seals[epoch - 1])]
        ready = [epoch for epoch in known if epoch >= first and known[:epoch] == list(range(1, epoch + 1))]
        if not ready:
            return
        epoch = data.draw(st.sampled_from(ready))
        rows_of_epoch = self.expected(epoch)
        least = self.acknowledged.row if epoch == first else 0
        row = data.draw(st.integers(least, len(rows_of_epoch)))
        assert self.task.epoch(epoch, row) == rows_of_epoch[row:]
        self.read = max(self.read, epoch)

    @precondition(lambda self: not self.cancelled and self.read >= self.acknowledged.epoch)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        epoch = data.draw(st.integers(self.acknowledged.epoch, self.read))
        whole = data.draw(st.booleans())
        cursor = Cursor(epoch + 1) if whole else Cursor(epoch, data.draw(st.integers(0, len(self.expected(epoch)))))
        self.acknowledge_to(cursor)

    @precondition(lambda self: not self.cancelled and not self.ended and len(self.seals) >= 8)
    @rule()
    def cancel(self) -> None:
        self.service.manager.cancel_task(self.task.id)
        self.cancelled = True
        with pytest.raises(TaskCancelled):
            self.task.add(1)

    @precondition(lambda self: not self.cancelled and len(self.seals) >= 5)
    @rule(values=VALUES, killed=st.booleans())
    def cancel_once_it_has_finished(self, values: list[int], killed: bool) -> None:
        """A task that has ended finishes by itself, when it has computed all epochs. It then stays finished."""
        self.end_all(values)
        for kills in (False, True) if killed else (False,):
            if kills:
                self.kill()
            assert self.task.finished(len(self.seals) + 1)
            self.service.manager.cancel_task(self.task.id)
            assert self.task.info().state is TaskPhase.FINISHED

    # ---------------------------------------------------------------------------------------- what always holds

    @invariant()
    def the_task_knows_what_the_model_knows(self) -> None:
        if not hasattr(self, "task"):
            return
        info = self.task.info()
        if self.cancelled:
            assert info.state is TaskPhase.CANCELLED
            return
        assert info.state not in (TaskPhase.CANCELLED, TaskPhase.FAILED)
        assert info.sealed_epoch == len(self.seals)
        assert info.acknowledged == self.acknowledged
        for source in info.sources:
            assert source.last_added == max(self.splits[source.name], default=0)
            assert source.ended == (source.name in self.ends)
        last = self.service.manager.last_transaction(self.task.id, "x")
        assert (last.version if last is not None else 0) == self.version


Durable.TestCase.settings = settings(max_examples=tries(15), stateful_step_count=30)
TestDurable = Durable.TestCase
