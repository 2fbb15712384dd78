"""The digests of strict plans, computed in a process of its own, over inputs that would show the engine's timing.

Numbers come straight from a bit generator, whose stream NumPy promises to keep.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidegate
from tidegate.executor.manager import TaskManager
from tidegate.executor.plan_engine import PlanEngine
from tidegate.operators.digest import digest

from . import tpch

PLANS: Final = Path(__file__).parent / "strict_plans"
QUERIES: Final = ("q03", "q09", "q18")
FACT_ROWS: Final = 100_000
DIM_ROWS: Final = 30_000


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


def _oddly(table: pa.Table) -> pa.Table:
    """The same rows in batches of odd sizes, the first thousands of one row."""
    sizes = [1] * 3_000 + [1 + int(size) for size in _raw(6, 400) % np.uint64(2_500)]
    batches: list[pa.RecordBatch] = []
    at = 0
    for size in sizes:
        batches.extend(table.slice(at, size).to_batches())
        at += size
    return pa.Table.from_batches([*batches, *table.slice(at).to_batches()], table.schema)


def _halves(table: pa.Table) -> list[pa.Table]:
    return [table.slice(0, 50_001), table.slice(50_001)]


def _files(folder: Path, found: Mapping[str, pa.Table]) -> dict[str, list[str]]:
    """Two files a table, of row groups of odd sizes."""
    splits: dict[str, list[str]] = {}
    for name, table in found.items():
        for number, (part, group_rows) in enumerate(zip(_halves(table), (7_001, 12_345), strict=True)):
            path = folder / f"{name}-{number}.parquet"
            pq.write_table(part, path, row_group_size=group_rows)
            splits.setdefault(name, []).append(str(path))
    return splits


def _service(folder: Path, threads: int, shaken: bool) -> tidegate.Client:
    chooser = random.Random(threads)
    delay = (lambda: time.sleep(chooser.random() ** 8 * 0.01)) if shaken else None
    engine = PlanEngine(["/"], folder)
    return tidegate.Client(TaskManager(engine, folder=folder, threads=threads, delay=delay))


def _digest(task: tidegate.Task, splits: Mapping[str, Sequence[Any]]) -> str:
    """Of the second epoch: the first has other rows, which must not show."""
    sources = {name: splits[name] for name in task.sources}
    task.run_epoch({name: found[-1:] for name, found in sources.items()})
    return digest(task.schema, iter(task.run_epoch(sources)))


def compute(
    folder: Path, tpch_folder: Path, *, threads: int, shaken: bool, odd: bool, channels: int = 1
) -> Iterator[tuple[str, str]]:
    """Every case with its digest. `odd`: rows that travel with calls are cut into odd batches."""
    found = tables()
    inline = {name: [_oddly(half) if odd else half for half in _halves(table)] for name, table in found.items()}
    forms: dict[str, Mapping[str, Sequence[Any]]] = {"inline": inline, "files": _files(folder, found)}
    with _service(folder / "service", threads, shaken) as client:
        for plan in sorted(PLANS.glob("*.bin")):
            for form, splits in forms.items():
                with client.create_task(plan.read_bytes(), channels=channels) as task:
                    yield f"{plan.stem}, {form}", _digest(task, splits)
        for query in QUERIES:
            with client.create_task(tpch.plan_bytes("datafusion", query), channels=channels) as task:
                files = {name: [str(tpch_folder / f"{name.lower()}.parquet")] for name in task.sources}
                yield f"TPC-H {query}", _digest(task, files)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        print(json.dumps(dict(compute(Path(made), Path(sys.argv[1]), **json.loads(sys.argv[2])))))
