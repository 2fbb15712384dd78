"""The epochs in which a loader reads splits: small ones of a window together, where nobody asks which row is whose."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.client import Client
from tidegate.proto.errors import NotFound
from tidegate.training import Loader, Shuffle
from tidegate.training.sources.training_splits import TrainingSplit
from tidegate.training.split_reader import EPOCH_BYTES, ROW_BYTES, SplitReader, SplitReaders

from .conftest import SPLIT_ROWS, kept, numbers

BATCH = 7


@pytest.fixture
def epochs(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The numbers of the splits of each epoch that loaders feed from now on."""
    numbers_by_epoch: list[list[int]] = []
    start_epoch = tidegate.Task.start_epoch

    def noted(task: tidegate.Task, splits: Mapping[str, Sequence[Any]]) -> Any:
        numbers_by_epoch.append([split.number for split in splits["samples"]])
        return start_epoch(task, splits)

    monkeypatch.setattr(tidegate.Task, "start_epoch", noted)
    return numbers_by_epoch


@pytest.fixture
def reader(local_client: Client) -> Iterator[SplitReader]:
    with SplitReaders(lambda: local_client.create_task(numbers()), 1) as opened:
        yield opened.first


def rows_of(client: Client, folder: Path, plan: bytes, **options: Any) -> list[int]:
    shuffle = Shuffle(3, rows=75)
    batches = Loader(client, plan, {"samples": folder}, batch_size=BATCH, shuffle=shuffle, **options)
    return [row for batch in batches for row in batch["n"].tolist()]


def test_small_splits_of_a_window_are_read_as_one_epoch(
    local_client: Client, folder: Path, epochs: list[list[int]]
) -> None:
    rows_of(local_client, folder, numbers())
    sizes = [sum(SPLIT_ROWS[split] for split in splits) for splits in epochs]
    assert sorted(split for splits in epochs for split in splits) == list(range(len(SPLIT_ROWS)))
    assert all(size >= 75 for size in sizes[:-1])
    assert len(epochs) < len(SPLIT_ROWS)


@pytest.mark.parametrize(
    ("plan", "options"),
    [(kept(), {}), (numbers(), {"provenance": True}), (numbers(), {"weight": "n"}), (numbers(), {"on_error": "skip"})],
    ids=["a filter", "provenance", "weights", "skipping"],
)
def test_splits_are_read_one_by_one_where_their_rows_have_to_be_told_apart(
    local_client: Client, folder: Path, epochs: list[list[int]], plan: bytes, options: dict[str, Any]
) -> None:
    rows_of(local_client, folder, plan, **options)
    assert sorted(epochs) == [[split] for split in range(len(SPLIT_ROWS))]


def test_splits_read_together_have_the_rows_of_splits_read_one_by_one(client: Client, folder: Path) -> None:
    assert rows_of(client, folder, numbers()) == rows_of(client, folder, numbers(), provenance=True)


def test_a_batch_is_found_by_the_rows_of_files_if_the_plan_keeps_them(
    local_client: Client, folder: Path, epochs: list[list[int]]
) -> None:
    shuffle = Shuffle(3, rows=75)
    whole = Loader(local_client, numbers(), {"samples": folder}, batch_size=BATCH, shuffle=shuffle)
    last = sum(SPLIT_ROWS) // BATCH
    rows = whole.batch(0, last)["n"].tolist()
    assert sum(map(len, epochs)) < len(SPLIT_ROWS)
    assert rows == list(whole)[last]["n"].tolist()


def test_splits_are_one_epoch_up_to_a_bound_of_bytes(reader: SplitReader) -> None:
    most = EPOCH_BYTES // ROW_BYTES  # rows of the width that is assumed before any is read
    of_rows = [TrainingSplit("", "", rows) for rows in (most // 2, most // 2, 1, most)]
    assert reader.worth_an_epoch(of_rows) == 2
    assert reader.worth_an_epoch(of_rows[3:]) == 1
    assert reader.worth_an_epoch(of_rows[2:]) == 1


def test_a_split_of_unknown_rows_is_an_epoch_by_itself(reader: SplitReader) -> None:
    assert reader.worth_an_epoch([TrainingSplit("", "", 1), TrainingSplit("", "", None)]) == 1


def test_splits_of_a_table_are_one_epoch_up_to_a_bound_of_the_bytes_that_are_sent(reader: SplitReader) -> None:
    rows = pa.table({"picked": [1], "left out": ["x" * (EPOCH_BYTES // 2)]})
    of_rows = [TrainingSplit("", rows, 1)] * 3
    assert reader.worth_an_epoch(of_rows) == 1


def no_task() -> tidegate.Task:
    raise AssertionError("nothing is read")


def test_readers_share_items_side_by_side() -> None:
    both = threading.Barrier(2)
    done: list[int] = []

    def work(_: SplitReader, item: int) -> None:
        if item < 2:
            both.wait(30)
        done.append(item)

    SplitReaders(no_task, 2).share(range(9), work)
    assert sorted(done) == list(range(9))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_of_several_errors_that_of_the_first_item_is_raised(count: int) -> None:
    def work(_: SplitReader, item: int) -> None:
        time.sleep(0.01 if item == 1 else 0)
        if item:
            raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 1"):
        SplitReaders(no_task, count).share(range(9), work)


@pytest.mark.parametrize("readers", [1, 2])
def test_a_file_that_is_gone_is_named_where_its_window_would_be(
    local_client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readers: int
) -> None:
    files = [tmp_path / f"part-{number:02}.parquet" for number in range(16)]
    for number, file in enumerate(files):
        pq.write_table(pa.table({"n": range(number * 5, number * 5 + 5)}), file)
    start_epoch = tidegate.Task.start_epoch

    def lost(task: tidegate.Task, splits: Mapping[str, Sequence[Any]]) -> Any:
        files[6].unlink(missing_ok=True)
        return start_epoch(task, splits)

    monkeypatch.setattr(tidegate.Task, "start_epoch", lost)
    shuffle = Shuffle(rows=20, splits=False)
    batches = iter(Loader(local_client, numbers(), {"samples": files}, batch_size=20, shuffle=shuffle, readers=readers))
    assert sorted(next(batches)["n"].tolist()) == list(range(20))
    with pytest.raises(NotFound, match=r"part-06\.parquet does not exist") as error:
        next(batches)
    assert error.value.reason == "FILE_NOT_FOUND"
