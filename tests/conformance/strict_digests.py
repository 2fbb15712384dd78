"""The digests of strict plans, computed in a process of its own, over inputs that would show the engine's timing.

Numbers come straight from a bit generator, whose stream NumPy promises to keep. Run as a program it prints the digests
of one way to run; `FOLDER '{"channels": [1, 2, 3]}'`, with the folder of the TPC-H files, is what is pinned. The names
in `plans` are those of the plans that run, without it all.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tidegate
from tidegate.executor.api.checked_options import SMALLEST_MEMORY
from tidegate.executor.runtime.side_threads import SideThreads
from tidegate.executor.service.manager import TaskManager
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.operators.arrays.digest import digest
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.core.submit import at_once
from tidegate.operators.index_lookup_join import IndexLookupJoin
from tidegate.operators.indexes.arrow_index import ArrowIndex

from ..on_channels import on_channels
from ..server.running import served
from ..shaking import shaken
from . import operator_queries as own
from . import tpch
from .loop_queries import loop_queries, out_of_order

T = TypeVar("T")

PLANS: Final = Path(__file__).parent / "strict_plans"
QUERIES: Final = ("q03", "q09", "q18")
JOINS: Final = ("many_matches", "outer_join")
FACT_ROWS: Final = 100_000
DIM_ROWS: Final = 30_000
GROUPS: Final = 1_000_003  # a prime
MANY_ROWS: Final = 1_100_000
LONG_ROWS: Final = 400_000
LONG_TEXT: Final = 250


def _raw(seed: int, rows: int) -> Any:
    return np.random.PCG64(seed).random_raw(rows)


def _floats(seed: int, rows: int) -> Any:
    """Of very different sizes, so that a sum shows the order of adding."""
    signed = (_raw(seed, rows) >> np.uint64(12)).astype(np.int64) - 2**51
    return np.ldexp(signed.astype(np.float64), (_raw(seed + 100, rows) % np.uint64(40)).astype(np.int64) - 60)


def _keys(seed: int, rows: int, keys: int) -> Any:
    return (_raw(seed, rows) % np.uint64(keys)).astype(np.int64)


def tables() -> dict[str, pa.Table]:
    """Many rows of each key, and more groups than an engine keeps in its order."""
    groups = _keys(2, FACT_ROWS, 80_000)
    facts = {
        "k": _keys(1, FACT_ROWS, 15_000),
        "g": groups,
        "x": _floats(3, FACT_ROWS),
        "t": pa.array([f"text {group % 701}" for group in groups.tolist()]),
    }
    dims = {"k": _keys(4, DIM_ROWS, 15_000), "y": _floats(5, DIM_ROWS)}
    return {"facts": pa.table(facts), "dims": pa.table(dims)}


def many_groups() -> pa.Table:
    """More than a million groups, some of several rows."""
    numbers = np.arange(MANY_ROWS, dtype=np.int64)
    return pa.table({"k": numbers % 997, "g": numbers * 7_919 % GROUPS, "x": _floats(7, MANY_ROWS)})


def long_texts() -> pa.Table:
    groups = _keys(8, LONG_ROWS, 2 * LONG_ROWS)
    return pa.table({"g": groups, "t": pc.utf8_lpad(pa.array(groups).cast(pa.string()), LONG_TEXT, "-")})


def _oddly(table: pa.Table) -> pa.Table:
    """The same rows in batches of odd sizes, the first hundreds of one row."""
    sizes = [1] * 300 + [1 + int(size) for size in _raw(6, 100) % np.uint64(5_000)]
    batches: list[pa.RecordBatch] = []
    at = 0
    for size in sizes:
        batches.extend(table.slice(at, size).to_batches())
        at += size
    return pa.Table.from_batches([*batches, *table.slice(at).to_batches()], table.schema)


def _halves(table: pa.Table) -> list[pa.Table]:
    return [table.slice(0, 50_001), table.slice(50_001)]


def _inline(tables: Mapping[str, pa.Table], *, odd: bool, last_small: bool = False) -> dict[str, list[pa.Table]]:
    turn = -1 if last_small else 1
    return {name: [_oddly(half) if odd else half for half in _halves(table)[::turn]] for name, table in tables.items()}


def _files(folder: Path, tables: Mapping[str, pa.Table]) -> dict[str, list[str]]:
    """Two files a table, of row groups of odd sizes."""
    folder.mkdir(exist_ok=True)
    splits: dict[str, list[str]] = {}
    for name, table in tables.items():
        for number, (part, group_rows) in enumerate(zip(_halves(table), (7_001, 12_345), strict=True)):
            path = folder / f"{name}-{number}.parquet"
            pq.write_table(part, path, row_group_size=group_rows)
            splits.setdefault(name, []).append(str(path))
    return splits


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to run a service, which no result may show. `odd`: rows that travel with calls are cut into odd batches.
    `prefetch`: look-ups ahead. `wire`: over gRPC.
    """

    threads: int = 1
    shaken: bool = False
    odd: bool = False
    wire: bool = False
    prefetch: int = 0

    @contextlib.contextmanager
    def client(self, folder: Path) -> Iterator[tidegate.Client]:
        manager = TaskManager(PlanEngine(["/"], folder), folder=folder, threads=self.threads)
        with contextlib.ExitStack() as stack:
            stack.callback(manager.close)
            if self.shaken:
                stack.enter_context(shaken(self.threads, lambda number: number**8 * 0.01))
                stack.enter_context(out_of_order(self.threads))
            if self.wire:
                address = stack.enter_context(served(manager))
                yield stack.enter_context(tidegate.connect(address))
            else:
                yield tidegate.Client(manager)


