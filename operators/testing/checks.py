"""The rules for every operator, one function a rule. Each function raises `AssertionError` with the operator's
mistake.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from .check_inputs import CUTS, Boom, Cut, WatchedStream, name_of, one_row_each, whole, with_empty_batches, with_gaps
from .running import (
    Answer,
    Case,
    Epoch,
    MemoryState,
    Running,
    all_epochs,
    answer_of,
    require,
    require_equal,
    streams_of,
)

INTERLEAVINGS: Final = 8
ORDERS: Final = 5


def gives_batches_of_its_schema(case: Case) -> None:
    with Running(case) as running:
        for epoch in case.epochs:
            for batch in running.start(streams_of(epoch)):
                actual, promised = _shown(batch.schema), _shown(running.operator.schema)
                right = batch.schema.equals(running.operator.schema)
                require(right, f"a batch has the schema [{actual}], and the operator [{promised}]")


def gives_the_expected_rows(case: Case) -> None:
    """Check the rows against the case's oracle, if it has one. Nothing else can tell a tail that is always dropped from
    rows that were never there.
    """
    if case.expected is None:
        return
    with Running(case) as running:
        schema = running.operator.schema
    expected = [answer_of(case, schema, table.cast(schema).to_batches()) for table in case.expected]
    require_equal(all_epochs(case), expected, "not the expected rows")


def gives_the_same_rows_when_run_again(case: Case) -> None:
    require_equal(all_epochs(case), all_epochs(case), "a second operator of the same kind gave other rows")


def gives_the_same_rows_however_its_input_is_cut(case: Case) -> None:
    expected = all_epochs(case)
    for cut in CUTS:
        require_equal(all_epochs(case, cut), expected, f"the rows differ if the input is cut {name_of(cut)}")


def takes_inputs_without_batches_like_empty_ones(case: Case) -> None:
    nothing = [[table.slice(0, 0) for table in epoch] for epoch in case.epochs]
    empty = replace(case, epochs=nothing)
    require_equal(all_epochs(empty, with_empty_batches), all_epochs(empty), "empty batches change the rows")


def gives_the_same_rows_however_its_inputs_interleave(case: Case) -> None:
    """Check confluence with interleaved inputs. Inputs that are cut in different ways, and come in runs, are like
    inputs in another order of arrival, for an operator that reads them in turns.
    """
    inputs = len(case.epochs[0])
    if inputs < 2:
        return
    expected = all_epochs(case)
    for cuts in _interleavings(inputs):
        how = ", ".join(f"input {index} cut {name_of(cut)}" for index, cut in enumerate(cuts))
        require_equal(all_epochs(case, *cuts), expected, f"the rows depend on how the inputs interleave ({how})")


def gives_the_same_rows_whatever_the_order_of_its_inputs_rows(case: Case) -> None:
    """Check confluence under other row orders, where the case says which orders mean the same: the rows are the same
    multiset.
    """
    if case.reordered is None:
        return
    unordered = replace(case, ordered=False)
    expected = all_epochs(unordered)
    for seed in range(ORDERS):
        chooser = random.Random(seed)  # noqa: S311 - orders, no secrets
        epochs = [case.reordered(epoch, chooser) for epoch in case.epochs]
        answers = all_epochs(replace(unordered, epochs=epochs))
        require_equal(answers, expected, f"the rows differ if the inputs' rows come in another order (seed {seed})")


def keeps_nothing_undeclared_across_a_barrier(case: Case) -> None:
    """Check that an operator that saves no state answers each epoch as if there were no other."""
    with Running(case) as running:
        answers: list[Answer] = []
        for epoch in case.epochs:
            answers.append(running.answer(epoch))
            if running.saved().tables:
                return
    alone = [all_epochs(replace(case, epochs=[epoch], expected=None))[0] for epoch in case.epochs]
    require_equal(answers, alone, "the operator keeps something across a barrier that save() does not write")


def goes_on_from_its_saved_state(case: Case) -> None:
    """Check that state saved after any epoch and loaded into a new operator goes on as if nothing had happened."""
    expected = all_epochs(case)
    for saved_after in range(len(case.epochs) + 1):
        with Running(case) as running:
            answers = [running.answer(epoch) for epoch in case.epochs[:saved_after]]
            state: MemoryState = running.saved()
        with Running(case) as running:
            running.operator.load(state)
            answers += [running.answer(epoch) for epoch in case.epochs[saved_after:]]
        require_equal(answers, expected, f"the rows differ after a restore from the state of epoch {saved_after}")


def closes_its_inputs_at_the_end(case: Case) -> None:
    with Running(case) as running:
        for epoch in case.epochs:
            streams = streams_of(epoch)
            list(running.start(streams))
            _require_closed(streams, "after the end")


def reads_no_input_that_it_has_closed(case: Case) -> None:
    with Running(case) as running:
        for epoch in case.epochs:
            streams = streams_of(epoch, one_row_each)
            list(running.start(streams))
            for index, stream in enumerate(streams):
                require(not stream.read_when_closed, f"input {index} was read after its close")


def stops_reading_when_closed_early(case: Case) -> None:
    """Check that an operator closed after any of its batches closes its inputs and reads no more of them. An operator
    closed before its first batch need not have begun.
    """
    epoch = case.epochs[0]
    for taken in range(_batch_count(case, epoch) + 1):
        with Running(case) as running:
            streams = streams_of(epoch, one_row_each)
            output = running.start(streams)
            for _ in range(taken):
                next(output, None)
            _close(output)
            if taken:
                _require_closed(streams, f"after an early close at batch {taken}")
            pulled = [stream.pulled for stream in streams]
            require(next(output, None) is None, "a closed output went on")
            require([stream.pulled for stream in streams] == pulled, "an input was read after the output's close")


def passes_on_what_breaks_an_input(case: Case) -> None:
    """Check that a break of any input, at any batch, comes out as the same exception, and that every input is
    closed.
    """
    epoch = case.epochs[0]
    for index, table in enumerate(epoch):
        batches = one_row_each(table)
        for after in range(len(batches) + 1):
            with Running(case) as running:
                streams = streams_of(epoch, one_row_each)
                streams[index] = WatchedStream(table.schema, batches, breaks_after=after)
                _require_break(running.start(streams), streams[index], f"input {index} broke after {after} batches")
                _require_closed(streams, f"after input {index} broke")


def works_after_a_broken_epoch(case: Case) -> None:
    """Check that an operator without lasting state keeps nothing of an epoch that broke or was closed early."""
    epoch = case.epochs[0]
    with Running(case) as running:
        expected = [running.answer(epoch)]
        if running.saved().tables:
            return
        running.breaks([WatchedStream(t.schema, one_row_each(t), breaks_after=1) for t in epoch])
        require_equal([running.answer(epoch)], expected, "an earlier epoch that broke changes the rows")
        output = running.start(streams_of(epoch, one_row_each))
        next(output, None)
        _close(output)
        require_equal([running.answer(epoch)], expected, "an earlier epoch that was closed early changes the rows")


CHECKS: Final[tuple[Callable[[Case], None], ...]] = (
    gives_batches_of_its_schema,
    gives_the_same_rows_when_run_again,
    keeps_nothing_undeclared_across_a_barrier,
    gives_the_same_rows_however_its_input_is_cut,
    takes_inputs_without_batches_like_empty_ones,
    gives_the_same_rows_however_its_inputs_interleave,
    gives_the_same_rows_whatever_the_order_of_its_inputs_rows,
    gives_the_expected_rows,
    closes_its_inputs_at_the_end,
    reads_no_input_that_it_has_closed,
    stops_reading_when_closed_early,
    passes_on_what_breaks_an_input,
    works_after_a_broken_epoch,
    goes_on_from_its_saved_state,
)
"""The checks, one for each rule, for tests that run them one by one.

