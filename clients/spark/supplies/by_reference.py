"""Supply by reference: the files that Spark would read are named, and Tidegate reads them.

Spark only plans: it lists the files, and applies partition filters. A DataFrame goes this way under two conditions.
Each of its columns that the source takes is a column of the files or of their folders' names, under the same name, with
the same values. The remaining filters keep all or none of each row group, as the files' statistics prove. Spark
computes any other DataFrame, which is therefore not supplied by reference: the rows are always the DataFrame's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from pyarrow import types as kinds
from pyspark.sql import DataFrame

from ...proto.errors import Refused
from ..epoch_units import EpochBy, Unit
from ..frame_columns import Column
from .catalyst import PlainScan, plain_scan
from .footers import Footer, Questions, folder_value, read_footer
from .spark_listing import ListedFile, NotPlain

_THREADS: Final = 8
_HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class Referenced:
    """The units to feed. `groups` has the number of row groups of each file.

    `folder_names` are the columns that come from folders' names, and `telling` has one file for each folder with such
    names.
    """

    units: tuple[Unit, ...]
    groups: dict[str, int]
    folder_names: frozenset[str]
    telling: tuple[str, ...]


def referenced(frame: DataFrame, columns: Sequence[Column], absent: Sequence[str], epoch_by: EpochBy) -> Referenced:
    """The files of these columns of a classic DataFrame, by path.

    Raises `NotPlain`, and `Refused` if a file has changed since Spark listed it. `absent` are columns that the source
    has and the DataFrame does not have.
    """
    scan = plain_scan(frame, columns)
    in_folders = {name.casefold() for name in scan.partition_columns}
    in_files = [column for column in columns if column.name.casefold() not in in_folders]
    key = epoch_by if isinstance(epoch_by, str) else None
    asked = Questions(
        columns=[*in_files, *scan.filter_columns],
        absent=absent,
        filters=scan.filters,
        case_sensitive=scan.case_sensitive,
        key=None if key is None or key.casefold() in in_folders else key,
    )
    for file in scan.files:
        _check_listed(file)
        _check_folders(file, scan, columns, absent)
    with ThreadPoolExecutor(_THREADS) as threads:
        footers = list(threads.map(lambda file: read_footer(file.path, scan.format, asked), scan.files))
    units = tuple(
        unit
        for file, footer in zip(scan.files, footers, strict=True)
        for unit in _units(file, footer, scan, columns, epoch_by)
    )
    telling = {_above(file.path, in_folders): file.path for file in scan.files} if in_folders else {}
    return Referenced(
        units, {footer.path: footer.count for footer in footers}, frozenset(in_folders), tuple(telling.values())
    )


def _above(path: str, folder_names: set[str]) -> str:
    """The folder above the outermost folder whose name tells one of the columns `folder_names`."""
    parts = os.path.dirname(path).split(os.sep)
    first = next(
        at
        for at, part in enumerate(parts)
        if any(name.casefold() in folder_names for name, _ in folders_of(f"{part}/"))
    )
    return os.sep.join(parts[:first]) or os.sep


def _check_listed(file: ListedFile) -> None:
    try:
        status = os.stat(file.path)
    except OSError as error:
        raise Refused(
            f"the DataFrame reads {file.path}, which cannot be found any more ({error.strerror}): make the DataFrame "
            "again",
            reason="FILE_MISSING",
        ) from error
    if (status.st_size, status.st_mtime_ns // 1_000_000) != (file.size, file.modified_ms):
        raise Refused(
            f"{file.path} has changed since Spark listed the file for the DataFrame: make the DataFrame again",
            reason="FILE_CHANGED",
        )


def _check_folders(file: ListedFile, scan: PlainScan, columns: Sequence[Column], absent: Sequence[str]) -> None:
    """Check that folders' names tell the service and Spark the same. The service reads them wherever they stand."""
    values_by_name: dict[str, list[str | None]] = {}
    for name, value in folders_of(file.path):
        values_by_name.setdefault(name.casefold(), []).append(value)
    partition = {name.casefold(): value for name, value in zip(scan.partition_columns, file.partition, strict=True)}
    for column in columns:
        name = column.name.casefold()
        if name not in partition:
            if name in values_by_name:
                raise NotPlain(
                    f"a folder of {file.path} is named after column {column.name!r}, and Spark does not read the "
                    "column from the folder"
                )
            continue
        _check_folder_types(column)
        if len(values_by_name.get(name, ())) != 1 or not _tells(values_by_name[name][0], column, partition[name]):
            raise NotPlain(f"the folders of {file.path} do not tell the value of partition column {column.name!r}")
    if others := [name for name in absent if name.casefold() in values_by_name]:
        raise NotPlain(f"the plan reads column {others[0]!r}, which the folders' names have and the DataFrame does not")


def _check_folder_types(column: Column) -> None:
    for type_ in (column.type, column.wanted or column.type):
        if not (kinds.is_string(type_) or kinds.is_integer(type_) or kinds.is_date(type_)):
            raise NotPlain(
                f"partition column {column.name!r} is {type_}, whose values can be written as text in several ways"
            )


def _tells(text: str | None, column: Column, value: int | str | None) -> bool:
    """True if the folder's name gives this column. Another partition's folder may have the same name."""
    try:
        return bool(folder_value(text, column.type) == value)
    except ValueError:
        return False


def folders_of(path: str) -> Iterator[tuple[str, str | None]]:
    """The columns in the names of a file's folders, those called `column=value`: names and values, None for null."""
    for part in os.path.dirname(path).split(os.sep):
        name, equals, value = part.partition("=")
        if equals and name:
            yield unquote(name), None if value == _HIVE_NULL else unquote(value)


def _units(
    file: ListedFile, footer: Footer, scan: PlainScan, columns: Sequence[Column], epoch_by: EpochBy
) -> Iterator[Unit]:
    """The row groups that are kept, or the whole file if it has none."""
    by_folder = isinstance(epoch_by, str) and epoch_by.casefold() in {
        name.casefold() for name in scan.partition_columns
    }
    key = _folder_key(file, columns, epoch_by) if isinstance(epoch_by, str) and by_folder else None
    for group in footer.groups:
        yield Unit(
            path=file.path,
            format=scan.format,
            groups=(group.index,) if scan.format == "parquet" else None,
            rows=group.rows,
            stored=group.stored,
            key=key if by_folder else group.key,
        )


def _folder_key(file: ListedFile, columns: Sequence[Column], name: str) -> Any:
    column = next(column for column in columns if column.name.casefold() == name.casefold())
    [text] = [value for folder, value in folders_of(file.path) if folder.casefold() == name.casefold()]
    return folder_value(text, column.type)
