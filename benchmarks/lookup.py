"""Case `lookup`: rows joined with a large table through an index that is kept.

An epoch of 1,000 rows joined with a table of a million: the kept Arrow index, against DuckDB, which makes its hash
table anew for each epoch. And the same index behind a wait in each batched call, as a database has it: what prefetch
makes of it, against the index without a wait. At the level of operators: what a task costs is the case `epochs`.

What prefetch can make of a wait: with 16 look-ups out, of 5 ms each, one ends every 0.31 ms. A batch of 4,096 rows
costs about 1.2 ms of a core, 0.6 ms on two, so that the wait is hidden but for the first 5 ms of 120, a share of 0.04;
batches of fewer than about 2,000 rows would be worked through before they are answered. With no prefetch each batch
waits its 5 ms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

from tidegate.executor.runtime.side_threads import SideThreads
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.index_lookup_join import IndexLookupJoin
from tidegate.operators.indexes import Index, Matches
from tidegate.operators.indexes.arrow_index import ArrowIndex

from .measure import Runs, Spread, interleave
from .report import Report, Target, spread_text
from .settings import Settings

ROWS = 1_000
EPOCHS = 20
LATENCY = 0.005
BATCHES = 200
PREFETCH = (0, 1, 4, 16, 256)
KEYS = ("int64", "string")
INDEX, DUCKDB, AT_ONCE = "kept index", "DuckDB, a hash table anew", "no latency"


class Delayed(Index):
    """`index` with a wait in each look-up, as for an answer from elsewhere."""

    def __init__(self, index: Index, seconds: float) -> None:
        self.name, self.key_types, self.schema = index.name, index.key_types, index.schema
        self._index = index
        self._seconds = seconds

    def lookup(self, keys: pa.RecordBatch) -> Matches:
        time.sleep(self._seconds)
        return self._index.lookup(keys)


def run(settings: Settings) -> Report:
    table = rows_of_table(settings.lookup_rows)
    small = {key: epoch_costs(settings, table, key) for key in KEYS}
    return report(settings, small, latencies(settings, table))


def rows_of_table(rows: int) -> pa.Table:
    """Always the same rows: the keys 0, 1, ... in no order, as numbers and as texts, and two values."""
    random = np.random.default_rng(7)
    keys = random.permutation(rows)
    texts = pa.array(keys).cast(pa.string())
    return pa.table({"int64": keys, "string": texts, "v": random.random(rows), "w": random.integers(0, 100, rows)})


def probes(table: pa.Table, key: str, count: int, rows: int) -> list[pa.Table]:
    """`count` inputs of `rows` rows; nine keys of ten are in the table."""
    random = np.random.default_rng(11)
    keys = [pa.array(random.integers(0, table.num_rows * 10 // 9, rows)) for _ in range(count)]
    return [pa.table({"n": range(rows), "k": key_column.cast(table.schema.field(key).type)}) for key_column in keys]


def epoch_costs(settings: Settings, table: pa.Table, key: str) -> Runs:
    """Seconds of an epoch of 1,000 rows."""
    probe_tables = probes(table, key, EPOCHS, ROWS)
    index = index_of(table, key)
    with closing(joining(index, probe_tables[0].schema)) as operator, ExitStack() as stack:
        connection = stack.enter_context(duckdb.connect(config={"threads": settings.threads}))
        connection.register("given_table", table)
        connection.execute("CREATE TABLE kept AS SELECT * FROM given_table")
        contenders: dict[str, Callable[[], object]] = {
            INDEX: lambda: [one_epoch(operator, probe_table) for probe_table in probe_tables],
            DUCKDB: lambda: [asked_anew(connection, key, probe_table) for probe_table in probe_tables],
        }
        runs = interleave(contenders, settings.rounds)
    return Runs({name: tuple(s / EPOCHS for s in seconds) for name, seconds in runs.seconds.items()}, runs.left_out)


def latencies(settings: Settings, table: pa.Table) -> Runs:
    """Seconds of one input of many look-up batches."""
    index = index_of(table, "int64")
    [probe_table] = probes(table, "int64", 1, settings.lookup_batch_rows * BATCHES)
    delayed = Delayed(index, LATENCY)
    threads = SideThreads()
    with closing(threads):
        contenders: dict[str, Callable[[], object]] = {}
        for name, contender_index, prefetch in (
            (AT_ONCE, index, 16),
            *((f"prefetch {prefetch}", delayed, prefetch) for prefetch in PREFETCH),
        ):
            operator = joining(
                contender_index,
                probe_table.schema,
                prefetch=prefetch,
                batch_rows=settings.lookup_batch_rows,
                submit=threads.queue(prefetch + 1).submit,
            )
            contenders[name] = partial(one_epoch, operator, probe_table)
        return interleave(contenders, settings.rounds)


def index_of(table: pa.Table, key: str) -> ArrowIndex:
    return ArrowIndex("kept", table, keys=[table.column_names.index(key)], columns=[2, 3])


def joining(index: Index, probe: pa.Schema, **options: object) -> IndexLookupJoin:
    schema = pa.schema([*probe, *index.schema])
    return IndexLookupJoin(schema=schema, probe=probe, keys=[1], index=index, **options)  # type: ignore[arg-type]


def one_epoch(operator: IndexLookupJoin, probe_table: pa.Table) -> Sequence[pa.RecordBatch]:
    return list(operator.run([BatchStream(probe_table.schema, probe_table.to_batches())]))


def asked_anew(connection: duckdb.DuckDBPyConnection, key: str, probe_table: pa.Table) -> pa.Table:
    connection.register("given", probe_table)
    answer = connection.sql(f"SELECT n, k, v, w FROM given JOIN kept ON k = kept.{key}").to_arrow_table()
    connection.unregister("given")
    return answer


def report(settings: Settings, small: dict[str, Runs], waiting: Runs) -> Report:
    rows, targets, notes = [], [], []
    for key, runs in small.items():
        rows += [_row(runs, name, INDEX, f"{key} key") for name in runs.seconds]
        targets.append(Target(f"{key} key: ms per epoch of {ROWS:,} rows", _milliseconds(runs, INDEX), 0.5))
        targets.append(Target(f"{key} key: DuckDB over the kept index", runs.ratio(DUCKDB, INDEX), 5.0, "at least"))
    rows += [_row(waiting, name, AT_ONCE, f"{LATENCY * 1e3:g} ms a look-up") for name in waiting.seconds]
    share = waiting.ratio(AT_ONCE, "prefetch 16")
    targets.append(Target("share of the throughput without latency at prefetch 16", share, 0.9, "at least"))
    for runs in (*small.values(), waiting):
        notes += [f"{name}: {why}" for name, why in runs.left_out.items()]
    batch = f"{BATCHES} batches of {settings.lookup_batch_rows:,} rows"
    return Report(
        case="lookup",
        title=f"Index look-ups in {settings.lookup_rows:,} rows: epochs of {ROWS:,} rows; {batch} with latency",
        header=["", "ms", "ratio"],
        rows=rows,
        targets=targets,
        notes=notes,
        figures={"small": {key: runs.seconds for key, runs in small.items()}, "latency": waiting.seconds},
    )


def _row(runs: Runs, name: str, to: str, what: str) -> list[str]:
    return [f"{what}: {name}", _text(_milliseconds(runs, name)), _text(runs.ratio(name, to))]


def _milliseconds(runs: Runs, name: str) -> Spread | None:
    return runs.spread(name).scaled(1e3) if name in runs.seconds else None


def _text(spread: Spread | None) -> str:
    return "-" if spread is None else spread_text(spread)
