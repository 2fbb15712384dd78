"""A stream of 30 days, with new keys every day: the state of final windows and joins is that of the hours in the
watermark's reach, and not that of the days so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate import windows

HOUR: Final = timedelta(hours=1)
DAYS: Final = 30
ROWS: Final = 3_000
"""The rows of a source a day. Operators keep up to 8,192 rows before they let go of any."""
COUNT: Final = sub.f.count().alias("rows")
DIFFERENT: Final = sub.f.count(sub.col("v")).distinct().alias("different")


def source(name: str) -> Any:
    rows = sub.read_named_table(name, {"t": sub.precision_timestamp(6), "k": sub.string, "v": sub.i64})
    return windows.watermark(rows, "t", HOUR)


def hourly(name: str, measure: Any = COUNT) -> Any:
    return windows.tumbling(source(name), "t", HOUR, keys=["k"], measures=[measure], final=True)


def sliding() -> Any:
    measures = [COUNT, sub.f.min(sub.col("v")).alias("least")]
    return windows.sliding(source("a"), "t", 6 * HOUR, HOUR, keys=["k"], measures=measures, final=True)


def joined(how: str) -> Any:
    return windows.interval_join(source("a"), source("b"), "t", after=HOUR, keys=["k"], how=how, final=True)


PLANS: Final[Mapping[str, Callable[[], Any]]] = {
    "numbers of slices": sliding,
    "rows of windows": lambda: hourly("a", DIFFERENT),
    "sessions": lambda: windows.session(source("a"), "t", HOUR, keys=["k"], measures=[COUNT], final=True),
    "distinct": lambda: windows.distinct(source("a"), "t", HOUR, keys=["k"]),
    "outer join": lambda: joined("outer"),
    "as-of join": lambda: windows.as_of_join(source("a"), source("b"), "t", keys=["k"], tolerance=6 * HOUR, final=True),
    "joined windows": lambda: windows.interval_join(
        hourly("a"), hourly("b"), "window_start", keys=["k"], how="left", final=True
    ),
    "windows of windows": lambda: windows.tumbling(
        hourly("a"), "window_start", 24 * HOUR, keys=["k"], measures=[COUNT], final=True
    ),
    "groups of rows on time": lambda: windows.on_time(source("a"), "t").group_by("t", "k").agg(COUNT),
}


def rows_of(day: int, name: str) -> pa.Table:
    """The rows of a day, up to an hour out of order, with keys that no other day has."""
    random = np.random.default_rng([day, ord(name)])
    micros = np.sort(random.integers(0, 86_400_000_000, ROWS)) - random.integers(0, 3_600_000_000, ROWS)
    times = pa.array(micros + day * 86_400_000_000, pa.timestamp("us"))
    keys = [f"{day}: {number}" for number in random.integers(0, 500, ROWS)]
    return pa.table({"t": times, "k": keys, "v": random.integers(0, 100, ROWS)})


@pytest.mark.parametrize("name", PLANS)
def test_the_state_of_a_month_is_no_more_than_that_of_its_first_days(client: tidegate.Client, name: str) -> None:
    plan = PLANS[name]().to_plan()
    assert not client.warnings(plan, mode="continuous")
    states = []
    with client.create_task(plan, mode="continuous") as task:
        for day in range(DAYS):
            task.run_epoch({source_name: rows_of(day, source_name) for source_name in task.sources}).table()
            states.append(sum(operator.state_bytes for operator in task.statistics().operators))
    assert max(states[15:]) <= 1.3 * max(states[5:15])
