"""Ways to store values come off, the values stay."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.proto.arrow.arrow_ipc import read_untrusted_stream, sendable, stream_bytes
from tidegate.proto.arrow.unpack import packed, unpack, unpacked_type
from tidegate.proto.values import InlineSplit

CODES = pa.dictionary(pa.int8(), pa.string())
VIEW = pa.string_view()
RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["x", None]))
WORDS = [["a", "b"], None, [], ["a", None]]

PACKED = [
    pa.array(["a", None], VIEW),
    pa.array([b"\xff", None], pa.binary_view()),
    pa.array(["a", None, "a"]).dictionary_encode(),
    pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int8()), pa.array(["x", None])),
    pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int8()), pa.array([{"a": 1}, None])),
    RUNS,
    pa.ListArray.from_arrays([0, 2, 3], RUNS),
    pa.array(WORDS).cast(pa.list_(CODES)),
    pa.array(WORDS, pa.large_list(VIEW)),
    pa.array(WORDS, pa.list_view(VIEW)),
    pa.array(WORDS, pa.large_list_view(pa.string())),
    pa.array([[[1], [2, 3]], None], pa.list_view(pa.list_view(pa.int32()))),
    pa.array([["a", "b"], None, ["c", None]], pa.list_(VIEW, 2)),
    pa.array([[("a", "b")], None, []], pa.map_(VIEW, VIEW)),
    pa.StructArray.from_arrays([RUNS, pa.array([1, 2, 3])], ["r", "n"], mask=pa.array([False, True, False])),
    pa.nulls(3, pa.list_view(CODES)),
    pa.array([], pa.list_view(pa.int64())),
]


@pytest.mark.parametrize("array", PACKED, ids=lambda array: str(array.type))
def test_an_array_and_its_slices_keep_their_values(array: pa.Array) -> None:
    for start in range(len(array) + 1):
        part = array.slice(start, 2)
        plain = unpack(part)
        plain.validate(full=True)
        assert (plain.to_pylist(), plain.type) == (part.to_pylist(), unpacked_type(array.type))
        assert not packed(plain.type)


def test_items_of_views_may_lie_in_any_order_and_in_several_lists() -> None:
    lists = pa.ListViewArray.from_arrays(
        pa.array([2, 0, 1], pa.int32()), pa.array([1, 2, 2], pa.int32()), pa.array(range(3))
    )
    assert unpack(lists).to_pylist() == [[2], [0, 1], [1, 2]]


def test_what_is_not_packed_is_not_copied() -> None:
    array = pa.array([[{"a": "b"}]])
    assert unpack(array) is array


@pytest.mark.parametrize("array", PACKED, ids=lambda array: str(array.type))
def test_a_server_takes_what_a_client_sends_of_it(array: pa.Array) -> None:
    batch = pa.record_batch({"c": array})
    sent = sendable(InlineSplit(schema=batch.schema, batches=(batch,)))
    _, [read] = read_untrusted_stream(stream_bytes(sent.schema, sent.batches))
    assert read.column(0).to_pylist() == array.to_pylist()


def test_rows_that_take_no_space_are_sent_a_few_at_once() -> None:
    batch = pa.record_batch({"c": pa.nulls(200_000)})
    sent = sendable(InlineSplit(schema=batch.schema, batches=(batch,)))
    _, read = read_untrusted_stream(stream_bytes(sent.schema, sent.batches))
    assert sum(batch.num_rows for batch in read) == 200_000


def test_what_a_server_takes_is_sent_as_it_is() -> None:
    batch = pa.record_batch({"c": pa.array(["a"]).dictionary_encode(), "n": range(1)})
    split = InlineSplit(schema=batch.schema, batches=(batch,))
    assert sendable(split) is split
