"""`tidegate tasks`: lists the tasks of a server, or recovers one that has failed."""

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
        help="list a server's tasks, or recover a task that has failed",
        description="List a server's tasks; if the server has tokens, only the caller's tasks. Or recover a durable "
        "task that has failed, once the reason is gone.",
        usage="tidegate tasks [recover ID [--skip SOURCE=NUMBER ...]] [--server HOST:PORT]",
    )
    parser.add_argument("words", metavar="recover ID", nargs="*", help="recover the task of this id")
    parser.add_argument(
        "--skip",
        metavar="SOURCE=NUMBER",
        type=_split_number,
        action="append",
        default=[],
        help="with recover: a split that is to have no rows from then on; may be repeated",
    )
    parser.add_argument(
        "--server",
        metavar="HOST:PORT",
        type=common.address,
        default=common.DEFAULT_ADDRESS,
        help="the server (default: %(default)s)",
    )
    common.add_access(parser)
    parser.set_defaults(command=tasks, parser=parser)


def tasks(options: argparse.Namespace) -> int:
    if options.words:
        return _recover(options)
    if options.skip:
        options.parser.error("--skip needs recover ID")
    with common.client(options) as client:
        infos = client.tasks()
    if not infos:
        print("no tasks")
        return 0
    rows = [("task", "state", "sealed", "completed", "rows", "splits queued"), *map(_row, infos)]
    print(text_table(rows))
    return 0


def _recover(options: argparse.Namespace) -> int:
    word, *ids = options.words
    if word != "recover" or len(ids) != 1:
        options.parser.error(f"{' '.join(options.words)!r} must be recover ID")
    with common.client(options) as client:
        info = client.task(ids[0]).recover(options.skip)
    print(f"task {info.id} is {info.state.value}")
    for warning in info.warnings:
        print(warning)
    return 0


def _split_number(text: str) -> tuple[str, int]:
    """SOURCE=NUMBER."""
    source, equals, number = text.rpartition("=")
    if not (source and equals and number.isdecimal() and int(number)):
        raise argparse.ArgumentTypeError(f"{text!r} must have the form SOURCE=NUMBER, with a number from 1")
    return source, int(number)


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
