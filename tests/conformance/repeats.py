"""Strict answers again and again, beside processes that burn every core and the disk: is there one digest?

An engine may start the source pipelines of a statement (the inputs of a union, both sides of a join, the parts of files
of a channel's share) in another order on every run. `repeated` has a query for each kind of relation, over such inputs,
and `SHAPES` each way to feed it. Run as a program it runs all of them: `make repeats`, for hours. Two processes a core
do so at once, so that each has its cores and its disk taken away by others. With a record it goes on where runs before
it ended, and their digests must be the same.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, TypeAlias

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import substrait.dataframe as sub
from datafusion.substrait import Serde

import tidegate
from tidegate import windows
from tidegate.operators.arrays.digest import digest
from tidegate.proto.values import PlanBytes

from ..executor import plans
from ..loops.queries import Looped
from ..loops.queries import Query as LoopQuery
from ..on_channels import on_channels
from . import operator_queries as own

SCHEMA: Final = pa.schema([("k", pa.int64()), ("g", pa.int64()), ("x", pa.float64())])
SOURCES: Final = ("l", "r")
BOTH: Final = "(SELECT k, g, x FROM l UNION ALL SELECT k, g, x FROM r)"
SET_OPERATIONS: Final = (
    *("MINUS_PRIMARY", "MINUS_PRIMARY_ALL", "MINUS_MULTISET", "INTERSECTION_PRIMARY", "INTERSECTION_MULTISET"),
    *("INTERSECTION_MULTISET_ALL", "UNION_DISTINCT", "UNION_ALL"),
)
SQL: Final[Mapping[str, str]] = {
    "union": "SELECT k, g FROM l UNION SELECT k, g FROM r",
    "union of three": "SELECT k FROM l UNION SELECT k FROM r UNION SELECT g FROM l",
    "except": f"SELECT k FROM {BOTH} AS b EXCEPT SELECT g FROM l",
    "intersect": f"SELECT k FROM {BOTH} AS b INTERSECT SELECT k FROM l",
    "distinct": f"SELECT DISTINCT k FROM {BOTH} AS b",
    "groups": f"SELECT k, sum(x) AS s FROM {BOTH} AS b GROUP BY k",
    "few groups": f"SELECT g, sum(x) AS s, avg(x) AS a FROM {BOTH} AS b GROUP BY g",
    "groups of one source": "SELECT k, sum(x) AS s FROM l GROUP BY k",
    "global": f"SELECT sum(x) AS s, avg(x) AS a, stddev(x) AS d FROM {BOTH} AS b",
    "grouping sets": f"SELECT g, k % 10 AS m, sum(x) AS s FROM {BOTH} AS b GROUP BY GROUPING SETS ((g), (k % 10), ())",
    "distinct inside": f"SELECT g, count(DISTINCT k) AS n, sum(DISTINCT x) AS s FROM {BOTH} AS b GROUP BY g",
    "texts": f"SELECT g, string_agg(CAST(k AS VARCHAR), ',') AS t FROM {BOTH} AS b GROUP BY g",
    "window below a join": (
        f"SELECT a.k, a.n FROM (SELECT k, row_number() OVER (PARTITION BY k) AS n FROM {BOTH} AS b) AS a"
        " WHERE EXISTS (SELECT 1 FROM r WHERE r.k = a.k AND r.g > a.n)"
    ),
    "window": f"SELECT g, row_number() OVER (PARTITION BY g) AS n, sum(x) OVER (PARTITION BY g) AS s FROM {BOTH} AS b",
    "sort with ties": f"SELECT g, x FROM {BOTH} AS b ORDER BY g",
    "top rows with ties": f"SELECT g, x FROM {BOTH} AS b ORDER BY g LIMIT 1000",
    "limit": f"SELECT k, x FROM (SELECT k, sum(x) AS x FROM {BOTH} AS b GROUP BY k) AS t LIMIT 1000",
    "built of a union": f"SELECT l.k, b.x FROM l JOIN {BOTH} AS b ON l.k = b.k",
    "probed by a union": f"SELECT b.k, r.x FROM {BOTH} AS b JOIN r ON r.k = b.k",
    "left join": f"SELECT l.k, b.x FROM l LEFT JOIN {BOTH} AS b ON l.k = b.k AND l.g > b.g",
    "right join": "SELECT l.g AS a, r.g AS b, r.x FROM l RIGHT JOIN r ON l.k = r.k",
    "full join": "SELECT l.k AS a, r.k AS b, r.x FROM l FULL JOIN r ON l.k = r.k",
    "groups of a full join": "SELECT l.g, sum(r.x) AS s FROM l FULL JOIN r ON l.k = r.k GROUP BY l.g",
    "groups of a right join": "SELECT l.g, sum(r.x) AS s FROM l RIGHT JOIN r ON l.k = r.k GROUP BY l.g",
    "semi join": f"SELECT k, x FROM {BOTH} AS b WHERE k IN (SELECT k FROM r WHERE g < 300)",
    "anti join": f"SELECT k, x FROM l WHERE NOT EXISTS (SELECT 1 FROM {BOTH} AS b WHERE b.k = l.k AND b.g > 500)",
    "mark join": f"SELECT k, x FROM l WHERE k IN (SELECT k FROM {BOTH} AS b WHERE g < 9) OR g < 100",
    "correlated": f"SELECT k, (SELECT sum(x) FROM {BOTH} AS b WHERE b.k = l.k) AS s FROM l WHERE k < 50000",
    "cross": f"SELECT l.k, b.s FROM l CROSS JOIN (SELECT sum(x) AS s FROM {BOTH} AS b) AS b",
    "read twice": f"WITH c AS (SELECT k, sum(x) AS s FROM {BOTH} AS b GROUP BY k) "
    "SELECT a.k, a.s, b.s AS t FROM c AS a JOIN c AS b ON a.k = b.k + 1",
}
KEPT: Final = (
    "SELECT l.k, t.s FROM l JOIN (SELECT k, sum(x) AS s FROM "
    "(SELECT k, x FROM r UNION ALL SELECT g AS k, x FROM r) AS b GROUP BY k) AS t ON l.k = t.k"
)
"""`r` is bound for the task's life, so its groups are computed once and kept."""


