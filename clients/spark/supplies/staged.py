"""Supply by staging: the executors write the rows once, with Spark's native Parquet writer, and the files are named.

The written files fix the order: by Spark's partition, then by file within it; with `order_by` that is the sorted order.
A transaction that has a name is written once. Fed again, after a crash for example, it has the same files in the same
order, whatever Spark would compute now.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as kinds
from pyspark.sql import DataFrame

from ...proto.arrow.validation import validated
from ...proto.errors import InternalError, InvalidRequest, Refused
from ...task import Task
from ..data_frames import order_of
from ..epoch_units import Unit
from ..frame_columns import Column, fits, quoted
from ..report import Order
from .conditions import comparable
from .shared_folder import check_complete, footer, write_rows
from .staged_transactions import Manifest, StagedFile, User, service_name

KEY: Final = "_tidegate_epoch"
_PLACE: Final = re.compile(r"part-(\d+)-.*?[-.]c(\d+)\.")
_THREADS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A transaction's folder and manifest. `groups` has the number of row groups of each file."""

    folder: Path
    manifest: Manifest
    units: tuple[Unit, ...]
    groups: dict[str, int]
    written: bool

    @property
    def order(self) -> tuple[Order, str]:
        return Order(self.manifest.order), self.manifest.order_why

    def used(self, task: Task, epoch: int | None) -> None:
        """Record that the task uses the files, the last of them in this epoch.

        Without an epoch, the task uses none of them.
        """
        user = User(service=service_name(task), task=task.id, epoch=0 if epoch is None else epoch)
        self.manifest.used(self.folder, user)


def staged(
    frame: DataFrame,
    columns: Sequence[Column],
    task: Task,
    *,
    root: Path,
    transaction: str,
    order_by: Sequence[str],
    epoch_by: str | None,
) -> Staged:
    """Write the DataFrame's columns into a new folder of `root`, or find the files written under this name before."""
    folder = root / transaction
    user = User(service=service_name(task), task=task.id, epoch=None)
    staged_before = Manifest.read(folder)
    if staged_before is not None and staged_before.files is not None:
        _check_same(staged_before, columns, epoch_by)
        return _result(folder, staged_before.used(folder, user), written=False)
    with _new_folder(folder):
        manifest = Manifest(transaction=transaction, users=(user,), schema=_schema(columns), epoch_by=epoch_by)
        manifest.write(folder)
        rows, ties = _ordered(frame, columns, order_by, epoch_by)
        order, why = order_of(frame, order_by, ties)
        written = folder / f"rows-{secrets.token_hex(4)}"  # a cancelled attempt's tasks may still write into its own
        wrote = write_rows(rows, written, by=None if epoch_by is None else KEY)
        files = tuple(_files(folder, written, columns, epoch_by))
        check_complete(written, wrote, sum(rows for file in files for rows, _ in file.groups))
        manifest = replace(manifest, files=files, order=order.value, order_why=why)
        manifest.write(folder)
    return _result(folder, manifest, written=True)


@contextmanager
def _new_folder(folder: Path) -> Iterator[None]:
    """A new folder, removed again if not all files can be written. Files of an earlier attempt are removed first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _schema(columns: Sequence[Column]) -> str:
    return ", ".join(f"{column.name}: {column.type}" for column in columns)


def _check_same(manifest: Manifest, columns: Sequence[Column], epoch_by: str | None) -> None:
    if (manifest.schema, manifest.epoch_by) != (_schema(columns), epoch_by):
        raise Refused(
            f"transaction {manifest.transaction!r} was staged with columns {manifest.schema} and "
            f"epoch_by={manifest.epoch_by!r}, not {_schema(columns)} and {epoch_by!r}: give this transaction another "
            "name",
            reason="TRANSACTION_REUSED",
        )


def _ordered(
    frame: DataFrame, columns: Sequence[Column], order_by: Sequence[str], epoch_by: str | None
) -> tuple[DataFrame, list[str]]:
    """The rows to write, sorted if asked for, and the columns that Spark cannot sort by."""
    selected = frame.selectExpr(*[quoted(column.name) for column in columns] or ["cast(null AS int) AS _"])
    ties: list[str] = []
    if order_by:
        rest = [column for column in columns if column.name not in (*order_by, epoch_by)]
        ties = [column.name for column in rest if _has_map(column.type)]
        first = [epoch_by] if epoch_by is not None and epoch_by not in order_by else []
        keys = [*first, *order_by, *(column.name for column in rest if column.name not in ties)]
        selected = selected.orderBy(*map(quoted, keys))
    if epoch_by is not None:
        text = f"coalesce(concat('v', cast({quoted(epoch_by)} AS string)), 'null')"
        selected = selected.selectExpr("*", f"sha2({text}, 256) AS {KEY}")
    return selected, ties


def _has_map(type_: pa.DataType) -> bool:
    nested = (type_.field(i).type for i in range(type_.num_fields)) if kinds.is_nested(type_) else ()
    return bool(kinds.is_map(type_)) or any(map(_has_map, nested))


def _files(folder: Path, written: Path, columns: Sequence[Column], epoch_by: str | None) -> list[StagedFile]:
    """The files in `written`, in order, with the facts from their footers. Checks the types once more."""
    paths = sorted(written.rglob("part-*.parquet"))
    with ThreadPoolExecutor(_THREADS) as threads:
        files = list(threads.map(lambda path: _file(folder, path, columns, epoch_by), paths))
    return sorted(files, key=lambda file: (file.partition, file.file, file.path))


def _file(folder: Path, path: Path, columns: Sequence[Column], epoch_by: str | None) -> StagedFile:
    matched = _PLACE.match(path.name)
    if matched is None:
        raise InternalError(f"Spark has written {path.name}, and the file's name does not tell its position")
    groups = footer(path).groups
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        for column in columns:
            written = file.schema_arrow.field(column.name).type
            if not fits(written, column.type):
                raise InternalError(f"Spark has written column {column.name!r} as {written}, not as {column.type}")
        key = None
        if epoch_by is not None and groups:
            first = validated(next(file.iter_batches(1, row_groups=[0], columns=[epoch_by])))
            key = comparable(first.column(0)[0].as_py())
    stored = [sum(chunk.compressed for chunk in group.chunks) for group in groups]
    return StagedFile(
        path=str(path.relative_to(folder)),
        partition=int(matched[1]),
        file=int(matched[2]),
        groups=tuple((group.rows, size) for group, size in zip(groups, stored, strict=True)),
        key=key,
    )


def _result(folder: Path, manifest: Manifest, *, written: bool) -> Staged:
    files = [file for file in manifest.files or () if file.groups]
    paths = {file.path: str(folder / file.path) for file in files}
    units = tuple(
        Unit(path=paths[file.path], format="parquet", groups=(index,), rows=rows, stored=size, key=file.key)
        for file in files
        for index, (rows, size) in enumerate(file.groups)
    )
    return Staged(
        folder=folder,
        manifest=manifest,
        units=units,
        groups={paths[file.path]: len(file.groups) for file in files},
        written=written,
    )


def check_key(column: Column) -> None:
    """Check that the values of a column for epochs have one order and one text."""
    good = (kinds.is_integer, kinds.is_string, kinds.is_date, kinds.is_timestamp)
    if not any(test(column.type) for test in good):
        raise InvalidRequest(
            f"epoch_by={column.name!r} has type {column.type}; the column must have whole numbers, text, dates or "
            "timestamps",
            reason="EPOCH_BY",
        )
