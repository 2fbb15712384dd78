"""The share of a source that each channel reads."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.executor.pipelines.shares import morsels, shares
from tidegate.operators.core.column import Column
from tidegate.operators.core.piece import FilePiece, FileVersion, InlinePiece, Piece
from tidegate.operators.core.row_reader import reader_of
from tidegate.operators.sources.scan import Scan
from tidegate.operators.sources.split_pieces import expand, open_pieces
from tidegate.proto.values import FileSplit

SCHEMA = pa.schema([("x", pa.int64())])
X = (Column(name="x", type=pa.int64(), nullable=True),)
BLOCK = 65_536


def inline(first: int, rows: int) -> InlinePiece:
    batch = pa.record_batch([pa.array(range(first, first + rows), pa.int64())], schema=SCHEMA)
    return InlinePiece(
        read=reader_of((batch,)), schema=SCHEMA, origin=f"rows from {first}", rows=(0, rows), row_count=rows
    )


def whole(name: str, rows: int) -> FilePiece:
    """A file that cannot be cut."""
    version = FileVersion(size=rows, modified_ns=1)
    return FilePiece(path=name, format="csv", version=version, origin=name, row_count=rows)


def counts(dealt: tuple[tuple[Piece, ...], ...]) -> list[int]:
    return [sum(piece.row_count or 0 for piece in share) for share in dealt]


def values(pieces: tuple[Piece, ...]) -> list[int]:
    scan = Scan("t", X)
    scan.assign("t", pieces)
    return [value for batch in scan.run(()) for value in batch.column(0).to_pylist()]


SIZES = st.lists(st.integers(0, 200), max_size=12)


@given(SIZES, st.integers(1, 9))
def test_shares_are_all_rows_in_order_each_once(sizes: list[int], channels: int) -> None:
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    dealt = shares([inline(start, rows) for start, rows in zip(starts, sizes, strict=True)], channels)
    assert len(dealt) == channels
    assert [value for share in dealt for value in values(share)] == list(range(sum(sizes)))


@given(SIZES, st.integers(1, 9))
def test_pieces_that_cannot_be_cut_are_each_in_one_share(sizes: list[int], channels: int) -> None:
    pieces = [whole(str(at), rows) for at, rows in enumerate(sizes)]
    assert [piece for share in shares(pieces, channels) for piece in share] == pieces


@pytest.mark.parametrize(("rows", "even"), [(1_000, [333, 333, 334]), (9 * BLOCK, [3 * BLOCK] * 3)])
def test_one_large_inline_split_is_shared(rows: int, even: list[int]) -> None:
    assert counts(shares([inline(0, rows)], 3)) == even


def test_a_very_large_inline_split_is_cut_between_blocks() -> None:
    assert counts(shares([inline(0, 10 * BLOCK + 7)], 3)) == [3 * BLOCK, 4 * BLOCK, 3 * BLOCK + 7]


def test_small_inline_splits_stay_whole() -> None:
    pieces = [inline(at, 10) for at in range(0, 1_000, 10)]
    assert [piece for share in shares(pieces, 3) for piece in share] == pieces


def test_files_are_cut_at_row_groups_into_at_most_two_parts_a_channel(tmp_path: Path) -> None:
    for name in "abc":
        pq.write_table(pa.table({"x": range(600_000)}), tmp_path / f"{name}.parquet", row_group_size=100_000)
    pieces = open_pieces(expand(FileSplit(path=str(tmp_path)), [str(tmp_path)], "t"), X)
    dealt = shares(pieces, 4)
    assert counts(dealt) == [400_000, 500_000, 400_000, 500_000]
    assert [piece for share in dealt for piece in share] == list(pieces)


def test_without_rows_the_first_channel_has_all_pieces() -> None:
    assert shares([inline(0, 0), whole("empty", 0)], 2)[1] == ()


def test_hands_join_small_neighbours_and_cut_large_inline_splits() -> None:
    pieces = [inline(0, 60_000), inline(60_000, 40_000), inline(100_000, 1), inline(100_001, 150_000)]
    assert counts(tuple(morsels(pieces, 2))) == [100_000, 65_537, 84_464]


def test_hands_grow_with_what_there_is_to_deal() -> None:
    pieces = [whole(str(at), 100_000) for at in range(40)]
    assert counts(tuple(morsels(pieces, 2))) == [500_000] * 8
    assert counts(tuple(morsels(pieces * 5, 2))) == [1_000_000] * 20


@given(SIZES)
def test_hands_are_all_rows_in_order(sizes: list[int]) -> None:
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    dealt = morsels([inline(start, rows) for start, rows in zip(starts, sizes, strict=True)], 3)
    assert [value for morsel in dealt for value in values(morsel)] == list(range(sum(sizes)))


@pytest.mark.parametrize(("channels", "batch_rows"), [(2, 100_001), (3, 7_000), (8, 600_000)])
def test_inline_rows_are_shared_out_alike_in_memory_and_in_a_file(
    channels: int, batch_rows: int, tmp_path: Path
) -> None:
    """Rows that were too many for a message travel as a file, whose batches are the sender's."""
    piece = inline(0, 600_000)
    with pa.ipc.new_stream(tmp_path / "rows", SCHEMA) as writer:
        writer.write_table(pa.Table.from_batches(piece.batches()), max_chunksize=batch_rows)
    pieces = expand(FileSplit(str(tmp_path / "rows"), format="inline"), [str(tmp_path)], "split 1")
    for share_out in shares, lambda pieces, channels: tuple(morsels(pieces, channels)):
        expected = [values(share) for share in share_out([piece], channels)]
        assert [values(share) for share in share_out(open_pieces(pieces), channels)] == expected