def _union(*columns: str) -> dict[str, object]:
    return plans.union(plans.read("l", *columns), plans.read("r", *columns))


def _sliding(measure: Any, slide: int = 25) -> PlanBytes:
    left, right = (sub.read_named_table(name, {"k": sub.i64, "g": sub.i64, "x": sub.fp64}) for name in SOURCES)
    built = windows.sliding(left.union(right), "g", 100, slide, keys=["k"], measures=[measure.alias("s")])
    return PlanBytes(binary=built.to_plan().SerializeToString())


def _as_of() -> PlanBytes:
    left, right = (sub.read_named_table(name, {"k": sub.i64, "g": sub.i64, "x": sub.fp64}) for name in SOURCES)
    built = windows.as_of_join(left.union(right), right.union(left), "k", keys=["g"])
    return PlanBytes(binary=built.to_plan().SerializeToString())


BY_HAND: Final[Mapping[str, PlanBytes]] = {
    "as-of join": _as_of(),
    **{
        operation: plans.plan(
            {"set": {"inputs": [_union("k"), plans.read("r", "k"), plans.read("l", "g")], "op": f"SET_OP_{operation}"}},
            "k",
        )
        for operation in SET_OPERATIONS
    },
    "cross join": plans.plan(plans.crossed(_union("k"), plans.limited(plans.read("r", "g"), 2)), "k", "g"),
    "sliding windows": _sliding(sub.f.sum(sub.col("x"))),
    "sliding windows of whole numbers": _sliding(sub.f.sum(sub.col("g"))),
    "tumbling windows of whole numbers": _sliding(sub.f.sum(sub.col("g")), slide=100),
    "sliding windows of long decimals": _sliding(sub.f.max(sub.col("k").cast(sub.decimal(0, 38)))),
    "top n": plans.plan(plans.top(_union("g", "k"), 1_000, "ROWS_ONLY"), *"gk"),
    "top n with ties": plans.plan(plans.top(_union("g", "k"), 1_000, "WITH_TIES"), *"gk"),
    "expand": plans.plan(
        plans.summed(
            {
                "expand": {
                    "input": _union("g", "k"),
                    "fields": [
                        {"switchingField": {"duplicates": [plans.column(0), plans.column(1)]}},
                        {"consistentField": plans.column(1)},
                    ],
                }
            }
        ),
        *"gs",
    ),
    "lateral join": plans.plan(plans.lateral(plans.read("l", "k", "g"), _union("k", "g"), plans.summed), *"kgas"),
}
"""Relations that DataFusion's plans have none of; set operations have three inputs, the first of them a union."""
LOOPS: Final[Mapping[str, LoopQuery]] = {
    "one recursive statement": LoopQuery(
        {
            "x": Looped(
                "select distinct a, b from (select a, b from seeds union all select a, b from more union all"
                " select x.a, e.b from x join edges e on x.b = e.a)"
            )
        }
    ),
    "a loop of rounds": LoopQuery(
        {
            "x": Looped(
                "select a, min(b) as b from (select a, b from seeds union all select a, b from more union all"
                " select e.b as a, x.b + e.c as b from x join edges e on x.a = e.a) group by a"
            )
        }
    ),
}


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """A plan, what it is fed in each shape, and the options of its task."""

    plan: bytes | str | PlanBytes
    sources: Mapping[str, pa.Table]
    options: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The form in which a source is fed, and the number of channels, each of which reads a share."""

    splits: Callable[[Path, pa.Table], Sequence[Any]]
    channels: int


def whole_files(folder: Path, table: pa.Table) -> Sequence[Any]:
    """Files that one reader reads as a list."""
    return [_written(folder / f"whole-{at}.parquet", part) for at, part in enumerate(_parts(table, 3))]


def parts_of_files(folder: Path, table: pa.Table) -> Sequence[Any]:
    """The end of a file, a whole one, and the beginning of another."""
    first, second, third = whole_files(folder, table)
    rows = table.num_rows // 3
    head, tail = (0, rows // 2), (rows // 2, rows)
    return [tidegate.FileSplit(first, rows=tail), second, tidegate.FileSplit(third, rows=head)]


def other_schemas(folder: Path, table: pa.Table) -> Sequence[Any]:
    """Files of which each second one has a column more."""
    parts = [part.append_column("more", part.column(0)) if at % 2 else part for at, part in enumerate(_parts(table, 3))]
    return [_written(folder / f"other-{at}.parquet", part) for at, part in enumerate(parts)]


def in_calls(_: Path, table: pa.Table) -> Sequence[Any]:
    return _parts(table, 2)


SHAPES: Final[Mapping[str, Shape]] = {
    "whole files": Shape(splits=whole_files, channels=1),
    "parts of files": Shape(splits=parts_of_files, channels=1),
    "files of two schemas": Shape(splits=other_schemas, channels=1),
    "rows of calls": Shape(splits=in_calls, channels=1),
    "two shares": Shape(splits=whole_files, channels=2),
    "three shares of parts": Shape(splits=parts_of_files, channels=3),
}


Pair: TypeAlias = tuple[str, str, int]
"""A query, a shape, and the rows of its sources."""


@lru_cache(maxsize=1)
def repeated(rows: int) -> Mapping[str, Repeated]:
    """All of them, over sources of so many rows."""
    tables = {name: _facts(seed, rows) for seed, name in enumerate(SOURCES)}
    graph = _graph(rows)
    queries = {name: Repeated(plan=planned(sql), sources=tables, options={}) for name, sql in SQL.items()}
    for name, plan in BY_HAND.items():
        queries[name] = Repeated(plan=plan, sources=tables, options={})
    own_inputs = own.inputs()
    for name, text in own.over_sorted().items():
        queries[name] = Repeated(plan=text, sources=own_inputs, options={})
    queries["kept"] = Repeated(plan=planned(KEPT), sources=tables, options={"static": ("r",)})
    for name, query in LOOPS.items():
        queries[name] = Repeated(plan=query.plan(), sources=graph, options={})
    queries["continuous"] = Repeated(plan=planned(SQL["few groups"]), sources=tables, options={"mode": "continuous"})
    queries["recomputed"] = Repeated(plan=BY_HAND["top n with ties"], sources=tables, options={"mode": "continuous"})
    queries["unnest"] = Repeated(plan=own.unnested(), sources=own_inputs, options={})
    return queries


def planned(sql: str) -> bytes:
    session = datafusion.SessionContext()
    for name in SOURCES:
        session.register_record_batches(name, [[pa.RecordBatch.from_pylist([], SCHEMA)]])
    return bytes(Serde.serialize_bytes(sql, session))


def _facts(seed: int, rows: int) -> pa.Table:
    """Nearly as many keys as rows, and floats of very different sizes, so that a sum shows the order of adding."""
    chooser = np.random.default_rng(seed)
    x = chooser.standard_normal(rows) * 10.0 ** chooser.integers(-8, 8, rows)
    return pa.table({"k": chooser.integers(0, 2 * rows, rows), "g": chooser.integers(0, 1_000, rows), "x": x}, SCHEMA)


def _graph(rows: int) -> Mapping[str, pa.Table]:
    """A tenth of the rows: loops take each of them several times."""
    chooser = np.random.default_rng(9)
    rows //= 10
    edges = {name: chooser.integers(0, 2 * rows, rows) for name in "ab"} | {"c": chooser.integers(1, 9, rows)}
    seeds, more = (pa.table({name: chooser.integers(0, 2 * rows, rows // 20) for name in "ab"}) for _ in range(2))
    return {"edges": pa.table(edges), "seeds": seeds, "more": more}


def _parts(table: pa.Table, number: int) -> list[pa.Table]:
    rows = -(-table.num_rows // number)
    return [table.slice(at, rows) for at in range(0, table.num_rows, rows)]


def _written(path: Path, table: pa.Table) -> str:
    if not path.exists():
        pq.write_table(table, path, row_group_size=max(1, table.num_rows // 4))
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return str(path)


# --- runs --------------------------------------------------------------------------------------------------------


def digests(
    client: tidegate.Client, query: Repeated, shape: Shape, folder: Path, *, runs: int, **options: Any
) -> Counter[str]:
    """How often which digest came. Every second run finds its files on the disk alone; every third goes on with the
    task of the one before.
    """
    splits = fed(query, shape, folder)
    task_options = {**query.options, **options}
    static = {name: splits[name] for name in task_options.pop("static", ())}
    task_options = on_channels(shape.channels, task_options.get("mode", "per_epoch")) | task_options
    digest_counts: Counter[str] = Counter()
    task_number = 0
    while digest_counts.total() < runs:
        if task_number % 2:
            forget(folder)
        with client.create_task(query.plan, tables=static, **task_options) as task:
            sources = {name: splits[name] for name in task.sources if name not in static}
            digest_counts[digest(task.schema, iter(task.run_epoch(sources)))] += 1
            if task_number % 3 == 0 and digest_counts.total() < runs and task_options.get("mode") != "continuous":
                digest_counts[digest(task.schema, iter(task.run_epoch(sources)))] += 1
        task_number += 1
    return digest_counts


def fed(query: Repeated, shape: Shape, folder: Path) -> Mapping[str, Sequence[Any]]:
    """The splits of each source; their files are written where they are not there."""
    return {name: shape.splits(_made(folder / name), table) for name, table in query.sources.items()}


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def forget(folder: Path) -> None:
    """Drops the files' pages from the system's cache, so that they are read from the disk."""
    for path in folder.rglob("*.parquet"):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


_BURN: Final = """
import os, sys
os.nice(int(sys.argv[3]))
while os.getppid() == int(sys.argv[1]):
    sum(range(100_000))
