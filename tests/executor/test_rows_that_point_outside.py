"""Rows that other processes have written are refused where they point outside of their own bytes or are not UTF-8."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.executor.checkpoints.checkpoint_folder import CheckpointFolder
from tidegate.executor.checkpoints.disk import LocalDisk
from tidegate.executor.datasets.dataset_files import ChannelFiles
from tidegate.executor.spark.staged_files import StagedRows
from tidegate.executor.spark.worker.parcels import decoded
from tidegate.proto.errors import CheckpointError, ExecutionError
from tidegate.proto.values import FileFormat

from .checkpoints.test_folder import take


def ends(*numbers: int) -> pa.Buffer:
    return pa.py_buffer(b"".join(number.to_bytes(4, "little") for number in numbers))


def texts(*offsets: int, data: bytes = b"ab") -> pa.Array:
    return pa.StringArray.from_buffers(len(offsets) - 1, ends(*offsets), pa.py_buffer(data))


OUTSIDE = texts(0, 1 << 20, 2)
DAMAGED = {
    "text outside": OUTSIDE,
    "text that is not UTF-8": texts(0, 1, 2, data=b"\xff\xfe"),
    "text outside, inside of lists": pa.ListArray.from_buffers(
        pa.list_(pa.string()), 1, [None, ends(0, 2)], children=[OUTSIDE]
    ),
    "codes of no value": pa.DictionaryArray.from_arrays(pa.array([0, 77], pa.int32()), pa.array(["a"]), safe=False),
}


def from_a_checkpoint(folder: Path, table: pa.Table) -> None:
    checkpoints = CheckpointFolder(LocalDisk(), folder)
    manifest = take(checkpoints, "one", 1, table)
    [part] = manifest.parts
    checkpoints.table(manifest, part)


def from_a_dataset(folder: Path, table: pa.Table) -> None:
    folder.mkdir(exist_ok=True)
    writer = ChannelFiles(folder)
    writer.read(writer.put(table, own=True))


def from_a_staging_place(folder: Path, table: pa.Table) -> None:
    folder.mkdir(exist_ok=True)
    with pa.OSFile(f"{folder}/rows", "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    list(StagedRows(f"{folder}/rows").read())


def from_a_parcel(_: Path, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    [batch] = table.to_batches()
    if any(map(pa.types.is_dictionary, table.schema.types)):
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_batch(batch)
        decoded(bytes(sink.getvalue()), table.schema)
    else:
        decoded(bytes(batch.serialize()), table.schema)


READERS = (from_a_checkpoint, from_a_dataset, from_a_staging_place, from_a_parcel)


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
@pytest.mark.parametrize("damage", DAMAGED)
def test_rows_that_are_damaged_inside_are_refused(
    damage: str, read: Callable[[Path, pa.Table], None], tmp_path: Path
) -> None:
    read(tmp_path / "sound", pa.table({"s": pa.array(["a", "b"])}))
    with pytest.raises((CheckpointError, ExecutionError, pa.ArrowInvalid)):
        read(tmp_path / "damaged", pa.table({"s": DAMAGED[damage]}))


@pytest.mark.parametrize("format_", ["arrow", "inline"])
@pytest.mark.parametrize("damage", ["text outside", "text that is not UTF-8", "codes of no value"])
def test_an_upload_that_is_damaged_inside_is_refused(damage: str, format_: FileFormat, client: tidegate.Client) -> None:
    """Whether it is a client's file, or has rows that travel as a file."""
    plan = sub.read_named_table("t", {"x": sub.string}).to_plan()
    with client.create_task(plan) as task:

        def answer(texts_: pa.Array) -> dict[str, list[object]]:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, pa.schema([("x", texts_.type)])) as writer:
                writer.write_batch(pa.record_batch([texts_], ["x"]))
            path = client.service.upload(task.id, "x.arrow", [sink.getvalue().to_pybytes()])
            return task.run_epoch({"t": tidegate.FileSplit(path, format=format_)}).table().to_pydict()

        assert answer(pa.array(["a", "b"])) == {"x": ["a", "b"]}
        with pytest.raises(tidegate.TidegateError) as refused:
            answer(DAMAGED[damage])
        assert refused.value.reason == "FILE_UNREADABLE"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tidegate.Client]:
    root = tmp_path_factory.mktemp("root")
    with tidegate.local(roots=[root], spill_directory=root.parent / "spill") as opened:
        yield opened
