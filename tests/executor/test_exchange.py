"""The exchange: what a consumer reads depends on the producers' streams and on nothing else."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.executor.exchange.exchange_buffers import Answer
from tidegate.executor.exchange.routing import Broadcast, HashRouting, RoundRobinBlocks, Routing, Slices
from tidegate.operators.arrays.ordering import Order, Ordering
from tidegate.operators.core.blocks import BLOCK_ROWS, blocks
from tidegate.operators.core.sizes import batch_bytes
from tidegate.proto.errors import ExecutionError, Exhausted, TaskCancelled

from .exchanging import (
    SCHEMA,
    SECONDS,
    OneExchange,
    block,
    feed,
    hashed,
    in_threads,
    keys_of,
    pulled,
    push_all,
    read,
    stream,
)

KEYS = st.lists(st.integers(-99, 99), min_size=1, max_size=5)
STREAMS = st.lists(st.lists(KEYS, max_size=5), min_size=1, max_size=4)
ROUTINGS = st.one_of(
    st.builds(lambda n: HashRouting(SCHEMA, (0,), n), st.integers(1, 4)),
    *(st.builds(kind, st.integers(1, 4)) for kind in (RoundRobinBlocks, Broadcast)),
)


def expected(streams: list[list[list[int]]], routing: Routing, consumer: int) -> list[tuple[int, int, list[int]]]:
    """(producer, block, keys) of each slice, in order."""
    block_numbers = sorted(
        (number, producer)
        for producer, blocks_of_producer in enumerate(streams)
        for number in range(len(blocks_of_producer))
    )
    return [
        (producer, number, keys_of([routing.slices(block(*streams[producer][number]), producer, number)[consumer]]))
        for number, producer in block_numbers
    ]


@given(STREAMS, ROUTINGS, st.sampled_from([0, 1_000, 1 << 20]), st.data())
def test_a_consumer_reads_every_slice_in_block_and_producer_order_whatever_the_interleaving(
    streams: list[list[list[int]]], routing: Routing, memory_limit: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        setup = OneExchange(Path(folder) / "task", routing, producers=len(streams), memory_limit=memory_limit)
        exchange = setup.exchange
        left = {
            producer: [block(*keys) for keys in blocks_of_producer]
            for producer, blocks_of_producer in enumerate(streams)
        }
        slices_read: list[list[tuple[int, int, list[int]]]] = [[] for _ in range(routing.channels)]
        while left:
            producer = data.draw(st.sampled_from(sorted(left)))
            if left[producer]:
                assert exchange.push(producer, left[producer].pop(0))
            else:
                exchange.end(producer)
                del left[producer]
            for consumer in data.draw(st.sets(st.integers(0, routing.channels - 1))):
                slices_read[consumer] += [(s.producer, s.block, keys_of([s.rows])) for s in pulled(exchange, consumer)]
        for consumer in range(routing.channels):
            slices_read[consumer] += [(s.producer, s.block, keys_of([s.rows])) for s in pulled(exchange, consumer)]
            assert slices_read[consumer] == expected(streams, routing, consumer)
            assert exchange.pull(consumer) is Answer.END
        assert setup.quota.used == 0
        assert setup.files == []


@given(STREAMS, ROUTINGS, st.sampled_from([0, 1_000, 1 << 20]), st.data())
def test_all_parts_of_a_block_come_before_a_block_of_another_producer(
    streams: list[list[list[int]]], routing: Routing, memory_limit: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        setup = OneExchange(Path(folder) / "task", routing, producers=len(streams), memory_limit=memory_limit)
        left = {
            producer: [(key, at == len(keys) - 1) for keys in blocks_of_producer for at, key in enumerate(keys)]
            for producer, blocks_of_producer in enumerate(streams)
        }
        keys_read: list[list[int]] = [[] for _ in range(routing.channels)]
        while left:
            producer = data.draw(st.sampled_from(sorted(left)))
            if left[producer]:
                key, ends = left[producer].pop(0)
                assert setup.exchange.push(producer, block(key), ends=ends)
            else:
                setup.exchange.end(producer)
                del left[producer]
            for consumer in data.draw(st.sets(st.integers(0, routing.channels - 1))):
                keys_read[consumer] += keys_of([part.rows for part in pulled(setup.exchange, consumer)])
        for consumer in range(routing.channels):
            keys_read[consumer] += keys_of([part.rows for part in pulled(setup.exchange, consumer)])
            assert keys_read[consumer] == [key for _, _, keys in expected(streams, routing, consumer) for key in keys]
        assert setup.quota.used == 0


@pytest.mark.parametrize("memory_limit", [0, 20_000, 1 << 30])
def test_threads_read_what_one_thread_reads(tmp_path: Path, memory_limit: int) -> None:
    streams = [[block(*range(at, at + 50)) for at in range(start, start + 2_000, 50)] for start in (0, 5_000, 9_000)]
    alone, together = (OneExchange(tmp_path / name, hashed(3), producers=3, memory_limit=memory_limit) for name in "ab")
    for producer, pushed in enumerate(streams):
        push_all(alone.exchange, producer, pushed)
    keys_read: dict[int, list[int]] = {}

    def consume(consumer: int) -> None:
        with closing(together.exchange.stream(consumer)) as rows:
            keys_read[consumer] = keys_of(rows)

    consumers = [partial(consume, consumer) for consumer in range(3)]
    in_threads(*consumers, *(partial(push_all, together.exchange, p, pushed) for p, pushed in enumerate(streams)))
    assert keys_read == {consumer: read(alone.exchange, consumer) for consumer in range(3)}
    assert together.quota.used == 0


@pytest.mark.parametrize("rows", [7_001, 65_536, 1_000_000])
def test_how_a_producer_cuts_its_batches_does_not_show(tmp_path: Path, rows: int) -> None:
    table = pa.table({"k": range(150_000), "v": ["x"] * 150_000}, schema=SCHEMA)
    setup = OneExchange(tmp_path, hashed(2), producers=2)
    for producer in (0, 1):
        assert len(list(feed(setup.exchange, producer, stream(table.to_batches(max_chunksize=rows))))) == 3
    cut = list(blocks(table.to_batches()))
    assert [block_.num_rows for block_ in cut] == [BLOCK_ROWS, BLOCK_ROWS, 150_000 - 2 * BLOCK_ROWS]
    for consumer in (0, 1):
        slices = [hashed(2).slices(block_, 0, 0)[consumer] for block_ in cut for _ in (0, 1)]
        assert [slice_.rows for slice_ in pulled(setup.exchange, consumer)] == slices


def test_slices_carry_their_producer_epoch_and_block(tmp_path: Path) -> None:
    exchange = OneExchange(tmp_path, Broadcast(1), producers=2).exchange
    push_all(exchange, 0, [block(1), block(2)])
    push_all(exchange, 1, [block(3)])
    assert [(s.producer, s.epoch, s.block) for s in pulled(exchange, 0)] == [(0, 1, 0), (1, 1, 0), (0, 1, 1)]


def test_a_consumer_waits_for_the_producer_whose_turn_it_is(tmp_path: Path) -> None:
    exchange = OneExchange(tmp_path, Broadcast(1), producers=2).exchange
    exchange.push(1, block(1))
    assert exchange.pull(0) is Answer.WAIT
    exchange.end(0)
    assert keys_of(slice_.rows for slice_ in pulled(exchange, 0)) == [1]
    assert exchange.pull(0) is Answer.WAIT


def test_lanes_are_read_each_by_itself(tmp_path: Path) -> None:
    exchange = OneExchange(tmp_path, Broadcast(1), producers=2, memory_limit=0).exchange
    push_all(exchange, 1, [block(3), block(4)])
    push_all(exchange, 0, [block(1), block(2)])
    first, second = exchange.lanes(0)
    assert keys_of([next(second), next(first), next(second), next(first)]) == [3, 1, 4, 2]
    assert (list(first), list(second)) == ([], [])


@pytest.mark.parametrize("memory_limit", [0, 1 << 30])
def test_a_merging_consumer_reads_in_sort_order_and_ties_by_producer(tmp_path: Path, memory_limit: int) -> None:
    exchange = OneExchange(tmp_path, hashed(2), producers=3, memory_limit=memory_limit).exchange
    for producer in (2, 0, 1):
        keys = [key for key in range(100) for _ in range(producer + 1)]
        texts = [f"{producer}" for _ in keys]
        whole = pa.record_batch([pa.array(keys), pa.array(texts)], schema=SCHEMA)
        push_all(exchange, producer, [whole.slice(at, 7) for at in range(0, len(keys), 7)])
    channels = [pa.Table.from_batches(exchange.merged(c, Ordering([Order(column=0)]))) for c in (0, 1)]
    assert sorted(key for channel in channels for key in set(channel["k"].to_pylist())) == list(range(100))
    for channel in channels:
        expected = [(key, text) for key in sorted(set(channel["k"].to_pylist())) for text in "011222"]
        assert list(zip(channel["k"].to_pylist(), channel["v"].to_pylist(), strict=True)) == expected


def test_closing_a_merging_consumer_closes_all_its_lanes(tmp_path: Path) -> None:
    exchange = OneExchange(tmp_path, Broadcast(1), producers=2).exchange
    rows = exchange.merged(0, Ordering([Order(column=0)]))
    rows.close()
    assert not exchange.push(0, block(1))
    assert not exchange.push(1, block(1))


# -------------------------------------------------------------------------------------------------------- spilling


def test_blocks_beyond_the_memory_limit_go_to_disk_and_come_back(tmp_path: Path) -> None:
    setup = OneExchange(tmp_path / "task", hashed(2), producers=1, memory_limit=10_000)
    push_all(setup.exchange, 0, [block(*range(at, at + 100)) for at in range(0, 10_000, 100)])
    statistics = setup.exchange.statistics()
    assert statistics.peak_bytes <= 10_000 < statistics.spilled_bytes
    assert (statistics.blocks, statistics.rows) == (100, 10_000)
    assert sum(path.stat().st_size for path in setup.files) == setup.quota.used > 0
    assert sorted(read(setup.exchange, 0) + read(setup.exchange, 1)) == list(range(10_000))
    assert (setup.quota.used, setup.files) == (0, [])


def test_a_block_for_all_is_kept_once(tmp_path: Path) -> None:
    one, eight = (OneExchange(tmp_path, Broadcast(channels), producers=1) for channels in (1, 8))
    for setup in (one, eight):
        setup.exchange.push(0, block(*range(1_000)))
    assert one.exchange.statistics() == eight.exchange.statistics()


def test_dictionaries_that_differ_from_block_to_block_survive_a_spill(tmp_path: Path) -> None:
    schema = pa.schema([("v", pa.dictionary(pa.int8(), pa.string()))])
    setup = OneExchange(tmp_path, HashRouting(schema, (0,), 2), producers=1, memory_limit=0, schema=schema)
    pushed = [pa.record_batch([pa.array(list(text)).dictionary_encode()], names=["v"]) for text in ("abca", "xyx")]
    push_all(setup.exchange, 0, [block_.cast(schema) for block_ in pushed])
    values = [value for channel in (0, 1) for s in pulled(setup.exchange, channel) for value in s.rows["v"].to_pylist()]
    assert sorted(values) == sorted("abcaxyx")


def test_without_room_in_the_quota_blocks_stay_in_memory(tmp_path: Path) -> None:
    setup = OneExchange(tmp_path, hashed(2), producers=1, memory_limit=1, quota=100)
    push_all(setup.exchange, 0, [block(1, 2), block(3, 4)])
    assert setup.files == []
    assert sorted(read(setup.exchange, 0) + read(setup.exchange, 1)) == [1, 2, 3, 4]
    assert setup.quota.used == 0


def test_beyond_the_allowance_the_producers_readers_get_an_error_that_says_so(tmp_path: Path) -> None:
    setup = OneExchange(tmp_path, hashed(2), producers=1, memory_limit=1, allowance=4_000_000)
    endless = (block(*range(BLOCK_ROWS)) for _ in range(100))
    for _ in feed(setup.exchange, 0, stream(endless)):
        pass
    with pytest.raises(Exhausted, match="moves more than 4,000,000 bytes between its channels") as caught:
        list(pulled(setup.exchange, 0))
    assert caught.value.reason == "SPILL_QUOTA"
    setup.exchange.cancel()
    assert setup.quota.used == 0


def test_what_was_read_meanwhile_counts_against_the_allowance_too(tmp_path: Path) -> None:
    setup = OneExchange(tmp_path, hashed(1), producers=1, allowance=2 * batch_bytes(block(1)))
    for key in (1, 2):
        assert setup.exchange.push(0, block(key))
        assert keys_of(slice_.rows for slice_ in pulled(setup.exchange, 0)) == [key]
    with pytest.raises(Exhausted):
        setup.exchange.push(0, block(3))


def test_rows_that_cannot_be_read_back_are_an_error_for_all_and_never_left_out(tmp_path: Path) -> None:
    setup = OneExchange(tmp_path, Broadcast(2), producers=1, memory_limit=0)
    push_all(setup.exchange, 0, [block(1), block(2)])
    setup.files[0].unlink()
    for consumer in (0, 0, 1):
        with pytest.raises(ExecutionError, match="cannot be read back"):
            setup.exchange.pull(consumer)


def test_a_full_memory_shows(tmp_path: Path) -> None:
    exchange = OneExchange(tmp_path, hashed(1), producers=1, memory_limit=1_000).exchange
    assert not exchange.crowded
    exchange.push(0, block(*range(20)))
    assert not exchange.crowded
    exchange.push(0, block(*range(20)))
    assert (exchange.crowded, exchange.statistics().spilled_bytes > 0) == (True, True)


def test_room_again_is_told_once_the_consumers_have_read(tmp_path: Path) -> None:
    setup = OneExchange(tmp_path, hashed(1), producers=1, memory_limit=1_000)
    for _ in range(2):
        setup.exchange.push(0, block(*range(20)))
    before = setup.changes
    list(pulled(setup.exchange, 0))
    assert not setup.exchange.crowded
    assert setup.changes == before + 1


# ------------------------------------------------------------------------------------------- errors, close, cancel


def test_a_producers_error_comes_after_its_blocks_to_every_consumer(tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield block(*range(BLOCK_ROWS))
        raise ExecutionError("division by zero")

    exchange = OneExchange(tmp_path, hashed(2), producers=2).exchange
    for producer, batches in enumerate([iter([block(*range(BLOCK_ROWS)), block(1)]), failing()]):
        for _ in feed(exchange, producer, stream(batches)):
            pass
    for consumer in (0, 1):
        seen = [(s.producer, s.block) for s in (exchange.pull(consumer) for _ in range(3)) if not isinstance(s, Answer)]
        assert seen == [(0, 0), (1, 0), (0, 1)]
        for _ in range(2):
            with pytest.raises(ExecutionError, match="division by zero"):
                exchange.pull(consumer)


def test_an_error_that_a_consumer_never_reaches_is_not_its_error(tmp_path: Path) -> None:
    exchange = OneExchange(tmp_path, Broadcast(2), producers=1).exchange
    exchange.push(0, block(1))
    exchange.fail(0, ExecutionError("boom"))
    with closing(exchange.stream(0)) as rows:
        assert keys_of([next(rows)]) == [1]
    assert exchange.pull(0) is Answer.END


def test_a_closed_consumer_gets_nothing_more_and_the_others_everything(tmp_path: Path) -> None:
    setup = OneExchange(tmp_path, Broadcast(2), producers=1, memory_limit=0)
    setup.exchange.push(0, block(1))
    setup.exchange.close(0)
    assert setup.exchange.push(0, block(2))
    setup.exchange.end(0)
    assert setup.exchange.pull(0) is Answer.END
    assert read(setup.exchange, 1) == [1, 2]
    assert setup.quota.used == 0


def test_closing_a_side_again_tells_nobody(tmp_path: Path) -> None:
    setup = OneExchange(tmp_path, hashed(2), producers=2)
    setup.exchange.close(0)
    before = setup.changes
    setup.exchange.close(0)
    setup.exchange.close(0, 1)
    assert setup.changes == before
    setup.exchange.close(1, 1)
    assert setup.changes == before + 1


def test_slices_for_closed_consumers_are_not_kept(tmp_path: Path) -> None:
    exchange = OneExchange(tmp_path, hashed(2), producers=1).exchange
    rows = block(*range(10))
    to_first, to_second = (slice_.num_rows for slice_ in hashed(2).slices(rows, 0, 0))
    assert to_first > 0
    exchange.push(0, rows)
    exchange.close(0)
    exchange.push(0, rows)
    assert exchange.statistics().rows == 10 + to_second


def test_a_producers_stream_is_closed_once_nobody_reads_it(tmp_path: Path) -> None:
    setup = OneExchange(tmp_path / "task", hashed(2), producers=1, memory_limit=0)
    rows = stream(block(*range(BLOCK_ROWS)) for _ in range(100))
    feeding = feed(setup.exchange, 0, rows)
    next(feeding)
    setup.exchange.close(0)
    assert setup.exchange.wanted(0)
    before = setup.changes
    setup.exchange.close(1)
    assert (setup.changes, setup.exchange.wanted(0)) == (before + 1, False)
    assert (setup.quota.used, setup.files) == (0, [])
    assert list(feeding) == []
    assert (rows.rows, list(rows)) == (2 * BLOCK_ROWS, [])


@pytest.mark.parametrize("memory_limit", [0, 1 << 30])
def test_a_block_whose_last_reader_closes_while_it_is_routed_is_not_kept(tmp_path: Path, memory_limit: int) -> None:
    class Closing(Broadcast):
        def slices(self, block: pa.RecordBatch, producer: int, number: int) -> Slices:
            setup.exchange.close(0)
            return super().slices(block, producer, number)

    setup = OneExchange(tmp_path / "task", Closing(1), producers=1, memory_limit=memory_limit)
    setup.exchange.push(0, block(1))
    assert (setup.quota.used, setup.files) == (0, [])
    setup.exchange.fail(0, ExecutionError("boom"))
    assert setup.exchange.pull(0) is Answer.END


def test_closing_one_lane_leaves_the_others(tmp_path: Path) -> None:
    exchange = OneExchange(tmp_path, Broadcast(1), producers=2).exchange
    first, second = exchange.lanes(0)
    first.close()
    assert not exchange.push(0, block(1))
    assert exchange.push(1, block(2))
    assert keys_of([next(second)]) == [2]


def test_cancelling_wakes_whoever_waits_and_frees_what_is_held(tmp_path: Path) -> None:
    setup = OneExchange(tmp_path / "task", Broadcast(2), producers=2, memory_limit=0)
    setup.exchange.push(0, block(1))
    waiting = threading.Event()

    def about_to_wait(producer: int) -> bool:
        waiting.set()
        return False

    def consume() -> None:
        rows = setup.exchange.stream(0, about_to_wait)
        assert keys_of([next(rows)]) == [1]
        with pytest.raises(TaskCancelled):
            next(rows)

    def cancel() -> None:
        assert waiting.wait(SECONDS)
        setup.exchange.cancel()

    in_threads(consume, cancel)
    with pytest.raises(TaskCancelled):
        setup.exchange.push(1, block(2))
    assert (setup.quota.used, setup.files) == (0, [])


def test_an_abandoned_producer_is_an_error_not_an_end(tmp_path: Path) -> None:
    exchange = OneExchange(tmp_path, Broadcast(1), producers=1).exchange
    feeding = feed(exchange, 0, stream([block(*range(BLOCK_ROWS)), block(1)]))
    next(feeding)
    feeding.close()
    exchange.pull(0)
    with pytest.raises(ExecutionError, match="interrupted"):
        exchange.pull(0)


@pytest.mark.parametrize(("watermarks", "expected"), [((7, 5), 5), ((7, None), None)])
def test_the_watermark_is_the_least_of_all_producers(
    tmp_path: Path, watermarks: tuple[int | None, ...], expected: int | None
) -> None:
    exchange = OneExchange(tmp_path, Broadcast(1), producers=2).exchange
    for producer, watermark in enumerate(watermarks):
        for _ in feed(exchange, producer, stream([block(1)], watermark)):
            pass
    rows = exchange.stream(0)
    assert keys_of(rows) == [1, 1]
    assert rows.watermark == expected
