"""`tidegate run`: runs a plan over splits and writes its rows."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...proto.errors import InvalidRequest
from . import options as common

if TYPE_CHECKING:
    from ... import Task
    from ...proto.values import FileSplit, TaskOptions
    from ...splits import SplitLike
    from .progress_line import State


def register(commands: common.Subparsers) -> None:
    what = "Run a plan over splits, in this process or on a server, and write its rows."
    parser = commands.add_parser("run", help="run a plan over splits", description=what)
    common.add_plan(parser)
    common.add_parameters(parser)
    _add_input(parser)
    parser.add_argument(
        "--splits-per-epoch",
        metavar="N",
        type=common.at_least_one,
        help="seal an epoch after N splits of each source (default: one epoch for all); without --server each file of "
        "a folder or glob is then a split",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="write the rows to FILE.arrow, FILE.parquet or FILE.csv, or to a folder with one Parquet file for each "
        "epoch (default: print the first rows)",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="NAME",
        help=(
            "take a checkpoint of this name at every barrier, in place of the previous checkpoint of this name, and "
            "print its id"
        ),
    )
    parser.add_argument("--restore", metavar="ID", help="continue after the barrier of this checkpoint")
    common.add_how(parser)
    common.add_executor(parser)
    common.add_spark(parser)
    common.add_write_root(parser)
    common.add_checkpoint_root(parser)
    common.add_server(parser)
    parser.set_defaults(command=run, parser=parser)


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--split",
        metavar="SOURCE=PATH",
        type=common.named_path,
        action="append",
        default=[],
        help="feed a source a file, folder or glob as a split; may be repeated (with --server the paths are the "
        "server's)",
    )
    parser.add_argument(
        "--change-column",
        metavar="SOURCE=COLUMN",
        type=common.named_column,
        action="append",
        default=[],
        help="with --mode continuous: the column of the source's splits that has the change of each row: a weight, "
        "or one of insert, delete, update_preimage, update_postimage; may be repeated (default: every row is an "
        "insert)",
    )
    parser.add_argument(
        "--table",
        metavar="NAME=PATH",
        type=common.named_path,
        action="append",
        default=[],
        help="bind a static table, which every epoch reads whole; may be repeated",
    )
    parser.add_argument(
        "--empty",
        metavar="SOURCE",
        action="append",
        default=[],
        help="feed a source no splits; may be repeated (a source with neither --split nor --empty is an error)",
    )
    parser.add_argument(
        "--missing-columns",
        metavar="[NAME=]error|null",
        type=common.missing_columns,
        action="append",
        default=[],
        help="what happens if a file lacks a column that the plan reads: error fails, null gives nulls; for the "
        "source or table NAME, or for all sources and tables; may be repeated (default: error)",
    )


def run(options: argparse.Namespace) -> int:
    from .output import open_output, writable
    from .progress_line import progress

    try:
        target = writable(options.output) if options.output else None
    except ValueError as error:
        options.parser.error(str(error))
    for name in ("write_root", "checkpoint_root", "spark", "spark_staging"):
        if options.server and getattr(options, name):
            option = f"--{name.replace('_', '-')}"
            options.parser.error(
                f"{option} configures the service in this process, and --server is given: leave {option} out, and "
                "set the option of tidegate serve"
            )
    _check_names(options)
    splits, missing = _epochs(options), dict(options.missing_columns)
    tables = {name: [_file(path, missing, name) for path in paths] for name, paths in _grouped(options.table).items()}
    parameters = common.parameters(options)
    started = time.perf_counter()
    with (
        common.client(options) as client,
        client.create_task(
            options.plan, tables=tables, parameters=parameters, restore=options.restore, **_how(options)
        ) as task,
    ):
        for warning in task.warnings:
            print(f"warning: {warning}")
        _check_fed(task, options)
        total = sum(len(paths) for epoch in splits for paths in epoch.values())
        rows = 0
        with open_output(target, task.schema, task.cursor.epoch - 1) as output:
            for epoch in splits:
                with progress(total, lambda: _state(task)):
                    fed = _splits(epoch, dict(options.change_column), missing)
                    result = task.run_epoch(fed, checkpoint=options.checkpoint or False)
                rows += output.epoch(result)
                if options.checkpoint:
                    print(f"epoch {result.number}: checkpoint {result.checkpoint}")
        print(_summary(rows, len(splits), time.perf_counter() - started, task.options))
    return 0


def _summary(rows: int, epochs: int, seconds: float, how: TaskOptions) -> str:
    determinism = "" if how.determinism.value == "strict" else f", {how.determinism.value}"
    channels = f"{how.channels} channel" + ("s" if how.channels != 1 else "")
    count = f"{epochs} epoch" + ("s" if epochs != 1 else "")
    return f"{rows:,} rows in {count}, {seconds:.3f} s, {how.mode.value}{determinism}, {channels}"


def _how(options: argparse.Namespace) -> dict[str, Any]:
    """The options of the task. Without a master, Spark runs on this machine with all of its cores."""
    missing = dict(options.missing_columns).get("", "error")
    values = {**common.how(options), "executor": options.executor, "missing_columns": missing}
    if options.spark or (options.executor == "spark" and not options.server):
        values["spark"] = options.spark or "local[*]"
    return values


def _check_names(options: argparse.Namespace) -> None:
    """Refuses options for the files of a name that has no files."""
    fed, tables = ({name for name, _ in pairs} for pairs in (options.split, options.table))
    for option, named, known in (
        ("--change-column", options.change_column, fed),
        ("--missing-columns", options.missing_columns, {"", *fed, *tables}),
    ):
        if unknown := {name for name, _ in named} - known:
            options.parser.error(
                f"{option} names {min(unknown)!r}, which has no files: give --split {min(unknown)}=PATH or --table "
                f"{min(unknown)}=PATH"
            )


def _check_fed(task: Task, options: argparse.Namespace) -> None:
    """Refuses sources with neither splits nor --empty, except in a continuous task that goes on from a checkpoint,
    which has the rows of its sources.
    """
    from ...proto.source_names import check_fed, spelled
    from ...proto.values import Mode

    fed = spelled(task.sources.values(), [name for name, _ in options.split])
    if both := fed & spelled(task.sources.values(), options.empty):
        raise InvalidRequest(f"source {min(both)!r} has splits: leave --empty {min(both)} out", reason="SOURCE_UNFED")
    if not (options.restore and task.options.mode is Mode.CONTINUOUS):
        check_fed(task.sources.values(), {*fed, *options.empty}, "give --split {name}=PATH, or --empty {name}")


def _state(task: Task) -> State:
    from ...proto.statistics import share_of
    from .progress_line import State

    statistics = task.statistics()
    finished = sum(split.finished for split in statistics.splits.values())
    return State(finished=finished, rows=statistics.output_rows, read=share_of(statistics.progress.values()))


def _grouped(named: list[tuple[str, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name, path in named:
        groups.setdefault(name, []).append(path)
    return groups


def _epochs(options: argparse.Namespace) -> list[dict[str, list[str]]]:
    """The splits of each epoch; at least one epoch."""
    from ...operators.sources.split_pieces import files_of

    size = options.splits_per_epoch
    if size is None:
        return [_grouped(options.split)]
    here = options.server is None
    splits = [(source, file) for source, path in options.split for file in ((here and files_of(path)) or [path])]
    groups = _grouped(splits)
    count = max((-(-len(paths) // size) for paths in groups.values()), default=1)
    return [{name: paths[i * size : (i + 1) * size] for name, paths in groups.items()} for i in range(count)]


def _splits(
    epoch: Mapping[str, Sequence[str]], columns: Mapping[str, str], missing: Mapping[str, str]
) -> dict[str, list[SplitLike]]:
    """The epoch's splits, with the change columns of their sources."""
    return {
        name: [replace(_file(path, missing, name), change_column=columns.get(name)) for path in paths]
        for name, paths in epoch.items()
    }


def _file(path: str, missing: Mapping[str, str], name: str) -> FileSplit:
    from ...proto.values import FileSplit, MissingColumns

    choice = missing.get(name)
    return FileSplit(path, missing_columns=None if choice is None else MissingColumns(choice))
