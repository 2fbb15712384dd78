"""Case `exchange`: how fast one core deals rows to channels by the hash of a key.

One producer, one thread, 8 channels, a key and four columns of 8 bytes. The bound is the part that cannot be left out:
one `take` of each block in the order of its rows' channels, that order being known. The peer is DuckDB with one thread,
which can be asked for rows by channel only as a sort by `hash(k) % 8`; it reads and hands out Arrow, as Tidegate does.
(DataFusion is no peer here: it drops a repartition that nothing above it needs.)
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.executor.exchange.exchange import Exchange, Slice
from tidegate.executor.exchange.routing import HashRouting
from tidegate.executor.runtime.batch_store import Quota, SpillFiles
from tidegate.operators.core.blocks import blocks

from .measure import Runs, Spread, interleave
from .report import Report, Target, spread_text
from .settings import Settings

CHANNELS = 8
ROUTED, EXCHANGED, SPILLED, TAKEN, PEER = (
    "Tidegate, routed",
    "Tidegate, exchanged",
    "Tidegate, exchanged through files",
    "a take in a known order",
    "DuckDB, sorted by channel",
)
MILLIONS = {"int64": 25.0, "string": 5.0}
"""Rows a second that routing should reach, by the type of the key."""


def run(settings: Settings) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            key: interleave(contenders(table(key, settings.exchange_rows), Path(folder)), settings.rounds)
            for key in MILLIONS
        }
    return report(settings.exchange_rows, runs)


def table(key: str, rows: int) -> pa.Table:
    random = np.random.default_rng(3)
    numbers = random.integers(0, 1 << 40, rows)
    texts = [f"customer#{number % 1_000_000:06d}" for number in numbers] if key == "string" else ()
    columns = {"k": pa.array(texts if key == "string" else numbers)}
    columns |= {f"c{i}": pa.array(random.integers(0, 1000, rows) if i % 2 else random.random(rows)) for i in range(4)}
    return pa.table(columns)


def contenders(rows: pa.Table, folder: Path) -> dict[str, Callable[[], object]]:
    cut = list(blocks(rows.to_batches()))
    orders = [pa.array(np.argsort(np.arange(block.num_rows) * 7 % CHANNELS, kind="stable")) for block in cut]
    return {
        ROUTED: partial(route, HashRouting(rows.schema, (0,), CHANNELS), cut),
        EXCHANGED: partial(exchange, cut, 1 << 30, folder),
        SPILLED: partial(exchange, cut, 0, folder),
        TAKEN: partial(take, cut, orders),
        PEER: partial(sort_by_channel, rows),
    }


def route(routing: HashRouting, cut: Sequence[pa.RecordBatch]) -> None:
    for number, block in enumerate(cut):
        routing.slices(block, 0, number)


def take(cut: Sequence[pa.RecordBatch], orders: Sequence[pa.Array]) -> None:
    """Each taken block is dropped at once, as `route` drops its slices: fresh memory costs more than the rest."""
    for block, order in zip(cut, orders, strict=True):
        pc.take(block, order, boundscheck=False)


def exchange(cut: Sequence[pa.RecordBatch], memory_limit: int, folder: Path) -> None:
    """Every block pushed, and every channel's slice of it read; or, where memory is short, all pushed and then read."""
    shuffle = Exchange(
        cut[0].schema,
        HashRouting(cut[0].schema, (0,), CHANNELS),
        producers=1,
        epoch=1,
        memory_limit=memory_limit,
        quota=Quota(1 << 40),
        files=SpillFiles(folder),
    )
    for block in cut:
        shuffle.push(0, block)
        if memory_limit:
            drain(shuffle)
    shuffle.end(0)
    drain(shuffle)


def drain(shuffle: Exchange) -> None:
    for consumer in range(shuffle.consumers):
        while isinstance(shuffle.pull(consumer), Slice):
            pass


def sort_by_channel(rows: pa.Table) -> pa.Table:
    """The rows with their `channel`, channel after channel."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("rows", rows)
        return connection.sql(f"SELECT *, hash(k) % {CHANNELS} AS channel FROM rows ORDER BY channel").to_arrow_table()


def report(rows: int, runs: dict[str, Runs]) -> Report:
    def speed(key: str, name: str) -> Spread | None:
        seconds = runs[key].seconds.get(name)
        return None if seconds is None else Spread.of(tuple(rows / elapsed / 1e6 for elapsed in seconds))

    targets = []
    for key, least in MILLIONS.items():
        targets.append(Target(f"{key} key: million rows/s exchanged", speed(key, EXCHANGED), least, "at least"))
        targets.append(Target(f"{key} key: speed over DuckDB's", runs[key].ratio(PEER, EXCHANGED), 1.0, "at least"))
    cells = {key: {name: speed(key, name) for name in runs[key].seconds} for key in runs}
    return Report(
        case="exchange",
        title=f"Hash exchange on one core: {rows:,} rows to {CHANNELS} channels",
        header=["million rows/s", *(f"{key} key" for key in runs)],
        rows=[
            [name, *(spread_text(spread) if (spread := cells[key].get(name)) else "-" for key in runs)]
            for name in (ROUTED, EXCHANGED, SPILLED, TAKEN, PEER)
        ],
        targets=targets,
        notes=[f"{key} key, {name}: {why}" for key in runs for name, why in runs[key].left_out.items()],
        figures={"seconds": {key: timings.seconds for key, timings in runs.items()}, "rows": rows},
    )
