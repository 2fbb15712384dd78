"""Cases `training` and `training-tokens`: how fast a loader hands out shuffled batches, and how long its user waits.

Rows of 20 numbers, or of 2,048 tokens, from Parquet files, shuffled within windows, as NumPy arrays. The peers read the
same files with `pyarrow.dataset` and with DuckDB, and shuffle the same windows with NumPy. DuckDB's scan without a
shuffle bounds what reading alone takes; a program of pyarrow and NumPy alone, on two threads, is the floor. CPU
time is that of this process and its children, such as Tidegate's server.

Other peers are measured after that, once, where they are installed. Ray Data shuffles within a buffer of a window; the
start of its processes counts.
Grain, PyTorch's `DataLoader` and mosaicml-streaming read a part of the rows, since they hand rows out one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pyarrow.parquet as pq

import tidegate
from tidegate.training import Batch, Position

from .cpu_time import Used
from .measure import Runs, Spread, interleave
from .report import Report, Target, spread_text
from .services import embedded, served
from .settings import Settings
from .training_floor import floor
from .training_peers import missing, row_by_row, with_ray
from .training_ranks import ONE_RANK, TWO_RANKS, ranks
from .training_rows import COLUMNS, LISTS, TOKENS, WIDE, Kind, dataset, load, loader, read_all, scan, shuffled

ONE_BY_ONE = 200
"""Peers that hand rows out one by one read one row of so many."""
DATASET, STATEMENT = "pyarrow.dataset, shuffled by NumPy", "DuckDB, shuffled by NumPy"
SCAN = "DuckDB's scan, not shuffled"
FLOOR = "the floor: pyarrow and NumPy alone"
EMBEDDED, REMOTE = "Tidegate embedded", "Tidegate gRPC"

Others: TypeAlias = Sequence[tuple[int, Runs]]
"""Peers that are measured by themselves, with the rows that each of them reads."""


def run(settings: Settings) -> Report:
    folder = WIDE.files(settings.data, settings.training_rows)
    rows = _rows(folder)
    with ExitStack() as stack:
        clients = _clients(settings, stack)
        of_ranks = ranks(clients[REMOTE], folder, rows, stack)
        floors = {FLOOR: partial(floor, WIDE, folder, rows)}
        runs, used = _interleaved({**_readers(WIDE, clients, folder, rows), **floors, **of_ranks}, settings.rounds)
        others = _others(WIDE, folder, rows)
        speed = rows / Spread.of(runs.seconds[EMBEDDED]).median
        client = clients[EMBEDDED]
        resumed = Spread.of(tuple(resume(client, folder, rows) for _ in range(settings.rounds)))
        waiting = Spread.of(tuple(wait(client, folder, speed / 2) for _ in range(settings.rounds)))
    targets = [
        _over_best_peer(runs, 2.0),
        Target("embedded: rows/s over DuckDB's scan", runs.ratio(SCAN, EMBEDDED), 0.8, "at least"),
        Target("two ranks: rows/s of both over one rank's", runs.ratio(ONE_RANK, TWO_RANKS), 0.9, "at least"),
        Target("seconds from a state to its first batch", resumed, 1.0),
        Target("part of the time that a consumer of half the speed waits", waiting, 0.01),
    ]
    return Report(
        case="training",
        title=f"Training batches: {rows:,} shuffled rows of {COLUMNS} numbers",
        header=["", "million rows/s", "CPU s"],
        rows=_table(1e6, rows, runs, used, others),
        targets=targets,
        notes=_notes(runs, others),
        figures={**_figures(rows, runs, used, others), "resumed": resumed, "waiting": waiting},
    )


def run_tokens(settings: Settings) -> Report:
    folder = LISTS.files(settings.data, settings.training_lists)
    rows = _rows(folder)
    with ExitStack() as stack:
        clients = _clients(settings, stack)
        runs, used = _interleaved(_readers(LISTS, clients, folder, rows), settings.rounds)
        others = _others(LISTS, folder, rows)
    return Report(
        case="training-tokens",
        title=f"Training batches: {rows:,} shuffled rows of {TOKENS:,} tokens",
        header=["", "thousand rows/s", "CPU s"],
        rows=_table(1e3, rows, runs, used, others),
        targets=[_over_best_peer(runs, 1.5)],
        notes=_notes(runs, others),
        figures=_figures(rows, runs, used, others),
    )


def _rows(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in folder.iterdir())


def _clients(settings: Settings, stack: ExitStack) -> dict[str, tidegate.Client]:
    return {EMBEDDED: stack.enter_context(embedded()), REMOTE: stack.enter_context(served(settings.data))}


def _readers(
    kind: Kind, clients: Mapping[str, tidegate.Client], folder: Path, rows: int
) -> dict[str, Callable[[], object]]:
    peers: dict[str, Callable[[], object]] = {
        DATASET: partial(shuffled, dataset, kind, folder, rows),
        STATEMENT: partial(shuffled, scan, kind, folder, rows),
        SCAN: partial(read_all, scan, kind, folder, rows),
    }
    return peers | {name: partial(load, client, kind, folder, rows) for name, client in clients.items()}


def _interleaved(contenders: Mapping[str, Callable[[], object]], rounds: int) -> tuple[Runs, Runs]:
    """The seconds of the contenders, and their seconds of CPU time."""
    used = Used()
    runs = interleave({name: used.by(name, contender) for name, contender in contenders.items()}, rounds)
    return runs, used.runs(runs)


def resume(client: tidegate.Client, folder: Path, rows: int) -> float:
    """The seconds from a state in the middle of the epoch to its first batch."""
    before, windows = loader(client, WIDE, folder), rows // WIDE.window
    middle = Batch()
    middle.after = Position(0, rows // 2 // WIDE.batch, windows // 2, WIDE.window // 2)
    state = before.state_after(middle)
    started = time.perf_counter()
    with loader(client, WIDE, folder) as resumed:
        resumed.load_state_dict(state)
        next(iter(resumed))
        return time.perf_counter() - started


def wait(client: tidegate.Client, folder: Path, speed: float) -> float:
    """The part of the time, from the second window on, for which a consumer of so many rows a second waits."""
    with loader(client, WIDE, folder) as batches:
        waited = started = 0.0
        for batch in batches:
            if batch.number == 2 * WIDE.window // WIDE.batch:
                waited, started = batches.statistics().waited_seconds, time.perf_counter()
            time.sleep(batch.rows / speed)
        return (batches.statistics().waited_seconds - waited) / (time.perf_counter() - started)


def _over_best_peer(runs: Runs, bound: float) -> Target:
    peers = [name for name in (DATASET, STATEMENT) if name in runs.seconds]
    best = min(peers, key=lambda name: runs.spread(name).median, default=DATASET)
    return Target(f"embedded: rows/s over the best peer's ({best})", runs.ratio(best, EMBEDDED), bound, "at least")


def _others(kind: Kind, folder: Path, rows: int) -> Others:
    """The other peers that are installed, with the rows that they read."""
    few = max(rows // ONE_BY_ONE, kind.batch)
    return [(rows, interleave(with_ray(kind, folder, rows), 1)), (few, interleave(row_by_row(kind, folder, few), 1))]


def _table(unit: float, rows: int, runs: Runs, used: Runs, others: Others) -> list[list[str]]:
    speeds = {name: speed for count, some in [(rows, runs), *others] for name, speed in _speeds(count, unit, some)}
    cpu = {name: spread_text(used.spread(name)) for name in used.seconds}
    return [[name, spread_text(speed), cpu.get(name, "")] for name, speed in speeds.items()]


def _speeds(rows: int, unit: float, runs: Runs) -> list[tuple[str, Spread]]:
    return [(name, Spread.of(tuple(rows / took / unit for took in seconds))) for name, seconds in runs.seconds.items()]


def _notes(runs: Runs, others: Others) -> list[str]:
    """Why contenders have no figures."""
    left_out = [note for some in (runs, *(some for _, some in others)) for note in some.left_out.items()]
    return [f"{name}: {why}" for name, why in left_out] + missing()


def _figures(rows: int, runs: Runs, used: Runs, others: Others) -> dict[str, object]:
    return {
        "rows": rows,
        "seconds": runs.seconds,
        "cpu_seconds": used.seconds,
        "others": [{"rows": count, "seconds": some.seconds} for count, some in others],
    }
