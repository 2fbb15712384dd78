"""Aggregates events by windows of a minute with Pathway whenever it is asked on standard input, and answers with the
number of windows.

`python pathway_windows.py FOLDER`, where the folder has events.csv. It needs Pathway alone. Each 10,000 events come at
a time of their own, and each window comes once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pathway

BATCH = 10_000
MINUTE = 60_000_000


def main() -> None:
    events = pd.read_csv(Path(sys.argv[1]) / "events.csv", names=["t", "k", "v"])
    events["__time__"] = 2 * (events.index // BATCH + 1)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(windows(events), flush=True)


def windows(events: Any) -> int:
    table = pathway.debug.table_from_pandas(events)
    answers = table.windowby(
        table.t,
        window=pathway.temporal.tumbling(duration=MINUTE),
        behavior=pathway.temporal.exactly_once_behavior(),
        instance=table.k,
    ).reduce(
        start=pathway.this._pw_window_start,
        k=pathway.this._pw_instance,
        s=pathway.reducers.sum(pathway.this.v),
        n=pathway.reducers.count(),
    )
    return len(pathway.debug.table_to_pandas(answers))


if __name__ == "__main__":
    main()
