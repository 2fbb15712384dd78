"""Exchanges wired into plans' shapes: whoever reads first, nobody waits for ever, and the rows are the same."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.executor.exchange.exchange import Exchange, Meanwhile
from tidegate.executor.exchange.exchange_buffers import Answer
from tidegate.executor.exchange.routing import Broadcast

from .exchanging import SECONDS, OneExchange, block, feed, hashed, in_threads, keys_of, pulled, push_all, read, stream

LIMITS = pytest.mark.parametrize("memory_limit", [0, 100_000])
ROWS = 20_000


def one_row_batches() -> Iterator[pa.RecordBatch]:
    whole = block(*range(ROWS))
    return (whole.slice(row, 1) for row in range(ROWS))


def fed(setup: OneExchange, producer: int, batches: Iterator[pa.RecordBatch]) -> Exchange:
    for _ in feed(setup.exchange, producer, stream(batches)):
        pass
    return setup.exchange


@LIMITS
def test_twenty_thousand_rows_behind_a_stalled_consumer_do_not_hold_the_other_up(
    tmp_path: Path, memory_limit: int
) -> None:
    setup = OneExchange(tmp_path / "task", Broadcast(2), producers=1, memory_limit=memory_limit)
    for row in range(0, ROWS, 100):
        setup.exchange.push(0, block(*range(row, row + 100)))
        assert keys_of(slice_.rows for slice_ in pulled(setup.exchange, 0)) == list(range(row, row + 100))
    setup.exchange.end(0)
    assert setup.exchange.statistics().peak_bytes <= memory_limit
    assert read(setup.exchange, 1) == list(range(ROWS))
    assert (setup.quota.used, setup.files) == (0, [])


@LIMITS
def test_a_self_join_reads_one_side_whole_before_the_other(tmp_path: Path, memory_limit: int) -> None:
    exchange = fed(OneExchange(tmp_path, Broadcast(2), producers=1, memory_limit=memory_limit), 0, one_row_batches())
    with closing(exchange.stream(0)) as build, closing(exchange.stream(1)) as probe:
        keys = set(keys_of(build))
        assert sum(key in keys for key in keys_of(probe)) == ROWS


@LIMITS
def test_a_diamonds_arms_run_one_after_the_other(tmp_path: Path, memory_limit: int) -> None:
    top = fed(OneExchange(tmp_path / "top", Broadcast(2), producers=1, memory_limit=memory_limit), 0, one_row_batches())
    bottom = OneExchange(tmp_path / "bottom", hashed(3), producers=2, memory_limit=memory_limit)
    for arm in (1, 0):
        fed(bottom, arm, iter(top.stream(arm)))
    key_lists = [read(bottom.exchange, consumer) for consumer in range(3)]
    assert sorted(key for keys in key_lists for key in keys) == sorted([*range(ROWS), *range(ROWS)])


@LIMITS
def test_three_deep_runs_on_one_thread_that_lends_itself_to_what_it_waits_for(
    tmp_path: Path, memory_limit: int
) -> None:
    channels, deep = 2, 3
    batches = [[block(*range(at, at + 100)) for at in range(start, 4_000, 200)] for start in (0, 100)]
    levels = [
        OneExchange(tmp_path / str(level), hashed(channels), producers=channels, memory_limit=memory_limit).exchange
        for level in range(deep)
    ]
    feeding: list[list[Iterator[None]]] = []
    for level, exchange in enumerate(levels):
        steps: list[Iterator[None]] = []
        for producer in range(channels):
            rows = levels[level - 1].stream(producer, lend(feeding[level - 1])) if level else iter(batches[producer])
            steps.append(feed(exchange, producer, stream(rows)))
        feeding.append(steps)
    key_lists = [keys_of(levels[-1].stream(consumer, lend(feeding[-1]))) for consumer in range(channels)]
    assert sorted(key for keys in key_lists for key in keys) == list(range(4_000))


def lend(steps: list[Iterator[None]]) -> Meanwhile:
    """Step the first producer that has not ended."""

    def meanwhile(producer: int) -> bool:
        while steps:
            if next(steps[0], "ended") is None:
                return True
            del steps[0]
        return False

    return meanwhile


def test_a_waiting_consumer_looks_again_when_there_is_new_work_to_lend_itself_to(tmp_path: Path) -> None:
    exchange = OneExchange(tmp_path, Broadcast(1), producers=1).exchange
    asked, queued = threading.Event(), threading.Event()

    def meanwhile(producer: int) -> bool:
        if not queued.is_set():
            asked.set()
            return False
        push_all(exchange, 0, [block(1)])
        return True

    def queue() -> None:
        assert asked.wait(SECONDS)
        queued.set()
        exchange.wake()

    def consume() -> None:
        assert keys_of(exchange.stream(0, meanwhile)) == [1]

    in_threads(consume, queue)
    assert exchange.pull(0) is Answer.END


@LIMITS
def test_a_join_that_stops_early_frees_what_was_kept_for_it(tmp_path: Path, memory_limit: int) -> None:
    setup = OneExchange(tmp_path / "task", hashed(2), producers=1, memory_limit=memory_limit)
    for at in range(0, ROWS, 100):
        setup.exchange.push(0, block(*range(at, at + 100)))
    for consumer in (0, 1):
        with closing(setup.exchange.stream(consumer)) as rows:
            next(rows)
    assert not setup.exchange.push(0, block(1))
    assert (setup.quota.used, setup.files) == (0, [])
