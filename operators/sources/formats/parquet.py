"""Parquet: pieces are row groups, and only the wanted columns' chunks of wanted row groups are read.

Row groups are read one after the other, so a reader that stops early has not decoded the next one. The first row group
comes in small batches, because a caller waits for its first rows. Later ones come in larger batches, which cost less:
of more rows where these are narrow, and of more bytes where they are wide, as far as the task has memory. A split that
is a small part of a file is a part of a larger read: each of its row groups comes as one batch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate, chain, pairwise, repeat
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ....proto.arrow.parquet_footer import Footer, read_footer, whole_number
from ....proto.arrow.parquet_instants import int96_columns, with_instants
from ....proto.arrow.validation import each_validated, validated_schema
from ...core.batches import batch_of
from ...core.column import Column
from ...core.piece import FilePiece
from ...core.sizes import BATCH_BYTES, batch_bytes, is_encoded, rows_within
from ..file_versions import UNLIMITED, Files, PieceFiles, State, is_settled, settled_state
from ..int96_check import Instants
from .format import BATCH_ROWS, numbered, part_too_large, room
from .matching import Names, describe
from .parquet_opening import leaves_of, opening_of, wanted_names
from .parquet_pages import has_checksums
from .parquet_widths import Widths
from .row_ranges import cut, within
from .undecoded.long_lists import LongLists, long_lists
from .undecoded.plain_numbers import PlainNumbers, plain_numbers

#: Types of columns that may be read as dictionaries. pyarrow reads large texts as dictionaries of another type.
_TEXTS: Final = frozenset({pa.string(), pa.binary()})
_LATER_ROWS: Final = 2 * BATCH_ROWS
_LATER_BYTES: Final = 4 * BATCH_BYTES
#: Later batches of wide rows take at most one part in so many of the memory that a task has: four are read ahead.
_LATER_SHARE: Final = 256
#: Rows of so many bytes, by the largest ones of the file, need no closer look.
_FEW_BYTES: Final = 8 * BATCH_BYTES
#: The rows of a file that DuckDB decodes together.
VECTOR_ROWS: Final = 2_048
_FILES_KEPT: Final = 64
#: The farthest moments, before and after 1970, at which a file may be cut.
_FARTHEST: Final = {pa.date32().id: 1 << 30, pa.timestamp("us").id: 1 << 61}


class _Sizes(NamedTuple):
    """The most rows of the batches of a row group, and about their most bytes: of any rows, and of narrow ones."""

    rows: int
    bytes: int
    bytes_of_narrow: int


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a file tells about each of its pieces, for the columns that a plan wants. If they are `settled`, each later
    change of the file shows in its state.
    """

    footer: Footer
    schema: pa.Schema
    checksums: bool
    never_null: frozenset[str]
    int96: frozenset[str]
    row_bytes: int
    part_bytes: int
    settled: bool = False


@lru_cache(_FILES_KEPT)
def _kept(_state: State, _columns: tuple[Column, ...]) -> list[_Facts]:
    """A place for what a file in this state tells, for the whole process: a file of many splits is opened for each."""
    return []


def _facts_of(file: pa.NativeFile, footer: Footer, columns: Sequence[Column], state: State | None) -> _Facts:
    metadata = pq.read_metadata(file)
    schema = validated_schema(with_instants(metadata.schema.to_arrow_schema().remove_metadata(), footer))
    wanted = leaves_of(footer, wanted_names(schema, columns))
    widths = Widths(file, metadata, footer, state)
    numbers = [number for number, group in enumerate(footer.groups) if group.rows]  # others have no pages
    part_bytes = max((widths.held_bytes(group, wanted) for group in numbers), default=0)
    list_bytes = max((widths.most_bytes(group, wanted, VECTOR_ROWS) for group in numbers), default=0)
    page_bytes = max((widths.unfolded_bytes(group, wanted) for group in numbers), default=0)
    return _Facts(
        footer=footer,
        schema=schema,
        checksums=has_checksums(file, footer),
        never_null=_never_null(footer, schema, columns),
        int96=int96_columns(footer),
        row_bytes=max((widths.row_bytes(group, wanted, densest=True) for group in numbers), default=0),
        part_bytes=max(part_bytes, list_bytes, page_bytes),
    )


