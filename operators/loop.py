"""Loop: a loop that goes round by round, over the changes of the round before.

Order: canonical (all columns left to right ascending, nulls last), whatever order its inputs come in. Nulls: a null is
equal to another one. Empty input: the body's answer to no rows. Memory: the rows that have come back, those of the
inputs that the body joins with, and each different row that it has seen. Barrier: nothing is kept. Its inputs are read
to their end; closing the output closes them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack

import numpy as np
import pyarrow as pa

from ..proto.errors import ExecutionError
from .changes.network.network import Network
from .changes.network.network_statistics import LoopStatistics, OperatorStatistics
from .changes.network.schedule import InOrder, Watched
from .changes.values.change import Change
from .changes.values.evaluator import Evaluators
from .core.blocks import BLOCK_ROWS
from .core.operator import Operator, Stream
from .duckdb.loop_bounds import keeps_too_much


class Loop(Operator):
    """The operator. `make` returns a network whose entries are the inputs, by their positions, and whose result is the
    loop's rows. The statements of the network's operators are those of `evaluators`. The kept rows may take `memory`
    bytes.
    """

    def __init__(
        self, schema: pa.Schema, make: Callable[[InOrder], Network], evaluators: Evaluators, *, memory: int
    ) -> None:
        self.schema = schema
        self._interrupted = threading.Event()
        self._network = make(Watched(self._check, self._weigh))
        self._memory = memory
        self._evaluators = evaluators
        self._used = False

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        self._interrupted.clear()
        return self._run(inputs)

    def interrupt(self) -> None:
        self._interrupted.set()
        self._evaluators.interrupt()

    @property
    def plans(self) -> int:
        """The number of times that DuckDB has planned a statement."""
        return self._evaluators.plans

    @property
    def loops(self) -> tuple[LoopStatistics, ...]:
        """The statistics of this loop, and of the loops inside it."""
        return self._network.statistics().loops

    @property
    def body(self) -> tuple[OperatorStatistics, ...]:
        """The statistics of the operators of the loop's body, and of the bodies inside it."""
        return self._network.statistics().operators

    def close(self) -> None:
        self._evaluators.close()

    def _run(self, inputs: Sequence[Stream]) -> Generator[pa.RecordBatch]:
        if self._used:
            self._network.reset()
        self._used = True
        with ExitStack() as stack:
            for stream in inputs:
                stack.callback(stream.close)
            for port, stream in enumerate(inputs):
                self._feed(port, stream)
        if not inputs:
            self._network.end()
        self._network.run()
        yield from self._rows(self._network.take())

    def _feed(self, port: int, stream: Stream) -> None:
        """Feed a stream's batches to the channels in turn. The readers of a row route it to the channel it belongs
        to.
        """
        for number, batch in enumerate(stream):
            self._network.feed(port, number % self._network.channels, Change.of_batch(batch))
            self._network.run()
        self._network.end(port, watermark=stream.watermark)

    def _rows(self, change: Change) -> Generator[pa.RecordBatch]:
        """Each row with all its copies, a block at a time: few rows may have many copies."""
        ends = change.weights.cumsum()
        total = int(ends[-1]) if len(ends) else 0
        for start in range(0, total, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, total)
            first, last = ends.searchsorted([start, stop - 1], side="right")
            copies = np.diff(np.minimum(ends[first : last + 1], stop), prepend=start)
            part = change.rows.take(np.arange(first, last + 1).repeat(copies))
            yield part.to_batch(self.schema)

    def _check(self) -> None:
        if self._interrupted.is_set():
            raise ExecutionError("interrupted", reason="INTERRUPTED")

    def _weigh(self) -> None:
        size = self._network.nbytes
        if size > self._memory:
            names = ", ".join(repr(loop.name) for loop in self.loops)
            raise keeps_too_much(names, size, self._memory)
