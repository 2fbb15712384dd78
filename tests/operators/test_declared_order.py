"""A scan of a source whose order the plan declares."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from tidegate.operators.arrays.ordering import Order
from tidegate.operators.core.piece import InlinePiece
from tidegate.operators.core.row_reader import reader_of
from tidegate.operators.sources.scan import Scan
from tidegate.proto.errors import SplitError

from .data import column

COLUMNS = (column("k", pa.int64()), column("s", pa.string()))
BY_BOTH = [Order(column=0, descending=True, nulls_first=True), Order(column=1)]


def piece(origin: str, *batches: Sequence[tuple[int | None, str | None]]) -> InlinePiece:
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    record_batches = tuple(
        pa.record_batch([list(column) for column in zip(*rows, strict=True)], schema=schema) for rows in batches
    )
    count = sum(map(len, batches))
    return InlinePiece(read=reader_of(record_batches), schema=schema, origin=origin, rows=(0, count), row_count=count)


def scanned(*pieces: InlinePiece, order: Sequence[Order] = BY_BOTH) -> int:
    scan = Scan("t", COLUMNS, order=order)
    scan.assign("t", pieces)
    return sum(batch.num_rows for batch in scan.run(()))


def test_rows_in_order_pass_wherever_splits_and_batches_end() -> None:
    first = piece("split 1", [(None, "a"), (9, "x")], [(9, "x"), (9, None)])
    assert scanned(first, piece("split 2", [(8, "a")], [(8, "b"), (1, "a")])) == 7


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([[(1, "a"), (2, "a")]], "row 1 (k=2, s='a') comes after row 0 (k=1, s='a')"),
        ([[(1, "a")], [(1, "b")], [(1, "a")]], "row 2 (k=1, s='a') comes after row 1 (k=1, s='b')"),
        ([[(1, "a"), (None, "a")]], "row 1 (k=None, s='a') comes after row 0 (k=1, s='a')"),
    ],
    ids=["within a batch", "from batch to batch", "nulls come first"],
)
def test_a_row_out_of_order_is_named(batches: list[list[tuple[int | None, str | None]]], message: str) -> None:
    with pytest.raises(SplitError) as error:
        scanned(piece("source 't', split 3", *batches))
    assert error.value.reason == "INPUT_NOT_SORTED"
    assert error.value.message.startswith("source 't', split 3: source 't' is declared to be sorted by 'k' descending")
    assert message in error.value.message


def test_the_other_split_is_named_too() -> None:
    with pytest.raises(SplitError, match=r"^split 2: .* row 0 .* comes after row 1 of split 1 "):
        scanned(piece("split 1", [(2, "a"), (1, "a")]), piece("split 2", [(2, "a")]))


def test_every_run_begins_anew() -> None:
    scan = Scan("t", COLUMNS, order=BY_BOTH)
    for key in (1, 2):
        scan.assign("t", [piece("split", [(key, "a")])])
        assert [batch.num_rows for batch in scan.run(())] == [1]


def test_what_is_not_read_is_not_checked() -> None:
    scan = Scan("t", COLUMNS, order=BY_BOTH)
    scan.assign("t", [piece("split", [(1, "a")], [(2, "a")])])
    rows = scan.run(())
    assert next(rows).num_rows == 1
    rows.close()  # type: ignore[attr-defined]
