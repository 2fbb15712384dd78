"""Rows that other processes have written are refused where they point outside of their own bytes or are not UTF-8."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.executor.checkpoints.checkpoint_folder import CheckpointFolder
from tidegate.executor.checkpoints.disk import LocalDisk
from tidegate.executor.datasets.dataset_files import ChannelFiles
from tidegate.executor.journal.kept_reader import KeptReader
from tidegate.executor.ledger.split_digest import bytes_digest
from tidegate.executor.runtime.batch_store import Quota, SpillFiles, SpillSpace
from tidegate.executor.spark.staged_files import StagedRows
from tidegate.executor.spark.worker.inbox import Inbox
from tidegate.executor.spark.worker.parcels import Kind, Parcel, decoded
from tidegate.executor.spark.worker.stage import Received
from tidegate.planner.ir import Routing
from tidegate.planner.physical.pipelines import Exchange
from tidegate.proto.errors import CheckpointError, ExecutionError
from tidegate.proto.values import FileFormat, Reader, ResultFile
from tidegate.spark.data_source.shared_files import FileRows, SharedFiles
from tidegate.spark.frame_columns import Column
from tidegate.spark.supplies import staged
from tidegate.spark.supplies.conditions import comparable

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


def stream_of(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def file_of(folder: Path, table: pa.Table) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "rows").write_bytes(stream_of(table))
    return str(folder / "rows")


def from_a_producer_of_an_exchange(folder: Path, table: pa.Table) -> None:
    exchange = Exchange(number=1, routing=Routing.BROADCAST, schema=table.schema, consumers=2)
    parcel = Parcel(0, 1, 0, 0, Kind.FILE, file_of(folder, table).encode())
    space = SpillSpace(SpillFiles(folder), Quota(1 << 20))
    received = [Received(exchange=exchange, producers=1)]
    list(Inbox(iter([parcel]), received, epoch=1, memory_limit=1 << 20, space=space).receive(1))


def from_kept_bytes(folder: Path, table: pa.Table) -> None:
    kept = stream_of(table)
    rows = KeptReader(lambda _: kept.to_pybytes(), LocalDisk(), folder).known(bytes_digest(kept)).rows()
    list(rows.read(0, rows.rows))


def from_a_file_of_the_servers_spark(folder: Path, table: pa.Table) -> None:
    written = FileRows("task", 0, ResultFile(path=file_of(folder, table), rows=2), Reader(1, 1), "digest")
    service = cast("Any", SimpleNamespace(delete_task=lambda *_: None))
    list(SharedFiles(service, lambda _: "task", 1.0, lambda *_: "digest").read(written))


def from_a_parcel(_: Path, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    [batch] = table.to_batches()
    if any(map(pa.types.is_dictionary, table.schema.types)):
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_batch(batch)
        decoded(bytes(sink.getvalue()), table.schema)
    else:
        decoded(bytes(batch.serialize()), table.schema)


READERS = (
    from_a_checkpoint,
    from_a_dataset,
    from_a_staging_place,
    from_a_parcel,
    from_a_producer_of_an_exchange,
    from_kept_bytes,
    from_a_file_of_the_servers_spark,
)


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
@pytest.mark.parametrize("damage", DAMAGED)
def test_rows_that_are_damaged_inside_are_refused(
    damage: str, read: Callable[[Path, pa.Table], None], tmp_path: Path
) -> None:
    read(tmp_path / "sound", pa.table({"s": pa.array(["a", "b"])}))
    with pytest.raises((CheckpointError, ExecutionError, pa.ArrowInvalid)):
        read(tmp_path / "damaged", pa.table({"s": DAMAGED[damage]}))


def test_a_key_that_spark_has_staged_and_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    """Texts of Parquet have no offsets that could lead outside."""

    def key(name: str, of_rows: pa.Array) -> tuple[object, ...] | None:
        path = tmp_path / f"part-00000-{name}-c000.parquet"
        pq.write_table(pa.table({"s": of_rows}), path)
        return staged._file(tmp_path, path, [Column("s", pa.string())], "s").key

    assert key("sound", texts(0, 1, 2)) == comparable("a")
    with pytest.raises((ExecutionError, pa.ArrowInvalid), match="UTF"):
        key("damaged", DAMAGED["text that is not UTF-8"])


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