@dataclass(frozen=True)
class Query:
    """A plan over splits. The first epoch has other rows, which must not show in the second's digest."""

    name: str
    plan: bytes | str
    splits: Mapping[str, Sequence[Any]]
    memory: int = 1 << 30
    tables: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def digest(self, client: tidegate.Client, channels: int) -> str:
        options = {**on_channels(channels), "memory_limit": self.memory * channels, **self.options}
        with client.create_task(self.plan, tables=self.tables, **options) as task:
            sources = {name: self.splits[name] for name in task.sources if name not in self.tables}
            task.run_epoch({name: split_list[-1:] for name, split_list in sources.items()})
            return digest(task.schema, iter(task.run_epoch(sources)))

    def answer(self, client: tidegate.Client, channels: int) -> pa.Table:
        with client.create_task(self.plan, tables=self.tables, **on_channels(channels)) as task:
            return task.run_epoch({name: self.splits[name] for name in task.sources}).table()


def plan(name: str) -> bytes:
    return (PLANS / f"{name}.bin").read_bytes()


def queries(folder: Path, tpch_folder: Path, *, odd: bool) -> Iterator[Query]:
    forms = {"inline": _inline(tables(), odd=odd), "files": _files(folder, tables())}
    for path in sorted(PLANS.glob("*.bin")):
        for form, splits in forms.items():
            yield Query(f"{path.stem}, {form}", plan(path.stem), splits)
    many = {"facts": many_groups(), "dims": tables()["dims"].slice(0, 10)}
    large, long = (_inline(table_set, odd=odd, last_small=True) for table_set in (many, {"facts": long_texts()}))
    yield Query("a million groups", plan("many_groups"), large)
    yield Query("row-wise pieces", plan("union_all"), _files(folder / "large", many))
    yield Query("a sort that spills", plan("sort_with_ties"), large, SMALLEST_MEMORY)
    yield Query("groups that spill", plan("distinct"), long, SMALLEST_MEMORY)
    yield from tpch_queries(tpch_folder)


