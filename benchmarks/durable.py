"""Case `durable`: what it costs that tasks outlive their service.

Small epochs, one after the other, and epochs of 10 MB that are fed ahead of their reader; with a data folder and
without one. Epochs that follow one another have different rows, because equal rows are kept once.

Small epochs: beside the epoch without a journal stands the same epoch with one sync, which is the least that a durable
epoch can cost on this disk. The sync comes behind the epoch, as in a durable task: a sync behind a millisecond of work
takes longer than one of many syncs in a row. It appends as many bytes to a file as the journal's commit has. The target
is the time of a durable epoch beyond that. Two other rows are there to compare: the same bytes are written over those
that a file has already, as SQLite's log does (less time than a file that grows), and a commit of SQLite with the same
rows.

Large epochs come in rows of many, so that the first of a row, beside which nothing is computed, counts for little.
Beside them stands what the disk takes for the same bytes: a write and a sync of a new file, no more. A split is
answered when the disk has it, so the target is over the slower of the disk and no journal. (A durable task may be
faster than the disk: it writes over files whose rows are acknowledged.)
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import tidegate

from . import plans
from .measure import Runs, Spread, interleave
from .report import Report, Target, spread_text
from .settings import Settings
from .small_epochs import ROWS, each_epoch, next_epoch

LARGE_EPOCHS = 32
AHEAD = 4
COLUMN_BYTES = 8
SMALL_SPLITS = 64
SMALL_COMMIT_BYTES = 8 * 4_120
"""A commit of a small epoch in SQLite's log: some frames of a page each, most of them with its rows."""
LOG_BYTES = 100 * SMALL_COMMIT_BYTES
SMALL, LARGE = "small epoch", "10 MB epoch"
PLAIN, DURABLE, DISK = "no journal", "durable", "the disk"
SYNC, SYNC_OVER, SQLITE = "no journal and a sync", "no journal and a sync over old bytes", "no journal and SQLite"
ROUNDS = 4
"""Times the rounds of other cases: the time of a sync differs from one to the next."""


def run(settings: Settings) -> Report:
    large = large_splits(settings.durable_bytes)
    repeats: dict[str, int] = {}
    contenders: dict[str, Callable[[], object]] = {}
    many = max(1, settings.small_epochs // 10)

    def add(name: str, times: int, call: Callable[[], object]) -> None:
        repeats[name], contenders[name] = times, call

    settings.data.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=settings.data)))
        plain = stack.enter_context(tidegate.local())
        durable = stack.enter_context(tidegate.local(data=folder / "data"))
        behind: dict[str, tuple[tidegate.Client, Callable[[pa.Table], object]]] = {
            PLAIN: (plain, lambda _: None),
            SYNC: (plain, stack.enter_context(appends(folder / "log"))),
            SYNC_OVER: (plain, stack.enter_context(writes_over(folder / "old"))),
            SQLITE: (plain, stack.enter_context(commits(folder / "rows.sqlite"))),
            DURABLE: (durable, lambda _: None),
        }
        for kind, (client, then) in behind.items():
            task = stack.enter_context(client.create_task(plans.filter_project_group()))
            add(f"{SMALL}, {kind}", many, partial(_small, many, task, itertools.cycle(small_splits()), then))
        for kind, client in {PLAIN: plain, DURABLE: durable}.items():
            ahead = stack.enter_context(client.create_task(plans.filter_project_group()))
            add(f"{LARGE}, {kind}", len(large), partial(feed_ahead, ahead, large))
        content = [os.urandom(split.nbytes) for split in large]
        add(f"{LARGE}, {DISK}", len(large), partial(write_and_sync, folder, *content))
        runs = interleave(contenders, ROUNDS * settings.rounds)
    return report(each_epoch(runs, repeats), settings)


def small_splits() -> list[pa.Table]:
    random = np.random.default_rng(7)
    return [
        pa.table({"k": random.integers(0, 50, ROWS), "v": random.integers(0, 1_000, ROWS)}) for _ in range(SMALL_SPLITS)
    ]


def _small(times: int, task: tidegate.Task, splits: Iterator[pa.Table], then: Callable[[pa.Table], object]) -> None:
    for split in itertools.islice(splits, times):
        next_epoch(task, split)
        then(split)


@contextmanager
def appends(path: Path) -> Iterator[Callable[[pa.Table], object]]:
    """A call that appends as many bytes as a commit of a small epoch has, and waits until the disk has them."""
    content = bytes(SMALL_COMMIT_BYTES)
    with path.open("xb", buffering=0) as file:

        def append(_: pa.Table) -> None:
            file.write(content)
            os.fsync(file.fileno())

        yield append


@contextmanager
def writes_over(path: Path) -> Iterator[Callable[[pa.Table], object]]:
    """The same in a file that does not grow: the bytes are written over others."""
    content = bytes(SMALL_COMMIT_BYTES)
    offsets = itertools.cycle(range(0, LOG_BYTES, SMALL_COMMIT_BYTES))
    with path.open("xb", buffering=0) as file:
        file.write(bytes(LOG_BYTES))
        os.fsync(file.fileno())

        def write_over(_: pa.Table) -> None:
            os.pwrite(file.fileno(), content, next(offsets))
            os.fdatasync(file.fileno())

        yield write_over


@contextmanager
def commits(path: Path) -> Iterator[Callable[[pa.Table], object]]:
    """A call that puts the rows into a SQLite database in place of those before, and waits until the disk has them."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as database:
        for setting in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"):
            database.execute(setting)
        database.execute("CREATE TABLE kept (number INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        numbers = itertools.count(1)

        def commit(split: pa.Table) -> None:
            number = next(numbers)
            body = b"".join(column.chunk(0).buffers()[1] for column in split.columns)
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT INTO kept VALUES (?, ?)", (number, body))
            database.execute("DELETE FROM kept WHERE number < ?", (number,))
            database.execute("COMMIT")

        yield commit


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
        task.feed_epoch({"rows": split})
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


def report(runs: Runs, settings: Settings) -> Report:
    targets = [
        Target(f"{SMALL}: ms of a durable one more than of one without a journal and a sync", _more(runs), 0.3),
        Target(
            f"{LARGE}: speed, durable over the slower of no journal and the disk", _over_slower(runs), 0.9, "at least"
        ),
    ]
    return Report(
        case="durable",
        title=f"Durable epochs: {ROWS:,} rows, and {settings.durable_bytes / 1e6:g} MB fed {AHEAD} ahead",
        header=["", "ms per epoch", "speed over no journal", "speed over the disk alone"],
        rows=[
            [
                name,
                spread_text(runs.spread(name).scaled(1e3)),
                *(_text(_ratio(runs, size, other, kind)) for other in (PLAIN, DISK)),
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
    names = [f"{LARGE}, {kind}" for kind in (DURABLE, PLAIN, DISK)]
    if any(name not in runs.seconds for name in names):
        return None
    rounds = zip(*(runs.seconds[name] for name in names), strict=True)
    return Spread.of(tuple(max(plain, disk) / durable for durable, plain, disk in rounds))


def _more(runs: Runs) -> Spread | None:
    """The milliseconds of a durable small epoch beyond one without a journal and a sync."""
    names = [f"{SMALL}, {kind}" for kind in (DURABLE, SYNC)]
    if any(name not in runs.seconds for name in names):
        return None
    rounds = zip(*(runs.seconds[name] for name in names), strict=True)
    return Spread.of(tuple(1e3 * (durable - least) for durable, least in rounds))


def _text(spread: Spread | None) -> str:
    return "-" if spread is None else spread_text(spread)
