"""Files as a relation that DuckDB reads itself: the epoch's pieces of one source, in order, in the plan's types.

Whole files of one schema are one `read_parquet` over a list. A range of a file is a branch of its own, because that
lets DuckDB skip row groups. Paths, folder values and messages are bound as parameters.

DuckDB must give exactly the rows that `scan` gives; `native_obstacle` says why it cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import ceil
from typing import Final, TypeAlias

import pyarrow as pa
from pyarrow import types as kinds

from ...proto.errors import SplitError
from ...proto.values import MissingColumns
from ..arrays.casts import plain
from ..core.column import Column
from ..core.piece import FilePiece, Piece
from ..core.quoting import identifier, writable
from .formats.matching import FromFile, FromFolder, Match, Missing, RowNumber, describe, match_columns

_Bind: TypeAlias = Callable[[object], str]

_KEPT: Final = 0.2
_OWN: Final[Mapping[str, str]] = {}
#: DuckDB's own columns, which tell where a row is. A column of the file by that name would hide them.
_POSITIONS: Final = ("file_index", "file_row_number")
#: The widest rows that DuckDB may read: it reads 2,048 rows of a file at a time, however large they are.
_WIDEST: Final = 8 << 10
#: The most bytes of pages that DuckDB may hold of a file.
_LARGEST_PART: Final = 64 << 20
_READINGS_KEPT: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileSource:
    """A source that a statement reads from files, under the name `relation`, with columns c0, c1, ...

    Where the source is `placed`, columns p0, p1 and p2 order its rows as they are in the pieces. Where it has
    `full_cardinality`, DuckDB is made to estimate its true number of rows.
    """

    source: str
    relation: str
    columns: tuple[Column, ...]
    placed: bool = False
    full_cardinality: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the relation's columns. A relation has at least one column, even if the source has none."""
        named = [f"c{i}" for i in range(len(self.columns))]
        return (*named, "p0", "p1", "p2") if self.placed else tuple(named) or ("c0",)


@dataclass(frozen=True, slots=True)
class Definition:
    """A common table expression, and the values of its parameters. `positioned` says whether it reads the positions of
    rows in their files.
    """

    sql: str
    values: tuple[object, ...]
    positioned: bool = False


def native_obstacle(pieces: Sequence[Piece], columns: Sequence[Column]) -> str | None:
    """The reason why DuckDB cannot read these pieces exactly as the plan wants them; None where it can."""
    seen: FilePiece | None = None
    for piece in pieces:
        if not isinstance(piece, FilePiece) or piece.format != "parquet" or piece.schema is None:
            return f"{describe(piece)} is not a Parquet file"
        if any(character in piece.path for character in "*?[]{}"):
            return f"DuckDB would take {piece.path} for a pattern"
        if (piece.row_bytes or 0) > _WIDEST:
            return f"{piece.path} has rows of about {piece.row_bytes:,} bytes, and DuckDB reads 2,048 rows at a time"
        if (piece.part_bytes or 0) > _LARGEST_PART:
            return f"{piece.path} has pages or lists that take {piece.part_bytes:,} bytes, which DuckDB does not bound"
        alike = seen is not None and _same_meaning(seen, piece)
        if not alike or piece.partition:
            obstacle = _known_obstacle(piece, piece.schema, columns)
            if obstacle is not None:
                return f"{piece.path}: {obstacle}"
        seen = piece
    return None


def _same_meaning(left: FilePiece, right: FilePiece) -> bool:
    """True where the two files have the same columns, and the same meaning of those that they lack."""
    assert left.schema is not None
    missing = left.missing_columns is right.missing_columns and (left.number is None) == (right.number is None)
    return missing and left.int96 == right.int96 and left.schema.equals(right.schema)


@dataclass(frozen=True, slots=True)
class _Reading:
    """A way to read a piece. Equal for pieces of the same schema and columns, which are compared by identity: their
    numbers are theirs for as long as this value holds them.
    """

    numbers: tuple[int, int]
    int96: frozenset[str]
    missing: MissingColumns | None
    is_numbered: bool
    schema: pa.Schema = field(compare=False)
    columns: tuple[Column, ...] = field(compare=False)


@lru_cache(_READINGS_KEPT)
def _found_free(_reading: _Reading) -> list[bool]:
    """A place to note that nothing hinders this reading: many splits of one file are read alike."""
    return []


def _known_obstacle(piece: FilePiece, schema: pa.Schema, columns: Sequence[Column]) -> str | None:
    if piece.partition:
        return _schema_obstacle(piece, schema, columns)
    wanted = tuple(columns)  # a tuple itself; a list, which may change, never is what it was
    numbers, is_numbered = (id(schema), id(wanted)), piece.number is not None
    found_free = _found_free(_Reading(numbers, piece.int96, piece.missing_columns, is_numbered, schema, wanted))
    if found_free:
        return None
    obstacle = _schema_obstacle(piece, schema, columns)
    if obstacle is None:
        found_free.append(True)
    return obstacle


