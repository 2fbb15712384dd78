"""Arrangements in checkpoints: the same runs come back, and what is of another form is refused by name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidegate.operators.changes.kept.arrangement import Arrangement
from tidegate.operators.changes.kept.packed_words import PackedRun
from tidegate.operators.changes.kept.state_format import VERSION, load_arrangement, save_arrangement
from tidegate.operators.changes.values.change import Change
from tidegate.operators.changes.values.consolidate import Entries, is_consolidated
from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.changes.values.value_columns import FixedColumn
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


WORDS = pa.schema([("h", pa.int64())])


def spread(*sizes: int) -> Arrangement:
    """One with so many rows in each lot that lie too far apart to be packed."""
    kept = Arrangement(WORDS.types, (0,), depth=0)
    for lot, size in enumerate(sizes):
        values = np.random.default_rng(lot).integers(-(1 << 63), (1 << 63) - 1, size)
        kept.insert_numbers(Rows.of_arrays([pa.array(values)], size), np.ones(size, dtype=np.int64), ())
    return kept


def test_rows_that_were_not_packed_come_back_as_the_runs_that_they_were_and_none_is_moved() -> None:
    state, again = MemoryState(), spread()
    save_arrangement(state, "rows", spread(20_000, 2_000), WORDS)
    load_arrangement(state, "rows", again, WORDS)
    parts = state.read_parts("rows")[1]
    assert [len(run) for run in again.runs] == [20_000, 2_000]
    for run, part in zip(again.runs, parts, strict=True):
        assert isinstance(run, Entries)
        (column,) = run.rows.columns
        assert isinstance(column, FixedColumn)
        assert np.shares_memory(column.values, part.column("c0").chunk(0).to_numpy())


@pytest.mark.parametrize("damage", ["order", "order of the rows of a key", "twice", "nothing"])
def test_rows_that_are_no_run_are_put_in_order_again(damage: str) -> None:
    """As those of a version with other hashes."""
    keys = np.arange(1_000) // 2
    values = np.random.default_rng(1).integers(-(1 << 63), (1 << 63) - 1, 1_000)
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    kept, again = (Arrangement(schema.types, (0,), depth=0) for _ in range(2))
    kept.insert_numbers(Rows.of_arrays([pa.array(keys), pa.array(values)], 1_000), np.full(1_000, 2), ())
    state = MemoryState()
    save_arrangement(state, "rows", kept, schema)
    (table,) = state.read_parts("rows")[1]
    match damage:
        case "order":
            table = table.take(np.arange(1_000)[::-1])
        case "order of the rows of a key":
            table = table.take(np.arange(1_000) ^ 1)
        case "twice":
            table = pa.concat_tables([table, table.slice(999)])
            kept.insert_numbers(_last(table, schema), np.array([2]), ())
        case "nothing":
            weights = np.full(1_000, 2, dtype=np.int8)
            weights[999] = 0
            kept.insert_numbers(_last(table, schema), np.array([-2]), ())
            table = table.set_column(2, "w0", pa.array(weights))
    damaged = MemoryState()
    damaged.write("rows", VERSION, table)
    load_arrangement(damaged, "rows", again, schema)
    assert weighed(again, schema) == weighed(kept, schema)
    (run,) = again.runs
    assert isinstance(run, Entries)
    assert is_consolidated(run)


def _last(table: pa.Table, schema: pa.Schema) -> Rows:
    return Rows.of_arrays([table.slice(999, 1).column(at).chunk(0) for at in range(len(schema))], 1)


def weighed(kept: Arrangement, schema: pa.Schema) -> dict[tuple[int, ...], int]:
    """All rows, each with its weight."""
    rows = kept.contents()
    columns = [array.to_pylist() for array in rows.rows.to_arrays(schema.types)]
    return dict(zip(zip(*columns, strict=True), rows.weights.tolist(), strict=True))
