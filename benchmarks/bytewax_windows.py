"""Aggregates events by windows of a minute with bytewax whenever it is asked on standard input, and answers with the
number of windows.

`python bytewax_windows.py FOLDER`, where the folder has events.csv. It needs bytewax alone. Its watermark also goes on
with the clock, so it waits a minute for events: none of them is late.
"""

from __future__ import annotations

import csv
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource, run_main

BATCH = 10_000
START = datetime(1970, 1, 1, tzinfo=UTC)

Event = tuple[str, tuple[datetime, int]]
Sums = tuple[int, int]


def main() -> None:
    with (Path(sys.argv[1]) / "events.csv").open() as file:
        events = [(k, (START + timedelta(microseconds=int(t)), int(v))) for t, k, v in csv.reader(file)]
    print("ready", flush=True)
    for _ in sys.stdin:
        print(windows(events), flush=True)


def windows(events: list[Event]) -> int:
    answers: list[object] = []
    flow = Dataflow("windows")
    fed = op.input("events", flow, TestingSource(events, batch_size=BATCH))
    folded = win.fold_window(
        "per minute",
        fed,
        win.EventClock(ts_getter=lambda event: event[0], wait_for_system_duration=timedelta(minutes=1)),
        win.TumblingWindower(align_to=START, length=timedelta(minutes=1)),
        builder=lambda: (0, 0),
        folder=lambda sums, event: (sums[0] + event[1], sums[1] + 1),
        merger=lambda one, other: (one[0] + other[0], one[1] + other[1]),
    )
    op.output("answers", folded.down, TestingSink(answers))
    run_main(flow)
    return len(answers)


if __name__ == "__main__":
    main()
