"""Case `training`: how fast a loader hands out shuffled batches, how soon it resumes, and how long its user waits.

Rows of 20 numbers from Parquet files, shuffled within windows of 131,072 rows, in batches of 1,024, as NumPy arrays.
The peers read the same files with `pyarrow.dataset` and with DuckDB, and shuffle the same windows with NumPy. DuckDB's
scan without a shuffle bounds what reading alone takes. Grain, PyTorch's `DataLoader` and mosaicml-streaming read a part
of the rows, where they are installed, since they hand rows out one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import tidegate
from tidegate.training import Loader, Shuffle

from . import plans
from .data_files import whole
from .measure import Runs, Spread, interleave
from .report import Report, Target, spread_text
from .services import embedded, served
from .settings import Settings
from .training_peers import row_by_row

COLUMNS, FILES, GROUP_ROWS = 20, 8, 65_536
WINDOW, BATCH = 131_072, 1_024
ONE_BY_ONE = 200
"""Peers that hand rows out one by one read one row of so many."""
DATASET, STATEMENT = "pyarrow.dataset, shuffled by NumPy", "DuckDB, shuffled by NumPy"
SCAN = "DuckDB's scan, not shuffled"
EMBEDDED, REMOTE = "Tidegate embedded", "Tidegate gRPC"


def run(settings: Settings) -> Report:
    folder = wide_files(settings.data, settings.training_rows)
    rows = sum(pq.read_metadata(file).num_rows for file in folder.iterdir())
    with ExitStack() as stack:
        clients = {EMBEDDED: stack.enter_context(embedded()), REMOTE: stack.enter_context(served(settings.data))}
        contenders: dict[str, Callable[[], object]] = {
            DATASET: partial(shuffled, partial(dataset, folder), rows),
            STATEMENT: partial(shuffled, partial(scan, folder), rows),
            SCAN: partial(read_all, partial(scan, folder), rows),
        }
        contenders |= {name: partial(load, client, folder, rows) for name, client in clients.items()}
        runs = interleave(contenders, settings.rounds)
        few = max(rows // ONE_BY_ONE, BATCH)
        slow = interleave(row_by_row(folder, few), 1)
        speed = rows / Spread.of(runs.seconds[EMBEDDED]).median
        client = clients[EMBEDDED]
        resumed = Spread.of(tuple(resume(client, folder, rows) for _ in range(settings.rounds)))
        waiting = Spread.of(tuple(wait(client, folder, speed / 2) for _ in range(settings.rounds)))
    return report(rows, runs, resumed, waiting, few, slow)


def wide_files(data: Path, rows: int) -> Path:
    """Files of so many rows in all."""
    return whole(data / f"training-{rows}", lambda folder: _write_wide(folder, rows))


def _write_wide(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(6)
    for number in range(FILES):
        table = pa.table({f"c{column}": random.random(rows // FILES) for column in range(COLUMNS)})
        file = folder / f"{number}.parquet"
        pq.write_table(table, file, row_group_size=GROUP_ROWS, compression="none", use_dictionary=False)


def loader(client: tidegate.Client, folder: Path) -> Loader:
    files = {"wide": folder / "*.parquet"}
    return Loader(client, plans.read_all(COLUMNS), files, batch_size=BATCH, shuffle=Shuffle(1, rows=WINDOW))


def load(client: tidegate.Client, folder: Path, rows: int) -> None:
    check(sum(len(batch["c0"]) for batch in loader(client, folder)), rows)


def resume(client: tidegate.Client, folder: Path, rows: int) -> float:
    """The seconds from a state in the middle of the epoch to its first batch."""
    before, windows = loader(client, folder), rows // WINDOW
    state = {**before.state_dict(), "batch": rows // 2 // BATCH, "window": windows // 2, "row": WINDOW // 2}
    started = time.perf_counter()
    with loader(client, folder) as resumed:
        resumed.load_state_dict(state)
        next(iter(resumed))
        return time.perf_counter() - started


def wait(client: tidegate.Client, folder: Path, speed: float) -> float:
    """The part of the time, from the second window on, for which a consumer of so many rows a second waits."""
    with loader(client, folder) as batches:
        waited = started = 0.0
        for batch in batches:
            if batch.number == 2 * WINDOW // BATCH:
                waited, started = batches.statistics().waited_seconds, time.perf_counter()
            time.sleep(batch.rows / speed)
        return (batches.statistics().waited_seconds - waited) / (time.perf_counter() - started)


def dataset(folder: Path) -> Iterable[pa.RecordBatch]:
    batches: Iterable[pa.RecordBatch] = ds.dataset(folder).to_batches(batch_size=WINDOW)
    return batches


def scan(folder: Path) -> Iterable[pa.RecordBatch]:
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    reader: Iterable[pa.RecordBatch] = connection.sql(f"FROM '{folder}/*.parquet'").to_arrow_reader(WINDOW)
    return reader


def shuffled(batches: Callable[[], Iterable[pa.RecordBatch]], rows: int) -> None:
    random = np.random.default_rng(1)
    read, window = 0, list[pa.RecordBatch]()
    for batch in chain(batches(), [None]):
        if window and (batch is None or sum(part.num_rows for part in window) >= WINDOW):
            table = pa.Table.from_batches(window)
            order = random.permutation(table.num_rows)
            columns = {name: table[name].to_numpy()[order] for name in table.column_names}
            for first in range(0, table.num_rows, BATCH):
                read += len({name: values[first : first + BATCH] for name, values in columns.items()}["c0"])
            window = []
        if batch is not None:
            window.append(batch)
    check(read, rows)


def read_all(batches: Callable[[], Iterable[pa.RecordBatch]], rows: int) -> None:
    check(sum(batch.num_rows for batch in batches()), rows)


def check(read: int, rows: int) -> None:
    if read != rows:
        raise RuntimeError(f"{read} rows were read, not {rows}")


def report(rows: int, runs: Runs, resumed: Spread, waiting: Spread, few: int, slow: Runs) -> Report:
    speed = _speeds(rows, runs)
    peers = [name for name in (DATASET, STATEMENT) if name in speed]
    best = max(peers, key=lambda name: speed[name].median, default=DATASET)
    return Report(
        case="training",
        title=f"Training batches: {rows:,} shuffled rows of {COLUMNS} numbers",
        header=["", "million rows/s"],
        rows=[[name, spread_text(spread)] for name, spread in (speed | _speeds(few, slow)).items()],
        targets=[
            Target("embedded: rows/s over the best peer's", runs.ratio(best, EMBEDDED), 2.0, "at least"),
            Target("embedded: rows/s over DuckDB's scan", runs.ratio(SCAN, EMBEDDED), 0.8, "at least"),
            Target("seconds from a state to its first batch", resumed, 1.0),
            Target("part of the time that a consumer of half the speed waits", waiting, 0.01),
        ],
        notes=[f"{name}: {why}" for name, why in {**runs.left_out, **slow.left_out}.items()],
        figures={
            "seconds": {**runs.seconds, **slow.seconds},
            "rows": rows,
            "rows_one_by_one": few,
            "resumed": resumed,
            "waiting": waiting,
        },
    )


def _speeds(rows: int, runs: Runs) -> dict[str, Spread]:
    """Millions of rows a second."""
    return {name: Spread.of(tuple(rows / took / 1e6 for took in seconds)) for name, seconds in runs.seconds.items()}
