"""What every operator must do, as checks that any operator can be put through.

::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_operator(check):
        check(Case(make=MyOperator, epochs=[[left, right], [left2, right2]]))

A check raises `AssertionError` with what the operator did wrong. An operator's own tests say what it computes; these
say that it computes the same however its input arrives, and leaves nothing open behind it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeAlias

import pyarrow as pa

from .digest import digest
from .operator import Operator, Stream

Epoch: TypeAlias = Sequence[pa.Table]
Cut: TypeAlias = Callable[[pa.Table], Sequence[pa.RecordBatch]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """`make` gives a new operator; `before` is called before each of its runs (to assign pieces, say). Each epoch has
    one table per input. Where `ordered` is False the rows of an epoch may come in any order.
    """

    make: Callable[[], Operator]
    epochs: Sequence[Epoch]
    before: Callable[[Operator], None] = lambda operator: None  # noqa: ARG005 - nothing to do
    ordered: bool = True


class Boom(Exception):
    """What a broken input raises."""


class WatchedStream:
    """An input that notes what is done to it, and breaks after `breaks_after` batches."""

    def __init__(self, schema: pa.Schema, batches: Sequence[pa.RecordBatch], breaks_after: int | None = None) -> None:
        self.schema = schema
        self.watermark: int | None = None
        self.pulled = 0
        self.closed = False
        self.broke = False
        self._batches = batches
        self._breaks_after = breaks_after

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self.closed:
            raise StopIteration
        if self._breaks_after is not None and self.pulled >= self._breaks_after:
            self.broke = True
            raise Boom("the input broke")
        if self.pulled >= len(self._batches):
            raise StopIteration
        self.pulled += 1
        return self._batches[self.pulled - 1]

    def close(self) -> None:
        self.closed = True


class MemoryState:
    """A checkpoint in memory; as a reader it gives each table back once, and knows what was left."""

    def __init__(self) -> None:
        self.tables: dict[str, tuple[int, pa.Table]] = {}

    def write(self, name: str, version: int, table: pa.Table) -> None:
        assert name not in self.tables, f"the state {name!r} was written twice in one checkpoint"
        self.tables[name] = (version, table)

    def read(self, name: str) -> tuple[int, pa.Table]:
        return self.tables[name]


# --- ways to cut an input -----------------------------------------------------------------------------------------


def whole(table: pa.Table) -> list[pa.RecordBatch]:
    """One batch, or none where there are no rows."""
    return list(table.combine_chunks().to_batches())


def one_row_each(table: pa.Table) -> list[pa.RecordBatch]:
    return list(table.combine_chunks().to_batches(max_chunksize=1))


def with_empty_batches(table: pa.Table) -> list[pa.RecordBatch]:
    """An empty batch before, between and after the others."""
    empty = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in table.schema], schema=table.schema)
    cut: list[pa.RecordBatch] = [empty]
    for batch in table.combine_chunks().to_batches(max_chunksize=3):
        cut += [batch, empty]
    return cut


def at_random(seed: int) -> Cut:
    def cut(table: pa.Table) -> list[pa.RecordBatch]:
        chooser = random.Random(seed)  # noqa: S311 - cuts, no secrets
        table = table.combine_chunks()
        batches: list[pa.RecordBatch] = []
        at = 0
        while at < table.num_rows:
            rows = chooser.randint(1, max(1, table.num_rows // 2))
            batches += table.slice(at, rows).to_batches()
            at += rows
        return batches

    cut.__name__ = f"at_random({seed})"
    return cut


CUTS: Final[tuple[Cut, ...]] = (one_row_each, with_empty_batches, at_random(1), at_random(2), at_random(3))


# --- the checks ---------------------------------------------------------------------------------------------------


def gives_batches_of_its_schema(case: Case) -> None:
    with _Running(case) as running:
        for epoch in case.epochs:
            for batch in running.batches(epoch):
                assert batch.schema.equals(running.operator.schema), (
                    f"a batch has the schema {batch.schema}, the operator {running.operator.schema}"
                )


def gives_the_same_rows_however_its_input_is_cut(case: Case) -> None:
    expected = _all_epochs(case, whole)
    for cut in CUTS:
        found = _all_epochs(case, cut)
        assert found == expected, f"other rows where the input is cut {_name(cut)}"


def takes_inputs_without_batches_like_empty_ones(case: Case) -> None:
    nothing = [[table.slice(0, 0) for table in epoch] for epoch in case.epochs]
    empty = Case(make=case.make, epochs=nothing, before=case.before, ordered=case.ordered)
    assert _all_epochs(empty, whole) == _all_epochs(empty, with_empty_batches), "empty batches are not like none"


def gives_the_same_rows_when_run_again(case: Case) -> None:
    assert _all_epochs(case, whole) == _all_epochs(case, whole), "a second operator gave other rows"


def closes_its_inputs_at_the_end(case: Case) -> None:
    with _Running(case) as running:
        for epoch in case.epochs:
            streams = _streams(epoch, whole)
            list(running.start(streams))
            _assert_closed(streams, "after the end")


def stops_reading_when_closed_early(case: Case) -> None:
    """Closed after any of its batches it closes its inputs and reads no more of them; closed before, it may not have
    begun.
    """
    epoch = case.epochs[0]
    for taken in range(_batch_count(case, epoch) + 1):
        with _Running(case) as running:
            streams = _streams(epoch, one_row_each)
            output = running.start(streams)
            for _ in range(taken):
                next(output, None)
            _close(output)
            if taken:
                _assert_closed(streams, f"after an early close at batch {taken}")
            pulled = [stream.pulled for stream in streams]
            assert next(output, None) is None, "a closed output went on"
            assert [stream.pulled for stream in streams] == pulled, "an input was read after the close"


def passes_on_what_breaks_an_input(case: Case) -> None:
    """Whichever input breaks, and wherever, the same exception comes out and every input is closed."""
    epoch = case.epochs[0]
    for index, table in enumerate(epoch):
        for after in range(len(one_row_each(table)) + 1):
            with _Running(case) as running:
                streams = _streams(epoch, one_row_each)
                batches = one_row_each(table)
                streams[index] = WatchedStream(table.schema, batches, breaks_after=after)
                _assert_breaks(running.start(streams), streams[index], f"input {index} broke after {after} batches")
                _assert_closed(streams, f"after input {index} broke")


def works_after_a_broken_epoch(case: Case) -> None:
    """An operator without lasting state keeps nothing of an epoch that broke or was closed early."""
    epoch = case.epochs[0]
    with _Running(case) as running:
        expected = _shown(case, running.operator, running.batches(epoch))
        if running.operator_keeps_state():
            return
        _drain_broken(running.start([WatchedStream(t.schema, one_row_each(t), breaks_after=1) for t in epoch]))
        assert _shown(case, running.operator, running.batches(epoch)) == expected, "an earlier, broken epoch shows"
        output = running.start(_streams(epoch, one_row_each))
        next(output, None)
        _close(output)
        assert _shown(case, running.operator, running.batches(epoch)) == expected, "an earlier, closed epoch shows"


def goes_on_from_its_saved_state(case: Case) -> None:
    """Saved after any epoch and loaded into a new operator, it goes on as if nothing had happened."""
    expected = _all_epochs(case, whole)
    for saved_after in range(len(case.epochs) + 1):
        found = []
        state = MemoryState()
        with _Running(case) as running:
            found += [_shown(case, running.operator, running.batches(epoch)) for epoch in case.epochs[:saved_after]]
            running.operator.save(state)
        with _Running(case) as running:
            running.operator.load(state)
            found += [_shown(case, running.operator, running.batches(epoch)) for epoch in case.epochs[saved_after:]]
        assert found == expected, f"other rows after a restore from the state of epoch {saved_after}"


CHECKS: Final[tuple[Callable[[Case], None], ...]] = (
    gives_batches_of_its_schema,
    gives_the_same_rows_however_its_input_is_cut,
    takes_inputs_without_batches_like_empty_ones,
    gives_the_same_rows_when_run_again,
    closes_its_inputs_at_the_end,
    stops_reading_when_closed_early,
    passes_on_what_breaks_an_input,
    works_after_a_broken_epoch,
    goes_on_from_its_saved_state,
)


# --- running an operator --------------------------------------------------------------------------------------------


@dataclass
class _Running:
    """One operator, closed at the end."""

    case: Case
    operator: Operator = field(init=False)

    def __enter__(self) -> Self:
        self.operator = self.case.make()
        return self

    def __exit__(self, *exception: object) -> None:
        self.operator.close()

    def start(self, streams: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        self.case.before(self.operator)
        return self.operator.run(streams)

    def batches(self, epoch: Epoch, cut: Cut = whole) -> list[pa.RecordBatch]:
        return list(self.start(_streams(epoch, cut)))

    def operator_keeps_state(self) -> bool:
        state = MemoryState()
        self.operator.save(state)
        return bool(state.tables)


def _all_epochs(case: Case, cut: Cut) -> list[str]:
    with _Running(case) as running:
        return [_shown(case, running.operator, running.batches(epoch, cut)) for epoch in case.epochs]


def _shown(case: Case, operator: Operator, batches: Sequence[pa.RecordBatch]) -> str:
    if case.ordered:
        return digest(operator.schema, batches)
    return repr(sorted(repr(row) for batch in batches for row in batch.to_pylist()))


def _streams(epoch: Epoch, cut: Cut) -> list[WatchedStream]:
    return [WatchedStream(table.schema, cut(table)) for table in epoch]


def _batch_count(case: Case, epoch: Epoch) -> int:
    with _Running(case) as running:
        return len(running.batches(epoch, one_row_each))


def _close(output: Iterator[pa.RecordBatch]) -> None:
    close: Any = getattr(output, "close", None)
    assert close is not None, "what run() gave cannot be closed"
    close()


def _assert_closed(streams: Sequence[WatchedStream], when: str) -> None:
    for index, stream in enumerate(streams):
        assert stream.closed, f"input {index} was left open {when}"


def _assert_breaks(output: Iterator[pa.RecordBatch], broken: WatchedStream, when: str) -> None:
    """An operator that wanted no more of the input before it could break need not fail."""
    try:
        for _ in output:
            pass
    except Boom:
        return
    assert not broken.broke, f"{when}, and the operator did not tell"


def _drain_broken(output: Iterator[pa.RecordBatch]) -> None:
    try:
        for _ in output:
            pass
    except Boom:
        return


def _name(cut: Cut) -> str:
    return str(getattr(cut, "__name__", cut))
