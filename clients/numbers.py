"""Checks the numbers that a caller passes, before they are sent: protobuf has no room for others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Final

from .proto.errors import InvalidRequest
from .proto.values import Cursor, FileSplit

BEYOND: Final = 2**63
MOST_GROUPS: Final = 2**32


def named_values(name: str, values: Mapping[str, int] | None) -> Mapping[str, int]:
    """The numbers of sources that a caller gives; none for None."""
    if not isinstance(values, Mapping | None):
        raise InvalidRequest(f"{name}={values!r:.80} must be a dict of numbers by source name")
    check_sources(values or ())
    return values or {}


def check_sources(names: Iterable[object]) -> None:
    """Check names of sources."""
    for name in names:
        check_text("a source's name", name)


def check_text(name: str, value: object) -> None:
    """Check a name."""
    if not isinstance(value, str):
        raise InvalidRequest(f"{name} must be text, not {value!r:.80}")


def from_one(name: str, value: int | None) -> None:
    """Check a sequence number or an epoch."""
    if value is not None and not (_whole(value) and 1 <= value < BEYOND):
        raise InvalidRequest(f"{name}={value!r} must be a whole number from 1 on")


def last_numbers(through: Mapping[str, int] | None) -> None:
    """Check the last sequence number of each source; 0 for a source without splits."""
    for source, value in named_values("through", through).items():
        if not (_whole(value) and 0 <= value < BEYOND):
            raise InvalidRequest(
                f"through={value!r} of source {source!r} must be a split's number, or 0 if the source has no splits"
            )


def check_place(name: str, cursor: Cursor | None) -> None:
    """Check a cursor."""
    if cursor is not None and not isinstance(cursor, Cursor):
        raise InvalidRequest(f"{name} must be a tidegate.Cursor(epoch, row), not {cursor!r}")
    if cursor is not None and not (_within((cursor.epoch, cursor.row), BEYOND) and cursor.epoch):
        raise InvalidRequest(
            f"{name} is row {cursor.row!r} of epoch {cursor.epoch!r}; these are whole numbers: epochs count from 1, "
            "and the rows of an epoch from 0"
        )
    if cursor is not None and cursor.run is not None and not _within((cursor.run,), BEYOND):
        raise InvalidRequest(f"{name} is of run {cursor.run!r}; a run is a whole number from 0 to 2**63 - 1")


def check_watermark(value: int) -> None:
    """Check a watermark, in microseconds since 1970."""
    if not (_whole(value) and -BEYOND <= value < BEYOND):
        raise InvalidRequest(
            f"watermark={value!r} must be a whole number of microseconds since 1970, of at most 64 bits"
        )


def not_negative(name: str, value: int | None) -> None:
    """Check a number of bytes, rows or batches."""
    if value is not None and not (_whole(value) and 0 <= value < BEYOND):
        raise InvalidRequest(f"{name}={value!r} must be a whole number from 0 on")


def check_seconds(name: str, value: float) -> None:
    """Check how long a caller waits."""
    if not (isinstance(value, Real) and value >= 0):  # NaN, too: it would never end
        raise InvalidRequest(f"{name}={value!r} must be a number of seconds from 0 on")


def checked_file(split: FileSplit) -> FileSplit:
    """The split with its path as text, after checks of all that it says but `missing_columns`."""
    try:
        path = os.fsdecode(split.path)
        path.encode()
    except (TypeError, UnicodeEncodeError) as error:
        why = "a path must be UTF-8" if isinstance(error, UnicodeError) else "a path must be text or a pathlib.Path"
        raise InvalidRequest(f"{split.path!r} cannot be a path: {why}") from None
    rows, groups = split.rows, split.row_groups
    if rows is not None and not (isinstance(rows, tuple | list) and len(rows) == 2 and _within(rows, BEYOND)):
        raise InvalidRequest(
            f"rows={rows!r} of {split.path} must be two whole numbers: (first row, row after the last)"
        )
    if groups is not None and not (
        isinstance(groups, tuple | list | range) and groups and _within(groups, MOST_GROUPS)
    ):
        raise InvalidRequest(
            f"row_groups={groups!r} of {split.path} must be a tuple of one or more whole numbers from 0 on"
        )
    if split.number is not None and not (_whole(split.number) and 0 <= split.number < BEYOND):
        raise InvalidRequest(f"number={split.number!r} of {split.path} must be a whole number from 0 to 2**63 - 1")
    if split.watermark is not None:
        check_watermark(split.watermark)
    check_text(f"the format of {split.path}", split.format or "")
    check_text(f"the change column of {split.path}", split.change_column or "")
    if split.version is not None and not isinstance(split.version, str):
        raise InvalidRequest(f"version={split.version!r} of {split.path} must be a text of Task.find_files")
    return split if path is split.path else replace(split, path=path)


def version(name: str, value: int | None) -> None:
    """Check a version of an application's transaction."""
    if value is not None and not (_whole(value) and 0 <= value < BEYOND):
        raise InvalidRequest(
            f"{name}={value!r} of an application must be a whole number from 0 on", reason="BAD_TRANSACTION"
        )


def _within(values: Sequence[object], beyond: int) -> bool:
    return all(_whole(value) and 0 <= value < beyond for value in values)  # type: ignore[operator]


def _whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
