"""The stream in which the rows of a split are kept: it is that of the rows, however they came."""

from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.executor.ledger.split_digest import RowsStream
from tidegate.proto.values import InlineSplit

COLUMNS = {
    "n": pa.array([1, None, 3, 4, 5, 6]),
    "text": pa.array(["a", "bc", None, "", "d", "e"]),
    "word": pa.array(["x", "y", None, "x", "z", "y"]).dictionary_encode(),
    "words": pa.array([["x"], [], None, ["y", "x"], ["x"], []], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    "pair": pa.array([{"a": 1}, None, {"a": 2}, {"a": None}, {"a": 3}, {"a": 4}]),
}


def stream(batches: list[pa.RecordBatch]) -> RowsStream:
    return RowsStream(InlineSplit(schema=batches[0].schema, batches=tuple(batches)))


@given(
    names=st.lists(st.sampled_from([name for name in COLUMNS if name != "words"]), min_size=1, unique=True),
    start=st.integers(0, 4),
    cuts=st.lists(st.integers(0, 6), max_size=3),
)
def test_a_stream_does_not_depend_on_how_its_rows_are_cut_into_batches(
    names: list[str], start: int, cuts: list[int]
) -> None:
    whole = pa.record_batch({name: COLUMNS[name] for name in names}).slice(start)
    rows = whole.num_rows
    ends = sorted(min(cut, rows) for cut in [0, *cuts, rows])
    several = [whole.slice(first, end - first) for first, end in itertools.pairwise(ends)]
    one, cut = stream([whole]), stream(several)
    assert one.buffer() == cut.buffer()
    assert one.size == cut.size == one.buffer().size
    assert pa.ipc.open_stream(one.buffer()).read_all() == pa.Table.from_batches([whole])


def test_rows_of_every_kind_come_back_from_their_stream() -> None:
    whole = pa.record_batch(COLUMNS)
    assert pa.ipc.open_stream(stream([whole]).buffer()).read_all() == pa.Table.from_batches([whole])
