"""The size of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The defaults are the published benchmark; tests run the same code tiny.

    Every engine has a thread a core: a relaxed task takes as many as there are.
    """

    scale: float = 1.0
    rounds: int = 5
    queries: tuple[int, ...] = tuple(range(1, 23))
    data: Path = TOP / ".data"
    plans: Path = TOP / "tests" / "conformance" / "plans"
    crashes: Path = TOP / "benchmarks" / "crashes.json"
    small_epochs: int = 1_000
    durable_bytes: int = 10_000_000
    durable_tasks: int = 200
    durable_idle_tasks: int = 1_000
    durable_rows: int = 1_000_000
    durable_changes: int = 200
    durable_state_rows: int = 10_000_000
    durable_work_seconds: float = 28.0
    throughput_bytes: int = 1_000_000_000
    checked_bytes: int = 8_000_000
    checked_scripts: tuple[str, ...] = ("ASCII", "Latin", "Cyrillic", "Chinese", "emoji", "mixed")
    loader_bytes: int = 222_000_000
    training_rows: int = 10_000_000
    training_lists: int = 500_000
    exchange_rows: int = 4_000_000
    lookup_rows: int = 1_000_000
    lookup_batch_rows: int = 4_096
    aggregate_rows: int = 10_000_000
    merge_rows: int = 10_000_000
    window_rows: int = 10_000_000
    window_keys: int = 1_000
    continuous_window_rows: int = 1_000_000
    changes_rows: int = 10_000_000
    loop_chain: int = 1_000
    loop_grid: int = 300
    loop_nodes: int = 20_000
    ranked_edges: int = 1_000_000
    graph_batches: int = 2_000
    view_nodes: int = 333_333
    view_changes: int = 1_000
    view_peer_nodes: int = 20_000
    spark_rows: int = 10_000_000
    spark_read_rows: int = 20_000_000

    @property
    def threads(self) -> int:
        return os.cpu_count() or 1
