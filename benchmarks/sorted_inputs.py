"""Case `merge`: the merge join beside DuckDB's hash join, over the same sorted Arrow batches.

Two inputs of 10M rows in batches of 65,536, a key and three more columns each, joined (inner) and read to the end. Keys
are unique on both sides, or each left key stands three times; about half of the left rows have a match. Keys are int64,
or texts of 18 bytes. With int64 keys the same in a plan: a task over two sorted Parquet files beside DuckDB's query of
them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.operators.core.blocks import BLOCK_ROWS
from tidegate.operators.core.key_rows import Holding
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.merge_join import JoinKey, MergeJoin
from tidegate.operators.merging.kinds import MergeJoinType

from . import plans, sorted_plans
from .measure import Spread, interleave
from .report import Report, Target, spread_text
from .settings import Settings

SIDE = pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.float64()), ("c", pa.int32())])
SQL = "SELECT l.*, r.* FROM l JOIN r ON l.k = r.k"
PLAN_SQL = "SELECT * FROM l JOIN r ON l.k = r.j"
MERGE = "Tidegate merge join"
VARIANTS = (
    ("unique on both sides", 1, False),
    ("unique on one side", 3, False),
    ("texts, unique on both sides", 1, True),
)


def run(settings: Settings) -> Report:
    rows, targets, notes = [], [], []
    figures: dict[str, object] = {}
    for name, repeated, text in VARIANTS:
        left, right = (side(settings.merge_rows, *key_shape, text=text) for key_shape in ((1, repeated), (2, 1)))
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            contenders: dict[str, Callable[[], object]] = {MERGE: partial(count, partial(merged, left, right, folder))}
            for threads in sorted({1, settings.threads}):
                connection = stack.enter_context(duckdb.connect(config={"threads": threads}))
                contenders[hash_join(threads)] = partial(count, partial(hashed, connection, left, right))
            check_counts(contenders)
            runs = interleave(contenders, settings.rounds)
            first, held = progress(left, right, folder)
            _, held_of_less = progress(left.slice(0, left.num_rows // 4), right.slice(0, right.num_rows // 4), folder)
        for contender in runs.seconds:
            ratio = runs.ratio(contender, hash_join(1))
            rows.append([name, contender, spread_text(runs.spread(contender)), spread_text(ratio) if ratio else "-"])
        if not text:
            named = {"l": left, "r": right.rename_columns(list(plans.SIDES["r"]))}
            in_plan = sorted_plans.run(plans.sorted_sides(), PLAN_SQL, named, settings)
            rows += [[name, *cells] for cells in sorted_plans.rows(in_plan)]
            ratio = in_plan.ratio(sorted_plans.TASK, sorted_plans.QUERY)
            targets.append(Target(f"{name}: {sorted_plans.TASK}, over {sorted_plans.QUERY}", ratio, 1.0))
        share = first / (left.num_rows + right.num_rows)
        targets += [
            Target(f"{name}: over DuckDB's hash join, 1 thread", runs.ratio(MERGE, hash_join(1)), 1.0),
            Target(f"{name}: share of the input read before the first output", single(share), 0.01),
            Target(f"{name}: memory, over that of a quarter of the input", single(held / max(held_of_less, 1)), 1.5),
        ]
        figures[name] = {"seconds": runs.seconds, "first_share": share, "held_bytes": held}
        notes += [f"{contender}: {why}" for contender, why in runs.left_out.items()]
    return Report(
        case="merge",
        title=f"Joins of two sorted inputs, {settings.merge_rows:,} rows each",
        header=["keys", "", "seconds", "over DuckDB, 1 thread"],
        rows=rows,
        targets=targets,
        notes=notes,
        figures=figures,
    )


def hash_join(threads: int) -> str:
    return f"DuckDB hash join, {threads} thread{'s' if threads > 1 else ''}"


def side(rows: int, seed: int, repeated: int, *, text: bool = False) -> pa.Table:
    """Always the same rows, sorted by `k`, up to about twice their number. Each key stands `repeated` times."""
    random = np.random.default_rng(seed)
    keys = np.repeat(np.cumsum(random.integers(1, 4 * repeated, -(-rows // repeated))), repeated)[:rows]
    numbers = random.integers(0, 1_000_000, rows)
    table = pa.table([keys, numbers, numbers * 0.5, numbers.astype(np.int32)], schema=SIDE)
    if text:
        digits = pc.utf8_lpad(table["k"].cast(pa.string()), 9, "0")
        table = table.set_column(0, "k", pc.binary_join_element_wise("customer#", digits, ""))
    return pa.Table.from_batches(table.to_batches(max_chunksize=BLOCK_ROWS))


def merged(left: pa.Table, right: pa.Table, folder: Path) -> Iterator[pa.RecordBatch]:
    streams = [BatchStream(table.schema, table.to_batches()) for table in (left, right)]
    return merge_join(left.schema, folder).run(streams)


def merge_join(side: pa.Schema, folder: Path) -> MergeJoin:
    return MergeJoin(
        left=side,
        right=side,
        keys=[JoinKey(left=0, right=0)],
        type=MergeJoinType.INNER,
        schema=pa.schema([*side, *side]),
        holding=Holding(memory_limit=64 << 20, folder=folder),
    )


def hashed(connection: duckdb.DuckDBPyConnection, left: pa.Table, right: pa.Table) -> Iterator[pa.RecordBatch]:
    connection.register("l", left)
    connection.register("r", right)
    yield from connection.sql(SQL).to_arrow_reader(BLOCK_ROWS)


def count(batches: Callable[[], Iterator[pa.RecordBatch]]) -> int:
    return sum(batch.num_rows for batch in batches())


def check_counts(contenders: dict[str, Callable[[], object]]) -> None:
    counts = {name: run() for name, run in contenders.items()}
    if len(set(counts.values())) != 1:
        raise AssertionError(f"the contenders disagree on the number of rows: {counts}")


def progress(left: pa.Table, right: pa.Table, folder: Path) -> tuple[int, int]:
    """Rows read when the first ones came out, and the most bytes of Arrow memory held beside the inputs."""
    streams = [BatchStream(table.schema, table.to_batches()) for table in (left, right)]
    before, first, held = pa.total_allocated_bytes(), 0, 0
    for _ in merge_join(left.schema, folder).run(streams):
        first = first or sum(stream.rows for stream in streams)
        held = max(held, pa.total_allocated_bytes() - before)
    return first, held


def single(value: float) -> Spread:
    return Spread(value, value, value)