class Parquet:
    name = "parquet"
    endings = (".parquet", ".parq", ".pq")
    ranges = True
    compressed = False

    def open(self, piece: FilePiece, columns: Sequence[Column], filesystem: Files) -> tuple[FilePiece, ...]:
        state = _state(filesystem)
        kept = [] if state is None else _kept(state, tuple(columns))
        settled = state is not None and is_settled(state)
        with filesystem.open_input_file(piece.path) as file:
            footer = read_footer(file)
            facts = next((facts for facts in kept if facts.footer is footer), None)
            if facts is None or (settled and not facts.settled):
                facts = replace(facts or _facts_of(file, footer, columns, state), settled=settled)
                kept[:] = [facts] if footer.is_kept else []
        return _pieces(piece, facts, columns)

    def opened_before(self, piece: FilePiece, columns: Sequence[Column]) -> tuple[FilePiece, ...] | None:
        """The pieces that `open` would give, if the file was opened and has not changed since. It is not opened."""
        state = settled_state(piece)
        kept = [] if state is None else _kept(state, tuple(columns))
        return _pieces(piece, kept[0], columns) if kept and kept[0].settled else None

    def read(self, piece: FilePiece, columns: Sequence[Column], filesystem: PieceFiles) -> ParquetReader:
        return ParquetReader(piece, columns, filesystem, filesystem.largest)


def _pieces(piece: FilePiece, facts: _Facts, columns: Sequence[Column]) -> tuple[FilePiece, ...]:
    known = replace(
        piece,
        schema=facts.schema,
        checksums=facts.checksums,
        never_null=facts.never_null,
        int96=facts.int96,
        row_bytes=facts.row_bytes,
        part_bytes=facts.part_bytes,
    )
    groups = facts.footer.groups
    pieces = cut(known, [group.rows for group in groups], [group.byte_size for group in groups])
    return _with_key_bounds(pieces, facts.footer, facts.schema, columns)


