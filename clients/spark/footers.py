"""What a file's footer proves: that its columns are those of the DataFrame, and which row groups a filter keeps."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
from pyarrow import types as kinds

from .columns import Column, fits
from .conditions import Bounds, Condition, Kept, comparable, kept
from .listing import NotPlain

_LEGACY: Final = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_SPARK_VERSION: Final = b"org.apache.spark.version"
_FIRST_PROLEPTIC: Final = 3


@dataclass(frozen=True, slots=True)
class Group:
    """A row group: `key` is the one value that a column has in all of it, where that was asked for."""

    index: int
    rows: int
    stored: int
    key: Any = None


@dataclass(frozen=True, slots=True)
class Footer:
    """`groups` are those that the filters keep, of `count` in the file; an ORC file is one group."""

    path: str
    groups: tuple[Group, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """What is asked of every file: its columns as the DataFrame has them, `absent` ones that it must not have."""

    columns: Sequence[Column]
    absent: Sequence[str]
    filters: Sequence[tuple[Condition, str]]
    key: str | None


def read_footer(path: str, format_: str, asked: Questions) -> Footer:
    """Raises `NotPlain` where the file does not mean for Tidegate what it means for Spark, or cannot be read."""
    try:
        if format_ == "orc":
            return _orc(path, asked)
        footer = pq.read_metadata(path)
        schema = footer.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as error:
        raise NotPlain(f"{path} cannot be read here: {' '.join(str(error).split())}") from error
    _check_storage(path, footer, asked.columns)
    _check_columns(path, schema, asked)
    return Footer(path, tuple(_kept_groups(path, footer, asked)), footer.num_row_groups)


def _orc(path: str, asked: Questions) -> Footer:
    file = orc.ORCFile(path)
    _check_columns(path, file.schema, asked)
    if asked.filters:
        raise NotPlain(f"the filter {asked.filters[0][1]} has to be computed: ORC files are read as a whole")
    if strange := [column.name for column in asked.columns if column.temporal or kinds.is_nested(column.type)]:
        raise NotPlain(f"column {strange[0]!r} has a type of which ORC has several forms")
    if asked.key is not None:
        raise NotPlain(f"the values of {asked.key!r} in ORC files are known only once they are read")
    return Footer(path, (Group(0, file.nrows, file.content_length),), 1)


def _check_columns(path: str, schema: pa.Schema, asked: Questions) -> None:
    for column in asked.columns:
        named = [field for field in schema if field.name.casefold() == column.name.casefold()]
        if len(named) > 1:
            raise NotPlain(f"{path} has more than one column called {column.name!r}")
        if named and not fits(named[0].type, column.type):
            raise NotPlain(f"column {column.name!r} is {named[0].type} in {path} and {column.type} in the DataFrame")
    names = {name.casefold() for name in schema.names}
    for name in asked.absent:
        if name.casefold() in names:
            raise NotPlain(f"the plan reads column {name!r}, which is in {path} and not in the DataFrame")


def _check_storage(path: str, footer: pq.FileMetaData, columns: Sequence[Column]) -> None:
    """Dates and timestamps only as they are stored today: no INT96, no calendar that ends in 1582."""
    temporal = {column.name.casefold() for column in columns if column.temporal}
    if not temporal:
        return
    for i in range(len(footer.schema)):
        leaf = footer.schema.column(i)
        if leaf.physical_type == "INT96" and leaf.path.split(".")[0].casefold() in temporal:
            raise NotPlain(f"column {leaf.path!r} of {path} has timestamps in the old form INT96")
    written = footer.metadata or {}
    version = written.get(_SPARK_VERSION, b"3").split(b".")[0]
    if any(key in written for key in _LEGACY) or not version.isdigit() or int(version) < _FIRST_PROLEPTIC:
        raise NotPlain(f"{path} has dates or timestamps in the calendar of Spark 2")


def _kept_groups(path: str, footer: pq.FileMetaData, asked: Questions) -> Iterator[Group]:
    leaves = {footer.schema.column(i).path.casefold(): i for i in range(len(footer.schema))}
    for index in range(footer.num_row_groups):
        group = footer.row_group(index)
        bounds = _Statistics(group, leaves)
        verdicts = [(kept(condition, bounds), text) for condition, text in asked.filters]
        if any(verdict is Kept.NONE for verdict, _ in verdicts):
            continue
        for verdict, text in verdicts:
            if verdict is not Kept.ALL and group.num_rows:
                raise NotPlain(f"the filter {text} keeps a part of row group {index} of {path}, as far as one can tell")
        key = None if asked.key is None else _only_value(path, index, asked.key, bounds)
        stored = sum(group.column(i).total_compressed_size for i in range(group.num_columns))
        yield Group(index, group.num_rows, stored, key)


def _only_value(path: str, index: int, name: str, statistics: _Statistics) -> Any:
    found = statistics.bounds(name)
    if found is None or found.low is None or found.low != found.high or found.nulls != 0:
        raise NotPlain(f"row group {index} of {path} has several values of {name!r}, as far as one can tell")
    return found.low


class _Statistics(Mapping[str, Bounds]):
    """The bounds of a row group's columns, found when they are asked for."""

    def __init__(self, group: pq.RowGroupMetaData, leaves: Mapping[str, int]) -> None:
        self._group = group
        self._leaves = leaves

    def __getitem__(self, name: str) -> Bounds:
        found = self.bounds(name)
        if found is None:
            raise KeyError(name)
        return found

    def bounds(self, name: str) -> Bounds | None:
        leaf = self._leaves.get(name.casefold())
        statistics = None if leaf is None else self._group.column(leaf).statistics
        if statistics is None:
            return None
        low = comparable(statistics.min) if statistics.has_min_max else None
        high = comparable(statistics.max) if statistics.has_min_max else None
        return Bounds(low, high, statistics.null_count if statistics.has_null_count else None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._leaves)

    def __len__(self) -> int:
        return len(self._leaves)


def folder_value(text: str | None, type_: pa.DataType) -> Any:
    """A partition's value as `Group.key` has it."""
    if text is None or kinds.is_string(type_):
        return text
    return comparable(dt.date.fromisoformat(text)) if kinds.is_date(type_) else int(text)
