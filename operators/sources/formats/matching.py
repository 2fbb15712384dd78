"""Matching of a file's columns with the plan's columns: by name, then by type.

A name matches exactly, else without regard to case where only one name does. A column that the file lacks may come from
the file's Hive-style folders; the file's own column comes first. `_split` and `_row` that neither has are the numbers
of the split and of the row, where the split has a number. A column that is in neither is an error that names the
columns there are; or it is null, where the split says so and the column is not required. The same holds for the fields
of structs, at any depth, whose names match exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import pyarrow as pa
from pyarrow import types as kinds

from ....proto.errors import SplitError
from ....proto.values import MissingColumns
from ...arrays.casts import castable, plain
from ...core.column import Column
from ...core.piece import FilePiece, InlinePiece, Piece
from ..change_column import WORDS, tells_changes


@dataclass(frozen=True, slots=True)
class FromFile:
    """A match with the column at `index` of the file's schema, called `name` there."""

    index: int
    name: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class FromFolder:
    """A match with a folder's value or the split's number: the same for all rows, already of the plan's type."""

    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class RowNumber:
    """A match with the row's number in its file."""


@dataclass(frozen=True, slots=True)
class Missing:
    """No match: the column is null in all rows."""


Match: TypeAlias = FromFile | FromFolder | RowNumber | Missing

SPLIT_COLUMN: Final = "_split"
ROW_COLUMN: Final = "_row"
"""Columns that a plan may read of a split with a number."""

_LISTED: Final = 100
NULL_HINT: Final = '; with missing_columns="null" its values are null'


def describe(piece: Piece) -> str:
    """The name of a piece in messages."""
    match piece:
        case FilePiece():
            return f"{piece.path} ({piece.origin})"
        case InlinePiece():
            return piece.origin


class Names:
    """Names of columns in a hash table: files and plans have thousands of columns."""

    def __init__(self, names: Sequence[str]) -> None:
        self.all = names
        self._exact = _positions(names)

    @cached_property
    def _folded(self) -> dict[str, list[int]]:
        return _positions([name.casefold() for name in self.all])

    def __contains__(self, name: str) -> bool:
        """True where a name is equal to `name`, or differs from it by case alone."""
        return name in self._exact or name.casefold() in self._folded

    def position(self, name: str) -> int | None:
        """The position of the name: of the exact one, else of the only one that differs by case alone. None where there
        is none, or more than one.
        """
        positions = self._exact.get(name) or self._folded.get(name.casefold(), [])
        return positions[0] if len(positions) == 1 else None


def _positions(names: Sequence[str]) -> dict[str, list[int]]:
    positions: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        positions.setdefault(name, []).append(at)
    return positions


def match_columns(columns: Sequence[Column], schema: pa.Schema, piece: Piece) -> tuple[Match, ...]:
    """The source of each column's values. Raises `SplitError` for a column without one."""
    partition = piece.partition if isinstance(piece, FilePiece) else ()
    names, folders = Names(schema.names), Names([key for key, _ in partition])
    return tuple(_match(column, schema, names, folders, piece) for column in columns)


def match_change_column(name: str, schema: pa.Schema, piece: Piece) -> FromFile:
    """The match of a split's change column. Raises `SplitError` where there is none."""
    where = describe(piece)
    index = Names(schema.names).position(name)
    if index is None:
        known = listed(schema.names)
        raise SplitError(f"{where}: change column {name!r} is missing; there are: {known}", reason="MISSING_COLUMN")
    field = schema.field(index)
    if not tells_changes(field.type):
        raise SplitError(
            f"{where}: change column {name!r} is {field.type} and must have whole numbers, which are weights, or the "
            f"words {', '.join(WORDS)}",
            reason="COLUMN_TYPE",
        )
    return FromFile(index, field.name, field.type)


def _advice(name: str, piece: Piece) -> str:
    if not isinstance(piece, FilePiece) or name not in piece.int96:
        return ""
    return (
        "; the file stores it as INT96, the form of instants: declare it as precision_timestamp_tz<6>, or write times "
        "without a time zone in another form (timestamp_ntz in Spark)"
    )


