"""Rows of a consumer of an exchange depend on its producers' streams alone: not on their batches, nor on who ran
when. An exchange in one process is put through an operator's checks, its producers as inputs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.executor.exchange.routing import Broadcast, HashRouting, RoundRobinBlocks, Routing
from tidegate.operators.arrays.digest import digest
from tidegate.operators.arrays.ordering import Order, Ordering
from tidegate.operators.core.blocks import BLOCK_ROWS
from tidegate.operators.core.operator import Operator, Stream
from tidegate.operators.core.streams import BatchStream
from tidegate.testing import check_operator

from ..searching import tries
from .exchanging import PLENTY, SCHEMA, OneExchange, feed

ROUTINGS: dict[str, Routing] = {
    "hash": HashRouting(SCHEMA, (0,), 3),
    "broadcast": Broadcast(2),
    "round robin of blocks": RoundRobinBlocks(3),
    "gather": Broadcast(1),
}
BY_KEY = Ordering([Order(column=0)])


class Exchanged(Operator):
    """All rows of all consumers, one consumer after the other. `turn` says whose producer runs next."""

    schema = SCHEMA

    def __init__(
        self,
        folder: Path,
        routing: Routing,
        *,
        order: Ordering | None = None,
        memory_limit: int = PLENTY,
        turn: Callable[[int], int] = lambda running: 0,
    ) -> None:
        self._folder = folder
        self._routing = routing
        self._order = order
        self._memory_limit = memory_limit
        self._turn = turn

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        exchange = OneExchange(
            self._folder, self._routing, producers=len(inputs), memory_limit=self._memory_limit
        ).exchange
        with ExitStack() as stack:
            stack.callback(exchange.cancel)
            for stream in inputs:
                stack.callback(stream.close)
            running = [feed(exchange, number, stream) for number, stream in enumerate(inputs)]
            while running:
                producer = running[self._turn(len(running))]
                if next(producer, self) is self:
                    running.remove(producer)
            for consumer in range(exchange.consumers):
                stream = exchange.stream(consumer) if self._order is None else exchange.merged(consumer, self._order)
                yield from stream


def rows(*keys: int) -> pa.Table:
    return pa.table([pa.array(keys, pa.int64()), pa.array([f"row {key}" for key in keys])], schema=SCHEMA)


EPOCHS = [[rows(5, 1, 1, 8), rows(1, 2, 9), rows(4)], [rows(), rows(7, 7), rows(3)]]
SORTED = [[table.sort_by("k") for table in epoch] for epoch in EPOCHS]


@pytest.mark.parametrize("routing", ROUTINGS)
def test_an_exchange_is_like_an_operator(routing: str, tmp_path: Path) -> None:
    check_operator(lambda: Exchanged(tmp_path, ROUTINGS[routing]), EPOCHS)


@pytest.mark.parametrize("routing", ["hash", "gather"])
def test_so_is_one_that_merges(routing: str, tmp_path: Path) -> None:
    check_operator(lambda: Exchanged(tmp_path, ROUTINGS[routing], order=BY_KEY), SORTED)


def long(seed: int, count: int) -> pa.Table:
    chooser = random.Random(seed)
    return rows(*sorted(chooser.randrange(1_000) for _ in range(count)))


@cache
def long_tables() -> tuple[pa.Table, ...]:
    """Made by the first test that asks: every process of a run imports this file, and one has its tests."""
    return long(1, 2 * BLOCK_ROWS + 5), long(2, BLOCK_ROWS - 1), long(3, 0), long(4, 3 * BLOCK_ROWS)


@settings(max_examples=tries(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(sorted(ROUTINGS)),
    st.sampled_from([None, BY_KEY]),
    st.sampled_from([PLENTY, 3_000_000]),
    st.lists(st.integers(5_000, 100_000), min_size=4, max_size=4),
    st.randoms(use_true_random=False),
)
def test_producers_may_run_in_any_order_on_any_batches(
    tmp_path: Path,
    routing: str,
    order: Ordering | None,
    memory_limit: int,
    sizes: list[int],
    chooser: random.Random,
) -> None:
    def answer(cut: Sequence[int], turn: Callable[[int], int], memory_limit: int) -> str:
        operator = Exchanged(tmp_path, ROUTINGS[routing], order=order, memory_limit=memory_limit, turn=turn)
        streams = [
            BatchStream(SCHEMA, table.to_batches(max_chunksize=size))
            for table, size in zip(long_tables(), cut, strict=True)
        ]
        return digest(SCHEMA, operator.run(streams))

    alone = answer([PLENTY] * 4, lambda running: 0, PLENTY)
    assert answer(sizes, chooser.randrange, memory_limit) == alone
    assert answer(sizes[::-1], lambda running: running - 1, memory_limit) == alone
