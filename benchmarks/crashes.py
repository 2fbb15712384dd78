"""Case `crashes`: the last long run of servers under SIGKILL against undisturbed ones.

The run takes half an hour, so this case shows its record and does not repeat it. To make a new record:
`python -m tests.crash --seeds 500 --record benchmarks/crashes.json`.
"""

from __future__ import annotations

import json

from .measure import Spread
from .report import Report, Target
from .settings import Settings

LEAST_RUNS = 500


def run(settings: Settings) -> Report:
    record = json.loads(settings.crashes.read_text(encoding="utf-8"))
    crashes: dict[str, int] = record["crashes"]
    last = record["first_seed"] + record["runs"] - 1
    runs, differ = (Spread.of((float(count),)) for count in (record["runs"], len(record["differ"])))
    return Report(
        case="crashes",
        title=f"Killed servers: the recorded run of Tidegate {record['version']}, commit {record['commit']}",
        header=["seeds", "runs", "crashes", "points with a crash", "all points", "runs that differ", "seconds"],
        rows=[
            [
                f"{record['first_seed']} to {last}",
                f"{record['runs']:,}",
                f"{sum(crashes.values()):,}",
                f"{len(crashes)}",
                f"{record['points']}",
                f"{len(record['differ'])}",
                f"{record['seconds']:,.0f}",
            ]
        ],
        targets=[
            Target("runs of killed servers", runs, LEAST_RUNS, "at least"),
            Target("runs whose rows are not those of an undisturbed one", differ, 0),
        ],
        notes=[],
        figures={"record": record},
    )