def _match(column: Column, schema: pa.Schema, names: Names, folders: Names, piece: Piece) -> Match:
    """The match of one column. `names` are the schema's, `folders` the names that the piece's folders give."""
    where = describe(piece)
    index = names.position(column.name)
    if index is not None:
        field = schema.field(index)
        if field.type.equals(column.type):
            return FromFile(index, field.name, field.type)
        if not castable(field.type, column.type):
            raise SplitError(
                f"{where}: column {column.name!r} is {field.type} in the file and {column.type} in the plan, and "
                f"there is no lossless cast between the two{_advice(field.name, piece)}",
                reason="COLUMN_TYPE",
            )
        if piece.missing_columns is not MissingColumns.NULL:
            _check_fields(column, field.type, where)
        return FromFile(index, field.name, field.type)
    if column.name in names:
        raise SplitError(f"{where}: more than one column is called {column.name!r}", reason="AMBIGUOUS_COLUMN")
    folder = folders.position(column.name)
    if folder is not None and isinstance(piece, FilePiece):
        return FromFolder(_folder_value(column, piece.partition[folder][1], where))
    if isinstance(piece, FilePiece) and piece.number is not None and column.name in (SPLIT_COLUMN, ROW_COLUMN):
        return _numbered(column, piece.number, where)
    if column.nullable and piece.missing_columns is MissingColumns.NULL:
        return Missing()
    kind, hint = ("", NULL_HINT) if column.nullable else ("required ", "")
    raise SplitError(
        f"{where}: {kind}column {column.name!r} is missing; there are: {listed([*schema.names, *folders.all])}{hint}",
        reason="MISSING_COLUMN",
    )


def _check_fields(column: Column, type_: pa.DataType, where: str) -> None:
    lacking = _lacking(type_, column.type)
    if lacking is not None:
        path, there = lacking
        raise SplitError(
            f"{where}: field {path!r} of column {column.name!r} is missing; there are: {listed(there)}{NULL_HINT}",
            reason="MISSING_COLUMN",
        )


def _lacking(type_: pa.DataType, wanted: pa.DataType) -> tuple[str, Sequence[str]] | None:
    """The path of the first field of `wanted` that `found` does not have, and the fields that are there instead."""
    type_, wanted = plain(type_), plain(wanted)
    if type_.equals(wanted) or kinds.is_null(type_):
        return None
    if kinds.is_map(wanted):
        return _lacking(type_.key_type, wanted.key_type) or _lacking(type_.item_type, wanted.item_type)
    if kinds.is_struct(wanted):
        there = {field.name: field.type for field in type_}
        for field in wanted:
            if field.name not in there:
                return field.name, list(there)
            if (lacking := _lacking(there[field.name], field.type)) is not None:
                return f"{field.name}.{lacking[0]}", lacking[1]
        return None
    return _lacking(type_.value_type, wanted.value_type) if kinds.is_nested(wanted) else None


def listed(names: Sequence[str]) -> str:
    more = f", and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return (", ".join(map(repr, names[:_LISTED])) or "none") + more


def _numbered(column: Column, number: int, where: str) -> FromFolder | RowNumber:
    if not kinds.is_int64(column.type):
        raise SplitError(
            f"{where}: column {column.name!r} is {column.type} in the plan; numbers of splits and rows are i64",
            reason="COLUMN_TYPE",
        )
    return RowNumber() if column.name == ROW_COLUMN else FromFolder(pa.scalar(number, column.type))


def _folder_value(column: Column, text: str | None, where: str) -> pa.Scalar:
    if text is None:
        if column.nullable:
            return pa.nulls(1, column.type)[0]
        raise null_in_required(column, where)
    if kinds.is_nested(column.type) or kinds.is_duration(column.type):
        raise SplitError(f"{where}: a folder's name cannot give column {column.name!r} of type {column.type}")
    try:
        return pa.scalar(text, pa.string()).cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SplitError(
            f"{where}: folder {column.name}={text} does not give a value of type {column.type}", reason="COLUMN_VALUE"
        ) from error


def null_in_required(column: Column, where: str, row: int | None = None) -> SplitError:
    where_in_rows = "" if row is None else f", row {row} (counted from 0)"
    return SplitError(
        f"{where}: required column {column.name!r} is null{where_in_rows}", reason="NULL_IN_REQUIRED_COLUMN"
    )