def _schema_obstacle(piece: FilePiece, schema: pa.Schema, columns: Sequence[Column]) -> str | None:
    folded = [name.casefold() for name in schema.names]
    if len(set(folded)) != len(folded):
        return "some column names differ only by case"
    hiding = [name for name in schema.names if name.casefold() in _POSITIONS]
    if hiding:
        return f"column {hiding[0]!r} hides DuckDB's own column of that name"
    try:
        matches = match_columns(columns, schema, piece)
    except SplitError as error:
        return error.message
    for column, match in zip(columns, matches, strict=True):
        if sql_type(column.type) is None:
            return f"column {column.name!r} is {column.type}"
        if isinstance(match, FromFile) and not writable(match.name):
            return f"a column called {match.name!r} cannot be named in SQL"
        if isinstance(match, FromFile) and match.name in piece.int96:
            return f"column {match.name!r} has instants in INT96, which DuckDB takes for times without a time zone"
        if isinstance(match, FromFile) and not _same_in_duckdb(match.type, column.type):
            return f"column {column.name!r} is {match.type} in the file and {column.type} in the plan"
    return None


def _same_in_duckdb(file: pa.DataType, wanted: pa.DataType) -> bool:
    """True where DuckDB reads and casts such a column to the values that `scan` gives, and refuses the same values."""
    if kinds.is_dictionary(file):
        file = file.value_type
    file = file if isinstance(file, pa.BaseExtensionType) else plain(file)
    if file.equals(wanted):
        return sql_type(wanted) is not None
    if kinds.is_integer(file) and kinds.is_integer(wanted):
        return True
    if kinds.is_integer(file) and kinds.is_floating(wanted):
        return bool(file.bit_width * 2 <= wanted.bit_width)
    if kinds.is_float32(file):
        return bool(kinds.is_float64(wanted))
    if kinds.is_decimal128(file) and kinds.is_decimal128(wanted):
        return bool(wanted.scale >= file.scale and wanted.precision - wanted.scale >= file.precision - file.scale)
    if kinds.is_timestamp(file) and kinds.is_timestamp(wanted):
        units = {file.unit, wanted.unit}
        return (file.tz is None) == (wanted.tz is None) and units <= {"ms", "us"} and wanted.unit == "us"
    return False


_SQL_TYPES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    pa.time64("us"): "TIME",
    pa.timestamp("ms"): "TIMESTAMP_MS",
    pa.timestamp("us"): "TIMESTAMP",
}


