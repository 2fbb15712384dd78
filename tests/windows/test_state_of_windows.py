"""The state of operators on windows and of joins by time, as `explain`, statistics and warnings name it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate import windows

COUNT = sub.f.count().alias("rows")


def marked(name: str = "events") -> Any:
    return windows.watermark(sub.read_named_table(name, {"t": sub.i64, "k": sub.string}), "t")


def continuous(client: tidegate.Client, frame: Any) -> tidegate.Task:
    return client.create_task(frame.to_plan(), mode="continuous")


@pytest.mark.parametrize("whole", [True, False])
def test_explain_says_what_statistics_say_of_the_state_of_sources_and_operators(
    client: tidegate.Client, whole: bool
) -> None:
    frame = windows.sliding(marked(), "t", 10, 5, keys=["k"], measures=[COUNT], final=True)
    if whole:
        frame = frame.select("rows").union(marked().group_by("k").agg(COUNT).select("rows"))
    explained = json.loads(client.explain(frame.to_plan(), mode="continuous").json)
    said = {(operator["keeps"], operator["bound"] or "") for operator in explained["operators"]}
    with continuous(client, frame) as task:
        measured = {(operator.keeps, operator.bound) for operator in task.statistics().operators}
    assert ("a hash of each row", "" if whole else "that is not late for all readers") in said
    assert said == measured


def test_a_warning_names_all_that_stays_for_ever_at_a_place(client: tidegate.Client) -> None:
    session = windows.session(marked(), "t", 10, measures=[COUNT])
    (warned,) = client.warnings(session.to_plan(), mode="continuous")
    assert "the task keeps numbers of groups, and rows in order with their answers for ever" in warned


@pytest.mark.parametrize("keys", [[], ["k"]])
def test_an_as_of_join_keeps_one_right_row_for_ever_for_each_key(client: tidegate.Client, keys: list[str]) -> None:
    left, right = (marked(name) for name in ("events", "others"))
    joined = windows.as_of_join(left, right, "t", keys=keys, final=True)
    warned = client.warnings(joined.to_plan(), mode="continuous")
    assert ["the latest right row of each key for ever" in warning for warning in warned] == [True] * len(keys)
    assert all("With a tolerance, the task lets go" in warning for warning in warned)
    sizes = []
    with continuous(client, joined) as task:
        for first in range(0, 20_000, 1_000):
            times = range(first, first + 1_000)
            table = pa.table({"t": [*times], "k": [f"{at}" for at in times]})
            task.run_epoch({"events": table.slice(0, 1), "others": table})
            (as_of,) = (one for one in task.statistics().operators if one.operator == "FinalAsOf")
            sizes.append(as_of.state_bytes)
    assert as_of.bound == ("" if keys else "of one group")
    assert (sizes[-1] > 5 * sizes[0]) == bool(keys)
