"""One run of a task through a server that is killed again and again, and its comparison with an undisturbed run."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

import tidegate
from tidegate.operators.arrays.digest import digest
from tidegate.proto.errors import OutOfRange
from tidegate.proto.values import Barrier, Cursor, Data

from .cases import CASES, WRITTEN, Case, Splits, There
from .points import ALWAYS, LOADING, POINTS, RECOVERY, Point

TOP: Final = Path(__file__).resolve().parents[2]
EPOCHS: Final = 6
INSTANT: Final = "at a random instant"
_WAIT: Final = 5.0
_PATIENCE: Final = 60.0
"""Seconds in which a server comes to a point that is waited for."""
_LONGEST: Final = 240.0
"""Seconds that a run may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """The end of one life of a server: at the `hit`-th time that it comes to a point, or else after some `seconds`."""

    point: int
    hit: int
    seconds: float

    @classmethod
    def of(cls, luck: random.Random, points: Sequence[Point]) -> Self:
        point, hit = luck.choice(points), luck.choice((1, 1, 2, 3, luck.randint(4, 12)))
        seconds = luck.uniform(0.05, 1.0) if luck.random() < 0.2 else 2.0
        return cls(point=POINTS.index(point), hit=hit, seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that a seed decides. `by` is how the client feeds, `ahead` how many epochs before it reads them."""

    seed: int
    case: Case
    options: Mapping[str, object]
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
            options["channels"] = luck.choice((1, 1, 2, 3))
        if options.get("mode") == "continuous":
            options["checkpoint_epochs"] = luck.randint(1, 3)
        there: There = {}
        first = Crash.of(luck, (*case.points, *ALWAYS))
        crashes = [first, *(Crash.of(luck, (*case.points, *ALWAYS, *RECOVERY)) for _ in range(luck.randint(1, 3)))]
        return cls(
            seed=seed,
            case=case,
            options=options,
            epochs=[case.epoch(luck, there) for _ in range(EPOCHS)],
            crashes=crashes,
            by=luck.choice(("splits", "transactions")),
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
    crash = Crash(point=POINTS.index(point), hit=1, seconds=_PATIENCE)
    first = Crash(point=POINTS.index(ALWAYS[-1]), hit=3, seconds=_PATIENCE)
    later = point in RECOVERY or point in LOADING
    options = {**run.options, **({"checkpoint_epochs": 1} if "checkpoint_epochs" in run.options else {})}
    return replace(
        run, crashes=[first, crash] if later else [crash], options=options, pause=0.3, ahead=1, holds_back=False
    )


class Forking:
    """A process that starts servers fast, one after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.forking"],
            cwd=TOP,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, arguments: Sequence[str], log: Path, crash: Crash | None) -> int:
        """Start a server; its process. `status` waits until it has ended."""
        at = {} if crash is None else {"point": crash.point, "hit": crash.hit}
        command = {"arguments": arguments, "log": str(log), **at}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def status(self) -> int:
        return self._answer()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Lives:
    """A server at one address, started again after each crash. `died` names the crashes that came to be."""

    def __init__(self, forking: Forking, folder: Path, crashes: Sequence[Crash], *flags: str) -> None:
        self._forking = forking
        self._log = folder / "log"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        (folder / "tables").mkdir()
        self._arguments = ["serve", "--listen", self.address, *flags]
        for option in ("data", "spill"):
            self._arguments += [f"--{option}", str(folder / option)]
        self._arguments += ["--write-root", str(folder / "tables"), "--root", str(folder)]
        self._crashes = list(crashes)
        self._ended = self._told_to_end = False
        self._process = 0
        self.died: list[str] = []
        self.wrong: list[str] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended:
            crash = self._crashes.pop(0) if self._crashes else None
            self._told_to_end = False
            self._process = self._forking.start(self._arguments, self._log, crash)
            came = crash is not None and self._ends_within(crash.seconds)
            if self._ended:
                self.kill_one()
            status = self._forking.status()
            if status != (0 if self._told_to_end else -signal.SIGKILL):
                self.wrong.append(f"a server has ended with status {status}: {self._log.read_text()[-3_000:]}")
                return
            if crash is not None and not self._ended:
                self.died.append(POINTS[crash.point].name if came else INSTANT)

    def _ends_within(self, seconds: float) -> bool:
        """True if the process ends by itself within this time. It is killed otherwise."""
        try:
            watched = os.pidfd_open(self._process)
        except ProcessLookupError:
            return True
        try:
            if select.select([watched], [], [], seconds)[0]:
                return True
        finally:
            os.close(watched)
        self.kill_one()
        return False

    def end_one(self) -> None:
        """Tell the server to end; the next one starts then."""
        self._told_to_end = True
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGTERM)

    def kill_one(self) -> None:
        """Kill the server; the next one starts then."""
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)

    def close(self) -> None:
        self._ended, self._told_to_end = True, False
        self.kill_one()
        self._thread.join()
        log = self._log.read_text() if self._log.exists() else ""
        if "Traceback" in log or "a bug in" in log:
            self.wrong.append(f"the log has an error: {log[-3_000:]}")


