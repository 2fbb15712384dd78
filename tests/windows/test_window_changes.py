"""Windows of time in continuous tasks: the sum of all changes is the windows of the sum of the input."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidegate

from ..searching import tries
from .naive import MEASURES, WHOLE, Row, Spans, windows
from .running import TIMES, events, plan, rows_of

ROWS = st.lists(st.tuples(st.integers(-20, 20), st.sampled_from([None, "a", "b"]), st.integers(-3, 3)), max_size=15)


@settings(max_examples=tries(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    epochs=st.lists(st.tuples(ROWS, st.integers(0, 5)), min_size=1, max_size=3),
    spans=st.builds(Spans, st.integers(1, 9), st.integers(1, 9), st.integers(0, 9)),
    measures=st.lists(st.sampled_from(sorted({**MEASURES, **WHOLE})), unique=True, min_size=1, max_size=2),
    channels=st.sampled_from([1, 2]),
)
def test_changes_add_up_to_the_windows(
    client: tidegate.Client, epochs: list[tuple[list[Row], int]], spans: Spans, measures: list[str], channels: int
) -> None:
    kind = TIMES["i64"]
    present: list[Row] = []
    total: Counter[Row] = Counter()
    with client.create_task(plan(kind, spans, ["k"], measures), mode="continuous", channels=channels) as task:
        for rows, deleted in epochs:
            gone, present = present[:deleted], present[deleted:] + rows
            weights = [1] * len(rows) + [-1] * len(gone)
            changes = events(kind, [*rows, *gone]).append_column("_weight", pa.array(weights, pa.int64()))
            answer = task.run_epoch({"events": tidegate.Changes(changes)}).table()
            for *row, weight in rows_of(kind, answer):
                total[tuple(row)] += weight
            functions = [{**MEASURES, **WHOLE}[name][1] for name in measures]
            assert +total == Counter(windows(present, spans, [1], functions))


def test_windows_of_very_many_slices_are_computed_again(client: tidegate.Client) -> None:
    kind = TIMES["seconds"]
    windowed = plan(kind, Spans(3_600, 1), ["k"], ["sum"])
    assert "a row is in more than 1,000 windows" in client.explain(windowed, mode="continuous").text
    with client.create_task(windowed, mode="continuous") as task:
        assert task.run_epoch({"events": events(kind, [(0, "a", 1)])}).table().num_rows == 3_600
        assert task.run_epoch({"events": events(kind, [(3_600, "a", 1)])}).table().num_rows == 3_600