class ParquetReader:
    """A reader of a file, of which no row may have more bytes than `largest`."""

    def __init__(
        self, piece: FilePiece, columns: Sequence[Column], filesystem: Files, largest: int = UNLIMITED
    ) -> None:
        self._largest = largest
        self._part_bytes = piece.part_bytes
        self._row_bytes = piece.row_bytes
        self._descriptor = (
            filesystem.descriptor if isinstance(filesystem, PieceFiles) and filesystem.are_local else None
        )
        self._file = filesystem.open_input_file(piece.path)
        try:
            self._state = _state(filesystem)
            opening = opening_of(self._file, columns, self._state)
            self._footer = opening.footer
            self._open = partial(opening.open, self._file)
            self._decoder: pq.ParquetFile | None = None
            self._widths = Widths(self._file, opening.metadata, self._footer, self._state)
            self._instants = Instants(self._footer, opening.metadata.metadata, describe(piece))
            self.schema = opening.schema
        except BaseException:
            self._file.close()
            raise
        self._dictionaries: tuple[frozenset[str], pq.ParquetFile] | None = None
        self._in_seconds: pq.ParquetFile | None = None
        self._rows = piece.rows or (0, sum(group.rows for group in self._footer.groups))

    def batches(self, indices: Sequence[int]) -> Generator[tuple[int, pa.RecordBatch]]:
        first, groups = self._groups()
        if not groups:
            return
        names = [self.schema.field(i).name for i in indices]
        later = max(BATCH_BYTES, min(_LATER_BYTES, self._largest // _LATER_SHARE))
        first_sizes = _Sizes(BATCH_ROWS, BATCH_BYTES, BATCH_BYTES)
        sizes: Iterator[_Sizes] = chain([first_sizes], repeat(_Sizes(_LATER_ROWS, later, BATCH_BYTES)))
        if self._is_part(groups, later):
            sizes = repeat(_Sizes(_LATER_ROWS, later, later))
        read = chain.from_iterable(self._read(group, names, size) for group, size in zip(groups, sizes, strict=False))
        encoded = any(is_encoded(self.schema.field(index).type) for index in indices)
        for start, batch in within(read, first, self._rows):
            # A name with a dot also selects nested columns, so the columns are picked again by their own names.
            wanted = self._instants.typed(batch if batch.schema.names == names else batch.select(names), self.schema)
            if not encoded and wanted.num_rows <= _LATER_ROWS and batch_bytes(wanted) <= later:
                yield start, wanted
            else:
                yield from numbered(start, wanted, _LATER_ROWS, later)

    def _is_part(self, groups: Sequence[int], most: int) -> bool:
        """True for some row groups of a file whose rows are at most so many bytes."""
        rows = sum(self._footer.groups[group].rows for group in groups)
        return len(groups) < len(self._footer.groups) and self._row_bytes is not None and rows * self._row_bytes <= most

    def _read(self, group: int, names: Sequence[str], sizes: _Sizes) -> Iterator[pa.RecordBatch]:
        leaves = leaves_of(self._footer, set(names))
        self._check_pages(group, leaves)
        rows = self._even_rows(group, leaves, sizes)
        counts = self._widths.row_counts(group, leaves, sizes.rows, self._largest) if rows is None else repeat(rows)
        undecoded = self._undecoded(group, names, rows)
        as_they_are = {column.field.name for column in undecoded}
        others = [name for name in names if name not in as_they_are]
        coded = {} if rows is None else self._coded(group, others, rows)
        read, promised = 0, self._footer.groups[group].rows
        if undecoded and not others:
            batches = _without_others(undecoded, promised, counts)
        else:
            decoded = self._by_dictionaries(group, others, rows or 0, coded)
            batches = _with_others(undecoded, decoded or self._by_pyarrow(self._parquet, group, others, counts))
        for batch in self._instants.checked(batches, self._seconds(group, self._instants.among(names), sizes)):
            read += batch.num_rows
            if read > promised:
                break
            yield batch
        if read != promised:
            raise pa.ArrowInvalid(f"row group {group} has other than the {promised:,} rows that its footer says")

    def _seconds(self, group: int, names: Sequence[str], sizes: _Sizes) -> Iterator[pa.RecordBatch]:
        """The columns of a row group that have INT96 inside, with instants in seconds, which do not wrap round."""
        if not names:
            return iter(())
        if self._in_seconds is None:
            self._in_seconds = self._open(unit="s")
        leaves = leaves_of(self._footer, set(names))
        rows = self._even_rows(group, leaves, sizes._replace(bytes=BATCH_BYTES))
        counts = self._widths.row_counts(group, leaves, sizes.rows, self._largest) if rows is None else repeat(rows)
        return self._by_pyarrow(self._in_seconds, group, names, counts)

    @property
    def _parquet(self) -> pq.ParquetFile:
        """pyarrow's reader, which is opened once a column has to be decoded."""
        if self._decoder is None:
            self._decoder = self._open()
        return self._decoder

    def _by_pyarrow(
        self, parquet: pq.ParquetFile, group: int, names: Sequence[str], counts: Iterator[int]
    ) -> Iterator[pa.RecordBatch]:
        """The batches of a row group. A batch is cut where its next one is asked for."""
        asked, remaining = next(counts), self._footer.groups[group].rows
        batches = parquet.iter_batches(asked, row_groups=[group], columns=names, use_threads=False)
        for batch in each_validated(batches):
            asked -= batch.num_rows
            remaining -= batch.num_rows
            yield batch
            if asked <= 0 < remaining:
                asked = next(counts)
                parquet.reader.set_batch_size(asked)

    def _by_dictionaries(
        self, group: int, names: Sequence[str], rows: int, coded: Mapping[str, int]
    ) -> Iterator[pa.RecordBatch] | None:
        """The batches of a row group of which the `coded` columns, whose dictionaries have so many values, are read as
        dictionaries; None where they cannot be. Text that stands in many rows is decoded and checked once for a batch.

        Where a value is twice in a dictionary, pyarrow leaves it out once, and all places behind it are wrong.
        """
        if not coded:
            return None
        batches = self._with_dictionaries(frozenset(coded)).iter_batches(
            rows, row_groups=[group], columns=names, use_threads=False
        )
        first = next(batches, None)
        if first is None or any(len(first.column(name).dictionary) != size for name, size in coded.items()):
            return None
        return (self._decoded(batch, coded) for batch in each_validated(chain([first], batches)))

    def _decoded(self, batch: pa.RecordBatch, coded: Iterable[str]) -> pa.RecordBatch:
        for name in coded:
            at = batch.schema.get_field_index(name)
            batch = batch.set_column(at, self.schema.field(name), batch.column(at).dictionary_decode())
        return batch

    def _with_dictionaries(self, names: frozenset[str]) -> pq.ParquetFile:
        """The file, opened to read these columns as dictionaries."""
        if self._dictionaries is None or self._dictionaries[0] != names:
            self._dictionaries = names, self._open(names)
        return self._dictionaries[1]

    def _undecoded(self, group: int, names: Sequence[str], rows: int | None) -> list[LongLists | PlainNumbers]:
        """The columns of a row group that need not be decoded. Numbers are read at once, so the row group has to be one
        batch of `rows`.
        """
        if self._descriptor is None:
            return []
        fields = [self.schema.field(name) for name in names]
        undecoded: list[LongLists | PlainNumbers] = []
        if rows is not None and rows >= self._footer.groups[group].rows:
            undecoded += plain_numbers(self._file, self._descriptor, self._footer, group, fields, self._state)
        plain = {column.field.name for column in undecoded}
        others = [field for field in fields if field.name not in plain]
        columns = (long_lists(self._file, self._descriptor, self._footer, group, field) for field in others)
        return undecoded + [column for column in columns if column is not None]

    def _coded(self, group: int, names: Sequence[str], rows: int) -> dict[str, int]:
        """The columns to read as dictionaries, with the numbers of the dictionaries' values. pyarrow would take a name
        with a dot for that of a nested column, too.
        """
        texts = [name for name in names if self.schema.field(name).type in _TEXTS and "." not in name]
        leaves = [self._footer.positions[name] for name in texts]
        pages = self._widths.dictionaries(group, leaves, rows)
        return {name: pages[at].values for name, at in zip(texts, leaves, strict=True) if at in pages}

    def _even_rows(self, group: int, leaves: Sequence[int], sizes: _Sizes) -> int | None:
        """The number of rows to decode at a time; None where it is not always the same."""
        known = self._row_bytes
        has_lists = any(self._footer.leaves[at].repeats for at in leaves)
        if known is not None and known * sizes.rows <= _FEW_BYTES and not has_lists:
            return rows_within(sizes.bytes_of_narrow, known, sizes.rows)
        return self._widths.even_rows(group, leaves, sizes.rows, self._largest, sizes.bytes)

    def _check_pages(self, group: int, leaves: Sequence[int]) -> None:
        """Raise `PartTooLarge` where the pages of these leaves take more than there is room for."""
        if self._part_bytes is not None and self._part_bytes <= room(self._largest):
            return
        size = self._widths.held_bytes(group, leaves)
        if size > room(self._largest):
            what = f"a page of each of the {len(leaves)} columns of row group {group}, with its dictionary,"
            raise part_too_large(what, size, self._largest, "smaller pages (in pyarrow: write_batch_size)")
        self._widths.check_lengths(group, leaves)

    def _groups(self) -> tuple[int, list[int]]:
        """The number of the first row of the row groups with wanted rows, and these row groups."""
        start, end = self._rows
        at, first = 0, 0
        groups: list[int] = []
        for i, group in enumerate(self._footer.groups):
            if at < end and start < at + group.rows:
                first = first if groups else at
                groups.append(i)
            at += group.rows
        return first, groups

    def close(self) -> None:
        if self._dictionaries is not None:
            self._dictionaries[1].close()
        if self._in_seconds is not None:
            self._in_seconds.close()
        if self._decoder is not None:
            self._decoder.close()
        self._file.close()


def _without_others(
    columns: Sequence[LongLists | PlainNumbers], rows: int, counts: Iterator[int]
) -> Iterator[pa.RecordBatch]:
    """The rows of a row group of which no column has to be decoded."""
    schema = pa.schema([column.field for column in columns])
    while rows:
        count = min(rows, next(counts))
        yield batch_of([column.take(count) for column in columns], count, schema)
        rows -= count


def _with_others(
    columns: Sequence[LongLists | PlainNumbers], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The batches of the other columns, with these columns behind them."""
    if not columns:
        yield from batches
        return
    for batch in batches:
        fields, arrays = list(batch.schema), batch.columns
        fields += [column.field for column in columns]
        arrays += [column.take(batch.num_rows) for column in columns]
        yield batch_of(arrays, batch.num_rows, pa.schema(fields))


def _state(files: Files) -> State | None:
    return files.state if isinstance(files, PieceFiles) else None


def _never_null(footer: Footer, schema: pa.Schema, columns: Sequence[Column]) -> frozenset[str]:
    """The required columns that have no null by the footer's statistics."""
    names = Names(schema.names)
    never_null = set()
    for column in columns:
        index = None if column.nullable else names.position(column.name)
        leaf = None if index is None else footer.positions.get(schema.field(index).name)
        if index is not None and leaf is not None and all(group.chunks[leaf].nulls == 0 for group in footer.groups):
            never_null.add(schema.field(index).name)
    return frozenset(never_null)


def _with_key_bounds(
    pieces: tuple[FilePiece, ...], footer: Footer, schema: pa.Schema, columns: Sequence[Column]
) -> tuple[FilePiece, ...]:
    """The pieces with the bounds of the key columns, where the statistics of all row groups tell them."""
    names = Names(schema.names)
    bounds_by_name: dict[str, list[tuple[int, int]]] = {}
    for column in columns:
        index = names.position(column.name) if column.key or column.slices else None
        leaf = None if index is None else footer.positions.get(schema.field(index).name)
        if index is None or leaf is None or not _is_counted(schema.field(index).type, column.type):
            continue
        bounds = _bounds(footer, leaf, schema.field(index).type)
        if bounds is not None:
            bounds_by_name[schema.field(index).name] = bounds
    if not bounds_by_name:
        return pieces
    starts = list(accumulate((group.rows for group in footer.groups), initial=0))
    return tuple(replace(piece, key_bounds=tuple(_of_rows(piece, starts, bounds_by_name))) for piece in pieces)


def _is_counted(type_: pa.DataType, wanted: pa.DataType) -> bool:
    """Tests whether the column's bounds are whole numbers of the wanted type's units, as statements compare them."""
    if pa.types.is_timestamp(type_) and pa.types.is_timestamp(wanted):
        return bool(type_.unit == wanted.unit == "us" and (type_.tz is None) == (wanted.tz is None))
    return bool(pa.types.is_integer(type_) or (pa.types.is_date32(type_) and pa.types.is_date32(wanted)))


def _bounds(footer: Footer, leaf: int, type_: pa.DataType) -> list[tuple[int, int]] | None:
    """The bounds of each row group; any numbers for those without rows."""
    bounds: list[tuple[int, int]] = []
    for group in footer.groups:
        if not group.rows:
            bounds.append((0, 0))
            continue
        chunk_bounds = footer.bounds(group, leaf)
        if chunk_bounds is None or group.chunks[leaf].nulls != 0:
            return None
        low, high = (whole_number(bound, footer.leaves[leaf], type_) for bound in chunk_bounds)
        if low is None or high is None or not _is_near(low, high, type_):
            return None
        bounds.append((low, high))
    return bounds


def _is_near(low: int, high: int, type_: pa.DataType) -> bool:
    """Tests whether moments are so near to 1970 that statements can name the ones behind them, too."""
    farthest = _FARTHEST.get(type_.id)
    return farthest is None or -farthest <= low <= high <= farthest


def _of_rows(
    piece: FilePiece, starts: Sequence[int], bounds: Mapping[str, Sequence[tuple[int, int]]]
) -> Iterator[tuple[str, int, int]]:
    """The bounds over the row groups that have rows of the piece, by column."""
    first, last = piece.rows or (0, starts[-1])
    groups = [at for at, (start, end) in enumerate(pairwise(starts)) if max(start, first) < min(end, last)]
    if groups:
        for name, of_groups in bounds.items():
            yield name, min(of_groups[at][0] for at in groups), max(of_groups[at][1] for at in groups)
