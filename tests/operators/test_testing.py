"""The conformance checks let right operators pass and catch wrong ones, each wrong in its own way."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from tidegate.operators import testing
from tidegate.operators.core.operator import Operator, Stream
from tidegate.operators.testing import CHECKS, Case, Epoch
from tidegate.testing import check_operator

from . import specimens
from .specimens import Concatenated, PassOn, RunningSum, numbers, values_of

ONE: list[Epoch] = [[numbers(1, 2, 3, 4, 5)], [numbers(6)], [numbers(7, 8)]]
TWO: list[Epoch] = [[numbers(1, 2, 3, 4), numbers(2, 4, 4, 9)], [numbers(), numbers(1)]]
THE_SAME: list[pa.Table] = [epoch[0] for epoch in ONE]

WRONG: list[tuple[Callable[[], Operator], Callable[[Case], None], list[Epoch]]] = [
    (specimens.YieldsAWrongSchema, testing.gives_batches_of_its_schema, ONE),
    (specimens.NeverTwiceTheSame, testing.gives_the_same_rows_when_run_again, ONE),
    (specimens.BuffersAcrossABarrier, testing.keeps_nothing_undeclared_across_a_barrier, ONE),
    (specimens.DependsOnBatchCuts, testing.gives_the_same_rows_however_its_input_is_cut, ONE),
    (specimens.StopsAtAnEmptyBatch, testing.gives_the_same_rows_however_its_input_is_cut, ONE),
    (specimens.DropsTheLastBatch, testing.gives_the_same_rows_however_its_input_is_cut, ONE),
    (specimens.CountsBatchesOfNothing, testing.takes_inputs_without_batches_like_empty_ones, ONE),
    (specimens.ReadsInTurns, testing.gives_the_same_rows_however_its_input_is_cut, TWO),
    (specimens.DependsOnWhatCameFirst, testing.gives_the_same_rows_however_its_inputs_interleave, TWO),
    (specimens.DependsOnTheOrderOfRows, testing.gives_the_same_rows_whatever_the_order_of_its_inputs_rows, TWO),
    (specimens.DropsTheTail, testing.gives_the_expected_rows, ONE),
    (specimens.LeavesItsInputOpen, testing.closes_its_inputs_at_the_end, ONE),
    (specimens.ReadsAnInputAfterItsClose, testing.reads_no_input_that_it_has_closed, ONE),
    (specimens.IgnoresAnEarlyClose, testing.stops_reading_when_closed_early, ONE),
    (specimens.SwallowsAnError, testing.passes_on_what_breaks_an_input, ONE),
    (specimens.LeavesItsInputOpenAfterAnError, testing.passes_on_what_breaks_an_input, ONE),
    (specimens.RemembersABrokenEpoch, testing.works_after_a_broken_epoch, ONE),
    (specimens.LosesItsState, testing.goes_on_from_its_saved_state, ONE),
]


def shuffled(epoch: Epoch, chooser: random.Random) -> Epoch:
    return [table.take(pa.array(chooser.sample(range(table.num_rows), table.num_rows), pa.int64())) for table in epoch]


@pytest.mark.parametrize(
    ("make", "epochs", "expected"),
    [
        (PassOn, ONE, THE_SAME),
        (RunningSum, ONE, [numbers(15), numbers(21), numbers(36)]),
        (Concatenated, TWO, [numbers(1, 2, 3, 4, 2, 4, 4, 9), numbers(1)]),
    ],
)
def test_a_right_operator_passes(
    make: Callable[[], Operator], epochs: list[Epoch], expected: Sequence[pa.Table]
) -> None:
    check_operator(make, epochs, expected=expected, reordered=None if make is RunningSum else shuffled)


@pytest.mark.parametrize(("make", "check", "epochs"), WRONG)
def test_a_wrong_operator_is_caught(
    make: Callable[[], Operator], check: Callable[[Case], None], epochs: list[Epoch]
) -> None:
    expected = THE_SAME if check is testing.gives_the_expected_rows else None
    reordered = shuffled if "order_of" in check.__name__ else None
    with pytest.raises(AssertionError, match=f"{make.__name__} breaks the rule '{check.__name__}': "):
        check_operator(make, epochs, expected=expected, reordered=reordered, ordered="CameFirst" not in make.__name__)


def test_every_rule_catches_something() -> None:
    assert {check for _, check, _ in WRONG} == set(CHECKS)


@pytest.mark.parametrize(
    ("make", "epochs", "said"),
    [
        (specimens.BuffersAcrossABarrier, ONE, r"a barrier .*: in epoch 2, there is 1 row too many, such as \(5,\)"),
        (specimens.DependsOnBatchCuts, ONE, r"one_row_each: in epoch 1, there are 4 rows too many, such as \(2,\)"),
        (specimens.ReadsInTurns, TWO, r"in epoch 1, the rows come in another order: row 2 is \(2,\) instead of \(3,\)"),
        (
            specimens.DependsOnWhatCameFirst,
            TWO,
            r"interleave \(input 0 cut whole, input 1 cut one_row_each\): in epoch 1",
        ),
    ],
)
def test_an_error_says_where_which_rows_are_wrong(make: Callable[[], Operator], epochs: list[Epoch], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_operator(make, epochs)


def test_an_exception_of_the_operators_own_says_under_which_rule_it_came() -> None:
    class FailsOnNothing(PassOn):
        def run(self, inputs: Sequence[Stream]) -> specimens.Rows:
            for out in super().run(inputs):
                yield out.slice(0, len(out) // (1 if len(out) else 0) or 1)

    with pytest.raises(ZeroDivisionError) as raised:
        check_operator(FailsOnNothing, ONE)
    assert "however_its_input_is_cut" in raised.value.__notes__[0]


def test_rows_may_come_in_any_order_where_that_is_said() -> None:
    class Shuffled(PassOn):
        turned = itertools.cycle([1, -1])

        def run(self, inputs: Sequence[Stream]) -> specimens.Rows:
            yield specimens.batch(list(values_of(super().run(inputs)))[:: next(self.turned)])

    testing.gives_the_same_rows_when_run_again(Case(make=Shuffled, epochs=ONE, ordered=False))
    with pytest.raises(AssertionError, match="another order"):
        testing.gives_the_same_rows_when_run_again(Case(make=Shuffled, epochs=[ONE[0]]))


def test_a_case_that_says_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one epoch"):
        check_operator(PassOn, [])
    with pytest.raises(ValueError, match="1 expected answers for 3 epochs"):
        check_operator(PassOn, ONE, expected=[numbers(1)])
