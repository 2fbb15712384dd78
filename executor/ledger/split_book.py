"""The splits of one source, numbered from 1 for the task's life, in the order of their numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa

from ...operators.core.piece import FilePiece, InlinePiece, Piece
from ...operators.core.row_reader import RowReader, no_rows
from ...proto.encoding.number_ranges import LARGEST
from ...proto.errors import InvalidRequest, Refused
from ...proto.values import InlineSplit, MissingColumns
from ..runtime.batch_store import Holding
from .epoch import Commit
from .sealed_epochs import SealedEpochs
from .split_digest import RowsStream, rows_fingerprint

_NAMED_AT_MOST = 100


class SplitRows(NamedTuple):
    """The rows of a split: their schema, their number, and the way to read them."""

    schema: pa.Schema
    rows: int
    read: RowReader


class KeptSplit(Protocol):
    """Rows or an uploaded file that a split keeps on the disk for as long as the split may be read again."""

    digest: bytes

    def has(self, rows: RowsStream) -> bool:
        """True if these rows are kept, byte for byte."""
        ...

    def rows(self) -> SplitRows: ...

    def link(self, target: Path) -> None:
        """Give the kept file another name."""
        ...


@dataclass(slots=True, eq=False)
class AcceptedSplit:
    """A split that the task has accepted: the pieces of its files, or its rows in `inline`.

    Of a durable task, `kept` holds its rows or its uploaded file, and `commit` the record of the split. A split that is
    `left_out` is read as one without rows.
    """

    source: str
    sequence: int
    origin: str
    watermark: int | None
    change_column: str | None = None
    missing_columns: MissingColumns | None = None
    digest: bytes | None = None
    files: tuple[FilePiece, ...] = ()
    schema: pa.Schema | None = None
    inline: Holding | None = None
    kept: KeptSplit | None = None
    commit: Commit | None = None
    left_out: bool = False

    def pieces(self) -> tuple[Piece, ...]:
        if self.left_out:
            return ()
        if self.files or (self.inline is None and self.kept is None):
            return self.files
        schema, rows, read = self._rows()
        return (
            InlinePiece(
                read=read,
                schema=schema,
                origin=self.origin,
                rows=(0, rows),
                row_count=rows,
                byte_count=None if self.inline is None else self.inline.size,
                change_column=self.change_column,
                missing_columns=self.missing_columns,
            ),
        )

    def _rows(self) -> SplitRows:
        if self.inline is not None:
            return SplitRows(self.schema, self.inline.rows, self.inline.read)
        assert self.kept is not None
        return self.kept.rows()

    def batches(self) -> tuple[pa.RecordBatch, ...]:
        return self.inline.batches() if self.inline is not None else ()

    def fingerprint(self, batches: Sequence[pa.RecordBatch]) -> bytes:
        """The fingerprint of the split if it had these rows."""
        assert self.schema is not None
        split = InlineSplit(
            schema=self.schema,
            batches=tuple(batches),
            watermark=self.watermark,
            change_column=self.change_column,
            missing_columns=self.missing_columns,
        )
        return rows_fingerprint(split)


def origin_of(source: str, sequence: int) -> str:
    """The name of a split in messages."""
    return f"split {sequence} of source {source!r}"


def rowless(split: InlineSplit, origin: str) -> InlinePiece:
    """The columns of an inline split as a piece without rows."""
    return InlinePiece(
        read=no_rows,
        schema=split.schema,
        origin=origin,
        rows=(0, 0),
        row_count=0,
        missing_columns=split.missing_columns,
    )


@dataclass(slots=True)
class SourceLedger:
    """The splits of one source, by number.

    - `complete`: the last number up to which all splits are there
    - `sealed`: the last number that belongs to a sealed epoch
    - `end`: the last number there will be, once known
    - `finished`: the last number whose epoch has reached its barrier
    - `forgotten`: the last number whose epoch is acknowledged
    """

    name: str
    splits: dict[int, AcceptedSplit] = field(default_factory=dict)
    highest: int = 0
    complete: int = 0
    sealed: int = 0
    finished: int = 0
    forgotten: int = 0
    added: int = 0
    end: int | None = None
    epochs: SealedEpochs = field(default_factory=SealedEpochs)

    def go_on_after(self, sequence: int, epoch: int) -> None:
        """Begin as if all splits up to `sequence` had come, the last of them in `epoch`, and all were acknowledged."""
        self.highest = self.complete = self.sealed = self.finished = self.forgotten = self.added = sequence
        self.epochs.add(epoch, sequence)

    def seal(self, epoch: int, last: int) -> None:
        """Give the epoch the splits that are not sealed yet, up to number `last`."""
        self.sealed = last
        self.epochs.add(epoch, last)

    def add(self, split: AcceptedSplit) -> None:
        self.splits[split.sequence] = split
        self.added += 1
        self.highest = max(self.highest, split.sequence)
        while self.complete + 1 in self.splits:
            self.complete += 1

    def has(self, sequence: int) -> bool:
        return sequence <= self.forgotten or sequence in self.splits

    @property
    def last(self) -> int:
        """The number at which a seal without `through` ends."""
        return max(self.highest, self.sealed)

    @property
    def whole(self) -> bool:
        """True if the source has ended and all splits up to its end are there."""
        return self.end is not None and self.complete >= self.end

    def number(self, sequence: int | None) -> int:
        """The number of a split to come: the next, or `sequence`. Raises `InvalidRequest` if it is out of range."""
        number = self.highest + 1 if sequence is None else sequence
        if not 1 <= number <= LARGEST:
            raise InvalidRequest(
                f"split {number} of source {self.name!r} is out of range: numbers must be from 1 to {LARGEST}"
            )
        return number

    def check_not_beyond_end(self, number: int) -> None:
        if self.end is not None and number > self.end:
            raise Refused(
                f"source {self.name!r} has ended with split {self.end}: split {number} is beyond it; "
                "add the split to a new task",
                reason="SOURCE_ENDED",
            )

    def check_seals_at(self, last: int) -> None:
        """Raise `Refused` if a seal cannot take the splits up to `last`: it has to take all that are there."""
        if last < self.last:
            raise Refused(
                f"through[{self.name!r}]={last}, but split {self.last} of the source is already in "
                f"{'the open epoch' if self.highest > self.sealed else 'a sealed epoch'}: "
                "name that split or a later one",
                reason="THROUGH_BELOW_ACCEPTED",
            )
        if self.end is not None and last > self.end:
            raise Refused(
                f"through[{self.name!r}]={last}, but the source has ended with split {self.end}", reason="SOURCE_ENDED"
            )

    def end_at(self, through: int | None) -> int:
        """The last split of the source if it ends now, or has ended. Raises `Refused` if it cannot be `through`."""
        if self.end is not None:
            if through is not None and through != self.end:
                raise Refused(
                    f"source {self.name!r} has already ended with split {self.end}, not with split {through}",
                    reason="SOURCE_ENDED",
                )
            return self.end
        if through is None:
            return self.last
        if through < self.last:
            raise Refused(
                f"source {self.name!r} cannot end at split {through}: the source already has split {self.last}: "
                "name that split or a later one",
                reason="THROUGH_BELOW_ACCEPTED",
            )
        return through

    def missing(self, through: int) -> tuple[int, ...]:
        """The first missing split numbers up to `through`."""
        return tuple(itertools.islice(self._missing(through), _NAMED_AT_MOST))

    def _missing(self, through: int) -> Iterator[int]:
        return (number for number in range(self.complete + 1, through + 1) if number not in self.splits)

    def forget(self, through: int) -> list[AcceptedSplit]:
        """Take out the splits up to `through`, whose epochs are acknowledged."""
        numbers = range(self.forgotten + 1, through + 1)
        self.forgotten = max(self.forgotten, through)
        return [self.splits.pop(number) for number in numbers]
