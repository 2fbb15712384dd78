"""Case `continuous-windows`: final windows of a minute in a continuous task, in epochs of 10,000 events, beside
bytewax, Pathway and PyFlink over the same events.

The peers run in processes of their own: `TIDEGATE_BENCH_BYTEWAX`, `TIDEGATE_BENCH_PATHWAY` and `TIDEGATE_BENCH_FLINK`
are Pythons that have them. They hold the events in memory before anything is measured, as Tidegate does. Each round is
the whole stream, from the first event to the last window.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import substrait.dataframe as sub

import tidegate
from tidegate import windows

from . import loop_peers
from .loop_peers import SECONDS, Peer, answer, started
from .measure import Runs, interleave
from .report import Report, Target, spread_text
from .settings import Settings
from .windows import HOUR, MINUTE, events

EPOCH_ROWS = 10_000
TUMBLING, SLIDING = "Tidegate, tumbling", "Tidegate, sliding, 60 slices"
PEERS = (
    Peer("bytewax, tumbling", "bytewax", "TIDEGATE_BENCH_BYTEWAX", "bytewax_windows.py"),
    Peer("Pathway, tumbling", "Pathway", loop_peers.VARIABLE, "pathway_windows.py"),
    Peer("PyFlink, tumbling", "PyFlink", "TIDEGATE_BENCH_FLINK", "flink_windows.py"),
)


def run(settings: Settings) -> Report:
    rows = events(settings.window_rows, settings.window_keys).slice(0, settings.continuous_window_rows)
    with ExitStack() as stack:
        client = stack.enter_context(tidegate.local())
        count = whole_stream(client, plan(TUMBLING), rows)
        contenders: dict[str, Callable[[], object]] = {}
        for name in (TUMBLING, SLIDING):
            contenders[name] = partial(whole_stream, client, plan(name), rows)
        for peer in PEERS:
            asked = asked_peer(peer, rows, count, stack)
            if asked is not None:
                contenders[peer.name] = asked
        runs = interleave(contenders, settings.rounds)
    return report(runs, rows.num_rows)


def report(runs: Runs, rows: int) -> Report:
    names = [TUMBLING, SLIDING, *(peer.name for peer in PEERS if peer.name in {*runs.seconds, *runs.stopped})]
    table = []
    for name in names:
        took = f"over {runs.stopped[name]:g}" if name in runs.stopped else spread_text(runs.spread(name))
        seconds = runs.stopped[name] if name in runs.stopped else runs.spread(name).median
        ratio = runs.ratio(name, TUMBLING)
        table.append([name, took, f"{rows / seconds:,.0f}", "-" if ratio is None else spread_text(ratio)])
    targets = [
        Target(f"{peer.engine} over {TUMBLING}", runs.ratio(peer.name, TUMBLING), 10, "at least")
        for peer in PEERS
        if peer.name in names
    ]
    return Report(
        case="continuous-windows",
        title=f"Final windows of {rows:,} events, in epochs of {EPOCH_ROWS:,}",
        header=["", "s", "events/s", f"over {TUMBLING}"],
        rows=table,
        targets=targets,
        notes=[*loop_peers.missing(*PEERS), *(f"{name}: {why}" for name, why in runs.left_out.items())],
        figures={"seconds": runs.seconds, "stopped": runs.stopped},
    )


def plan(name: str) -> Any:
    columns = {"t": sub.precision_timestamp(6), "k": sub.i64, "v": sub.i64}
    source = windows.watermark(sub.read_named_table("events", columns), "t")
    how: dict[str, Any] = {
        "keys": ["k"],
        "measures": [sub.f.sum(sub.col("v")).alias("s"), sub.f.count().alias("n")],
        "final": True,
    }
    if name == TUMBLING:
        return windows.tumbling(source, "t", MINUTE, **how).to_plan()
    return windows.sliding(source, "t", HOUR, MINUTE, **how).to_plan()


def whole_stream(client: tidegate.Client, plan: Any, rows: pa.Table) -> int:
    """The number of windows, of a new task that is fed with the stream and told its end."""
    count = 0
    *starts, last = range(0, rows.num_rows, EPOCH_ROWS)
    with client.create_task(plan, mode="continuous") as task:
        for start in starts:
            count += int(task.run_epoch({"events": rows.slice(start, EPOCH_ROWS)}).table().num_rows)
        task.add_split("events", rows.slice(last))
        task.no_more_splits()
        return count + sum(int(epoch.table().num_rows) for epoch in task.epochs())


def asked_peer(peer: Peer, rows: pa.Table, count: int, stack: ExitStack) -> Callable[[], None] | None:
    """The peer's run over the stream, which must give so many windows; None where the peer is not there."""
    if loop_peers.missing(peer):
        return None
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    numbers = rows.set_column(0, "t", rows.column("t").cast(pa.int64()))
    csv.write_csv(numbers, folder / "events.csv", csv.WriteOptions(include_header=False))
    process = started(loop_peers.command(peer, str(folder)), stack)
    answer(process)
    return partial(loop_peers.run, process, count, SECONDS)
