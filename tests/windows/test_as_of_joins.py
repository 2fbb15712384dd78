"""As-of joins, against plain Python that looks through all earlier rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import substrait.dataframe as sub
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from substrait.algebra_pb2 import Expression, Rel
from substrait.builders import type as type_

import tidegate
from tidegate import windows

from ..searching import search, tries
from .naive import Row
from .running import SEVERAL, TIMES, Time
from .test_interval_joins import INTEGERS, ROW, TimeJoin, changes_of, cut, final_answers, rows_of, table


@dataclass(frozen=True)
class AsOf(TimeJoin):
    """An as-of join."""

    how: str
    tolerance: int | None

    def plan(self, time: Time = INTEGERS, *, final: bool = False) -> Any:
        columns = {"t": time.plan, "k": sub.string, "v": sub.i64}
        sides = [sub.read_named_table(name, columns) for name in ("l", "r")]
        more: dict[str, Any] = {} if self.tolerance is None else {"tolerance": time.span(self.tolerance)}
        if final:
            marked = zip(sides, self.delays, strict=True)
            sides = [windows.watermark(side, "t", time.span(delay)) for side, delay in marked]
            more |= {"final": True, "lateness": time.span(self.lateness)}
        return windows.as_of_join(*sides, "t", keys=["k"] if self.keyed else [], how=self.how, **more).to_plan()

    def answers(self, left: Sequence[Row], right: Sequence[Row]) -> Counter[Row]:
        """The join of rows that have a time, one left row after the other."""
        answers: Counter[Row] = Counter()
        for row in left:
            if row[0] is None:
                continue
            earlier = [other for other in right if self._matches(row, other)]
            last = max(earlier, key=lambda other: (other[0], other[1] is None, other[1] or "", other[2]), default=None)
            if last is not None or self.how == "left":
                answers[(*row, *(last or (None,) * 3))] += 1
        return answers

    def _matches(self, left: Row, right: Row) -> bool:
        if right[0] is None or (self.keyed and (left[1] is None or left[1] != right[1])):
            return False
        return bool(right[0] <= left[0] and (self.tolerance is None or left[0] - right[0] <= self.tolerance))


PAIR = st.tuples(st.integers(0, 9), st.integers(0, 5))
ENDS = (-(2**63), 2**63 - 1)
"""The times between which all others lie."""

AS_OF = st.builds(
    AsOf,
    how=st.sampled_from(["left", "inner"]),
    tolerance=st.none() | st.integers(0, 20),
    lateness=st.integers(0, 4),
    delays=st.tuples(st.integers(0, 10), st.integers(0, 10)),
    keyed=st.booleans(),
)


@pytest.mark.parametrize("channels", [1, 2])
@settings(max_examples=tries(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(as_of=AS_OF, left=st.lists(ROW, max_size=12), right=st.lists(ROW, max_size=12))
def test_latest_rows_of_an_epoch(
    client: tidegate.Client, channels: int, as_of: AsOf, left: list[Row], right: list[Row]
) -> None:
    with client.create_task(as_of.plan(), **SEVERAL[channels]) as task:
        answer = task.run_epoch({"l": table(left), "r": table(right)}).table()
    assert rows_of(answer) == as_of.answers(left, right)


@settings(max_examples=tries(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(as_of=AS_OF, left=st.lists(ROW, max_size=12), right=st.lists(ROW, max_size=12), at=st.integers(0, 12))
def test_changes_add_up_to_the_join(
    client: tidegate.Client, as_of: AsOf, left: list[Row], right: list[Row], at: int
) -> None:
    with client.create_task(as_of.plan(), mode="continuous") as task:
        first = task.run_epoch({"l": table(left[at:]), "r": table(right[:at])}).table()
        second = task.run_epoch({"l": table(left[:at]), "r": table(right[at:])}).table()
    counts = changes_of(first)
    counts.update(changes_of(second))
    assert +counts == as_of.answers(left, right)
    assert not -counts


@pytest.mark.parametrize("channels", [1, 2])
@settings(max_examples=tries(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    as_of=AS_OF,
    left=st.lists(ROW, max_size=20),
    right=st.lists(ROW, max_size=20),
    cuts=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=4),
)
def test_a_final_join_is_the_join_of_rows_on_time_however_it_is_cut(
    client: tidegate.Client,
    channels: int,
    as_of: AsOf,
    left: list[Row],
    right: list[Row],
    cuts: list[tuple[int, int]],
) -> None:
    sides = [cut(rows, [pair[side] for pair in cuts]) for side, rows in enumerate((left, right))]
    counts: Counter[Row] = Counter()
    for epoch in final_answers(client, as_of, sides, channels):
        own = changes_of(epoch)
        assert all(weight > 0 for weight in own.values())
        counts += own
    assert counts == as_of.answers(as_of.on_time(left, 0), as_of.on_time(right, 1))


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
@pytest.mark.parametrize("tolerance", [0, 7, 2**62 - 1])
def test_times_at_both_ends_are_compared_as_others_are(client: tidegate.Client, mode: str, tolerance: int) -> None:
    left = [(at, "a", 1) for at in (ENDS[0], ENDS[0] + 7, 0, ENDS[1] - 7, ENDS[1])]
    right = [(at, "a", 2) for at in (ENDS[0], -5, ENDS[1] - 7)]
    as_of = AsOf("left", tolerance)
    with client.create_task(as_of.plan(), mode=mode) as task:
        answer = task.run_epoch({"l": table(left), "r": table(right)}).table()
    counted = rows_of(answer) if mode == "per_epoch" else changes_of(answer)
    assert counted == as_of.answers(left, right)


@pytest.mark.parametrize("rows", [[], [(0, "a", 2)], [(ENDS[1], "a", 2)]], ids=["none", "earlier", "the same time"])
def test_a_final_join_gives_the_row_of_the_greatest_time_when_the_sources_end(
    client: tidegate.Client, rows: list[Row]
) -> None:
    as_of, left = AsOf("left", None), [(0, "a", 1), (ENDS[1], "a", 1)]
    [answer] = final_answers(client, as_of, [[left], [rows]], 1)
    assert changes_of(answer) == as_of.answers(left, rows)


@pytest.mark.parametrize("time", TIMES.values(), ids=TIMES)
def test_every_kind_of_time(client: tidegate.Client, time: Time) -> None:
    left, right = [(10, "a", 1), (20, "a", 2)], [(8, "a", 3), (10, "a", 4), (10, "a", 5), (12, "a", 6), (20, "b", 7)]
    with client.create_task(AsOf("left", 5).plan(time)) as task:
        answer = task.run_epoch({"l": table(left, time), "r": table(right, time)}).table()
    assert sorted(zip(*(answer.column(at).to_pylist() for at in (2, 5)), strict=True)) == [(1, 5), (2, None)]


def test_a_row_comes_when_no_earlier_row_can_come(client: tidegate.Client) -> None:
    with client.create_task(AsOf("left", None).plan(final=True), mode="continuous") as task:
        epochs = [
            task.run_epoch({"l": table([(left, "a", left)]), "r": table([(right, "a", right)])}).table()
            for left, right in ((5, 3), (7, 5), (9, 8), (30, 31))
        ]
    assert [changes_of(epoch) for epoch in epochs] == [
        {},
        {},
        {(5, "a", 5, 5, "a", 5): 1, (7, "a", 7, 5, "a", 5): 1},
        {(9, "a", 9, 8, "a", 8): 1},
    ]


@pytest.mark.parametrize("left", [2, 40], ids=["a row that it may match", "no such row"])
def test_a_deletion_on_time_of_a_row_that_is_late_fails(client: tidegate.Client, left: int) -> None:
    rows = table([(1, "a", 1), (3, "a", 1), (30, "a", 1), (3, "a", 1)])
    wrong = rows.append_column("_weight", pa.array([1, -1, 1, 1], pa.int64()))
    fed = {"l": table([(left, "a", 1), (40, "a", 1)]), "r": tidegate.Changes(wrong)}
    failed = pytest.raises(tidegate.TaskFailed, match="deleted on time, but its insertion came later")
    with client.create_task(AsOf("left", None).plan(final=True), mode="continuous") as task, failed:
        task.run_epoch(fed)


def test_the_task_goes_on_from_a_checkpoint(tmp_path: Any) -> None:
    as_of = AsOf("left", None, delays=(2, 2))
    left = [(at, "ab"[at % 2], at) for at in range(30)]
    right = [(at, "ab"[at % 2], at) for at in range(5)] + [(29, "b", 29)]
    sides = [cut(left, [10, 20]), cut(right, [5, 6])]
    epochs, taken = [], None
    with tidegate.local(checkpoint_root=str(tmp_path)) as client:
        expected = final_answers(client, as_of, sides, 1)
        for mine, theirs in list(zip(*sides, strict=True))[:-1]:
            with client.create_task(as_of.plan(final=True), mode="continuous", restore=taken) as task:
                epoch = task.run_epoch({"l": table(mine), "r": table(theirs)}, checkpoint=True)
                epochs.append(changes_of(epoch.table()))
                taken = epoch.checkpoint
    assert epochs == [changes_of(epoch) for epoch in expected[:2]]
    assert (15, "b", 15, 3, "b", 3) in epochs[1]


def test_state_is_the_latest_row_of_each_key(client: tidegate.Client) -> None:
    sizes = []
    with client.create_task(AsOf("left", None).plan(final=True), mode="continuous") as task:
        for start in range(0, 80_000, 4_000):
            rows = [(at, "ab"[at % 2], at) for at in range(start, start + 4_000)]
            task.run_epoch({"l": table(rows), "r": table(rows[::2])}).table()
            sizes.append(sum(operator.state_bytes for operator in task.statistics().operators))
    assert max(sizes[10:]) <= 1.2 * max(sizes[:10])


def test_explain_and_refusals(client: tidegate.Client) -> None:
    text = str(client.explain(AsOf("left", 3).plan(final=True), mode="continuous"))
    assert "as-of join on c2 = c2, at most 3 earlier, keeps open rows and the latest row of each key" in text
    sides = [sub.read_named_table(name, {"t": sub.i64}) for name in ("l", "r")]
    [problem] = client.validate(windows.as_of_join(*sides, "t", tolerance=-1).to_plan())
    assert problem.reason == "WRONG_SPAN"
    with pytest.raises(tidegate.InvalidRequest, match="one of inner, left, not 'outer'"):
        windows.as_of_join(*sides, "t", how="outer")


def test_pruned_columns_still_order_rows_of_one_time(client: tidegate.Client) -> None:
    """Which of two rows of one time is the latest does not depend on the columns that are read."""
    right = sub.read_named_table("r", {"t": sub.i64, "first": sub.i64, "second": sub.i64})
    joined = windows.as_of_join(sub.read_named_table("l", {"t": sub.i64}), right, "t").select("second")
    rows = {"l": pa.table({"t": [5]}), "r": pa.table({"t": [3, 3], "first": [2, 1], "second": [10, 20]})}
    with client.create_task(joined.to_plan()) as task:
        assert task.run_epoch(rows).table().column(0).to_pylist() == [10]


@settings(max_examples=tries(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(left=st.lists(PAIR, max_size=12), right=st.lists(PAIR, max_size=12))
def test_a_join_in_a_subquery(
    client: tidegate.Client, left: list[tuple[int, int]], right: list[tuple[int, int]]
) -> None:
    """Left rows whose value is the latest right value of some left row."""
    latest = {max(earlier)[1] for time, _ in left if (earlier := [row for row in right if row[0] <= time])}
    rows = {
        name: pa.table(
            [[row[at] for row in fed] for at in (0, 1)], schema=pa.schema({"t": pa.int64(), name: pa.int64()})
        )
        for name, fed in (("l", left), ("r", right))
    }
    with client.create_task(in_a_subquery()) as task:
        answer = task.run_epoch(rows).table()
    assert Counter(zip(*(column.to_pylist() for column in answer.columns), strict=True)) == Counter(
        row for row in left if row[1] in latest
    )


def in_a_subquery() -> Any:
    """The left rows for which the as-of join has a row with their value."""
    left, right = (sub.read_named_table(name, {"t": sub.i64, name: sub.i64}) for name in ("l", "r"))
    written = windows.as_of_join(left, right, "t").filter(sub.col("r") == sub.col("l")).to_plan()
    root = written.relations[-1].root
    inner = Rel()
    inner.CopyFrom(root.input)
    inner.filter.condition.scalar_function.arguments[1].value.selection.outer_reference.steps_out = 1
    outer = Rel()
    outer.filter.input.CopyFrom(inner.filter.input.extension_multi.inputs[0])
    subquery = outer.filter.condition.subquery.set_predicate
    subquery.predicate_op = Expression.Subquery.SetPredicate.PREDICATE_OP_EXISTS
    subquery.tuples.CopyFrom(inner)
    root.input.CopyFrom(outer)
    del root.names[2:]
    return written


@pytest.mark.parametrize("how", ["left", "inner"])
def test_more_rows_than_fit_into_memory_are_joined(client: tidegate.Client, how: str) -> None:
    """Each value, and each null, is that of the latest row."""
    random = np.random.default_rng(7)
    left, right = (
        pa.table(
            {
                "t": random.permutation(4 * rows)[:rows],
                "k": random.integers(0, 100, rows),
                "n": pa.array(random.integers(0, 9, rows), mask=random.random(rows) < 0.3),
                "s": pa.array([f"{at}{'x' * (at % 20)}" if at % 3 else None for at in range(rows)]),
                "m": pa.array([[at, None] if at % 5 else None for at in range(rows)], pa.list_(pa.int64())),
            }
        )
        for rows in (50_000, 200_000)
    )
    types = {"t": sub.i64, "k": sub.i64, "n": sub.i64, "s": sub.string, "m": type_.list(type_.i64())}
    assert different_rows(client, types, left, right, how, 32 << 20) == [0, 0]


@search
@pytest.mark.parametrize(("lefts", "rights"), [(9_000_000, 2_000_000), (3_000_000, 3_000_000)])
def test_millions_of_rows_are_joined_in_little_memory(client: tidegate.Client, lefts: int, rights: int) -> None:
    random, keys = np.random.default_rng(8), 100
    left, right = (
        {"t": random.permutation(4 * rows)[:rows], "k": random.integers(0, keys, rows), "n": np.arange(rows)}
        for rows in (lefts, rights)
    )
    types = {"t": sub.i64, "k": sub.i64, "n": sub.i64}
    plan = windows.as_of_join(*(sub.read_named_table(name, types) for name in "lr"), "t", keys=["k"]).to_plan()
    with client.create_task(plan, memory_limit=64 << 20) as task:
        answer = task.run_epoch({"l": pa.table(left), "r": pa.table(right)}).table()
    span = 4 * max(lefts, rights)
    ordered = np.argsort(right["k"] * span + right["t"])
    at = np.searchsorted((right["k"] * span + right["t"])[ordered], left["k"] * span + left["t"], side="right") - 1
    expected = np.where((at >= 0) & (right["k"][ordered[at]] == left["k"]), right["n"][ordered[at]], -1)
    mine, theirs = answer.column(2).to_numpy(), pc.fill_null(answer.column(5), -1).to_numpy()
    assert np.array_equal(np.sort(mine), left["n"])
    assert np.array_equal(theirs, expected[mine])


def different_rows(
    client: tidegate.Client, types: dict[str, Any], left: pa.Table, right: pa.Table, how: str, memory_limit: int
) -> list[int]:
    """The numbers of rows that only the task gives, and that only DuckDB's own join gives."""
    sides = [sub.read_named_table(name, types) for name in ("l", "r")]
    plan = windows.as_of_join(*sides, "t", keys=["k"], how=how).to_plan()
    with client.create_task(plan, memory_limit=memory_limit) as task:
        answer = task.run_epoch({"l": left, "r": right}).table()
    connection = duckdb.connect()
    for name, rows in (("l", left), ("r", right)):
        connection.register(name, rows)
    own = connection.sql(f"SELECT * FROM l ASOF {how} JOIN r ON l.k = r.k AND l.t >= r.t").to_arrow_table()
    names = [f"c{at}" for at in range(answer.num_columns)]
    connection.register("answer", answer.rename_columns(names))
    connection.register("own", own.rename_columns(names))
    differences = [
        f"(SELECT count(*) FROM (FROM {one} EXCEPT ALL FROM {other}))"
        for one, other in (("answer", "own"), ("own", "answer"))
    ]
    return list(connection.sql(f"SELECT {', '.join(differences)}").fetchall()[0])
