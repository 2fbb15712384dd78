"""`tidegate tasks`: lists the tasks of a server."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from . import options as common
from .text_table import text_table

if TYPE_CHECKING:
    from ... import TaskInfo


def register(commands: common.Subparsers) -> None:
    parser = commands.add_parser(
        "tasks",
        help="list a server's tasks",
        description="List a server's tasks; if the server has tokens, only the caller's tasks.",
    )
    parser.add_argument(
        "--server",
        metavar="HOST:PORT",
        type=common.address,
        default=common.DEFAULT_ADDRESS,
        help="the server (default: %(default)s)",
    )
    common.add_access(parser)
    parser.set_defaults(command=tasks)


def tasks(options: argparse.Namespace) -> int:
    with common.client(options) as client:
        infos = client.tasks()
    if not infos:
        print("no tasks")
        return 0
    rows = [("task", "state", "sealed", "completed", "rows", "splits queued"), *map(_row, infos)]
    print(text_table(rows))
    return 0


def _row(task: TaskInfo) -> tuple[str, ...]:
    queued = sum(split.queued for split in task.statistics.splits.values())
    return (
        task.id,
        task.state.value,
        str(task.sealed_epoch),
        str(task.completed_epoch),
        f"{task.statistics.output_rows:,}",
        str(queued),
    )
