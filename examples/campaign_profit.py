"""The profit of ad campaigns per quarter of an hour: two streams, each aggregated by windows, and the windows joined.

::

    SELECT window_start, campaign, earned - cost AS profit
    FROM (SELECT window_start, campaign, sum(cost) AS cost FROM ads GROUP BY window_start, campaign)
    LEFT JOIN (SELECT window_start, campaign, sum(price) AS earned FROM checkouts GROUP BY window_start, campaign)
    USING (window_start, campaign)

A window comes once, when both streams have passed its end by the five minutes that a row may be late.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pyarrow as pa
import substrait.dataframe as sub

import tidegate
from tidegate import windows

QUARTER, LATE = timedelta(minutes=15), timedelta(minutes=5)
WANTED = (0, 2, 3, 7)
"""The left window's start, campaign and cost, and what the right one has earned."""
Rows = Sequence[tuple[str, str, int]]
HOURS: Sequence[tuple[Rows, Rows]] = [
    ([("09:02", "spring", 30), ("09:11", "shoes", 20)], [("09:07", "spring", 45)]),
    ([("09:14", "spring", 5), ("09:26", "shoes", 10)], [("09:13", "spring", 60), ("09:31", "shoes", 80)]),
    ([("09:40", "spring", 15), ("09:58", "shoes", 10)], [("09:29", "shoes", 70), ("09:57", "spring", 40)]),
]


def main() -> None:
    with tidegate.local() as client, client.create_task(profits(), mode="continuous", channels=2) as task:
        for ads, checkouts in HOURS:
            epoch = task.run_epoch({"ads": table(ads, "cost"), "checkouts": table(checkouts, "price")})
            print(f"epoch {epoch.number}")
            for start, campaign, cost, earned in zip(
                *(epoch.table().column(at).to_pylist() for at in WANTED), strict=True
            ):
                print(f"  {start:%H:%M} {campaign}: {earned or 0} - {cost} = {(earned or 0) - cost}")


def profits() -> bytes:
    joined = windows.interval_join(
        per_quarter("ads", "cost", "cost"),
        per_quarter("checkouts", "price", "earned"),
        "window_start",
        keys=["campaign"],
        how="left",
        final=True,
    )
    return bytes(joined.to_plan().SerializeToString())


def per_quarter(source: str, column: str, total: str) -> sub.DataFrame:
    columns = {"at": sub.precision_timestamp(6), "campaign": sub.string, column: sub.i64}
    rows = windows.watermark(sub.read_named_table(source, columns), "at", LATE)
    measures = [sub.f.sum(sub.col(column)).alias(total)]
    return windows.tumbling(rows, "at", QUARTER, keys=["campaign"], measures=measures, final=True)


def table(rows: Rows, column: str) -> pa.Table:
    times, campaigns, numbers = zip(*rows, strict=True)
    at = [datetime.fromisoformat(f"2026-05-01 {time}") for time in times]
    return pa.table({"at": pa.array(at, pa.timestamp("us")), "campaign": campaigns, column: numbers})


if __name__ == "__main__":
    main()
