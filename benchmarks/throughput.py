"""Case `throughput`: how fast a result leaves the server, beside Arrow Flight's `DoGet`.

Both servers run in processes of their own on the loopback and hold the same rows ready in memory: Tidegate as the
output of an epoch that has been computed and not been acknowledged, Flight as a table. The clients read all of it,
Tidegate's once over Flight, as it does by itself, and once over gRPC alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight

import tidegate

from . import plans
from .data_files import whole
from .measure import Runs, Spread, interleave
from .report import Report, Target, spread_text
from .services import peer, served
from .settings import Settings

COLUMNS = 32
BATCH_ROWS = 65_536
TIDEGATE, GRPC, FLIGHT = "Tidegate", "Tidegate without Flight", "Arrow Flight DoGet"


def run(settings: Settings) -> Report:
    path = wide_file(settings.data, settings.throughput_bytes)
    size = data_size(path)
    with ExitStack() as stack:
        options = ["--output-bytes", str(4 * size)]
        client = stack.enter_context(served(settings.data, options))
        task = stack.enter_context(client.create_task(plans.read_all(COLUMNS), output_bytes=4 * size))
        rows = compute(task, path)
        plain = stack.enter_context(tidegate.connect(str(task.address), flight=False))
        contenders: dict[str, Callable[[], object]] = {
            TIDEGATE: partial(read_epoch, client, task.id, rows),
            GRPC: partial(read_epoch, plain, task.id, rows),
            FLIGHT: partial(read_flight, stack.enter_context(peer("flight_server", str(path))), rows),
        }
        runs = interleave(contenders, settings.rounds)
    return report(size, runs)


def wide_file(folder: Path, size: int) -> Path:
    """An Arrow file of `size` bytes of 32 float64 columns, in batches of one block."""
    folder.mkdir(parents=True, exist_ok=True)
    return whole(folder / f"wide-{size}.arrow", lambda path: _write_wide(path, size))


def _write_wide(path: Path, size: int) -> None:
    schema = pa.schema([(f"c{i}", pa.float64()) for i in range(COLUMNS)])
    left = max(1, size // (8 * COLUMNS))
    random = np.random.default_rng(11)
    with pa.ipc.new_file(path, schema) as written:
        while left:
            count = min(left, BATCH_ROWS)
            written.write_batch(pa.record_batch([random.random(count) for _ in range(COLUMNS)], schema=schema))
            left -= count


def data_size(path: Path) -> int:
    with pa.memory_map(str(path)) as mapped:
        return int(pa.ipc.open_file(mapped).read_all().nbytes)


def compute(task: tidegate.Task, path: Path) -> int:
    """Have the epoch computed and kept on the server; its number of rows."""
    task.add_split("wide", path)
    number = task.request_barrier()
    while task.info().completed_epoch < number:
        time.sleep(0.05)
    return task.info().statistics.output_rows


def read_epoch(client: tidegate.Client, task_id: str, rows: int) -> None:
    """Read epoch 1 from its first row, acknowledging nothing, so that it can be read again."""
    read = 0
    task = client.task(task_id, cursor=tidegate.Cursor(1, 0))
    while read < rows:
        read += sum(frame.rows for frame in task.next(wait=10) if isinstance(frame, tidegate.Data))


def read_flight(address: str, rows: int) -> None:
    with flight.connect(address) as client:
        read = sum(chunk.data.num_rows for chunk in client.do_get(flight.Ticket(b"wide")))
    if read != rows:
        raise RuntimeError(f"Flight sent {read} rows, not {rows}")


def report(size: int, runs: Runs) -> Report:
    speed = {name: Spread.of(tuple(size / elapsed / 1e6 for elapsed in runs.seconds[name])) for name in runs.seconds}
    return Report(
        case="throughput",
        title=f"Result throughput on the loopback: {size / 1e9:.2g} GB, {COLUMNS} float64 columns",
        header=["", "MB/s"],
        rows=[[name, spread_text(spread)] for name, spread in speed.items()],
        targets=[Target("Tidegate over Flight, throughput", runs.ratio(FLIGHT, TIDEGATE), 0.7, "at least")],
        notes=[f"{name}: {why}" for name, why in runs.left_out.items()],
        figures={"seconds": runs.seconds, "bytes": size},
    )
