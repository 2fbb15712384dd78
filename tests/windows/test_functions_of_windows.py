"""Windows with different functions in one plan: functions in their details have the numbers of the whole plan."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import substrait.dataframe as sub

import tidegate
from tidegate import windows

ROWS = pa.table({"t": [1, 2, 3], "v": [5, 7, 1]})


def per_ten(function: Any, rows: Any = None, column: str = "v") -> Any:
    rows = sub.read_named_table("events", {"t": sub.i64, "v": sub.i64}) if rows is None else rows
    time = "t" if column == "v" else "window_start"
    return windows.tumbling(rows, time, 10, measures=[function(sub.col(column)).alias("x")])


def values(client: tidegate.Client, frame: Any) -> list[Any]:
    with client.create_task(frame.to_plan()) as task:
        table = task.run_epoch({"events": ROWS}).table()
    return sorted(
        value for at, name in enumerate(table.column_names) if name == "x" for value in table.column(at).to_pylist()
    )


def test_windows_of_two_functions_are_joined(client: tidegate.Client) -> None:
    above = sub.read_named_table("events", {"t": sub.i64, "v": sub.i64}).filter(sub.col("v") > sub.lit(1))
    for left, x in ((per_ten(sub.f.sum), 13), (per_ten(sub.f.min, above), 5)):
        joined = windows.interval_join(left, per_ten(sub.f.min), "window_start")
        assert values(client, joined) == [1, x]
        as_of = windows.as_of_join(per_ten(sub.f.max), left, "window_start")
        assert values(client, as_of) == sorted([7, x])


def test_windows_over_windows_are_one_side_of_a_union(client: tidegate.Client) -> None:
    twice = per_ten(sub.f.max, per_ten(sub.f.min), "x")
    assert values(client, per_ten(sub.f.sum).union(twice)) == [1, 13]
    assert values(client, windows.interval_join(per_ten(sub.f.sum), twice, "window_start")) == [1, 13]
