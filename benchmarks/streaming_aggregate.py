"""Case `aggregate`: groups of sorted rows, as they end, beside DuckDB's hash aggregate.

Rows of a sorted int64 key and two columns, fed as Arrow in batches of 65,536: sum, count and min by the key, with few
rows in a group and with many. DuckDB gets the same batches, with one thread (which the operator has) and with two.
The same in a plan: a task over a sorted Parquet file beside DuckDB's query of it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

from tidegate.operators.arrays.reductions import Reduction
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb.instances import Instance, InstanceSettings
from tidegate.operators.group_measures import Measure
from tidegate.operators.streaming_aggregate import StreamingAggregate

from . import plans, sorted_plans
from .measure import Runs, Spread, interleave
from .report import Report, Target, spread_text
from .settings import Settings

GROUP_ROWS = (1, 10, 1_000)
BATCH_ROWS = 65_536
MEMORY = 4 << 30
INPUT = pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.float64())])
OUTPUT = pa.schema([("k", pa.int64()), ("s", pa.int64()), ("n", pa.int64()), ("m", pa.float64())])
SQL = "SELECT k, sum(a)::BIGINT, count(*), min(b) FROM rows GROUP BY k"
TIDEGATE, ONE, TWO = "Tidegate streaming", "DuckDB, 1 thread", "DuckDB, 2 threads"


def run(settings: Settings) -> Report:
    runs, in_plans, reads, growth = {}, {}, {}, {}
    for group_rows in GROUP_ROWS:
        rows = sorted_rows(settings.aggregate_rows, group_rows)
        with ExitStack() as stack:
            operator = stack.enter_context(closing(set_up(stack)))
            contenders: dict[str, Callable[[], object]] = {TIDEGATE: partial(stream, operator, rows)}
            for name, threads in ((ONE, 1), (TWO, 2)):
                connection = stack.enter_context(duckdb.connect(config={"threads": threads, "memory_limit": "4GiB"}))
                connection.register("rows", rows)
                contenders[name] = partial(hash_aggregate, connection)
            answers = {name: contender() for name, contender in contenders.items()}
            if len(set(answers.values())) != 1:
                raise AssertionError(f"different numbers of groups: {answers}")
            runs[group_rows] = interleave(contenders, settings.rounds)
            reads[group_rows], growth[group_rows] = first_output(operator, rows), held(operator, rows)
        in_plans[group_rows] = sorted_plans.run(plans.sorted_groups(), SQL, {"rows": rows}, settings)
    return report(settings, runs, in_plans, reads, growth)


def sorted_rows(rows: int, group_rows: int) -> pa.Table:
    """Groups of about `group_rows` rows, always the same."""
    random = np.random.default_rng(5)
    keys = np.arange(rows) if group_rows == 1 else np.sort(random.integers(0, max(1, rows // group_rows), rows))
    table = pa.table([keys, random.integers(0, 1_000, rows), random.random(rows)], schema=INPUT)
    return pa.Table.from_batches(table.to_batches(max_chunksize=BATCH_ROWS), INPUT)


def set_up(stack: ExitStack) -> StreamingAggregate:
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    instance = stack.enter_context(closing(Instance(InstanceSettings(memory_limit=MEMORY), folder)))
    measures = [
        Measure(sql="CAST(sum(c1) AS BIGINT)", reduction=Reduction(function="sum", column=1)),
        Measure(sql="count(*)", reduction=Reduction(function="count")),
        Measure(sql="min(c2)", reduction=Reduction(function="min", column=2)),
    ]
    return StreamingAggregate(INPUT, keys=[0], measures=measures, schema=OUTPUT, instance=instance)


def stream(operator: StreamingAggregate, rows: pa.Table) -> int:
    return sum(batch.num_rows for batch in operator.run([BatchStream(INPUT, rows.to_batches())]))


def hash_aggregate(connection: duckdb.DuckDBPyConnection) -> int:
    with connection.sql(SQL).to_arrow_reader(BATCH_ROWS) as reader:
        return sum(batch.num_rows for batch in reader)


def first_output(operator: StreamingAggregate, rows: pa.Table) -> float:
    """The share of the input that is read before anything comes out."""
    source = BatchStream(INPUT, rows.to_batches())
    with closing(operator.run([source])) as output:  # type: ignore[type-var] # a generator
        next(output)
        return float(source.rows / rows.num_rows)


def held(operator: StreamingAggregate, rows: pa.Table) -> float:
    """The most that Arrow held beside the input, in bytes, towards the end over that near the beginning."""
    before, marks = pa.total_allocated_bytes(), []
    for batch in operator.run([BatchStream(INPUT, rows.to_batches())]):
        del batch
        marks.append(max(1, pa.total_allocated_bytes() - before))
    part = max(1, len(marks) // 10)
    return float(max(marks[-part:]) / max(marks[:part]))


def report(
    settings: Settings,
    runs: dict[int, Runs],
    in_plans: dict[int, Runs],
    reads: dict[int, float],
    growth: dict[int, float],
) -> Report:
    table, targets = [], []
    for group_rows, timings in runs.items():
        for name in timings.seconds:
            ratio = timings.ratio(name, ONE)
            cells = [f"{spread_text(timings.spread(name))}", "-" if ratio is None else spread_text(ratio)]
            table.append([f"{group_rows} rows a group: {name}", *cells])
        targets.append(Target(f"{group_rows} rows a group: over {ONE}", timings.ratio(TIDEGATE, ONE), 1.0))
        targets.append(
            Target(f"{group_rows} rows a group: share read before the first output", _exact(reads[group_rows]), 0.01)
        )
        targets.append(
            Target(f"{group_rows} rows a group: memory at the end over the beginning", _exact(growth[group_rows]), 1.5)
        )
    for group_rows, timings in in_plans.items():
        table += [[f"{group_rows} rows a group: {name}", *cells] for name, *cells in sorted_plans.rows(timings)]
        ratio = timings.ratio(sorted_plans.TASK, sorted_plans.QUERY)
        targets.append(Target(f"{group_rows} rows a group: {sorted_plans.TASK}, over {sorted_plans.QUERY}", ratio, 1.0))
    return Report(
        case="aggregate",
        title=f"Sorted groups: sum, count and min of {settings.aggregate_rows:,} rows, fed as Arrow",
        header=["", "s", f"over {ONE}"],
        rows=table,
        targets=targets,
        notes=[f"{name}: {why}" for timings in runs.values() for name, why in timings.left_out.items()],
        figures={"seconds": {str(group_rows): timings.seconds for group_rows, timings in runs.items()}},
    )


def _exact(value: float) -> Spread:
    return Spread(value, value, value)