def sql_type(type_: pa.DataType) -> str | None:
    """DuckDB's type for a column read from a file; None for a type that goes through `scan` instead."""
    if kinds.is_decimal128(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if kinds.is_timestamp(type_) and type_.tz is not None:
        return "TIMESTAMPTZ" if type_.unit == "us" else None
    if kinds.is_list(type_):
        element = sql_type(type_.value_type)
        return None if element is None else f"{element}[]"
    return _SQL_TYPES.get(type_)


def contiguous(pieces: Sequence[FilePiece]) -> Iterator[FilePiece]:
    """The pieces, with neighbours that continue each other in the same file, in one range of keys, joined into one."""
    run: list[FilePiece] = []
    for piece in pieces:
        if run and not _continues(run[-1], piece):
            yield _joined(run)
            run = []
        run.append(piece)
    if run:
        yield _joined(run)


def _joined(run: Sequence[FilePiece]) -> FilePiece:
    first, last = run[0], run[-1]
    if first is last:
        return first
    assert first.rows is not None
    assert last.rows is not None
    return replace(
        first,
        rows=(first.rows[0], last.rows[1]),
        row_count=sum(piece.row_count or 0 for piece in run),
        byte_count=sum(piece.byte_count or 0 for piece in run),
    )


def _continues(left: FilePiece, right: FilePiece) -> bool:
    if left.rows is None or right.rows is None or left.path != right.path or left.origin != right.origin:
        return False
    alike = left.version == right.version and left.schema is right.schema and left.keys == right.keys
    return alike and left.rows[1] == right.rows[0]


def define(
    source: FileSource, pieces: Sequence[FilePiece], first_parameter: int, paths: Mapping[str, str] = _OWN
) -> Definition:
    """The definition of `source.relation` over `pieces`, all of which must be `native`. Parameters count from
    `first_parameter`. `paths` has the path to open a file by, where that is not the file's own.
    """
    values: list[object] = []

    def bind(value: object) -> str:
        values.append(value)
        return f"${first_parameter + len(values) - 1}"

    branches = [_branch(source, i, group, paths, bind) for i, group in enumerate(_groups(pieces))] or [_nothing(source)]
    names = ", ".join(source.names)
    body = " UNION ALL ".join(branches)
    sql = f"{identifier(source.relation)}({names}) AS NOT MATERIALIZED ({body})"
    return Definition(sql, tuple(values), any(position in body for position in _POSITIONS))


def _groups(pieces: Sequence[FilePiece]) -> Iterator[list[FilePiece]]:
    """Runs of whole files with one schema. A part of a file is a group by itself."""
    group: list[FilePiece] = []
    for piece in contiguous(pieces):
        if group and (not piece.whole or not group[-1].whole or not _alike(group[-1], piece)):
            yield group
            group = []
        group.append(piece)
    if group:
        yield group


def _alike(left: FilePiece, right: FilePiece) -> bool:
    assert left.schema is not None
    keys = [key for key, _ in left.partition] == [key for key, _ in right.partition]
    return keys and left.schema.equals(right.schema) and left.never_null == right.never_null and left.keys == right.keys


def _branch(source: FileSource, number: int, group: Sequence[FilePiece], paths: Mapping[str, str], bind: _Bind) -> str:
    first = group[0]
    assert first.schema is not None
    matches = [match_columns(source.columns, piece.schema or first.schema, piece) for piece in group]
    columns = [
        _expression(column, [match[i] for match in matches], first, source, bind)
        for i, column in enumerate(source.columns)
    ]
    if source.placed:
        columns += [f"{number:d}", "file_index", "file_row_number"]
    wanted = list(_wanted(first))
    opened = [paths.get(piece.path, piece.path) for piece in group]
    times = _times(group) if wanted and source.full_cardinality else 1
    if times > 1:
        wanted.append(f"file_index < {len(opened):d}")
    where = f" WHERE {' AND '.join(wanted)}" if wanted else ""
    files = bind(opened * times)
    return f"SELECT {', '.join(columns) or 'NULL::TINYINT'} FROM read_parquet({files}, hive_partitioning=false){where}"


def _times(group: Sequence[FilePiece]) -> int:
    """The number of times to list the files of a part; only the first listing is read. DuckDB orders joins by
    estimates. It expects as many rows as the listed files have, and the share `_KEPT` of them as soon as there is any
    condition. There is no other way to raise the estimate: DuckDB takes the files' own numbers over
    `explicit_cardinality`. A file that is listed and not read costs the read of its footer.
    """
    rows = sum(piece.row_count or 0 for piece in group)
    listed = sum(piece.file_rows or 0 for piece in group)
    return max(1, ceil(rows / (listed * _KEPT))) if listed else 1


def _wanted(piece: FilePiece) -> Iterator[str]:
    """Conditions by which DuckDB skips row groups. DuckDB checks each one for every row that it reads, so there are as
    few as possible.
    """
    if not piece.whole and piece.rows is not None:
        start, end = piece.rows
        if start:
            yield f"file_row_number >= {start:d}"
        if end != piece.file_rows:
            yield f"file_row_number < {end:d}"
    if piece.keys is not None:
        name = identifier(piece.keys.column)
        if piece.keys.low is not None:
            yield f"{name} >= {_key(piece, piece.keys.low)}"
        if piece.keys.high is not None:
            yield f"{name} < {_key(piece, piece.keys.high)}"


def _key(piece: FilePiece, value: int) -> str:
    """A value of the piece's key, which is a number of days or of microseconds if the key is a date or a moment."""
    assert piece.schema is not None
    assert piece.keys is not None
    type_ = piece.schema.field(piece.keys.column).type
    if kinds.is_timestamp(type_):
        return f"make_timestamp{'' if type_.tz is None else 'tz'}({value:d}::BIGINT)"
    return f"make_date({value:d})" if kinds.is_date(type_) else f"{value:d}"


def _expression(column: Column, matches: Sequence[Match], piece: FilePiece, source: FileSource, bind: _Bind) -> str:
    wanted = sql_type(column.type)
    match matches[0]:
        case FromFile(name=name, index=index):
            value = f"CAST({identifier(name)} AS {wanted})"
            assert piece.schema is not None
            proved = name in piece.never_null or not piece.schema.field(index).nullable
            if column.nullable or proved:
                return value
            message = bind(f"required column {column.name!r} of source {source.source!r} is null")
            return f"CASE WHEN {identifier(name)} IS NULL THEN error({message}::VARCHAR)::{wanted} ELSE {value} END"
        case FromFolder():
            values = [match.value.as_py() for match in matches if isinstance(match, FromFolder)]
            if all(value == values[0] for value in values):
                return f"CAST({bind(values[0])} AS {wanted})"
            return f"CAST({bind(values)} AS {wanted}[])[(file_index + 1)::BIGINT]"
        case RowNumber():
            return f"CAST(file_row_number AS {wanted})"
        case Missing():
            return f"CAST(NULL AS {wanted})"


def _nothing(source: FileSource) -> str:
    columns = [f"CAST(NULL AS {sql_type(column.type)})" for column in source.columns]
    columns += ["0"] * (len(source.names) - len(columns))
    return f"SELECT {', '.join(columns)} WHERE false"
