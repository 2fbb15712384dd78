"""Case `durable`: what it costs that tasks outlive their service.

Small epochs, one after the other, and epochs of 10 MB that are fed ahead of their reader; with a data folder and
without one. Beside them stands what the disk takes for the same bytes: a write and a sync of a file, no more. The
epochs of 10 MB have different rows, because equal rows are kept once. A split is answered when the disk has it, so no
journal can be faster than the disk: the target of large epochs is over the slower of the disk and no journal.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import tidegate

from . import plans
from .measure import Runs, Spread, interleave
from .report import Report, Target, spread_text
from .settings import Settings
from .small_epochs import each_epoch, next_epoch, rows

LARGE_EPOCHS = 8
AHEAD = 4
COLUMN_BYTES = 8
SMALL_COMMIT_BYTES = 3 * 4_120
"""A commit of a small epoch in SQLite's log: some frames of a page each."""
SMALL, LARGE = "small epoch", "10 MB epoch"


def run(settings: Settings) -> Report:
    large = large_splits(settings.durable_bytes)
    repeats: dict[str, int] = {}
    contenders: dict[str, Callable[[], object]] = {}

    def add(name: str, times: int, call: Callable[[], object]) -> None:
        repeats[name], contenders[name] = times, call

    settings.data.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=settings.data)))
        for kind, client in {
            "no journal": stack.enter_context(tidegate.local()),
            "durable": stack.enter_context(tidegate.local(data=folder / "data")),
        }.items():
            task = stack.enter_context(client.create_task(plans.filter_project_group()))
            many = max(1, settings.small_epochs // 10)
            add(f"{SMALL}, {kind}", many, partial(_repeat, many, partial(next_epoch, task, rows())))
            ahead = stack.enter_context(client.create_task(plans.filter_project_group()))
            add(f"{LARGE}, {kind}", len(large), partial(feed_ahead, ahead, large))
        add(
            f"{SMALL}, the disk",
            many,
            partial(_repeat, many, partial(write_and_sync, folder, bytes(SMALL_COMMIT_BYTES))),
        )
        content = [os.urandom(split.nbytes) for split in large]
        add(f"{LARGE}, the disk", len(large), partial(write_and_sync, folder, *content))
        runs = interleave(contenders, settings.rounds)
    return report(each_epoch(runs, repeats), settings)


def large_splits(size: int) -> list[pa.Table]:
    random = np.random.default_rng(11)
    count = max(1, size // (2 * COLUMN_BYTES))
    return [
        pa.table({"k": random.integers(0, 50, count), "v": random.integers(0, 1_000, count)})
        for _ in range(LARGE_EPOCHS)
    ]


def feed_ahead(task: tidegate.Task, splits: Sequence[pa.Table]) -> list[pa.Table]:
    """The answers to the splits, an epoch each. Epochs are fed while the ones before them are computed."""
    answers = []
    for number, split in enumerate(splits):
        task.add_split("rows", split)
        task.request_barrier()
        if number >= AHEAD:
            answers.append(task.read_epoch())
    while len(answers) < len(splits):
        answers.append(task.read_epoch())
    return answers


def write_and_sync(folder: Path, *contents: bytes) -> None:
    """Write a new file for each content, wait until the disk has it, and remove the file."""
    path = folder / "written"
    for content in contents:
        with path.open("xb", buffering=0) as file:
            file.write(content)
            os.fdatasync(file.fileno())
        path.unlink()


def _repeat(times: int, call: Callable[[], object]) -> None:
    for _ in range(times):
        call()


def report(runs: Runs, settings: Settings) -> Report:
    targets = [
        Target(f"{SMALL}: ms more than without a journal and a sync", _more(runs), 0.3),
        Target(
            f"{LARGE}: speed, durable over the slower of no journal and the disk", _over_slower(runs), 0.9, "at least"
        ),
    ]
    return Report(
        case="durable",
        title=f"Durable epochs: 1,000 rows, and {settings.durable_bytes / 1e6:g} MB fed {AHEAD} ahead",
        header=["", "ms per epoch", "speed over no journal", "speed over the disk"],
        rows=[
            [
                name,
                spread_text(runs.spread(name).scaled(1e3)),
                *(_text(_ratio(runs, size, other, kind)) for other in ("no journal", "the disk")),
            ]
            for name in runs.seconds
            for size, kind in [name.split(", ")]
        ],
        targets=targets,
        notes=[f"{name}: {why}" for name, why in runs.left_out.items()],
        figures={"seconds": runs.seconds},
    )


def _ratio(runs: Runs, size: str, slower: str, faster: str) -> Spread | None:
    """The speed of `faster` over that of `slower`."""
    return runs.ratio(f"{size}, {slower}", f"{size}, {faster}")


def _over_slower(runs: Runs) -> Spread | None:
    """The speed of durable large epochs over that of no journal or of the disk, whichever was slower in the round."""
    names = [f"{LARGE}, {kind}" for kind in ("durable", "no journal", "the disk")]
    if any(name not in runs.seconds for name in names):
        return None
    rounds = zip(*(runs.seconds[name] for name in names), strict=True)
    return Spread.of(tuple(max(plain, disk) / durable for durable, plain, disk in rounds))


def _more(runs: Runs) -> Spread | None:
    """The milliseconds of a durable small epoch beyond one without a journal and what the disk takes."""
    names = [f"{SMALL}, {kind}" for kind in ("durable", "no journal", "the disk")]
    if any(name not in runs.seconds for name in names):
        return None
    rounds = zip(*(runs.seconds[name] for name in names), strict=True)
    return Spread.of(tuple(1e3 * (durable - plain - disk) for durable, plain, disk in rounds))


def _text(spread: Spread | None) -> str:
    return "-" if spread is None else spread_text(spread)
