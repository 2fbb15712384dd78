"""One run of a task through a server that is killed again and again, and its comparison with an undisturbed run."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

import tidegate
from tidegate.operators.arrays.digest import digest
from tidegate.proto.errors import OutOfRange
from tidegate.proto.values import Barrier, Cursor, Data, ErrorValue, after

from ..on_channels import on_channels
from .cases import CASES, WRITTEN, Case, Splits, There
from .lives import PATIENCE, Crash, Forking, Lives
from .points import ALWAYS, CHECKPOINTS, LOADING, POINTS, RECOVERY, Point

EPOCHS: Final = 6
_WAIT: Final = 5.0
_LONGEST: Final = 240.0
"""Seconds in which some row has to come."""
_LET_GO: Final = next(point for point in CHECKPOINTS if point.name == "before CheckpointFolder.remove")
"""When the server is here, a restart can go on from a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that a seed decides. `by` says in which of its case's ways the client feeds, `ahead` how many epochs before
    it reads them.
    """

    seed: int
    case: Case
    options: Mapping[str, object]
    tables: Splits
    epochs: Sequence[Splits]
    crashes: Sequence[Crash]
    by: str
    ahead: int
    pause: float
    read_bytes: int
    holds_back: bool
    """Acknowledge only whole epochs."""

    @classmethod
    def of(cls, seed: int) -> Self:
        luck = random.Random(seed)
        case = CASES[seed % len(CASES)]
        options = dict(case.options)
        if case.ordered:
            options |= on_channels(luck.choice((1, 1, 2, 3)), options.get("mode", "per_epoch"))
        if options.get("mode") == "continuous":
            options["checkpoint_epochs"] = luck.randint(1, 3)
        there: There = {}
        first = Crash.of(luck, (*case.points, *ALWAYS))
        crashes = [first, *(Crash.of(luck, (*case.points, *ALWAYS, *RECOVERY)) for _ in range(luck.randint(1, 3)))]
        return cls(
            seed=seed,
            case=case,
            options=options,
            tables=case.tables(luck, there),
            epochs=[case.epoch(luck, there) for _ in range(EPOCHS)],
            crashes=crashes,
            by=luck.choice(case.ways),
            ahead=luck.choice((1, 1, 2, 4)),
            pause=luck.choice((0.0, 0.0, 0.02)),
            read_bytes=luck.choice((2_000, 50_000, 1 << 20)),
            holds_back=luck.random() < 0.5,
        )


def coming_to(point: Point, seed: int) -> Run:
    """A run of a case with this point, whose server is killed as soon as it comes there; before that it may take its
    time. A point of a restart comes after another crash.
    """
    own = [at for at, case in enumerate(CASES) if point in case.points] or list(range(len(CASES)))
    run = Run.of(own[seed % len(own)] + len(CASES) * (1 + seed))
    crash = Crash(point=POINTS.index(point), hit=1, seconds=PATIENCE)
    reached = POINTS.index(_LET_GO if point in LOADING else ALWAYS[-1])
    first = Crash(point=reached, hit=1 if point in LOADING else 3, seconds=PATIENCE)
    later = point in RECOVERY or point in LOADING
    options = {**run.options, **({"checkpoint_epochs": 1} if "checkpoint_epochs" in run.options else {})}
    return replace(
        run, crashes=[first, crash] if later else [crash], options=options, pause=0.3, ahead=1, holds_back=False
    )


def stream(run: Run, lives: Lives) -> list[pa.Table]:
    """The epochs as a client reads them through the server, row by row from its cursor. A server that has not come to
    its point when half of them are read is killed then, unless the run waits for the point.
    """
    with tidegate.connect(lives.address, reconnect_seconds=_LONGEST) as client:
        task = client.create_task(run.case.plan, tables=run.tables, **run.options)
        read: list[pa.Table] = []
        fed = 0
        while len(read) < EPOCHS:
            if run.by == "whole epochs" and run.case.ordered:
                read.append(whole_epoch(task, run.epochs[len(read)]))
                time.sleep(run.pause)
            elif fed < EPOCHS and fed < len(read) + run.ahead:
                fed += 1
                feed(task, run, fed)
                time.sleep(run.pause)
            else:
                read.append(read_epoch(task, run, len(read) + 1))
            if len(read) == EPOCHS // 2 and run.crashes[0].seconds < PATIENCE:
                lives.kill_first()
        task.no_more_splits()
        rest = client.task(task.id, cursor=Cursor(EPOCHS + 1))
        read += [epoch.table() for epoch in rest.epochs()]
        task.delete()
    return read


def whole_epoch(task: tidegate.Task, splits: Splits) -> pa.Table:
    try:
        return task.run_epoch(splits).table()
    except tidegate.EpochError as error:
        return skipped(error.reason)


def skipped(reason: str) -> pa.Table:
    return pa.table({"skipped": [reason]})


def feed(task: tidegate.Task, run: Run, number: int) -> None:
    splits = run.epochs[number - 1]
    if run.by == "transactions":
        assert task.transact("crash", number, splits, seal=True).epoch == number
        return
    if run.by == "late splits":
        feed_late(task, run, number)
        return
    for source, several in splits.items():
        for split in several:
            assert task.add_split(source, split).epoch == number
            time.sleep(run.pause)
    assert task.request_barrier(epoch=number) == number


def feed_late(task: tidegate.Task, run: Run, number: int) -> None:
    """Seal the epoch, then add its splits, the last one first."""
    before = Counter[str]()
    for earlier in run.epochs[: number - 1]:
        before.update({source: len(several) for source, several in earlier.items()})
    splits = run.epochs[number - 1]
    through = {source: before[source] + len(several) for source, several in splits.items()}
    assert task.request_barrier(number, through=through) == number
    for source, several in splits.items():
        for at, split in reversed(list(enumerate(several, before[source] + 1))):
            assert task.add_split(source, split, sequence=at).epoch == number
            time.sleep(run.pause)


def read_epoch(task: tidegate.Task, run: Run, number: int) -> pa.Table:
    """The epoch's rows. A relaxed one is read from its start again if the server says so."""
    cursor, batches = Cursor(number), list[pa.RecordBatch]()
    last = time.monotonic()
    while time.monotonic() < last + _LONGEST:
        done = Cursor(number) if run.holds_back or not run.case.ordered else cursor
        try:
            frames = task.service.next(task.id, cursor, acknowledge=done, max_bytes=run.read_bytes, wait=_WAIT)
        except OutOfRange as error:
            if run.case.ordered or error.reason != "EPOCH_RESTARTED":
                raise
            cursor, batches = Cursor(number), []
            continue
        for frame in frames:
            match frame:
                case Data():
                    last = time.monotonic()
                    assert frame.cursor == cursor
                    batches += frame.batches
                    cursor = after(frame, cursor)
                case Barrier(error=None):
                    assert (frame.epoch, frame.rows) == (number, cursor.row)
                    return pa.Table.from_batches(batches, task.schema)
                case Barrier(error=ErrorValue(reason=reason)):
                    assert frame.epoch == number
                    return skipped(reason)
        time.sleep(run.pause)
    raise AssertionError(f"epoch {number} has not come to its barrier")