def stream(run: Run, address: str) -> list[pa.Table]:
    """The epochs as a client reads them through the server, row by row from its cursor."""
    deadline = time.monotonic() + _LONGEST
    with tidegate.connect(address, reconnect_seconds=_LONGEST) as client:
        task = client.create_task(run.case.plan, **run.options)
        read: list[list[pa.RecordBatch]] = []
        fed = 0
        while len(read) < EPOCHS:
            assert time.monotonic() < deadline, f"epoch {len(read) + 1} has not come"
            if fed < EPOCHS and fed < len(read) + run.ahead:
                fed += 1
                feed(task, run, fed)
                time.sleep(run.pause)
            else:
                read.append(read_epoch(task, run, len(read) + 1, deadline))
        task.no_more_splits()
        tables = [pa.Table.from_batches(batches, task.schema) for batches in read]
        task.delete()
    return tables


def feed(task: tidegate.Task, run: Run, number: int) -> None:
    splits = run.epochs[number - 1]
    if run.by == "transactions":
        assert task.transact("crash", number, splits, seal=True).epoch == number
        return
    for source, several in splits.items():
        for split in several:
            assert task.add_split(source, split).epoch == number
            time.sleep(run.pause)
    assert task.request_barrier(epoch=number) == number


def read_epoch(task: tidegate.Task, run: Run, number: int, deadline: float) -> list[pa.RecordBatch]:
    """The epoch's rows. A relaxed one is read from its start again if the server says so."""
    cursor, batches = Cursor(number), list[pa.RecordBatch]()
    while time.monotonic() < deadline:
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
                    assert frame.cursor == cursor
                    batches += frame.batches
                    cursor = Cursor(number, cursor.row + frame.rows)
                case Barrier():
                    assert (frame.error, frame.epoch, frame.rows) == (None, number, cursor.row)
                    return batches
        time.sleep(run.pause)
    raise AssertionError(f"epoch {number} has not come to its barrier")


def undisturbed(run: Run, folder: Path) -> list[pa.Table]:
    (folder / "tables").mkdir(parents=True)
    with (
        tidegate.local(write_root=folder / "tables") as client,
        client.create_task(run.case.plan, **run.options) as task,
    ):
        return [task.run_epoch(splits).table() for splits in run.epochs]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The crashes of a run, and the differences from the undisturbed run."""

    died: Sequence[str]
    wrong: Sequence[str]


def killed(run: Run, forking: Forking, folder: Path) -> Outcome:
    folder.mkdir(parents=True)
    expected = undisturbed(run, folder / "undisturbed")
    lives = Lives(forking, folder, run.crashes, *([] if run.seed % 3 else ["--no-flight"]))
    wrong: list[str] = []
    try:
        wrong += compared(run, stream(run, lives.address), expected)
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
