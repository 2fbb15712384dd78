"""The parts of its files that a statement has read.

DuckDB counts bytes and row groups where it reads them, below the statement, and reports them in the statement's
profile. A profile costs about half a millisecond, so a statement that reads its files as a whole, or nearly, runs
without one: all of its files count as read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.piece import FilePiece
from .formats.format import PIECE_ROWS

_FEW_PIECES = 8


@dataclass(frozen=True, slots=True)
class FileReads:
    """The `rows` that were read of the pieces, and the `bytes` read from disk for them. `at_least` says that both may
    be higher: the statement was stopped from outside, which leaves no profile.
    """

    rows: int = 0
    bytes: int = 0
    at_least: bool = False


NOTHING = FileReads()


def worth_counting(pieces: Sequence[FilePiece]) -> bool:
    """True where so much may be left unread that a profile pays."""
    return len(pieces) > _FEW_PIECES or _rows(pieces) > PIECE_ROWS


def whole(pieces: Sequence[FilePiece]) -> FileReads:
    """All rows of the pieces, and the bytes of their files in proportion."""
    return FileReads(_rows(pieces), round(sum(_bytes(piece) for piece in pieces)))


def stopped(pieces: Sequence[FilePiece], given_out: int, columns: int) -> FileReads:
    """The reads of a statement that was stopped after `given_out` rows of its result, and reads `columns` columns. It
    may have read no more of a file than these columns.
    """
    everything = whole(pieces)
    rows = min(given_out, everything.rows)
    width = max((len(piece.schema) for piece in pieces if piece.schema is not None), default=columns)
    size = everything.bytes * rows * min(columns, width) // max(everything.rows * width, 1)
    return FileReads(rows, size, at_least=True)


def profiled(profile: str, pieces: Sequence[FilePiece], paths: Mapping[str, str]) -> FileReads:
    """The reads in the profile of a statement that has ended and that opened the files by these `paths`. A statement
    that the footers alone answered has no reads in its profile.

    The profile of a scan with a filter counts only the rows that passed. So its rows are taken from the row groups that
    it went through.
    """
    document: dict[str, Any] = json.loads(profile)
    groups = {paths.get(piece.path, piece.path): _group_rows(piece) for piece in pieces}
    average = _rows(pieces) / max(sum(_rows([piece]) / _group_rows(piece) for piece in pieces), 1)
    rows = 0.0
    for scan in _scans(document):
        extra = scan["extra_info"]
        if "Filters" in extra or "Dynamic Filters" in extra:
            first = str(extra.get("Filename(s)", "")).split(", ", 1)[0]
            rows += max(scan["row_groups_scanned"] * groups.get(first, average), scan["rows_scanned"])
        else:
            rows += scan["rows_scanned"]
    everything = whole(pieces)
    traffic = document.get("io", {})
    size = traffic.get("total_bytes_read", 0)
    if traffic.get(
        "total_bytes_written", 0
    ):  # the statement spilled, and the bytes it read back are in that number too
        size = min(size, everything.bytes)
    return FileReads(min(round(rows), everything.rows), size)


def _scans(profile: dict[str, Any]) -> Iterator[dict[str, Any]]:
    pending = list(profile.get("operator", ()))
    while pending:
        node = pending.pop()
        if "row_groups_scanned" in node:
            yield node
        pending.extend(node.get("children", ()))


def _rows(pieces: Sequence[FilePiece]) -> int:
    return sum(piece.row_count or 0 for piece in pieces)


def _bytes(piece: FilePiece) -> float:
    return piece.version.size * (piece.row_count or 0) / max(piece.file_rows or 0, 1)


def _group_rows(piece: FilePiece) -> float:
    """The rows of a row group, if all row groups of the file were equally large."""
    return max(piece.file_rows or 0, 1) / max(piece.file_groups or 0, 1)
