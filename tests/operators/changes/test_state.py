"""Arrangements in checkpoints: the same runs come back, and what is of another form is refused by name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidegate.operators.changes.kept.arrangement import Arrangement
from tidegate.operators.changes.kept.packed_words import PackedRun
from tidegate.operators.changes.kept.state_format import VERSION, load_arrangement, save_arrangement
from tidegate.operators.changes.values.change import Change
from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.testing import MemoryState
from tidegate.proto.errors import CheckpointError

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.string())])


def arrangement(*sizes: int) -> Arrangement:
    """One that these many rows were inserted into, one lot after the other."""
    kept = Arrangement(SCHEMA.types, (0,), depth=1)
    for lot, size in enumerate(sizes):
        keys = pa.array([lot * 100_000 + at for at in range(size)], pa.int64())
        texts = pa.array([None if at % 7 == 0 else f"t{at}" for at in range(size)])
        rounds = np.full(size, lot, dtype=np.int64)
        kept.insert(Change(Rows.of_arrays([keys, texts], size), np.ones(size, dtype=np.int64), (rounds,)))
    return kept


def tables(kept: Arrangement) -> list[pa.Table]:
    """Of its runs, as a checkpoint has them."""
    state = MemoryState()
    save_arrangement(state, "rows", kept, SCHEMA)
    return list(state.read_parts("rows")[1])


@pytest.mark.parametrize("sizes", [(), (1,), (20_000, 600, 3)])
def test_the_same_runs_come_back(sizes: tuple[int, ...]) -> None:
    kept, again = arrangement(*sizes), arrangement()
    state = MemoryState()
    save_arrangement(state, "rows", kept, SCHEMA)
    load_arrangement(state, "rows", again, SCHEMA)
    assert len(again.runs) == len(kept.runs) == len(sizes)
    assert tables(again) == tables(kept)


def test_another_version_of_the_format_is_refused() -> None:
    state = MemoryState()
    state.write("rows", VERSION + 1, pa.table({"c0": [1]}))
    with pytest.raises(CheckpointError, match=f"'rows' has format version {VERSION + 1}.* reads version {VERSION}:"):
        load_arrangement(state, "rows", arrangement(), SCHEMA)


def test_columns_of_other_types_are_refused() -> None:
    state = MemoryState()
    save_arrangement(state, "rows", arrangement(3), SCHEMA)
    other = pa.schema([("k", pa.int64()), ("t", pa.binary())])
    with pytest.raises(CheckpointError, match=r"'rows' has columns .*string.* keeps .*binary") as refused:
        load_arrangement(state, "rows", Arrangement(other.types, (0,), depth=1), other)
    assert refused.value.reason == "CHECKPOINT_OTHER_STATE"


NUMBERS = pa.schema([("k", pa.int64()), ("v", pa.int32())])


def numbers(width: int, *sizes: int) -> Arrangement:
    """One whose rows are packed, later lots in a larger layout. With `width` 1 each row has one weight."""
    kept = Arrangement(NUMBERS.types, (0,), depth=0, width=width)
    for lot, size in enumerate(sizes):
        keys = pa.array([(lot + 1) * 1_000 + at for at in range(size)], pa.int64())
        values = pa.array([at * (1 + 50 * lot) for at in range(size)], pa.int32())
        weights = np.arange(1, size * width + 1, dtype=np.int64).reshape(size, width)
        kept.insert_numbers(Rows.of_arrays([keys, values], size), weights[:, 0] if width == 1 else weights, ())
    return kept


def saved(kept: Arrangement) -> MemoryState:
    state = MemoryState()
    save_arrangement(state, "rows", kept, NUMBERS)
    return state


def rows_of(kept: Arrangement, keys: list[int]) -> dict[tuple[int, ...], list[int]]:
    """The rows of these keys with the sums of their weights."""
    entries = kept.find(Rows.of_arrays([pa.array(keys, pa.int64())], len(keys)))
    rows = zip(*(array.to_pylist() for array in entries.rows.to_arrays(NUMBERS.types)), strict=True)
    sums: dict[tuple[int, ...], list[int]] = {}
    for row, weights in zip(rows, entries.weights.reshape(len(entries), -1).tolist(), strict=True):
        sums[row] = [had + more for had, more in zip(sums.get(row, [0] * len(weights)), weights, strict=True)]
    return {row: weights for row, weights in sums.items() if any(weights)}


@pytest.mark.parametrize("width", [1, 3])
def test_packed_runs_come_back_as_they_were_and_take_more_rows(width: int) -> None:
    kept, again = numbers(width, 20_000, 2_000, 300), numbers(width)
    load_arrangement(saved(kept), "rows", again, NUMBERS)
    assert all(isinstance(run, PackedRun) for run in again.runs)
    assert list(saved(again).read_parts("rows")[1]) == list(saved(kept).read_parts("rows")[1])
    more = numbers(width, 400)
    for one in (kept, again):
        for entry in more.runs:
            assert isinstance(entry, PackedRun)
            one.insert_numbers(entry.layout.rows(entry.words), entry.weights.astype(np.int64), ())
    keys = [1_000, 1_001, 1_399, 2_005, 3_299, 21_000, 9]
    assert rows_of(again, keys) == rows_of(kept, keys) != {}


@pytest.mark.parametrize("damage", ["order", "twice", "nothing", "beyond"])
def test_words_that_are_no_run_are_packed_again(damage: str) -> None:
    (table,) = saved(numbers(1, 1_000)).read_parts("rows")[1]
    words, weights = (table.column(name).to_numpy().copy() for name in ("packed", "w0"))
    rows = numbers(1, 1_000)
    match damage:
        case "order":
            words, weights = words[::-1].copy(), weights[::-1].copy()
        case "twice":
            words, weights = np.append(words, words[-1]), np.append(weights, weights[-1])
            last = table.num_rows - 1
            rows.insert_numbers(_row(1_000 + last, last), np.array([1_000]), ())
        case "nothing":
            weights[5] = 0
            rows.insert_numbers(_row(1_005, 5), np.array([-6]), ())
        case "beyond":
            words = np.append(words, -1)
            weights = np.append(weights, 0)
    state = MemoryState()
    state.write_parts(
        "rows",
        VERSION,
        [pa.table([words, weights], ["packed", "w0"])],
        lambda part: part.replace_schema_metadata(table.schema.metadata),
    )
    again = numbers(1)
    load_arrangement(state, "rows", again, NUMBERS)
    keys = [1_000, 1_005, 1_999]
    assert rows_of(again, keys) == rows_of(rows, keys)


def _row(key: int, value: int) -> Rows:
    return Rows.of_arrays([pa.array([key], pa.int64()), pa.array([value], pa.int32())], 1)
