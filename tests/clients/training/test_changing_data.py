"""Files that change, and files that cannot be read: batches are the same as before, or the loader says why not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from threading import Event
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.client import Client
from tidegate.training import Batch, Loader, Position, Shuffle
from tidegate.training.loader_statistics import Meter
from tidegate.training.sources.training_splits import TrainingSplit
from tidegate.training.split_reader import SplitReader

from .conftest import numbers

FILES, ROWS = 6, 10


def write(folder: Path, number: int, add: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    first = number * ROWS + add
    images = [bytes([row]) * 7_000 for row in range(ROWS)]
    pq.write_table(
        pa.table({"n": range(first, first + ROWS), "image": images}),
        folder / f"part-{number}.parquet",
        compression="none",
        use_dictionary=False,
    )


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for number in range(FILES):
        write(tmp_path / "files", number)
    return tmp_path / "files"


def loader(client: Client, data: Any, **options: Any) -> Loader:
    wanted = {"batch_size": 7, "shuffle": Shuffle(2, rows=15), "prefetch": 0, **options}
    return Loader(client, numbers(), {"samples": data}, **wanted)


def rows_of(batches: Any) -> list[list[int]]:
    return [batch["n"].tolist() for batch in batches]


def test_a_file_that_is_replaced_between_epochs_is_refused_by_name(client: Client, files: Path) -> None:
    whole = loader(client, files, epochs=2)
    rows_of(whole.one_epoch())
    whole.close()  # what was read ahead of the next epoch
    write(files, 3, add=500)
    with pytest.raises(tidegate.Refused, match=r"part-3\.parquet has changed") as refused:
        rows_of(whole)
    assert refused.value.reason == "FILE_CHANGED"


def test_a_state_of_files_of_the_same_size_with_other_rows_is_refused(local_client: Client, files: Path) -> None:
    state, size = loader(local_client, files).state_dict(), (files / "part-3.parquet").stat().st_size
    write(files, 3, add=500)
    assert (files / "part-3.parquet").stat().st_size == size
    with pytest.raises(tidegate.Refused, match="data"):
        loader(local_client, files).load_state_dict(state)


def test_a_copy_elsewhere_is_the_same_data_and_another_folder_of_a_file_is_not(
    local_client: Client, tmp_path: Path
) -> None:
    for number in range(FILES):
        write(tmp_path / "data" / f"day={number % 2}", number)
    state = loader(local_client, tmp_path / "data").state_dict()
    shutil.copytree(tmp_path / "data", tmp_path / "copy" / "of" / "data")
    loader(local_client, tmp_path / "copy" / "of" / "data").load_state_dict(state)
    os.rename(tmp_path / "data" / "day=0", tmp_path / "data" / "day=7")
    with pytest.raises(tidegate.Refused, match="data"):
        loader(local_client, tmp_path / "data").load_state_dict(state)


def break_(folder: Path, number: int) -> None:
    """Overwrite the file's first page. Its end, with the footer, still says what rows it has."""
    file = folder / f"part-{number}.parquet"
    status = file.stat()
    data = bytearray(file.read_bytes())
    data[4:40] = b"\xff" * 36
    file.write_bytes(data)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def mended(file: Path, data: bytes, status: os.stat_result) -> None:
    """The file as it was before it was broken."""
    file.write_bytes(data)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("later", ["fail", "skip"])
