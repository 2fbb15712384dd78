"""Which of a file's columns is which of the plan's: by name, then by type.

A name matches exactly, else without regard to case where only one does. What the file does not have, its Hive-style
folders may give; the file's own column comes first. What neither has is an error that names those there are; or null,
where the split says so and it is not required.
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
from ...arrays.casts import castable
from ...core.column import Column
from ...core.piece import FilePiece, InlinePiece, Piece
from ..change_column import WORDS, tells_changes


@dataclass(frozen=True, slots=True)
class FromFile:
    """The column at `index` of the file's schema, called `name` there."""

    index: int
    name: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class FromFolder:
    """The same value for all rows, already of the plan's type."""

    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class Missing:
    """Null in all rows."""


Match: TypeAlias = FromFile | FromFolder | Missing

_LISTED: Final = 100


def describe(piece: Piece) -> str:
    """How messages name where rows come from."""
    match piece:
        case FilePiece():
            return f"{piece.path} ({piece.origin})"
        case InlinePiece():
            return piece.origin


class Names:
    """Names of columns, each found at once: files and plans have thousands."""

    def __init__(self, names: Sequence[str]) -> None:
        self.all = names
        self._exact = _places(names)

    @cached_property
    def _folded(self) -> dict[str, list[int]]:
        return _places([name.casefold() for name in self.all])

    def __contains__(self, name: str) -> bool:
        """Whether any differs from it by case alone, if at all."""
        return name in self._exact or name.casefold() in self._folded

    def place(self, name: str) -> int | None:
        """Where the name is: exact, else the only one that differs by case alone. None where there is none or it is
        not clear which.
        """
        found = self._exact.get(name) or self._folded.get(name.casefold(), [])
        return found[0] if len(found) == 1 else None


def _places(names: Sequence[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        found.setdefault(name, []).append(at)
    return found


def match_columns(columns: Sequence[Column], schema: pa.Schema, piece: Piece) -> tuple[Match, ...]:
    """For each column where its values come from, or `SplitError`."""
    partition = piece.partition if isinstance(piece, FilePiece) else ()
    names, folders = Names(schema.names), Names([key for key, _ in partition])
    return tuple(_match(column, schema, names, folders, piece) for column in columns)


def match_change_column(name: str, schema: pa.Schema, piece: Piece) -> FromFile:
    """Where a split's change column is, or `SplitError`."""
    where = describe(piece)
    index = Names(schema.names).place(name)
    if index is None:
        known = _listed(schema.names)
        raise SplitError(f"{where}: change column {name!r} is missing; there are: {known}", reason="MISSING_COLUMN")
    found = schema.field(index)
    if not tells_changes(found.type):
        raise SplitError(
            f"{where}: change column {name!r} is {found.type}; it must hold whole numbers, which are weights, or the "
            f"words {', '.join(WORDS)}",
            reason="COLUMN_TYPE",
        )
    return FromFile(index, found.name, found.type)


def _match(column: Column, schema: pa.Schema, names: Names, folders: Names, piece: Piece) -> Match:
    """`names` are the schema's, `folders` those that the piece's folders give."""
    where = describe(piece)
    index = names.place(column.name)
    if index is not None:
        found = schema.field(index)
        if not castable(found.type, column.type):
            raise SplitError(
                f"{where}: column {column.name!r} is {found.type}, the plan wants {column.type}, and no lossless cast "
                "leads there",
                reason="COLUMN_TYPE",
            )
        return FromFile(index, found.name, found.type)
    if column.name in names:
        raise SplitError(f"{where}: more than one column is called {column.name!r}", reason="AMBIGUOUS_COLUMN")
    folder = folders.place(column.name)
    if folder is not None and isinstance(piece, FilePiece):
        return FromFolder(_folder_value(column, piece.partition[folder][1], where))
    if column.nullable and piece.missing_columns is MissingColumns.NULL:
        return Missing()
    kind, hint = ("", '; with missing_columns="null" it is null') if column.nullable else ("required ", "")
    raise SplitError(
        f"{where}: {kind}column {column.name!r} is missing; there are: {_listed([*schema.names, *folders.all])}{hint}",
        reason="MISSING_COLUMN",
    )


def _listed(names: Sequence[str]) -> str:
    more = f", and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return (", ".join(map(repr, names[:_LISTED])) or "none") + more


def _folder_value(column: Column, text: str | None, where: str) -> pa.Scalar:
    if text is None:
        if column.nullable:
            return pa.scalar(None, column.type)
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
    place = "" if row is None else f", row {row} (counted from 0)"
    return SplitError(f"{where}: required column {column.name!r} is null{place}", reason="NULL_IN_REQUIRED_COLUMN")
