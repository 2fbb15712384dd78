"""Case `durable-tasks`: what a data folder costs beside single epochs.

Many tasks that are fed at once, each by a caller of its own, whose changes share commits: with a data folder, without
one, and beside them as many small syncs, one after the other. The target is the epochs for each commit: where a disk
takes long, so many times as many epochs a second as a sync for each would allow. (Where a sync takes less time than an
epoch, as on a fast disk, the processor is the limit, and a task without a journal is no faster.) A continuous join that
takes a checkpoint after each second of work, and one that takes none. Services that start on a folder: with many idle
tasks, and with the state of the join, beside reading its files. The bytes of a checkpoint of that state after a change
of one row in a thousand, beside those of all of it. A service that comes back just before a checkpoint was due, with
the defaults of a task: the work that it does again.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import tidegate
from tidegate.executor.journal.journal_database import JournalDatabase, Statement
from tidegate.proto.values import TaskOptions, TaskPhase

from . import plans
from .changes import Changing, join_inputs
from .durable import SMALL_COMMIT_BYTES, small_splits, write_and_sync
from .measure import Runs, Spread, interleave
from .report import Report, Target, spread_text
from .settings import Settings
from .small_epochs import next_epoch

CHECKPOINT_SECONDS = 300.0
STATE_BYTES_A_ROW = 512
CHANGED_IN = 1_000
JOURNAL, PLAIN, SYNCS = "tasks at once, durable", "tasks at once, no journal", "a sync for each epoch"
TAKES, NONE = "join, a checkpoint a second", "join, no checkpoints"
SERVING, BACK = "idle tasks, serving", "idle tasks, all back"
STATE, READING = "state of the join, back", "state of the join, its files read"
WORK, AGAIN = "join, work without a checkpoint", "join, back after that"
DEFAULTS = TaskOptions()


def run(settings: Settings) -> Report:
    settings.data.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, tuple[float, ...]] = {}
    notes: dict[str, str] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=settings.data)))
        runs, shared = many_tasks(folder, settings)
        seconds |= runs.seconds
        notes |= runs.left_out
        measured = (
            partial(joins, folder, settings),
            partial(idle_tasks, folder, settings),
            partial(work_again, folder, settings),
        )
        for measure in measured:
            runs = measure()
            seconds |= runs.seconds
            notes |= runs.left_out
        runs, changed = state_of_join(folder, settings)
    return report(Runs({**seconds, **runs.seconds}, {**notes, **runs.left_out}), shared, changed, settings)


# ---------------------------------------------------------------------------------------------------- running tasks


def many_tasks(folder: Path, settings: Settings) -> tuple[Runs, Spread | None]:
    """Each task has an epoch, several times. Also the epochs for each commit."""
    with ExitStack() as stack:
        callers = stack.enter_context(ThreadPoolExecutor(settings.durable_tasks))
        contenders: dict[str, Callable[[], object]] = {}
        for name, client in {
            PLAIN: stack.enter_context(tidegate.local()),
            JOURNAL: stack.enter_context(tidegate.local(data=folder / "many")),
        }.items():
            tasks = [client.create_task(plans.filter_project_group()) for _ in range(settings.durable_tasks)]
            contenders[name] = partial(at_once, callers, tasks)
        shared: list[float] = []
        commits = stack.enter_context(counted_commits())

        def counting() -> None:
            before = next(commits)
            at_once(callers, tasks)
            shared.append(settings.durable_tasks / max(1, next(commits) - before - 1))

        contenders[JOURNAL] = counting
        contents = [bytes(SMALL_COMMIT_BYTES)] * settings.durable_tasks
        contenders[SYNCS] = partial(write_and_sync, folder, *contents)
        runs = interleave(contenders, settings.rounds)
        return runs, Spread.of(tuple(shared)) if shared else None


@contextmanager
def counted_commits() -> Iterator[Iterator[int]]:
    """Numbers that go up by one for each commit of a journal, and for each that is asked for."""
    numbers = itertools.count()
    commit = JournalDatabase.commit

    def counted(database: JournalDatabase, statements: Iterable[Statement]) -> None:
        next(numbers)
        commit(database, statements)

    with patch.object(JournalDatabase, "commit", counted):
        yield numbers


def at_once(callers: ThreadPoolExecutor, tasks: Sequence[tidegate.Task]) -> None:
    """An epoch of each task."""
    list(callers.map(next_epoch, tasks, itertools.cycle(small_splits())))


def joins(folder: Path, settings: Settings) -> Runs:
    inputs = join_inputs(settings.durable_rows)
    with ExitStack() as stack:
        client = stack.enter_context(tidegate.local(data=folder / "joins"))
        contenders: dict[str, Callable[[], object]] = {}
        for name, every in {NONE: 0.0, TAKES: 1.0}.items():
            task = stack.enter_context(create_join(client, checkpoint_seconds=every))
            task.run_epoch(inputs)
            contenders[name] = partial(_change, task, Changing(inputs["rows"]), settings.durable_changes)
        return interleave(contenders, settings.rounds)


def create_join(
    client: tidegate.Client, *, checkpoint_seconds: float = 0.0, checkpoint_epochs: int = 0, memory: int = 1 << 30
) -> tidegate.Task:
    return client.create_task(
        plans.grouped_join(),
        mode="continuous",
        memory_limit=memory,
        queue_bytes=memory,
        checkpoint_seconds=checkpoint_seconds,
        checkpoint_epochs=checkpoint_epochs,
    )


def _change(task: tidegate.Task, changes: Changing, epochs: int) -> None:
    for _ in range(epochs):
        task.run_epoch({"rows": changes.next()}).table()


# ---------------------------------------------------------------------------------------------------- starting


def idle_tasks(folder: Path, settings: Settings) -> Runs:
    data = folder / "idle"
    with tidegate.local(data=data) as client:
        tasks = [client.create_task(plans.filter_project_group()).id for _ in range(settings.durable_idle_tasks)]
    starts = [start(data, tasks) for _ in range(settings.rounds)]
    serving, back = zip(*starts, strict=True)
    return Runs({SERVING: serving, BACK: back})


def state_of_join(folder: Path, settings: Settings) -> tuple[Runs, Spread | None]:
    """Also the bytes of a checkpoint behind a small change, over those of the first one."""
    data = folder / "state"
    inputs = join_inputs(settings.durable_state_rows)
    memory = max(1 << 30, STATE_BYTES_A_ROW * settings.durable_state_rows)
    with tidegate.local(data=data) as client:
        task = create_join(client, checkpoint_epochs=1, memory=memory)
        task.run_epoch(inputs).table()
        whole = checkpoint_at(data, 1)
        task.acknowledge()  # a checkpoint waits until the one before it is needed no more
        changes = Changing(inputs["rows"], max(2, settings.durable_state_rows // CHANGED_IN))
        task.run_epoch({"rows": changes.next()}).table()
        behind = checkpoint_at(data, 2)
        task.acknowledge()
    if not whole or not behind:
        return Runs({}, {STATE: "no checkpoint was written"}), None
    changed = sum(size for path, size in behind.items() if path not in whole) / sum(whole.values())
    back, reading = [], []
    for _ in range(settings.rounds):
        leave_to_disk(behind)
        reading.append(_clocked(lambda: [path.read_bytes() for path in behind]))
        leave_to_disk(behind)
        back.append(start(data, [task.id])[1])
    return Runs({STATE: tuple(back), READING: tuple(reading)}), Spread.of((changed,))


def leave_to_disk(paths: Iterable[Path]) -> None:
    """Have the system forget the bytes of these files, so that the next reader reads them from the disk."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def work_again(folder: Path, settings: Settings) -> Runs:
    """The seconds of a load and large changes, almost until a checkpoint is due, and those until all is back."""
    data = folder / "again"
    inputs = join_inputs(settings.durable_rows)
    with tidegate.local(data=data) as client:
        task = create_join(
            client, checkpoint_seconds=DEFAULTS.checkpoint_seconds, checkpoint_epochs=DEFAULTS.checkpoint_epochs
        )
        changes = Changing(inputs["rows"], settings.durable_rows // 10)
        began = time.perf_counter()
        task.run_epoch(inputs).table()
        task.acknowledge()
        while (work := time.perf_counter() - began) < settings.durable_work_seconds:
            task.run_epoch({"rows": changes.next()}).table()
            task.acknowledge()
    return Runs({WORK: (work,), AGAIN: (start(data, [task.id])[1],)})


def checkpoint_at(data: Path, epoch: int) -> dict[Path, int]:
    """The sizes of all files of checkpoints, once there is one at this epoch. Empty if it does not come."""
    deadline = time.monotonic() + CHECKPOINT_SECONDS
    while time.monotonic() < deadline:
        if list((data / "checkpoints").rglob(f"epoch-{epoch}.json")):
            return {path: path.stat().st_size for path in (data / "checkpoints").rglob("*.*") if path.is_file()}
        time.sleep(0.05)
    return {}


def start(data: Path, tasks: Sequence[str]) -> tuple[float, float]:
    """The seconds until a service on the folder answers, and until its tasks are back."""
    began = time.perf_counter()
    with tidegate.local(data=data) as client:
        client.task(tasks[-1]).info()
        serving = time.perf_counter() - began
        for task in tasks:
            while client.task(task).info().state is TaskPhase.RECOVERING:
                time.sleep(0.01)
        return serving, time.perf_counter() - began


def _clocked(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


# ---------------------------------------------------------------------------------------------------- reporting


def report(runs: Runs, shared: Spread | None, changed: Spread | None, settings: Settings) -> Report:
    beside = {JOURNAL: PLAIN, SYNCS: PLAIN, TAKES: NONE, STATE: READING, AGAIN: WORK}
    targets = [
        Target("tasks at once: epochs for each commit", shared, 20, "at least"),
        Target("a join with a checkpoint a second over one with none", runs.ratio(TAKES, NONE), 1.1),
        Target("idle tasks: seconds until a service answers", _spread(runs, SERVING), 2),
        Target("idle tasks: seconds until all are back", _spread(runs, BACK), 20),
        Target("state that is back over reading its files", runs.ratio(STATE, READING), 2),
        Target("seconds until a join is back whose checkpoint was almost due", _spread(runs, AGAIN), 60),
        Target(f"bytes of a checkpoint, one row in {CHANGED_IN:,} changed, over the whole state's", changed, 0.02),
    ]
    table = []
    for name in runs.seconds:
        other = runs.ratio(name, beside[name]) if name in beside else None
        cost = spread_text(runs.spread(name).scaled(1e3))
        table.append([name, cost, "-" if other is None else f"{spread_text(other)} of {beside[name]}"])
    return Report(
        case="durable-tasks",
        title=(
            f"Durable: {settings.durable_tasks:,} tasks at once, {settings.durable_idle_tasks:,} idle ones, a join of "
            f"{settings.durable_rows:,} rows, a state of {settings.durable_state_rows:,} rows"
        ),
        header=["", "ms", "ratio"],
        rows=table,
        targets=targets,
        notes=[f"{name}: {why}" for name, why in runs.left_out.items()],
        figures={"seconds": runs.seconds, "epochs for each commit": shared},
    )


def _spread(runs: Runs, name: str) -> Spread | None:
    return runs.spread(name) if name in runs.seconds else None
