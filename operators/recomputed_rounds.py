"""Rounds of a loop whose body is one statement, which each round runs over all rows that came back.

They are for loops in which every round changes about every row, so that work on changes would cost more. The statement
reads the rows that came back in canonical order, and each input in the input's order, each whole, so that sums of
floats are the same in every run. Memory: the rows of the inputs, of a round and of the round before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from time import monotonic, perf_counter, time
from typing import Final

import numpy as np
import pyarrow as pa

from ..proto.errors import ExecutionError
from .changes.network.network_graph import Limits
from .changes.network.network_statistics import LoopStatistics, NetworkStatistics
from .changes.network.rounds_and_limits import RoundCounts
from .changes.values.evaluator import PLANNED_ROWS, Evaluators
from .changes.values.order_codes import canonical_orders, order_of
from .changes.values.rows import Rows
from .core.batches import joined
from .core.blocks import BLOCK_ROWS
from .core.operator import Stream
from .core.sizes import BATCH_BYTES, rows_within
from .duckdb.loop_resources import keeps_too_much

BACK: Final = -1
"""The number, in place of an input's, for the rows that came back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputedBody:
    """The body of a loop. `sql` reads relations in0, in1, ..., which `reads` names: inputs by their numbers,
    or `BACK`. The rows of the input `entering`, if there is one, are added to the statement's rows in every round.
    After as many rounds as `limits` say, the loop gives the rows that it has.
    """

    name: str
    sql: str
    reads: tuple[int, ...]
    entering: int | None
    limits: Limits
    plan_path: str


class RecomputedRounds:
    """The rounds. `inputs` are the inputs' columns, each with the rows it is planned for. The kept rows may take
    `memory` bytes.
    """

    def __init__(
        self,
        schema: pa.Schema,
        body: RecomputedBody,
        inputs: Sequence[tuple[pa.Schema, int]],
        evaluators: Evaluators,
        check: Callable[[], None],
        *,
        memory: int,
    ) -> None:
        self._schema = schema
        self._body = body
        read = [(schema, PLANNED_ROWS) if at == BACK else inputs[at] for at in body.reads]
        self._check = check
        self._evaluate = evaluators.of(
            body.sql, [read_schema for read_schema, _ in read], schema, body.plan_path, rows=[rows for _, rows in read]
        )
        self._memory = memory
        self._counts = RoundCounts()
        self._seconds = 0.0
        self._open_seconds = 0.0
        self._pressed_seconds = 0.0
        self._healthy = True
        self._begun = 0.0

    def statistics(self) -> NetworkStatistics:
        """The statistics of the loop. All rows of a round count as changed, and the loop needs no prepares."""
        loop = LoopStatistics(
            path="",
            name=self._body.name,
            plan_path=self._body.plan_path,
            rounds=self._counts.rounds,
            rows=self._counts.rows,
            most_rows_a_round=self._counts.most_rows,
            last_rows=tuple(self._counts.last_rows),
            prepares_sent=0,
            prepares_resent=0,
            quiesce_seconds=self._seconds,
            busy=min(self._seconds / self._open_seconds, 1.0) if self._open_seconds else 0.0,
            backpressure=min(self._pressed_seconds / self._open_seconds, 1.0) if self._open_seconds else 0.0,
            health=float(self._healthy),
            begun=self._begun,
        )
        return NetworkStatistics(operators=(), loops=(loop,))

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        self._begun, opened = time(), perf_counter()
        held = [self._whole(stream) for stream in inputs]
        started = perf_counter()
        self._healthy = False
        try:
            rows = self._last(held)
            self._healthy = True
        finally:
            ended = perf_counter()
            self._seconds += ended - started
            self._open_seconds += ended - opened
        step = rows_within(BATCH_BYTES, rows.nbytes // max(len(rows), 1), BLOCK_ROWS)
        for start in range(0, len(rows), step):
            part = rows.take(np.arange(start, min(start + step, len(rows))))
            handed_out = perf_counter()
            yield part.to_batch(self._schema)
            self._pressed_seconds += perf_counter() - handed_out
            self._open_seconds += perf_counter() - handed_out

    def _whole(self, stream: Stream) -> pa.RecordBatch:
        """All rows of an input, in one batch."""
        batches = []
        for batch in stream:
            self._check()
            batches.append(batch)
        return joined(batches, stream.schema)

    def _last(self, held: Sequence[pa.RecordBatch]) -> Rows:
        """X of the last round, or of the round that no longer changed X."""
        limits = self._body.limits
        deadline = None if limits.seconds is None else monotonic() + limits.seconds
        size = sum(rows.nbytes for rows in held)
        rows = Rows.empty(self._schema.types)
        for number in count(1) if limits.rounds is None else range(1, limits.rounds + 1):
            self._check()
            before, rows = rows, self._next(rows, held)
            self._counts.add(len(rows))
            self._check_limits(number, rows, size + before.nbytes + rows.nbytes, deadline)
            if len(rows) == len(before) and _same(rows, before):
                break
        return rows

    def _next(self, rows: Rows, held: Sequence[pa.RecordBatch]) -> Rows:
        back = rows.to_batch(self._schema)
        following = Rows.of_batch(self._evaluate(*(back if at == BACK else held[at] for at in self._body.reads)))
        if self._body.entering is not None:
            following = Rows.concat([following, Rows.of_batch(held[self._body.entering])])
        return following.take(order_of(following, canonical_orders(len(self._schema))))

    def _check_limits(self, number: int, rows: Rows, size: int, deadline: float | None) -> None:
        body, limits = self._body, self._body.limits
        if limits.rows is not None and len(rows) > limits.rows:
            raise ExecutionError(
                f"loop {body.name!r} has {len(rows)} rows after round {number}; at most {limits.rows} are allowed: "
                "raise loop_rows, or change the loop so that it ends",
                reason="LOOP_ROWS",
            )
        if deadline is not None and monotonic() > deadline:
            raise ExecutionError(
                f"loop {body.name!r} has not ended after {limits.seconds} seconds: round {number} has {len(rows)} rows"
                "; raise loop_seconds, or change the loop so that it ends",
                reason="LOOP_SECONDS",
            )
        if size > self._memory:
            raise keeps_too_much(repr(body.name), size, self._memory)


def _same(rows: Rows, others: Rows) -> bool:
    """True where both rows, each in canonical order, are the same."""
    every = np.arange(len(rows))
    return bool(rows.same(every, others, every).all())
