"""The static tables of a loader: every task that it makes has the rows of the first one, or the loader says why not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.client import Client
from tidegate.training import Loader
from tidegate.training.training_source import KEPT_LISTS

from .conftest import SPLIT_ROWS, numbers

ROWS = sum(SPLIT_ROWS)


def write(folder: Path, label: int, name: str = "labels") -> Path:
    folder.mkdir(exist_ok=True)
    pq.write_table(labels(label), folder / f"{name}.parquet")
    return folder


def labels(label: int) -> pa.Table:
    return pa.table({"m": range(ROWS), "y": [label] * ROWS})


def labelled() -> bytes:
    samples = sub.read_named_table("samples", {"n": sub.i64})
    labels = sub.read_named_table("labels", {"m": sub.i64, "y": sub.i64})
    return bytes(samples.join(labels, sub.col("n") == sub.col("m")).to_plan().SerializeToString())


def loader(client: Client, folder: Path, labels: Any, **options: Any) -> Loader:
    return Loader(client, labelled(), {"samples": folder}, batch_size=16, tables={"labels": labels}, **options)


def counts_of(batches: Any) -> dict[int, int]:
    """The rows of each label."""
    rows = [label for batch in batches for label in batch["y"].tolist()]
    return {label: rows.count(label) for label in set(rows)}


@pytest.mark.parametrize(
    "data",
    [
        lambda file: labels(1).to_reader(),
        lambda file: labels(1).to_batches()[0],
        lambda file: [labels(1).slice(0, 50).to_reader(), labels(1).slice(50)],
        lambda file: tidegate.upload(file),
        lambda file: tidegate.MissingAsNull(file),
        lambda file: tidegate.MissingAsNull(labels(1).to_reader()),
        lambda file: tidegate.FileSplit(str(file), rows=(0, ROWS)),
    ],
)
def test_every_split_sees_all_rows_of_a_table_in_any_form(
    client: Client, folder: Path, tmp_path: Path, data: Callable[[Path], Any]
) -> None:
    file = write(tmp_path / "labels", 1) / "labels.parquet"
    whole = loader(client, folder, data(file))
    assert counts_of(whole) == {1: ROWS}
    other = loader(client, folder, data(file))
    other.load_state_dict(whole.state_dict())


@pytest.mark.parametrize("asked", ["a batch", "a state"])
def test_a_table_that_changes_between_two_tasks_is_refused(
    client: Client, folder: Path, tmp_path: Path, asked: str
) -> None:
    table = write(tmp_path / "labels", 1)
    whole = loader(client, folder, table)
    if asked == "a batch":
        next(iter(whole))
        whole.close()
    else:
        whole.state_dict()
    write(table, 2)
    with pytest.raises(tidegate.Refused, match=r"labels\.parquet has changed.*table 'labels'") as refused:
        next(iter(whole))
    assert refused.value.reason == "FILE_CHANGED"
    assert counts_of(loader(client, folder, table)) == {2: ROWS}


def test_a_file_that_comes_into_a_tables_folder_is_for_the_next_loader(
    client: Client, folder: Path, tmp_path: Path
) -> None:
    table = write(tmp_path / "labels", 1)
    whole = loader(client, folder, table)
    first = next(iter(whole)).rows
    whole.close()
    state = whole.state_dict()
    write(table, 2, "more")
    assert counts_of(whole) == {1: ROWS - first}
    later = loader(client, folder, table)
    with pytest.raises(tidegate.Refused, match="tables"):
        later.load_state_dict(state)
    assert counts_of(later) == {1: ROWS, 2: ROWS}


def test_a_file_to_send_that_has_changed_is_refused(client: Client, folder: Path, tmp_path: Path) -> None:
    table = write(tmp_path / "labels", 1)
    whole = loader(client, folder, tidegate.upload(table / "labels.parquet"))
    whole.state_dict()
    write(table, 2)
    with pytest.raises(tidegate.Refused, match=r"labels\.parquet.* has changed") as refused:
        next(iter(whole))
    assert refused.value.reason == "FILE_CHANGED"


def test_data_of_long_past_epochs_is_let_go_and_asked_for_again(local_client: Client) -> None:
    asked: list[int] = []
    other = False

    def samples(epoch: int) -> pa.Table:
        asked.append(epoch)
        return pa.table({"n": [epoch, 100 + epoch + other]})

    epochs = KEPT_LISTS + 3
    with Loader(local_client, numbers(), {"samples": samples}, batch_size=2, epochs=epochs, prefetch=0) as whole:
        states = [whole.state_after(batch) for batch in whole]
        assert asked == list(range(epochs))
        assert whole.batch(0, 0)["n"].tolist() == [0, 100]
        assert asked == [*range(epochs), 0]
        assert whole.batch(epochs - 1, 0)["n"].tolist() == [epochs - 1, 99 + epochs]
        assert asked == [*range(epochs), 0]
        assert states[0]["epoch"] == 1
        other = True
        with pytest.raises(tidegate.Refused, match="data of epoch 1 gives other data") as refused:
            whole.batch(1, 0)
        assert refused.value.reason == "STATE_MISMATCH"
