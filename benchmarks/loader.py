"""Case `loader`: how soon a loader has its first batch, and how fast it reads rows of bytes and lists.

A plan that only reads, over Parquet files of 2 KB of bytes and a list of 64 floats a row: `task.batches()` in this
process and over the loopback. `pyarrow.dataset` reads the files itself, and is the peer of both; over the loopback the
same batches behind a bare gRPC method are a peer as well, because gRPC itself takes longer than reading. The task has
run an epoch before.

The times of `pyarrow.dataset` differ by far, for two reasons. The allocator that both readers share gives freed memory
back to the system after some milliseconds, so that the next read has page faults, now more, now fewer: its times follow
their number. (With `MIMALLOC_PURGE_DELAY=-1` the middle half of its times lies within 5 %, and Tidegate's are shorter,
too.) And it decodes on all cores, so that whatever else the machine does stops it for a while. Neither reader can be
spared that. So files and allocator are as they are by default and warm, each reader reads ahead as it does by default,
and both take turns in many short rounds. The median of the ratios within the rounds counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import tidegate

from . import loader_server, plans
from .data_files import whole
from .measure import Runs, Spread, interleave
from .report import Report, Target, spread_text
from .services import embedded, peer, served
from .settings import Settings

BYTES, FLOATS, FILES = 2_000, 64, 4
FIRST_MS = 50.0
TIMES = 5
"""Times the rounds of other cases: a read takes less than a tenth of a second."""
DATASET, BARE = "pyarrow.dataset", "pyarrow.dataset behind gRPC"


def run(settings: Settings) -> Report:
    folder = sample_files(settings.data, settings.loader_bytes)
    rows = sum(pq.read_metadata(file).num_rows for file in folder.iterdir())
    with ExitStack() as stack:
        contenders: dict[str, Callable[[], object]] = {DATASET: partial(read_all, partial(dataset, folder), rows)}
        bare = stack.enter_context(peer("loader_server", str(folder.resolve())))
        contenders[BARE] = partial(read_all, partial(loader_server.read, bare), rows)
        first: dict[str, list[float]] = {}
        for where, client in {
            "embedded": stack.enter_context(embedded()),
            "gRPC": stack.enter_context(served(settings.data)),
        }.items():
            task = stack.enter_context(client.create_task(plans.samples()))
            first[where] = []
            contenders[f"Tidegate {where}"] = partial(read_epoch, task, folder, rows, first[where])
        runs = interleave(contenders, TIMES * settings.rounds)
    return report(folder, runs, {where: Spread.of(tuple(seconds[1:])) for where, seconds in first.items()})


def sample_files(data: Path, size: int) -> Path:
    """Files of so many bytes in all, in row groups of 8,192 rows."""
    return whole(data / f"samples-{size}", lambda folder: _write_samples(folder, size))


def _write_samples(folder: Path, size: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    count = max(1, size // (FILES * (BYTES + 4 * FLOATS)))
    random = np.random.default_rng(5)
    for number in range(FILES):
        offsets = [np.arange(count + 1, dtype=np.int32) * width for width in (BYTES, FLOATS)]
        table = pa.table(
            {
                "id": np.arange(number * count, (number + 1) * count),
                "image": pa.Array.from_buffers(
                    pa.binary(), count, [None, *map(pa.py_buffer, (offsets[0], random.bytes(count * BYTES)))]
                ),
                "features": pa.ListArray.from_arrays(pa.array(offsets[1]), random.random(count * FLOATS, np.float32)),
            }
        )
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=8_192, compression="none")


def dataset(folder: Path) -> Iterable[pa.RecordBatch]:
    batches: Iterable[pa.RecordBatch] = ds.dataset(folder).to_batches()
    return batches


def read_all(batches: Callable[[], Iterable[pa.RecordBatch]], rows: int) -> None:
    check(sum(batch.num_rows for batch in batches()), rows)


def read_epoch(task: tidegate.Task, folder: Path, rows: int, first: list[float]) -> None:
    """The next epoch of the task; how long its first batch takes is noted."""
    started = time.perf_counter()
    task.add_split("samples", folder / "*.parquet")
    task.request_barrier()
    epoch = next(task.epochs())
    read = next(epoch).num_rows
    first.append(time.perf_counter() - started)
    check(read + sum(batch.num_rows for batch in epoch), rows)


def check(read: int, rows: int) -> None:
    if read != rows:
        raise RuntimeError(f"{read} rows were read, not {rows}")


def report(folder: Path, runs: Runs, first: dict[str, Spread]) -> Report:
    size = sum(file.stat().st_size for file in folder.iterdir())
    speed = {
        name: Spread.of(tuple(size / elapsed / 1e6 for elapsed in seconds)) for name, seconds in runs.seconds.items()
    }
    rows = [[name, spread_text(spread), "-"] for name, spread in speed.items()]
    targets = []
    for where, spread in first.items():
        name = f"Tidegate {where}"
        milliseconds = spread.scaled(1e3)
        rows = [[*row[:2], spread_text(milliseconds)] if row[0] == name else row for row in rows]
        targets.append(Target(f"{where}: ms to the first batch", milliseconds, FIRST_MS))
        peer_name = DATASET if where == "embedded" else BARE
        targets.append(
            Target(f"{where}: throughput over that of {peer_name}", runs.ratio(peer_name, name), 0.9, "at least")
        )
    return Report(
        case="loader",
        title=f"A loader's epoch: {size / 1e6:.3g} MB of bytes and lists",
        header=["", "MB/s", "ms to the first batch"],
        rows=rows,
        targets=targets,
        notes=[f"{name}: {why}" for name, why in runs.left_out.items()],
        figures={"seconds": runs.seconds, "bytes": size},
    )
