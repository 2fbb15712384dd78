"""The rows of a window whose order is known are written to their places as they are read."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate.training import Loader, Shuffle
from tidegate.training.batch import Position
from tidegate.training.batch_columns import forms
from tidegate.training.batch_runs import BatchRuns, Tail
from tidegate.training.building.batch_layout import Layout
from tidegate.training.building.row_gathering import WIDE_BYTES, RowGathering
from tidegate.training.building.row_placing import RowPlacing
from tidegate.training.building.window_build import ReadWindow
from tidegate.training.building.window_prefetch import one_by_one
from tidegate.training.order.rank_shares import Wanted
from tidegate.training.order.shuffle import Window
from tidegate.training.split_reader import SplitReader

WIDTH = WIDE_BYTES // 4


def wide(first: int, rows: int) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    return np.arange(first * WIDTH, (first + rows) * WIDTH, dtype=np.int32).reshape(rows, WIDTH)


@given(st.data())
def test_rows_are_those_at_the_positions_whatever_batches_they_come_in(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 20), max_size=6))
    rows = sum(sizes)
    order = data.draw(st.permutations(range(rows)))
    chosen = np.array(order[: data.draw(st.integers(0, rows))], np.int64)
    placing = RowPlacing(RowGathering(), rows, lambda: chosen)
    first = 0
    for size in sizes:
        texts = pa.array([str(number) for number in range(first, first + size)], pa.string())
        placing.add([[wide(first, size)], [np.arange(first, first + size)], [texts]], size)
        first += size
    lists, numbers, texts = placing.columns(lambda: [[wide(0, 0)], [np.arange(0)], [pa.array([], pa.string())]])
    assert np.array_equal(lists, wide(0, rows)[chosen])
    assert np.array_equal(numbers, chosen)
    assert texts.to_pylist() == [str(number) for number in chosen]


@pytest.mark.parametrize("rows", [3, 5])
def test_another_number_of_rows_than_that_of_the_window_is_refused(rows: int) -> None:
    placing = RowPlacing(RowGathering(), 4, lambda: np.arange(4))

    def take() -> None:
        placing.add([[wide(0, rows)]], rows)
        placing.columns(lambda: [[wide(0, 0)]])

    with pytest.raises(tidegate.Refused) as refused:
        take()
    assert refused.value.reason == "STATE_MISMATCH"


def test_wide_rows_are_kept_once() -> None:
    placing = RowPlacing(RowGathering(), 8, lambda: np.arange(8))
    values = wide(0, 4)
    kept = weakref.ref(values)
    placing.add([[values]], 4)
    del values
    gc.collect()
    assert kept() is None


class Watched:
    """Windows of which each is read once the rows of the one before are gone."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.last: weakref.ref[object] | None = None
        self.alive: list[bool] = []

    def __iter__(self) -> Iterator[ReadWindow]:
        for number in range(3):
            window = Window((0,), number)
            yield ReadWindow(epoch=0, number=number, window=window, last=False, rows=10, results=self._read)

    def _read(self, _: SplitReader) -> Iterator[Iterable[pa.RecordBatch]]:
        gc.collect()
        self.alive.append(self.last is not None and self.last() is not None)
        lists = pa.FixedSizeListArray.from_arrays(pa.array(wide(0, 10).ravel()), WIDTH)
        yield [pa.record_batch([lists], schema=self._schema)]


def create_nothing() -> tidegate.Task:
    raise AssertionError("nothing is read")


def test_nothing_keeps_a_window_that_its_user_has_dropped() -> None:
    schema = pa.schema({"t": pa.list_(pa.int32(), WIDTH)})
    windows = Watched(schema)
    runs = BatchRuns(
        Layout(schema=schema, forms=forms(schema, None, {}, "numpy")), Wanted(size=4), Tail.SHORT, Position()
    )
    for run in one_by_one(runs.builds(windows), SplitReader(create_nothing)):
        *_, (batch, _) = run
        assert batch is not None
        windows.last = weakref.ref(batch["t"].base)
        del run, batch
    assert windows.alive == [False, False, False]


def test_lists_of_several_files_come_in_the_same_order_by_way_of_a_projection_and_a_filter(
    client: tidegate.Client, tmp_path: Path
) -> None:
    numbers = np.arange(600, dtype=np.int64)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(wide(0, 600).ravel()), WIDTH).cast(pa.list_(pa.int32()))
    for part in range(3):
        table = pa.table({"n": numbers, "t": lists}).slice(part * 200, 200)
        pq.write_table(table, tmp_path / f"{part}.parquet", row_group_size=50)
    read = sub.read_named_table("samples", {"n": sub.i64, "t": sub.list_(sub.i32())})
    orders = []
    for plan in (read.to_plan(), read.filter(sub.col("n") >= 0).to_plan()):  # the number of rows is known of the first
        options = {"batch_size": 64, "shuffle": Shuffle(3, rows=300), "shapes": {"t": (WIDTH,)}}
        batches = list(Loader(client, plan, {"samples": tmp_path / "*.parquet"}, **options))
        for batch in batches:
            assert np.array_equal(batch["t"], wide(0, 600)[batch["n"]])
        orders.append(np.concatenate([batch["n"] for batch in batches]))
    assert sorted(orders[0]) == list(range(600))
    assert np.array_equal(*orders)