def undisturbed(run: Run, folder: Path) -> list[pa.Table]:
    (folder / "tables").mkdir(parents=True)
    with (
        tidegate.local(write_root=folder / "tables", roots=[folder.parent]) as client,
        client.create_task(run.case.plan, tables=run.tables, **run.options) as task,
    ):
        read = [whole_epoch(task, splits) for splits in run.epochs]
        task.no_more_splits()
        return [*read, *(epoch.table() for epoch in task.epochs())]


def with_files(run: Run, folder: Path) -> Run:
    """The run, with its splits in files if it feeds files."""
    if run.by not in ("files", "uploads"):
        return run
    names = (folder / f"{number}.parquet" for number in itertools.count())

    def stored(split: object) -> object:
        if isinstance(split, tidegate.Changes):
            return tidegate.Changes(stored(split.data), split.column)
        path = next(names)
        pq.write_table(split, path)
        return str(path) if run.by == "files" else tidegate.upload(path)

    epochs = [
        {source: [stored(split) for split in several] for source, several in splits.items()} for splits in run.epochs
    ]
    return replace(run, epochs=epochs)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The crashes of a run, and the differences from the undisturbed run."""

    died: Sequence[str]
    wrong: Sequence[str]


def killed(run: Run, forking: Forking, folder: Path) -> Outcome:
    folder.mkdir(parents=True)
    run = with_files(run, folder)
    expected = undisturbed(run, folder / "undisturbed")
    lives = Lives(forking, folder, run.crashes, *([] if run.seed % 3 else ["--no-flight"]))
    wrong: list[str] = []
    try:
        wrong += compared(run, stream(run, lives), expected)
    except Exception as error:  # noqa: BLE001  # a run that breaks is a finding
        wrong.append(f"{type(error).__name__}: {error}")
    finally:
        lives.close()
    wrong += lives.wrong
    if not wrong and table_of(folder) != table_of(folder / "undisturbed"):
        wrong.append("the written tables differ")
    return Outcome(tuple(lives.died), tuple(wrong))


def compared(run: Run, read: Sequence[pa.Table], expected: Sequence[pa.Table]) -> list[str]:
    pairs = zip(read, expected, strict=True)
    if run.case.ordered:
        same = [_digest(one) == _digest(other) for one, other in pairs]
    else:
        same = [_counted(one) == _counted(other) for one, other in pairs]
    return [f"epoch {number} has other rows" for number, equal in enumerate(same, 1) if not equal]


def _digest(table: pa.Table) -> str:
    return digest(table.schema, table.to_batches())


def _counted(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def table_of(folder: Path) -> list[str]:
    """The rows of the table that a plan has written, file by file in any order of the files."""
    files = [path for path in (folder / "tables").glob(f"{WRITTEN}/*") if not path.name.startswith(".")]
    return sorted(_digest(pq.read_table(file)) for file in files)
