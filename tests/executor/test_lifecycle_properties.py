"""The lifecycle against a model of a few lines: random adds, retries, seals, reads, acknowledgements and ends.

The model knows which numbers were given and where the seals are; the service must answer as it says.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidegate.proto.errors import Refused
from tidegate.proto.values import Blocked, BlockedState, Cursor, Finished, TaskPhase

from ..searching import tries
from .fakes import Client, FakeEngine, running

SOURCES = ("a", "b")
PENDING = 4


class Lifecycle(RuleBasedStateMachine):
    @initialize(early=st.booleans(), small=st.booleans())
    def start(self, early: bool, small: bool) -> None:
        limits = {"output_bytes": 1_500, "queue_bytes": 1_500} if small else {}
        self.context = running(FakeEngine(sources=SOURCES, early=early), max_pending_epochs=PENDING, **limits)
        self.task: Client = self.context.__enter__()
        self.added: dict[str, dict[int, tuple[int, ...]]] = {source: {} for source in SOURCES}
        self.seals: list[dict[str, int]] = []
        self.ends: dict[str, int] = {}
        self.read = 0
        self.acknowledged = 0
        self.acknowledged_row = 0

    def teardown(self) -> None:
        if hasattr(self, "context"):
            self.context.__exit__(None, None, None)

    # ------------------------------------------------------------------------------------------------ the model

    def sealed(self, source: str) -> int:
        return self.seals[-1][source] if self.seals else 0

    def highest(self, source: str) -> int:
        return max(self.added[source], default=0)

    def last(self, source: str) -> int:
        return max(self.highest(source), self.sealed(source))

    def whole(self, through: dict[str, int]) -> bool:
        return all(set(range(1, through[source] + 1)) <= self.added[source].keys() for source in SOURCES)

    @property
    def ended(self) -> bool:
        return len(self.ends) == len(SOURCES) and self.whole(self.ends)

    def expected(self, epoch: int) -> list[int]:
        before = self.seals[epoch - 2] if epoch > 1 else dict.fromkeys(SOURCES, 0)
        through = self.seals[epoch - 1]
        return [
            value
            for source in SOURCES
            for number in range(before[source] + 1, through[source] + 1)
            for value in self.added[source][number]
        ]

    def epoch_of(self, source: str, number: int) -> int:
        later = [epoch for epoch, bounds in enumerate(self.seals, 1) if number <= bounds[source]]
        return later[0] if later else len(self.seals) + 1

    def settle(self) -> None:
        """What ends by itself: when all sources are whole to their ends, unsealed splits are a last epoch."""
        if self.ended and any(self.last(source) > self.sealed(source) for source in SOURCES):
            self.seals.append({source: self.last(source) for source in SOURCES})

    def give(self, source: str, number: int, values: list[int]) -> None:
        added = self.task.add(*values, source=source, sequence=number)
        assert not added.duplicate
        assert added.epoch == self.epoch_of(source, number)
        self.added[source][number] = tuple(values)

    # ------------------------------------------------------------------------------------------------- the rules

    @rule(source=st.sampled_from(SOURCES), ahead=st.integers(-5, 2), values=st.lists(st.integers(0, 99), max_size=30))
    def add(self, source: str, ahead: int, values: list[int]) -> None:
        missing = (number for number in range(1, 10**6) if number not in self.added[source])
        number = next(missing) if ahead < 1 else self.last(source) + ahead
        if number > self.ends.get(source, number):
            with pytest.raises(Refused, match="has ended"):
                self.task.add(*values, source=source, sequence=number)
            return
        if number in self.added[source]:
            return
        self.give(source, number, values)
        self.settle()

    @precondition(lambda self: self.seals and not self.whole(self.seals[-1]))
    @rule(value=st.integers(0, 99), count=st.integers(1, 30))
    def fill_the_gaps_of_the_last_seal(self, value: int, count: int) -> None:
        for source in SOURCES:
            for number in range(1, self.seals[-1][source] + 1):
                if number not in self.added[source]:
                    self.give(source, number, [value] * count)
        self.settle()

    @precondition(lambda self: any(self.added.values()))
    @rule(data=st.data())
    def add_again(self, data: st.DataObject) -> None:
        source = data.draw(st.sampled_from([source for source in SOURCES if self.added[source]]))
        number = data.draw(st.sampled_from(sorted(self.added[source])))
        values = self.added[source][number]
        assert self.task.add(*values, source=source, sequence=number).duplicate
        if self.acknowledged and number <= self.seals[self.acknowledged - 1][source]:
            assert self.task.add(*values, 7, source=source, sequence=number).duplicate
        else:
            with pytest.raises(Refused, match="other content"):
                self.task.add(*values, 7, source=source, sequence=number)

    @precondition(lambda self: not self.ended and len(self.seals) - self.read < PENDING)
    @rule(more=st.dictionaries(st.sampled_from(SOURCES), st.sampled_from((0, 0, 0, 1))), named=st.booleans())
    def seal(self, more: dict[str, int], named: bool) -> None:
        through = {source: self.last(source) + count for source, count in more.items()}
        if any(last > self.ends.get(source, last) for source, last in through.items()):
            return
        bounds = {source: through.get(source, self.last(source)) for source in SOURCES}
        joins = not named and len(self.seals) > self.read and all(bounds[s] == self.sealed(s) for s in SOURCES)
        epoch = self.task.seal(len(self.seals) + 1 if named else None, **through)
        if not joins:
            self.seals.append(bounds)
        assert epoch == len(self.seals)
        self.settle()

    @precondition(lambda self: self.seals)
    @rule(data=st.data())
    def seal_again(self, data: st.DataObject) -> None:
        epoch = data.draw(st.integers(1, len(self.seals)))
        assert self.task.seal(epoch) == epoch

    @precondition(
        lambda self: self.ended or (self.seals and self.whole(self.seals[min(self.read, len(self.seals) - 1)]))
    )
    @rule(data=st.data())
    def read_epoch(self, data: st.DataObject) -> None:
        first = self.acknowledged + 1
        epoch = data.draw(st.integers(first, max(first, min(len(self.seals), self.read + 1))))
        if epoch <= len(self.seals) and self.whole(self.seals[epoch - 1]):
            expected = self.expected(epoch)
            row = data.draw(st.integers(self.acknowledged_row if epoch == first else 0, len(expected)))
            assert self.task.epoch(epoch, row) == expected[row:]
            self.read = max(self.read, epoch)
        elif self.ended and epoch == len(self.seals) + 1:
            assert isinstance(self.task.next(epoch)[0], Finished)

    @precondition(lambda self: self.read > self.acknowledged)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        self.acknowledged = data.draw(st.integers(self.acknowledged, self.read))
        self.acknowledged_row = 0
        if self.acknowledged < self.read:
            self.acknowledged_row = data.draw(st.integers(0, len(self.expected(self.acknowledged + 1))))
        cursor = Cursor(self.acknowledged + 1, self.acknowledged_row)
        self.task.manager.acknowledge(self.task.id, cursor)
        assert self.task.info().acknowledged >= cursor
        self.acknowledged_row = self.task.info().acknowledged.row

    @precondition(lambda self: len(self.seals) >= 3)
    @rule(source=st.sampled_from((*SOURCES, None)), more=st.sampled_from((0, 0, 2)))
    def end(self, source: str | None, more: int) -> None:
        ending = [source] if source else list(SOURCES)
        through = {name: self.last(name) + more for name in ending if name not in self.ends}
        self.task.end(source, **through)
        self.ends.update(through)
        self.settle()

    # -------------------------------------------------------------------------------------------- what always holds

    @invariant()
    def the_task_knows_what_the_model_knows(self) -> None:
        if not hasattr(self, "task"):
            return
        info = self.task.info()
        assert info.sealed_epoch == len(self.seals)
        assert info.acknowledged == Cursor(self.acknowledged + 1, self.acknowledged_row)
        if self.acknowledged == len(self.seals) and not any(
            self.last(source) > self.sealed(source) for source in SOURCES
        ):
            assert (info.statistics.output_bytes_held, info.statistics.spilled_bytes) == (0, 0)
        for source in info.sources:
            assert source.last_added == self.highest(source.name)
            assert source.ended == (source.name in self.ends)
            assert info.statistics.splits[source.name].added == len(self.added[source.name])
        assert info.state in (TaskPhase.RUNNING, TaskPhase.FINISHED)

    @precondition(lambda self: self.seals and not self.whole(self.seals[-1]))
    @rule()
    def a_waiting_seal_names_what_is_missing(self) -> None:
        waiting = next(bounds for bounds in self.seals if not self.whole(bounds))
        missing = {
            source: tuple(number for number in range(1, waiting[source] + 1) if number not in self.added[source])
            for source in SOURCES
        }
        while (frame := self.task.look(len(self.seals) + 1)[0]) == Blocked(state=BlockedState.WORKING):
            self.task.next(len(self.seals) + 1, wait=0.01)
        assert frame.missing == {source: numbers for source, numbers in missing.items() if numbers}


Lifecycle.TestCase.settings = settings(max_examples=tries(50), stateful_step_count=50)
TestLifecycle = Lifecycle.TestCase
