"""`tidegate data`: lists the tasks in a data folder, or verifies the folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from . import options as common
from .text_table import text_table

if TYPE_CHECKING:
    from ...executor.journal.inspection import DataInspection, TaskEntry

_CHECK: Final = "check"
_STATE: Final = ("checkpoints", "checkpoint bytes")
_HEADER: Final = (
    "task",
    "principal",
    "mode",
    "acknowledged",
    "sealed",
    "splits",
    "record bytes",
    "kept bytes",
    *_STATE,
)


def register(commands: common.Subparsers) -> None:
    parser = commands.add_parser(
        "data",
        help="list the tasks in a data folder, or check the folder",
        description="List the tasks in the data folder of a server, or check everything in the folder against its "
        "checksums. Both work while the server runs, and change nothing. The exit code of check is 1 if something is "
        "damaged.",
        usage="tidegate data [check] DIR",
    )
    parser.add_argument("words", metavar="[check] DIR", nargs="+", help="the folder that the server has as --data")
    parser.set_defaults(command=data, parser=parser)


def data(options: argparse.Namespace) -> int:
    from ...executor.journal.inspection import DataInspection

    *words, folder = options.words
    if words not in ([], [_CHECK]):
        options.parser.error(f"{' '.join(options.words)!r} must be DIR or check DIR")
    inspection = DataInspection(Path(folder))
    return _check(inspection) if words else _list(inspection.tasks())


def _list(entries: list[TaskEntry]) -> int:
    if not entries:
        print("no tasks")
        return 0
    print(text_table([_HEADER, *map(_row, entries)]))
    return 0


def _check(inspection: DataInspection) -> int:
    verified = inspection.check()
    for problem in verified.problems:
        print(problem)
    result = f"{len(verified.problems):,} problems" if verified.problems else "whole"
    print(
        f"{verified.tasks:,} tasks, {verified.records:,} records, {verified.checkpoints:,} checkpoints, "
        f"{verified.kept:,} sets of rows and uploads of {verified.kept_bytes:,} bytes: {result}"
    )
    return 1 if verified.problems else 0


def _row(entry: TaskEntry) -> tuple[str, ...]:
    return (
        entry.identity,
        entry.principal or "-",
        entry.mode.value + (", cancelled" if entry.cancelled else ""),
        f"epoch {entry.acknowledged.epoch}, row {entry.acknowledged.row}",
        str(entry.sealed),
        f"{entry.splits:,}",
        f"{entry.record_bytes:,}",
        f"{entry.kept_bytes:,}",
        str(entry.checkpoints),
        f"{entry.checkpoint_bytes:,}",
    )