def test_a_split_that_a_state_skips_stays_skipped_whatever_the_loader_does_with_errors(
    local_client: Client, files: Path, later: Literal["fail", "skip"]
) -> None:
    """Rows that were skipped shift the rows behind them: a loader that read them again would give others twice."""
    sound = {file: (file.read_bytes(), file.stat()) for file in (files / "part-1.parquet", files / "part-4.parquet")}
    for number in (1, 4):
        break_(files, number)
    whole = loader(local_client, files, on_error="skip", shuffle=None, batch_size=4)
    batches, states = [], []
    for batch in whole:
        batches.append(batch["n"].tolist())
        states.append(whole.state_dict())
    assert list(chain(*batches)) == [n for n in range(FILES * ROWS) if n // ROWS not in (1, 4)]
    for file, (data, status) in sound.items():
        mended(file, data, status)
    for number, state in enumerate(states[:-1], 1):
        left = chain(*batches[number:])
        read_again = {1, 4} - set(state["skipped"])
        after = [n for n in range(FILES * ROWS) if n // ROWS in read_again]
        resumed = loader(local_client, files, on_error=later, shuffle=None, batch_size=4)
        resumed.load_state_dict(state)
        assert sorted(chain(*rows_of(resumed))) == sorted([*left, *after])
        again = loader(local_client, files, on_error=later, shuffle=None, batch_size=4)
        again.load_state_dict(state)
        if not after:
            assert again.batch(0, number)["n"].tolist() == batches[number]


def test_a_state_names_the_splits_that_were_skipped_before_it_however_far_the_loader_has_read(
    local_client: Client, files: Path
) -> None:
    for number in (1, 4):
        break_(files, number)
    whole = loader(local_client, files, epochs=2, on_error="skip", shuffle=None, batch_size=ROWS // 2)
    batches, states = [], []
    for batch in whole:
        batches.append(batch)
        states.append(whole.state_dict())
    assert [state["skipped"] for state in states[:8]] == [[], [], [1], [1], [1], [1], [1, 4], []]
    assert [whole.state_after(batch) for batch in batches] == states


def test_skipped_splits_are_named_in_the_order_of_the_data_whichever_thread_was_first(
    local_client: Client, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, skip, has_skipped = SplitReader.read, Meter.skip, Event()

    def held(reader: SplitReader, source: str, splits: Sequence[TrainingSplit]) -> Iterator[pa.RecordBatch]:
        """The rows of splits. Those of file 0 come once another file was skipped."""
        if splits[0].name.endswith("part-0.parquet"):
            assert has_skipped.wait(timeout=20)
        return read(reader, source, splits)

    def skipping(meter: Meter, *split: Any) -> None:
        skip(meter, *split)
        has_skipped.set()

    monkeypatch.setattr(SplitReader, "read", held)
    monkeypatch.setattr(Meter, "skip", skipping)
    for number in (0, 1, 4):
        break_(files, number)
    whole = loader(local_client, files, on_error="skip", shuffle=None, prefetch=None, readers=2)
    assert list(chain(*rows_of(whole))) == [*range(20, 40), *range(50, 60)]
    names = [Path(skipped.split).name for skipped in whole.statistics().skipped]
    assert names == ["part-0.parquet", "part-1.parquet", "part-4.parquet"]


@pytest.mark.parametrize("readers", [1, 2])
def test_a_split_that_was_skipped_stays_skipped_in_its_epoch(client: Client, files: Path, readers: int) -> None:
    sound = {number: (files / f"part-{number}.parquet").read_bytes() for number in (1, 4)}
    times = {number: (files / f"part-{number}.parquet").stat().st_mtime_ns for number in sound}
    for number in sound:
        break_(files, number)
    whole = loader(client, files, epochs=2, on_error="skip", readers=readers)
    batches, states = [], []
    for batch in whole.one_epoch():
        batches.append(batch["n"].tolist())
        states.append(whole.state_dict())
    whole.close()
    assert sorted(chain(*batches)) == [n for n in range(FILES * ROWS) if n // ROWS not in sound]
    for number, data in sound.items():  # the disk is well again
        file = files / f"part-{number}.parquet"
        file.write_bytes(data)
        os.utime(file, ns=(times[number], times[number]))
    assert whole.batch(0, 2)["n"].tolist() == batches[2]
    for number, state in enumerate(states[:-1], 1):
        skipped = set(state["skipped"])
        resumed = loader(client, files, epochs=2, on_error="skip", readers=readers)
        resumed.load_state_dict(state)
        rest = rows_of(resumed.one_epoch())
        resumed.close()
        read = sorted(chain(*batches[:number], *rest))
        assert skipped <= set(sound)
        assert read == [n for n in range(FILES * ROWS) if n // ROWS not in skipped]
    last = loader(client, files, epochs=2)
    last.load_state_dict(states[-1])
    assert sorted(chain(*rows_of(last))) == list(range(FILES * ROWS))


def test_a_batch_is_found_again_where_a_split_is_skipped_in_one_epoch_alone(local_client: Client, files: Path) -> None:
    sound, status = (files / "part-2.parquet").read_bytes(), (files / "part-2.parquet").stat()
    break_(files, 2)
    whole = loader(local_client, files, epochs=2, on_error="skip")
    first = rows_of(whole.one_epoch())
    (files / "part-2.parquet").write_bytes(sound)
    os.utime(files / "part-2.parquet", ns=(status.st_atime_ns, status.st_mtime_ns))
    whole.close()
    second = rows_of(whole)
    assert (sum(map(len, first)), sum(map(len, second))) == ((FILES - 1) * ROWS, FILES * ROWS)
    for epoch, batches in enumerate((first, second)):
        assert [whole.batch(epoch, number)["n"].tolist() for number in range(len(batches))] == batches


def test_a_file_that_is_gone_when_its_turn_comes_is_skipped_and_named(client: Client, files: Path) -> None:
    lenient, strict = loader(client, files, on_error="skip", epochs=2), loader(client, files, epochs=2)
    for whole in (lenient, strict):
        rows_of(whole.one_epoch())
        whole.close()
    (files / "part-5.parquet").unlink()
    assert sorted(chain(*rows_of(lenient))) == list(range((FILES - 1) * ROWS))
    assert [(skipped.epoch, Path(skipped.split).name) for skipped in lenient.statistics().skipped] == [
        (1, "part-5.parquet")
    ]
    with pytest.raises(tidegate.NotFound, match=r"part-5\.parquet"):
        rows_of(strict)


@pytest.mark.parametrize("skipped", [None, "1", [1.5], {}, [-1], [True], [2**63]])
def test_a_state_with_other_things_than_skipped_splits_is_refused(
    local_client: Client, files: Path, skipped: Any
) -> None:
    whole = loader(local_client, files)
    with pytest.raises(tidegate.InvalidRequest, match="skipped"):
        whole.load_state_dict({**whole.state_dict(), "skipped": skipped})


def test_a_state_behind_the_last_window_is_refused(local_client: Client, files: Path) -> None:
    whole = loader(local_client, files)
    beyond = Batch()
    beyond.after = Position(window=99)
    whole.load_state_dict(whole.state_after(beyond))
    with pytest.raises(tidegate.Refused, match="window 99"):
        rows_of(whole)
