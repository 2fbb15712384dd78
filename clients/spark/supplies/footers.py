"""Facts from a file's footer: that its columns are those of the DataFrame, and which row groups a filter keeps."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
from pyarrow import types as kinds

from ...proto.arrow.parquet_footer import Footer as ParquetFooter
from ...proto.arrow.parquet_footer import RowGroup, comparable
from ...proto.arrow.parquet_footer import read_footer as read_parquet_footer
from ...proto.arrow.parquet_instants import in_the_calendar_of_spark_2, int96_columns, with_instants
from ..frame_columns import Column, fits
from .conditions import Bounds, Condition, Kept, kept
from .conditions import comparable as comparable_value
from .spark_listing import NotPlain

_LEGACY: Final = b"org.apache.spark.legacyDateTime"
_SPARK_VERSION: Final = b"org.apache.spark.version"
_FIRST_PROLEPTIC: Final = 3


@dataclass(frozen=True, slots=True)
class Group:
    """A row group. `key` is the one value that a column has in all of it, if that was asked for."""

    index: int
    rows: int
    stored: int
    key: Any = None


@dataclass(frozen=True, slots=True)
class Footer:
    """A file's footer.

    `groups` are the row groups that the filters keep, of `count` in the file; an ORC file is one group.
    """

    path: str
    groups: tuple[Group, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """The questions for every file: its columns as the DataFrame has them, and `absent` ones that it must not have.

    `columns` are those that are read and those that the filters look at: statistics of any other column prove nothing,
    because the DataFrame may have other values there than the file.
    """

    columns: Sequence[Column]
    absent: Sequence[str]
    filters: Sequence[tuple[Condition, str]]
    key: str | None
    case_sensitive: bool


def read_footer(path: str, format_: str, asked: Questions) -> Footer:
    """Read a file's footer.

    Raises `NotPlain` if the file does not mean the same for Tidegate and for Spark, or cannot be read.
    """
    try:
        if format_ == "orc":
            return _orc(path, asked)
        with pa.OSFile(path) as file:
            footer = read_parquet_footer(file)
        metadata = pq.read_metadata(path)
        schema = with_instants(metadata.schema.to_arrow_schema(), footer)
        _check_storage(path, footer, metadata.metadata or {}, asked.columns)
        _check_columns(path, schema, asked)
        return Footer(path, tuple(_kept_groups(path, footer, schema, asked)), len(footer.groups))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise NotPlain(f"{path} cannot be read here: {' '.join(str(error).split())}") from error


def _orc(path: str, asked: Questions) -> Footer:
    file = orc.ORCFile(path)
    _check_columns(path, file.schema, asked)
    if asked.filters:
        raise NotPlain(f"the filter {asked.filters[0][1]} must be computed, and ORC files are read as a whole")
    if strange := [column.name for column in asked.columns if column.temporal or kinds.is_nested(column.type)]:
        raise NotPlain(f"column {strange[0]!r} has a type that ORC stores in several forms")
    if asked.key is not None:
        raise NotPlain(f"the values of {asked.key!r} in ORC files are known only once they are read")
    return Footer(path, (Group(0, file.nrows, file.content_length),), 1)


def _check_columns(path: str, schema: pa.Schema, asked: Questions) -> None:
    for column in asked.columns:
        named = [field for field in schema if field.name.casefold() == column.name.casefold()]
        if len(named) > 1:
            raise NotPlain(f"{path} has more than one column called {column.name!r}")
        if named and asked.case_sensitive and named[0].name != column.name:
            raise NotPlain(f"{path} has {named[0].name!r}, and the session tells it from column {column.name!r}")
        if named and not fits(named[0].type, column.type):
            raise NotPlain(f"column {column.name!r} is {named[0].type} in {path} and {column.type} in the DataFrame")
    names = {name.casefold() for name in schema.names}
    for name in asked.absent:
        if name.casefold() in names:
            raise NotPlain(f"the plan reads column {name!r}, which {path} has and the DataFrame does not")


def _check_storage(path: str, footer: ParquetFooter, written: Mapping[bytes, bytes], columns: Sequence[Column]) -> None:
    """Refuse dates and timestamps in a calendar that ends in 1582."""
    if not any(column.temporal for column in columns):
        return
    version = written.get(_SPARK_VERSION, b"3").split(b".")[0]
    is_old = _LEGACY in written or not version.isdigit() or int(version) < _FIRST_PROLEPTIC
    if is_old or (int96_columns(footer) and in_the_calendar_of_spark_2(written)):
        raise NotPlain(f"{path} has dates or timestamps in the calendar of Spark 2")


def _kept_groups(path: str, footer: ParquetFooter, schema: pa.Schema, asked: Questions) -> Iterator[Group]:
    checked = {column.name.casefold() for column in asked.columns}
    for index, group in enumerate(footer.groups):
        bounds = _Statistics(footer, group, schema, checked)
        verdicts = [(kept(condition, bounds), text) for condition, text in asked.filters]
        if any(verdict is Kept.NONE for verdict, _ in verdicts):
            continue
        for verdict, text in verdicts:
            if verdict is not Kept.ALL and group.rows:
                raise NotPlain(f"the filter {text} may keep only a part of row group {index} of {path}")
        key = None if asked.key is None else _only_value(path, index, asked.key, bounds)
        yield Group(index, group.rows, sum(chunk.compressed for chunk in group.chunks), key)


def _only_value(path: str, index: int, name: str, statistics: _Statistics) -> Any:
    bounds = statistics.bounds(name)
    if bounds is None or bounds.low is None or bounds.low != bounds.high or bounds.nulls != 0:
        raise NotPlain(f"row group {index} of {path} may have several values of {name!r}")
    return bounds.low


class _Statistics(Mapping[str, Bounds]):
    """The bounds of a row group's `checked` columns, found when they are asked for."""

    def __init__(self, footer: ParquetFooter, group: RowGroup, schema: pa.Schema, checked: set[str]) -> None:
        self._footer = footer
        self._group = group
        self._schema = schema
        self._places = {name.casefold(): at for name, at in footer.positions.items() if name.casefold() in checked}

    def __getitem__(self, name: str) -> Bounds:
        bounds = self.bounds(name)
        if bounds is None:
            raise KeyError(name)
        return bounds

    def bounds(self, name: str) -> Bounds | None:
        at = self._places.get(name.casefold())
        if at is None:
            return None
        leaf = self._footer.leaves[at]
        bounds = self._footer.bounds(self._group, at)
        type_ = self._schema.field(leaf.path[0]).type
        low, high = (None, None) if bounds is None else (comparable(bound, leaf, type_) for bound in bounds)
        return Bounds(low, high, self._group.chunks[at].nulls)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def folder_value(text: str | None, type_: pa.DataType) -> Any:
    """A partition's value in the form of `Group.key`."""
    if text is None or kinds.is_string(type_):
        return text
    return comparable_value(dt.date.fromisoformat(text)) if kinds.is_date(type_) else int(text)
