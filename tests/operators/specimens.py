"""Operators that are right, and operators that are wrong on purpose, each in its own way."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.operators.core.operator import Operator, StateReader, StateWriter, Stream
from tidegate.testing import Boom

SCHEMA = pa.schema([("x", pa.int64())])
Rows = Iterator[pa.RecordBatch]


def numbers(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def batch(values: Sequence[int]) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(values, pa.int64())})


def values_of(rows: Rows) -> Iterator[int]:
    for batch in rows:
        yield from batch["x"].to_pylist()


# --- right ---------------------------------------------------------------------------------------------------------


class PassOn(Operator):
    """Hands its input on."""

    schema = SCHEMA

    def run(self, inputs: Sequence[Stream]) -> Rows:
        with closing(inputs[0]):
            yield from inputs[0]


class RunningSum(Operator):
    """A sum over all epochs so far, as lasting state."""

    schema = SCHEMA

    def __init__(self) -> None:
        self._sum = 0

    def run(self, inputs: Sequence[Stream]) -> Rows:
        with closing(inputs[0]):
            for input_batch in inputs[0]:
                self._sum += pc.sum(input_batch["x"]).as_py() or 0
            yield batch([self._sum])

    def save(self, state: StateWriter) -> None:
        state.write("sum", 1, pa.table({"sum": [self._sum]}))

    def load(self, state: StateReader) -> None:
        self._sum = state.read("sum")[1]["sum"][0].as_py()


class Concatenated(Operator):
    """Its inputs' rows, one input after the other."""

    schema = SCHEMA

    def run(self, inputs: Sequence[Stream]) -> Rows:
        with ExitStack() as stack:
            for stream in inputs:
                stack.callback(stream.close)
            for stream in inputs:
                yield from stream


# --- wrong across epochs -------------------------------------------------------------------------------------------


class BuffersAcrossABarrier(PassOn):
    """Its last row comes out in the next epoch."""

    def __init__(self) -> None:
        self._held: list[int] = []

    def run(self, inputs: Sequence[Stream]) -> Rows:
        values = [*self._held, *values_of(super().run(inputs))]
        self._held = values[-1:]
        yield batch(values[:-1])


class LosesItsState(RunningSum):
    def save(self, state: StateWriter) -> None:
        state.write("sum", 1, pa.table({"sum": [0]}))


class RemembersABrokenEpoch(PassOn):
    def __init__(self) -> None:
        self._held: list[pa.RecordBatch] = []

    def run(self, inputs: Sequence[Stream]) -> Rows:
        for out in super().run(inputs):
            self._held.append(out)
        held, self._held = self._held, []
        yield from held


class NeverTwiceTheSame(PassOn):
    count = itertools.count()

    def run(self, inputs: Sequence[Stream]) -> Rows:
        list(super().run(inputs))
        yield batch([next(self.count)])


# --- wrong about batches -------------------------------------------------------------------------------------------


class DependsOnBatchCuts(PassOn):
    """The first row of each batch."""

    def run(self, inputs: Sequence[Stream]) -> Rows:
        yield from (out.slice(0, 1) for out in super().run(inputs))


class StopsAtAnEmptyBatch(PassOn):
    def run(self, inputs: Sequence[Stream]) -> Rows:
        yield from itertools.takewhile(lambda out: out.num_rows > 0, super().run(inputs))


class CountsBatchesOfNothing(PassOn):
    """Right as long as there are rows."""

    def run(self, inputs: Sequence[Stream]) -> Rows:
        batches = list(super().run(inputs))
        yield from batches if any(part.num_rows for part in batches) else [batch([len(batches)])]


class DropsTheLastBatch(PassOn):
    """Never hands out what it holds when its input ends."""

    def run(self, inputs: Sequence[Stream]) -> Rows:
        held: pa.RecordBatch | None = None
        for out in super().run(inputs):
            if held is not None:
                yield held
            held = out


class DropsTheTail(PassOn):
    """Collects rows by twos, however they come, and never hands out a last odd one: wrong in the same way always."""

    def run(self, inputs: Sequence[Stream]) -> Rows:
        held: list[int] = []
        for value in values_of(super().run(inputs)):
            held.append(value)
            if len(held) == 2:
                yield batch(held)
                held.clear()


class YieldsAWrongSchema(PassOn):
    schema = pa.schema([("y", pa.int64())])


# --- wrong about several inputs ------------------------------------------------------------------------------------


class ReadsInTurns(Concatenated):
    """A batch of each input in turn: all rows, in an order that depends on how they come."""

    def run(self, inputs: Sequence[Stream]) -> Rows:
        with ExitStack() as stack:
            for stream in inputs:
                stack.callback(stream.close)
            for turn in itertools.zip_longest(*inputs):
                yield from (head for head in turn if head is not None)


class DependsOnWhatCameFirst(Concatenated):
    """The rows of the first input that are not among those of the second *so far*."""

    def run(self, inputs: Sequence[Stream]) -> Rows:
        with closing(inputs[0]), closing(inputs[1]):
            seen: set[int] = set()
            for one, other in itertools.zip_longest(*inputs):
                seen.update(other["x"].to_pylist() if other else ())
                yield batch([value for value in (one["x"].to_pylist() if one else ()) if value not in seen])


class DependsOnTheOrderOfRows(Concatenated):
    """The first row's value on every row."""

    def run(self, inputs: Sequence[Stream]) -> Rows:
        values = list(values_of(super().run(inputs)))
        yield batch(values[:1] * len(values))


# --- wrong about closing -------------------------------------------------------------------------------------------


class LeavesItsInputOpen(PassOn):
    def run(self, inputs: Sequence[Stream]) -> Rows:
        yield from inputs[0]


class IgnoresAnEarlyClose(PassOn):
    def run(self, inputs: Sequence[Stream]) -> Rows:
        for out in inputs[0]:  # noqa: UP028 - `yield from` would pass the close on
            yield out
        inputs[0].close()


class ReadsAnInputAfterItsClose(PassOn):
    def run(self, inputs: Sequence[Stream]) -> Rows:
        yield from super().run(inputs)
        yield from inputs[0]


class SwallowsAnError(PassOn):
    def run(self, inputs: Sequence[Stream]) -> Rows:
        try:
            yield from super().run(inputs)
        except Boom:
            return


class LeavesItsInputOpenAfterAnError(PassOn):
    def run(self, inputs: Sequence[Stream]) -> Rows:
        try:
            yield from inputs[0]
        except Boom:
            raise
        except GeneratorExit:
            inputs[0].close()
            raise
        inputs[0].close()