"""
_WRITE: Final = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    with open(sys.argv[2], "wb") as file:
        file.write(os.urandom(1 << 24)); file.flush(); os.fsync(file.fileno())
"""


@contextlib.contextmanager
def busy(folder: Path, nice: int = 0) -> Iterator[None]:
    """Processes that burn every core, and one that burns the disk. They end with this one, however it ends. Nice ones
    take what others leave.
    """
    commands = [[_BURN]] * (os.cpu_count() or 1) + [[_WRITE]]
    arguments = [str(os.getpid()), str(folder / "burnt"), str(nice)]
    running = [subprocess.Popen([sys.executable, "-S", "-c", *command, *arguments]) for command in commands]
    try:
        yield
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait()


def recorded(path: Path | None) -> Mapping[Pair, Counter[str]]:
    """How often which digest came for a query and a shape, in all runs that a record has."""
    known: defaultdict[Pair, Counter[str]] = defaultdict(Counter)
    if path is not None and path.exists():
        for line in path.read_text().splitlines():
            query, shape, rows, digest_counts = json.loads(line)
            known[query, shape, rows].update(digest_counts)
    return known


def record(path: Path, pair: Pair, digest_counts: Counter[str]) -> None:
    """Adds runs to a record."""
    with path.open("a") as lines:
        lines.write(json.dumps([*pair, digest_counts]) + "\n")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Runs that a process is asked for: their pair, how many, and the folder for the files that they read."""

    pair: Pair
    runs: int
    folder: Path

    def digests(self) -> tuple[Counter[str], float]:
        """How often which digest came, and the seconds of one run."""
        query, shape, rows = self.pair
        with tempfile.TemporaryDirectory(dir=self.folder) as temporary, tidegate.local(roots=(temporary,)) as client:
            begun = time.monotonic()
            digest_counts = digests(client, repeated(rows)[query], SHAPES[shape], Path(temporary), runs=self.runs)
            return digest_counts, (time.monotonic() - begun) / max(self.runs, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--query", action="append", help="only these")
    parser.add_argument("--shape", action="append", help="only these", choices=list(SHAPES))
    parser.add_argument("--record", type=Path, help="a file of the runs so far, which count; it gets these runs, too")
    parser.add_argument("--processes", type=int, default=2 * (os.cpu_count() or 1), help="that run at once")
    parser.add_argument("--idle", action="store_true", help="without processes that burn what these leave")
    options = parser.parse_args()
    known = recorded(options.record)
    pairs = [
        (name, title, options.rows)
        for name in options.query or repeated(options.rows)
        for title in options.shape or SHAPES
    ]
    broken = 0
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pool = stack.enter_context(ProcessPoolExecutor(options.processes, get_context("spawn")))
        if not options.idle:
            stack.enter_context(busy(folder, nice=19))
        wanted = [Asked(pair=pair, runs=max(options.runs - known[pair].total(), 0), folder=folder) for pair in pairs]
        running = {pool.submit(Asked.digests, wish): wish.pair for wish in wanted}
        for done in as_completed(running):
            pair, (digest_counts, seconds) = running[done], done.result()
            if options.record is not None and digest_counts:
                record(options.record, pair, digest_counts)
            digest_counts += known[pair]
            broken += len(digest_counts) > 1
            counts = sorted(digest_counts.values(), reverse=True)
            print(f"{pair[0]:28}{pair[1]:24}{len(digest_counts):3} digests {counts} {seconds:.2f} s a run", flush=True)
    return min(broken, 1)


if __name__ == "__main__":
    sys.exit(main())
