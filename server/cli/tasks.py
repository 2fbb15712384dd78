"""`tidegate tasks`: lists the tasks of a server, or recovers, cancels or deletes one."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from . import options as common
from .text_table import text_table

if TYPE_CHECKING:
    from ... import Task, TaskInfo

Skipped: TypeAlias = list[tuple[str, int]]


def register(commands: common.Subparsers) -> None:
    parser = commands.add_parser(
        "tasks",
        help="list a server's tasks, or recover, cancel or delete one",
        description="List a server's tasks; if the server has tokens, only the caller's tasks. Or recover a durable "
        "task that has failed, once the reason is gone; cancel a task, which then "
        "refuses its callers and stays in the list; or delete a task with all that it has.",
        usage="tidegate tasks [recover ID [--skip SOURCE=NUMBER ...] | cancel ID | delete ID] [--server HOST:PORT]",
    )
    parser.add_argument("words", metavar="WORD ID", nargs="*", help="recover, cancel or delete the task of this id")
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
    if options.skip and options.words[:1] != ["recover"]:
        options.parser.error("--skip needs recover ID")
    return _act(options) if options.words else _list(options)


def _list(options: argparse.Namespace) -> int:
    with common.client(options) as client:
        infos = client.tasks()
    if not infos:
        print("no tasks")
        return 0
    rows = [("task", "state", "sealed", "completed", "rows", "splits queued"), *map(_row, infos)]
    print(text_table(rows))
    return 0


def _act(options: argparse.Namespace) -> int:
    word, *ids = options.words
    if word not in ACTIONS or len(ids) != 1:
        *words, last = (f"{word} ID" for word in ACTIONS)
        options.parser.error(f"{' '.join(options.words)!r} must be {', '.join(words)} or {last}")
    with common.client(options) as client:
        print(ACTIONS[word](client.task(ids[0]), options.skip))
    return 0


def _recover(task: Task, skip: Skipped) -> str:
    info = task.recover(skip)
    return "\n".join((f"task {info.id} is {info.state.value}", *info.warnings))


def _cancel(task: Task, _: Skipped) -> str:
    task.cancel()
    return f"task {task.id} is {task.info().state.value}"


def _delete(task: Task, _: Skipped) -> str:
    task.delete()
    return f"task {task.id} is deleted"


ACTIONS: Final[Mapping[str, Callable[[Task, Skipped], str]]] = {
    "recover": _recover,
    "cancel": _cancel,
    "delete": _delete,
}


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
