"""The conformance checks let right operators pass and catch wrong ones, each wrong in its own way."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidegate.operators import testing
from tidegate.operators.operator import Operator, StateReader, StateWriter, Stream
from tidegate.operators.testing import CHECKS, Case

SCHEMA = pa.schema([("x", pa.int64())])
EPOCHS = [[pa.table({"x": [1, 2, 3, 4, 5]})], [pa.table({"x": [6]})], [pa.table({"x": [7, 8]})]]


class PassOn(Operator):
    """Right: hands its input on."""

    schema = SCHEMA

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        try:
            yield from inputs[0]
        finally:
            inputs[0].close()


class RunningSum(Operator):
    """Right: a sum over all epochs so far, as lasting state."""

    schema = SCHEMA

    def __init__(self) -> None:
        self._sum = 0

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in inputs[0]:
                self._sum += pc.sum(batch["x"]).as_py() or 0
            yield pa.record_batch({"x": [self._sum]}, schema=SCHEMA)
        finally:
            inputs[0].close()

    def save(self, state: StateWriter) -> None:
        state.write("sum", 1, pa.table({"sum": [self._sum]}))

    def load(self, state: StateReader) -> None:
        self._sum = state.read("sum")[1]["sum"][0].as_py()


class ForgetsItsState(RunningSum):
    def save(self, state: StateWriter) -> None:
        state.write("sum", 1, pa.table({"sum": [0]}))


class FirstOfEachBatch(PassOn):
    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        yield from (batch.slice(0, 1) for batch in super().run(inputs))


class StopsAtAnEmptyBatch(PassOn):
    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        yield from itertools.takewhile(lambda batch: batch.num_rows > 0, super().run(inputs))


class CountsBatches(PassOn):
    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"x": [sum(1 for _ in super().run(inputs))]}, schema=SCHEMA)


class LeavesItsInputOpen(PassOn):
    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        yield from inputs[0]


class ClosesOnlyAtTheEnd(PassOn):
    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        for batch in inputs[0]:  # noqa: UP028 - `yield from` would pass the close on
            yield batch
        inputs[0].close()


class HidesErrors(PassOn):
    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        try:
            yield from super().run(inputs)
        except testing.Boom:
            return


class OtherSchema(PassOn):
    schema = pa.schema([("y", pa.int64())])


class NeverTwiceTheSame(PassOn):
    made = itertools.count()

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        list(super().run(inputs))
        yield pa.record_batch({"x": [next(self.made)]}, schema=SCHEMA)


class RemembersABrokenEpoch(PassOn):
    def __init__(self) -> None:
        self._held: list[pa.RecordBatch] = []

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        for batch in super().run(inputs):
            self._held.append(batch)
        held, self._held = self._held, []
        yield from held


WRONG: list[tuple[Callable[[], Operator], Callable[[Case], None]]] = [
    (OtherSchema, testing.gives_batches_of_its_schema),
    (FirstOfEachBatch, testing.gives_the_same_rows_however_its_input_is_cut),
    (StopsAtAnEmptyBatch, testing.gives_the_same_rows_however_its_input_is_cut),
    (CountsBatches, testing.takes_inputs_without_batches_like_empty_ones),
    (NeverTwiceTheSame, testing.gives_the_same_rows_when_run_again),
    (LeavesItsInputOpen, testing.closes_its_inputs_at_the_end),
    (ClosesOnlyAtTheEnd, testing.stops_reading_when_closed_early),
    (HidesErrors, testing.passes_on_what_breaks_an_input),
    (ClosesOnlyAtTheEnd, testing.passes_on_what_breaks_an_input),
    (RemembersABrokenEpoch, testing.works_after_a_broken_epoch),
    (ForgetsItsState, testing.goes_on_from_its_saved_state),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", [PassOn, RunningSum])
def test_a_right_operator_passes(make: Callable[[], Operator], check: Callable[[Case], None]) -> None:
    check(Case(make=make, epochs=EPOCHS))


@pytest.mark.parametrize(("make", "check"), WRONG)
def test_a_wrong_operator_is_caught(make: Callable[[], Operator], check: Callable[[Case], None]) -> None:
    with pytest.raises(AssertionError):
        check(Case(make=make, epochs=EPOCHS))


def test_every_check_catches_something() -> None:
    assert {check for _, check in WRONG} == set(CHECKS)


def test_rows_may_come_in_any_order_where_the_case_says_so() -> None:
    class Shuffled(PassOn):
        turned = itertools.cycle([1, -1])

        def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
            rows = [x for batch in super().run(inputs) for x in batch["x"].to_pylist()]
            yield pa.record_batch({"x": rows[:: next(self.turned)]}, schema=SCHEMA)

    testing.gives_the_same_rows_when_run_again(Case(make=Shuffled, epochs=EPOCHS, ordered=False))
    with pytest.raises(AssertionError):
        testing.gives_the_same_rows_when_run_again(Case(make=Shuffled, epochs=[EPOCHS[0]]))
