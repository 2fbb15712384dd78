"""Loop: a loop that goes round by round in every epoch.

`Rounds` is the way of its rounds: over the changes of the round before (`ChangingRounds`), or over all rows that came
back (`recomputed_rounds`). Order: canonical (all columns left to right ascending, nulls last). Nulls: a null is equal
to another one. Empty input: the body's answer to no rows. Memory: its `Rounds` says. Barrier: nothing is kept. Its
inputs are read to their end; closing the output closes them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from .changes.network.network import Network
from .changes.network.network_statistics import NetworkStatistics
from .changes.network.schedule import InOrder, Watched
from .changes.values.change import Change
from .changes.values.epoch_result import EpochResult
from .changes.values.evaluator import Evaluators
from .core.blocks import BLOCK_ROWS
from .core.operator import Operator, Stream
from .core.sizes import BATCH_BYTES, rows_within
from .duckdb.loop_resources import keeps_too_much


class Rounds(Protocol):
    """The rounds of a loop."""

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        """Go round over the rows of an epoch's inputs, and yield the loop's rows. The loop closes the inputs."""
        ...

    def statistics(self) -> NetworkStatistics:
        """The statistics of this loop and of the loops inside it, and of the operators in their bodies."""
        ...


MakeRounds: TypeAlias = Callable[[Callable[[], None]], Rounds]
"""Makes rounds. They call the argument often: it raises if they are to stop."""


class Loop(Operator):
    """The operator. The statements of its rounds are those of `evaluators`."""

    def __init__(self, schema: pa.Schema, make: MakeRounds, evaluators: Evaluators) -> None:
        self.schema = schema
        self._rounds = make(self._stop_if_interrupted)
        self._evaluators = evaluators

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        self._interrupted = False
        return self._run(inputs)

    def interrupt(self) -> None:
        super().interrupt()
        self._evaluators.interrupt()

    @property
    def plans(self) -> int:
        return self._evaluators.plans

    def statistics(self) -> NetworkStatistics:
        """The statistics of this loop and of the loops inside it, and of the operators in their bodies."""
        return self._rounds.statistics()

    def close(self) -> None:
        self._evaluators.close()

    def _run(self, inputs: Sequence[Stream]) -> Generator[pa.RecordBatch]:
        with ExitStack() as stack:
            for stream in inputs:
                stack.callback(stream.close)
            yield from self._rounds.run(inputs)


class ChangingRounds:
    """Rounds over the changes of the round before.

    `make` returns a network whose entries are the inputs, by their positions, and whose result is the loop's rows, of
    this schema. The kept rows may take `memory` bytes: those that have come back, those of the inputs that the body
    joins with, and each different row that the body has seen.
    """

    def __init__(
        self, schema: pa.Schema, make: Callable[[InOrder], Network], check: Callable[[], None], *, memory: int
    ) -> None:
        self._schema = schema
        self._network = make(Watched(check, self._check_memory, self._has_room, self._refuse))
        self._memory = memory
        self._used = False

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        if self._used:
            self._network.reset()
        self._used = True
        for port, stream in enumerate(inputs):
            self._feed(port, stream)
        if not inputs:
            self._network.end()
        self._network.run()
        yield from self._rows(self._network.result())

    def statistics(self) -> NetworkStatistics:
        return self._network.statistics()

    def _feed(self, port: int, stream: Stream) -> None:
        """Feed a stream's batches to the channels in turn. The readers of a row route it to the channel it belongs
        to.
        """
        for number, batch in enumerate(stream):
            self._network.feed(port, number % self._network.channels, Change.of_batch(batch))
            self._network.run()
        self._network.end(port, watermark=stream.watermark)

    def _rows(self, result: EpochResult) -> Generator[pa.RecordBatch]:
        """Each row with all its copies, some megabytes at a time: few rows may have many copies."""
        ends = result.weights.cumsum()
        total = int(ends[-1]) if len(ends) else 0
        step = rows_within(BATCH_BYTES, result.row_bytes, BLOCK_ROWS)
        for start in range(0, total, step):
            stop = min(start + step, total)
            first, last = ends.searchsorted([start, stop - 1], side="right")
            copies = np.diff(np.minimum(ends[first : last + 1], stop), prepend=start)
            part = result.taken(np.arange(first, last + 1).repeat(copies))
            yield part.to_batch(self._schema)

    def _has_room(self, size: int) -> bool:
        """True where so many bytes fit beside the kept rows, which may take as many while they are moved."""
        return self._network.nbytes + size <= 2 * self._memory

    def _check_memory(self) -> None:
        if self._network.nbytes > self._memory:
            self._refuse(0)

    def _refuse(self, more: int) -> None:
        names = ", ".join(repr(loop.name) for loop in self.statistics().loops)
        raise keeps_too_much(names, self._network.nbytes + more, self._memory)
