"""One key that has all of very many rows: a change costs the rows that it can reach, by counter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate import windows

from .histories import planned

ROWS: Final = 250_000
FEW: Final = 1_000
"""Rows that may be looked at for a change of two."""
SCHEMA: Final = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
WINDOW: Final = "OVER (PARTITION BY k ORDER BY v)"
MIDDLE: Final = ROWS
"""The order's value of the row in the middle; values are even."""
TOP: Final = f"SELECT k, v, s FROM (SELECT k, v, s, row_number() {WINDOW} AS n FROM t) AS x WHERE n <= 10"


@pytest.mark.parametrize(
    ("sql", "before", "after", "expected"),
    [
        (
            f"SELECT v, s, row_number() {WINDOW} AS n FROM t",
            (1, MIDDLE, "a"),
            (1, MIDDLE, "b"),
            [(MIDDLE, "a", ROWS // 2 + 1, -1), (MIDDLE, "b", ROWS // 2 + 1, 1)],
        ),
        (
            f"SELECT v, s, rank() {WINDOW} AS n FROM t",
            (1, 2 * ROWS - 2, "a"),
            (1, 2 * ROWS, "a"),
            [(2 * ROWS - 2, "a", ROWS, -1), (2 * ROWS, "a", ROWS, 1)],
        ),
        (
            f"SELECT v, lag(v) {WINDOW} AS n FROM t",
            (1, MIDDLE, "a"),
            (1, MIDDLE + 1, "a"),
            [
                (MIDDLE, MIDDLE - 2, -1),
                (MIDDLE + 1, MIDDLE - 2, 1),
                (MIDDLE + 2, MIDDLE, -1),
                (MIDDLE + 2, MIDDLE + 1, 1),
            ],
        ),
        (TOP, (1, 4, "a"), (1, 5, "a"), [(1, 4, "a", -1), (1, 5, "a", 1)]),
        (TOP, (1, 4, "a"), (1, MIDDLE + 1, "a"), [(1, 4, "a", -1), (1, 20, "a", 1)]),
        ("SELECT v, s FROM t ORDER BY v LIMIT 10", (1, 4, "a"), (1, 5, "a"), [(4, "a", -1), (5, "a", 1)]),
        (
            "SELECT k, max(v) AS m FROM t GROUP BY k",
            (1, 2 * ROWS - 2, "a"),
            (1, 7, "a"),
            [(1, 2 * ROWS - 4, 1), (1, 2 * ROWS - 2, -1)],
        ),
    ],
    ids=["row_number", "rank", "lag", "top 10", "top 10, one leaves", "limit", "max"],
)
def test_a_change_touches_what_it_reaches_of_one_large_key(
    sql: str, before: tuple[object, ...], after: tuple[object, ...], expected: Sequence[tuple[object, ...]]
) -> None:
    order = np.random.default_rng(3).permutation(ROWS) * 2
    rows = pa.table({"k": np.ones(ROWS, np.int64), "v": order, "s": ["a"] * ROWS}, SCHEMA)
    change = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in (before, after)], SCHEMA)
    with (
        tidegate.local(roots=()) as client,
        client.create_task(planned(sql, {"t": SCHEMA}), mode="continuous") as task,
    ):
        task.run_epoch({"t": rows}).table()
        at_first = touched(task)
        given_out = task.run_epoch({"t": tidegate.Changes(change.append_column("w", pa.array([-1, 1])), column="w")})
        out = given_out.table().to_pylist()
        assert touched(task) - at_first <= FEW
    assert at_first >= ROWS
    assert sorted(tuple(row.values()) for row in out) == sorted(expected)


def touched(task: tidegate.Task) -> int:
    return sum(operator.rows_touched for operator in task.statistics().operators)


def test_a_late_right_row_touches_the_left_rows_between_it_and_the_next() -> None:
    """In an as-of join whose right rows all have one key."""
    columns = {"at": sub.i64, "k": sub.i64}
    left, right = (sub.read_named_table(name, columns) for name in ("l", "r"))
    plan = windows.as_of_join(left, right, "at", keys=["k"]).to_plan()
    times = np.random.default_rng(4).permutation(ROWS) * 2
    rows = {"at": times, "k": np.ones(ROWS, np.int64)}
    left_rows = pa.table({**rows, "at": times + 1})
    late = tidegate.Changes(pa.table({"at": [MIDDLE + 1], "k": [1], "w": [1]}), column="w")
    with tidegate.local(roots=()) as client, client.create_task(plan, mode="continuous") as task:
        task.run_epoch({"l": left_rows, "r": pa.table(rows)}).table()
        at_first = touched(task)
        out = task.run_epoch({"r": late}).table()
        assert touched(task) - at_first <= FEW
    assert sorted(zip(*(column.to_pylist() for column in out.columns), strict=True)) == [
        (MIDDLE + 1, 1, MIDDLE, 1, -1),
        (MIDDLE + 1, 1, MIDDLE + 1, 1, 1),
    ]
