"""Routing: all rows once (or everywhere), in order, to where they belong; empty slices included."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.executor.exchange.routing import Broadcast, HashRouting, RoundRobinBlocks
from tidegate.operators.arrays.hashing import channel_of, hash_columns
from tidegate.proto.errors import ExecutionError

KEYS = st.lists(st.tuples(st.none() | st.integers(-5, 5), st.none() | st.text("ab", max_size=2)))


def block_of(keys: list[tuple[int | None, str | None]]) -> pa.RecordBatch:
    columns = {"i": [i for i, _ in keys], "s": [s for _, s in keys], "row": list(range(len(keys)))}
    return pa.record_batch(columns, schema=pa.schema([("i", pa.int64()), ("s", pa.string()), ("row", pa.int64())]))


@given(KEYS, st.integers(1, 9))
def test_hash_routing_sends_each_row_once_in_order_to_its_hashs_channel(
    keys: list[tuple[int | None, str | None]], channels: int
) -> None:
    block = block_of(keys)
    slices = HashRouting(block.schema, (1, 0), channels).slices(block, producer=0, number=0)
    assert len(slices) == channels
    expected = channel_of(hash_columns([block.column(1), block.column(0)]), channels).tolist()
    for channel, slice_ in enumerate(slices):
        assert slice_["row"].to_pylist() == [
            row for row, channel_of_row in enumerate(expected) if channel_of_row == channel
        ]
        assert slice_.to_pylist() == [block.slice(row, 1).to_pylist()[0] for row in slice_["row"].to_pylist()]


def test_rows_keep_their_order_in_a_slice_of_a_whole_block() -> None:
    block = pa.record_batch({"k": [position * 7919 % 1_000 for position in range(65_536)], "row": range(65_536)})
    for slice_ in HashRouting(block.schema, (0,), 5).slices(block, producer=0, number=0):
        rows = slice_["row"].to_pylist()
        assert rows == sorted(rows)


def test_equal_keys_meet_whatever_block_type_and_producer_they_come_from() -> None:
    left = pa.record_batch({"k": pa.array(range(100), pa.int32())})
    right = pa.record_batch({"v": [0.5] * 100, "k": pa.array(range(99, -1, -1), pa.int64())})
    one = HashRouting(left.schema, (0,), 7).slices(left, producer=0, number=0)
    two = HashRouting(right.schema, (1,), 7).slices(right, producer=5, number=9)
    assert [set(slice_["k"].to_pylist()) for slice_ in one] == [set(slice_["k"].to_pylist()) for slice_ in two]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1], None, [], [2, 3]]),
        pa.array([{"a": 1}, None, {"a": None}, {"a": 2}]),
        pa.array([[("a", 1)], None, [], [("b", 2)]], pa.map_(pa.string(), pa.int64())),
        pa.array(["x", None, "y", "x"]).dictionary_encode(),
        pa.array(["x", None, "y", "x"], pa.large_string()),
        pa.array([dt.timedelta(1), None, dt.timedelta(2), dt.timedelta(3)]),
        pa.array([True, None, False, True]),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None, b"1" * 16, b"2" * 16], pa.binary(16))),
        pa.nulls(4),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_of_every_type_are_carried(column: pa.Array) -> None:
    block = pa.record_batch({"k": [1, 2, 3, 4], "v": column})
    slices = HashRouting(block.schema, (0,), 3).slices(block, producer=0, number=0)
    routed = sorted((row for slice_ in slices for row in slice_.to_pylist()), key=lambda row: row["k"])
    assert routed == block.to_pylist()
    assert {slice_.schema for slice_ in slices} == {block.schema}


def test_a_key_that_cannot_be_hashed_is_refused_by_name() -> None:
    schema = pa.schema([("tags", pa.map_(pa.string(), pa.string()))])
    with pytest.raises(ExecutionError, match="'tags' of type map<string, string> cannot be a hash key"):
        HashRouting(schema, (0,), 2)


def test_round_robin_by_blocks_deals_whole_blocks_in_turn() -> None:
    block = pa.record_batch({"x": [1, 2]})
    dealt = [[slice_.num_rows for slice_ in RoundRobinBlocks(3).slices(block, 1, number)] for number in range(4)]
    assert dealt == [[0, 2, 0], [0, 0, 2], [2, 0, 0], [0, 2, 0]]


def test_broadcast_gives_every_channel_the_block_itself() -> None:
    block = pa.record_batch({"x": [1, 2]})
    assert all(slice_ is block for slice_ in Broadcast(3).slices(block, 0, 0))


@pytest.mark.parametrize("routing", [RoundRobinBlocks, Broadcast])
def test_no_channels_are_refused(routing: type[Broadcast]) -> None:
    with pytest.raises(ValueError, match="0 channels"):
        routing(0)
