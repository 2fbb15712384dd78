"""Units of fed rows, put together into the splits of epochs: by a column's value, a count of splits, or bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from ..proto.errors import Exhausted, InvalidRequest
from ..proto.values import Cursor, FileSplit, MissingColumns, TaskInfo, as_format
from .filling import filled
from .report import Bytes

EpochBy: TypeAlias = str | int | Bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Consecutive row groups of a file, or the whole file if `groups` is None."""

    path: str
    format: str
    groups: tuple[int, ...] | None
    rows: int
    stored: int
    key: Any = None


@dataclass(frozen=True, slots=True)
class Part:
    """The splits of one epoch."""

    splits: tuple[FileSplit, ...]


def check_epoch_by(epoch_by: EpochBy) -> None:
    """Raise `InvalidRequest` for a value that is no `EpochBy`."""
    match epoch_by:
        case None | str():
            return
        case Bytes(count):
            good = count > 0
        case _:
            good = isinstance(epoch_by, int) and not isinstance(epoch_by, bool) and epoch_by > 0
    if not good:
        raise InvalidRequest(
            f"epoch_by must be a column's name, a number of splits or tidegate.spark.Bytes(n), not {epoch_by!r}",
            reason="EPOCH_BY",
        )


def parts(units: Sequence[Unit], epoch_by: EpochBy, whole: dict[str, int], change_column: str | None) -> list[Part]:
    """The units as the splits of epochs.

    `whole` has the number of row groups of each file, so that a file of which all row groups are fed is named as a
    whole.
    """
    return [Part(tuple(_splits(group, whole, change_column))) for group in _cut(units, epoch_by)]


def _cut(units: Sequence[Unit], epoch_by: EpochBy) -> Iterator[list[Unit]]:
    match epoch_by:
        case None:
            yield list(units)
        case str():
            by_key = sorted(units, key=lambda unit: (unit.key is not None, unit.key if unit.key is not None else 0))
            for _, group in groupby(by_key, key=lambda unit: unit.key):
                yield list(group)
        case int():
            files = [list(group) for _, group in groupby(units, key=lambda unit: unit.path)]
            for start in range(0, len(files), epoch_by):
                yield [unit for file in files[start : start + epoch_by] for unit in file]
        case Bytes(count):
            yield from filled(units, lambda unit: unit.stored, count)


def _splits(units: Sequence[Unit], whole: dict[str, int], change_column: str | None) -> Iterator[FileSplit]:
    """The splits of these units. Consecutive units of one file become one split."""
    for path, group in groupby(units, key=lambda unit: unit.path):
        together = list(group)
        groups: tuple[int, ...] | None = None
        if all(unit.groups is not None for unit in together):
            groups = tuple(group for unit in together for group in unit.groups or ())
            groups = None if len(groups) == whole[path] else groups
        yield FileSplit(
            path,
            format=as_format(together[0].format),
            row_groups=groups,
            change_column=change_column,
            # The DataFrame's columns were checked. To Spark, a column that one of its files lacks is null.
            missing_columns=MissingColumns.NULL,
        )


def check_room(info: TaskInfo, cursor: Cursor, epochs: int) -> None:
    """Refuse, before anything is added, more epochs than the task takes while nobody reads on from `cursor`."""
    unread = info.sealed_epoch + 1 - max(info.acknowledged.epoch, cursor.epoch)
    room = max(0, info.options.max_pending_epochs - unread)
    if epochs > room:
        raise Exhausted(
            f"the feed would seal {epochs} epochs, and the task takes {room} more before an epoch must be read: "
            f"create the task with max_pending_epochs={unread + epochs} at least, or read in another thread and give "
            "wait=, the seconds that each barrier may wait for the reader",
            reason="TOO_MANY_PENDING_EPOCHS",
        )