>>> from tidegate.testing import CHECKS
>>> "passes_on_what_breaks_an_input" in [check.__name__ for check in CHECKS]
True
"""


def _interleavings(inputs: int) -> Iterator[tuple[Cut, ...]]:
    """Interleavings of inputs: each input ahead of and behind each other one, then some at random."""
    for index in range(inputs):
        yield tuple(one_row_each if number == index else whole for number in range(inputs))
        yield tuple(whole if number == index else one_row_each for number in range(inputs))
    for seed in range(INTERLEAVINGS):
        yield tuple(with_gaps(100 * seed + number) for number in range(inputs))


def _batch_count(case: Case, epoch: Epoch) -> int:
    with Running(case) as running:
        return sum(1 for _ in running.start(streams_of(epoch, one_row_each)))


def _close(output: Iterator[pa.RecordBatch]) -> None:
    close: Any = getattr(output, "close", None)
    if close is None:
        raise AssertionError("the iterator that run() returned cannot be closed")
    close()


def _require_closed(streams: Sequence[WatchedStream], when: str) -> None:
    for index, stream in enumerate(streams):
        require(stream.closed, f"input {index} was left open {when}")


def _require_break(output: Iterator[pa.RecordBatch], broken: WatchedStream, when: str) -> None:
    """Raise unless the output breaks. An operator that wanted no more of the input before it could break need not
    fail.
    """
    try:
        for _ in output:
            pass
    except Boom:
        return
    require(not broken.broke, f"{when}, and the operator did not raise the error")


def _shown(schema: pa.Schema) -> str:
    return ", ".join(str(field) for field in schema)