def operator_queries(folder: Path, *, odd: bool, prefetch: int) -> Iterator[Query]:
    """Plans with operators of their own. The sorted sources go in order, so their first epoch is the last half."""
    splits = _inline(own.inputs(), odd=odd)
    in_file, in_memory = {"names": own.table_file(folder)}, {"names": own.table()}
    yield Query("unnest", own.unnested(), splits)
    yield Query("look-ups in files", own.looked_up(prefetch), splits, tables=in_file)
    yield Query("look-ups in files, four ahead", own.looked_up(4), splits, tables=in_file)
    yield Query("look-ups in a table", own.static_join(), splits, tables=in_memory)
    for name, plan_ in own.over_sorted().items():
        yield Query(name, plan_, splits)


def ordered_queries(folder: Path, tpch_folder: Path, *, odd: bool) -> Iterator[Query]:
    """Joins of inputs too large for the memory to leave the order to them; TPC-H's have several in a fragment."""
    all_tables = tables()
    all_tables["facts"] = pa.concat_tables([all_tables["facts"]] * 4)
    forms = {"inline": _inline(all_tables, odd=odd), "files": _files(folder / "ordered", all_tables)}
    for name in JOINS:
        for form, splits in forms.items():
            yield Query(f"{name} in order, {form}", plan(name), splits, SMALLEST_MEMORY, options={"spill": "ordered"})
    for query in tpch_queries(tpch_folder):
        yield replace(query, name=f"{query.name} in order", memory=SMALLEST_MEMORY, options={"spill": "ordered"})


def tpch_queries(folder: Path) -> Iterator[Query]:
    for query in QUERIES:
        files = {path.stem: [str(path)] for path in folder.glob("*.parquet")}
        names = {name.upper(): file for name, file in files.items()} | files
        yield Query(f"TPC-H {query}", tpch.plan_bytes("datafusion", query), names)


def compute(
    folder: Path, tpch_folder: Path, way: Way, channels: Sequence[int], plans: Collection[str] | None
) -> dict[str, dict[str, str]]:
    """For each number of channels each query's digest; for one channel that of a look-up join, too."""
    digests_by_channels: dict[str, dict[str, str]] = {str(channel_count): {} for channel_count in channels}
    with way.client(folder / "service") as client:
        for query in (
            *queries(folder, tpch_folder, odd=way.odd),
            *operator_queries(folder, odd=way.odd, prefetch=way.prefetch),
            *ordered_queries(folder, tpch_folder, odd=way.odd),
            *loop_queries(_oddly if way.odd else lambda table: table),
        ):
            for channel_count in channels if plans is None or query.name in plans else ():
                digests_by_channels[str(channel_count)][query.name] = query.digest(client, channel_count)
    if "1" in digests_by_channels:
        digests_by_channels["1"]["look-ups"] = look_up(way)
    return digests_by_channels


def look_up(way: Way) -> str:
    """The facts with the rows that an index has for their keys, in tens of look-ups; some of which are slow."""
    facts, dims = tables()["facts"], tables()["dims"]
    chooser = random.Random(way.threads)
    threads = SideThreads(max(2, way.threads))
    index = ArrowIndex("dims", dims, keys=[0], columns=[1])

    def submit(call: Callable[[], T]) -> Future[T]:
        return queue.submit(lambda: (time.sleep(chooser.random() ** 4 * 0.01), call())[1])

    queue = threads.queue(8)
    join = IndexLookupJoin(
        schema=pa.schema([*facts.schema, *index.schema]),
        probe=facts.schema,
        keys=[0],
        index=index,
        prefetch=way.prefetch,
        submit=submit if way.prefetch else at_once,
    )
    try:
        batches = _oddly(facts) if way.odd else facts
        return digest(join.schema, join.run([BatchStream(facts.schema, batches.to_batches())]))
    finally:
        threads.close()


if __name__ == "__main__":
    ways = json.loads(sys.argv[2])
    wanted, chosen = ways.pop("channels"), ways.pop("plans", None)
    with tempfile.TemporaryDirectory() as temporary:
        print(json.dumps(compute(Path(temporary), Path(sys.argv[1]), Way(**ways), wanted, chosen), indent=2))
