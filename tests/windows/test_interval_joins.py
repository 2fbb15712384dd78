"""Joins of rows whose times are near each other, against plain Python that compares every pair."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pytest
import substrait.dataframe as sub
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidegate
from tidegate import windows
from tidegate.relations import Span

from ..searching import tries
from .naive import Row
from .running import SEVERAL, TIMES, Time

TYPES = ("inner", "left", "right", "outer", "left_semi", "left_anti", "right_semi", "right_anti")
INTEGERS = TIMES["i64"]
ROW = st.tuples(st.one_of(st.none(), st.integers(-30, 60)), st.sampled_from([None, "a", "b"]), st.integers(0, 3))


@dataclass(frozen=True, kw_only=True)
class TimeJoin(ABC):
    """A join in ticks, of sources whose watermarks have delays."""

    lateness: int = 0
    delays: tuple[int, int] = (0, 0)
    keyed: bool = True

    @abstractmethod
    def plan(self, time: Time = INTEGERS, *, final: bool = False) -> Any: ...

    def on_time(self, rows: Sequence[Row], side: int) -> list[Row]:
        """The rows of a source that are not late, each row an object of its own."""
        greatest: int | None = None
        on_time = []
        for row in rows:
            if row[0] is not None:
                greatest = row[0] if greatest is None else max(greatest, row[0])
                if row[0] + self.lateness >= greatest - self.delays[side]:
                    on_time.append(row)
        return on_time


@dataclass(frozen=True)
class Near(TimeJoin):
    """An interval join."""

    type: str
    before: int
    after: int

    def plan(self, time: Time = INTEGERS, *, final: bool = False) -> Any:
        columns = {"t": time.plan, "k": sub.string, "v": sub.i64}
        sides = [sub.read_named_table(name, columns) for name in ("l", "r")]
        more: dict[str, Any] = {}
        if final:
            marked = zip(sides, self.delays, strict=True)
            sides = [windows.watermark(side, "t", time.span(delay)) for side, delay in marked]
            more = {"final": True, "lateness": time.span(self.lateness)}
        spans = {"before": time.span(self.before), "after": time.span(self.after)}
        keys = ["k"] if self.keyed else []
        return windows.interval_join(*sides, "t", **spans, keys=keys, how=self.type, **more).to_plan()

    def answers(self, left: Sequence[Row], right: Sequence[Row]) -> Counter[Row]:
        """The join of rows that have a time, pair by pair."""
        lefts, rights = ([row for row in side if row[0] is not None] for side in (left, right))
        pairs = [(mine, theirs) for mine in lefts for theirs in rights if self._matches(mine, theirs)]
        matched = [{id(pair[side]) for pair in pairs} for side in (0, 1)]
        nulls = (None,) * 3
        if self.type in ("left_semi", "left_anti", "right_semi", "right_anti"):
            side = int(self.type.startswith("right"))
            wanted = self.type.endswith("semi")
            return Counter(row for row in (lefts, rights)[side] if (id(row) in matched[side]) is wanted)
        answers = [(*mine, *theirs) for mine, theirs in pairs]
        if self.type in ("left", "outer"):
            answers += [(*row, *nulls) for row in lefts if id(row) not in matched[0]]
        if self.type in ("right", "outer"):
            answers += [(*nulls, *row) for row in rights if id(row) not in matched[1]]
        return Counter(answers)

    def _matches(self, left: Row, right: Row) -> bool:
        keys = not self.keyed or (left[1] is not None and left[1] == right[1])
        return bool(keys and left[0] - self.before <= right[0] <= left[0] + self.after)


NEAR = st.builds(
    Near,
    type=st.sampled_from(TYPES),
    before=st.integers(-4, 12),
    after=st.integers(4, 12),
    lateness=st.integers(0, 4),
    delays=st.tuples(st.integers(0, 10), st.integers(0, 10)),
    keyed=st.booleans(),
) | st.builds(Near, type=st.sampled_from(TYPES), before=st.just(0), after=st.just(0))


def table(rows: Sequence[Row], time: Time = INTEGERS) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.table(
        {"t": time.array(columns[0]), "k": pa.array(columns[1], pa.string()), "v": pa.array(columns[2], pa.int64())}
    )


def rows_of(answer: pa.Table) -> Counter[Row]:
    return Counter(zip(*(column.to_pylist() for column in answer.columns), strict=True))


def changes_of(answer: pa.Table) -> Counter[Row]:
    counts: Counter[Row] = Counter()
    for *row, weight in zip(*(column.to_pylist() for column in answer.columns), strict=True):
        counts[tuple(row)] += weight
    return counts


def cut(rows: Sequence[Row], cuts: Sequence[int]) -> list[Sequence[Row]]:
    positions = sorted(position % (len(rows) + 1) for position in cuts)
    return [rows[first:last] for first, last in pairwise([0, *positions, len(rows)])]


def final_answers(client: tidegate.Client, join: TimeJoin, sides: Sequence[Sequence[Any]], channels: int) -> list[Any]:
    """The answers of each epoch; both sources have as many parts, and the last ones end them."""
    with client.create_task(join.plan(final=True), mode="continuous", channels=channels) as task:
        epochs = [
            task.run_epoch({"l": table(left), "r": table(right)}).table()
            for left, right in list(zip(*sides, strict=True))[:-1]
        ]
        for name, parts in zip(("l", "r"), sides, strict=True):
            task.add_split(name, table(parts[-1]))
        task.no_more_splits()
        return [*epochs, *(epoch.table() for epoch in task.epochs())]


@pytest.mark.parametrize("how", TYPES)
@pytest.mark.parametrize("rights", [[], [0], [2**63 - 1]], ids=["none", "earlier", "the same time"])
def test_a_final_join_gives_the_row_of_the_greatest_time_when_the_sources_end(
    client: tidegate.Client, how: str, rights: list[int]
) -> None:
    near = Near(how, 0, 0)
    left, right = [(at, "a", 1) for at in (0, 2**63 - 1)], [(at, "a", 2) for at in rights]
    [answer] = final_answers(client, near, [[left], [right]], 1)
    assert changes_of(answer) == near.answers(left, right)


ENDS: Final[Sequence[Row]] = [
    (end + by, "a", by) for end, step in ((-(2**63), 1), (2**63 - 1, -1)) for by in range(0, 9 * step, step)
]


@pytest.mark.parametrize("mode", ["per_epoch", "continuous", "final", "final per epoch"])
@pytest.mark.parametrize("spans", [(7, 7), (-3, 5), (5, -3), (0, 2**61)], ids=str)
@pytest.mark.parametrize("how", ["inner", "left", "right_anti"])
def test_times_at_both_ends_of_64_bits(client: tidegate.Client, mode: str, spans: tuple[int, int], how: str) -> None:
    near = Near(how, *spans)
    if mode == "final":  # the watermarks would make the earlier rows late
        near = replace(near, lateness=2**61)
        rows = [row for row in ENDS if row[0] > 0]
        [answer] = final_answers(client, near, [[rows], [rows]], 1)
        assert changes_of(answer) == near.answers(rows, rows)
        return
    plan = near.plan(final=mode == "final per epoch")
    with client.create_task(plan, mode="continuous" if mode == "continuous" else "per_epoch") as task:
        answer = task.run_epoch({"l": table(ENDS), "r": table(ENDS)}).table()
    assert (changes_of(answer) if mode == "continuous" else rows_of(answer)) == near.answers(ENDS, ENDS)


@pytest.mark.parametrize("channels", [1, 2])
@settings(max_examples=tries(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(near=NEAR, left=st.lists(ROW, max_size=12), right=st.lists(ROW, max_size=12))
def test_pairs_of_an_epoch(
    client: tidegate.Client, channels: int, near: Near, left: list[Row], right: list[Row]
) -> None:
    with client.create_task(near.plan(), **SEVERAL[channels]) as task:
        answer = task.run_epoch({"l": table(left), "r": table(right)}).table()
    assert rows_of(answer) == near.answers(left, right)


@pytest.mark.parametrize("channels", [1, 2])
@settings(max_examples=tries(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    near=NEAR,
    left=st.lists(ROW, max_size=20),
    right=st.lists(ROW, max_size=20),
    cuts=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=4),
)
def test_a_final_join_is_the_join_of_rows_on_time_however_it_is_cut(
    client: tidegate.Client,
    channels: int,
    near: Near,
    left: list[Row],
    right: list[Row],
    cuts: list[tuple[int, int]],
) -> None:
    sides = [cut(rows, [pair[side] for pair in cuts]) for side, rows in enumerate((left, right))]
    epochs = final_answers(client, near, sides, channels)
    counts: Counter[Row] = Counter()
    for epoch in epochs:
        own = changes_of(epoch)
        assert all(weight > 0 for weight in own.values())
        counts += own
    assert counts == near.answers(near.on_time(left, 0), near.on_time(right, 1))


def test_lateness_of_one_side_alone(client: tidegate.Client) -> None:
    """An older row of the left side is late by the left side's rows alone, whatever the right side has."""
    near = Near("inner", 5, 5)
    left, right = [(10, "a", 1), (9, "a", 2)], [(100, "a", 3), (9, "a", 4), (10, "a", 5)]
    epochs = final_answers(client, near, [[left], [right]], 1)
    assert sum(map(changes_of, epochs), Counter()) == Counter()


def test_the_late_rows_of_each_side_are_counted_without_the_rows_of_the_other(client: tidegate.Client) -> None:
    near = Near("inner", 5, 5, delays=(3, 0))
    sides = {"l": [(10, "a", 1), (6, "a", 2), (7, "a", 3)], "r": [(100, "a", 4), (9, "a", 5), (10, "a", 6)]}
    with client.create_task(near.plan(final=True), mode="continuous") as task:
        task.run_epoch({name: table(rows) for name, rows in sides.items()})
        late = [part.rows_in - part.rows_out for part in task.statistics().operators if part.operator == "OnTime"]
    on_time = [near.on_time(rows, side) for side, rows in enumerate(sides.values())]
    assert late == [len(rows) - len(punctual) for rows, punctual in zip(sides.values(), on_time, strict=True)] == [1, 2]


@pytest.mark.parametrize("time", TIMES.values(), ids=TIMES)
def test_every_kind_of_time(client: tidegate.Client, time: Time) -> None:
    near = Near("left", 2, 3)
    left, right = [(10, "a", 1), (20, "a", 2)], [(8, "a", 3), (13, "a", 4), (14, "a", 5), (7, "a", 6)]
    with client.create_task(near.plan(time)) as task:
        answer = task.run_epoch({"l": table(left, time), "r": table(right, time)}).table()
    assert sorted(zip(*(answer.column(at).to_pylist() for at in (2, 5)), strict=True), key=str) == [
        (1, 3),
        (1, 4),
        (2, None),
    ]


def test_unmatched_rows_come_once_when_no_match_can_come(client: tidegate.Client) -> None:
    near = Near("left", 0, 5)
    with client.create_task(near.plan(final=True), mode="continuous") as task:
        epochs = [
            task.run_epoch({"l": table([(left, "a", left)]), "r": table([(right, "b", right)])})
            for left, right in ((1, 1), (3, 6), (4, 7), (20, 9))
        ]
    assert [changes_of(epoch.table()) for epoch in epochs] == [
        Counter(),
        Counter(),
        Counter(),
        Counter({(1, "a", 1, None, None, None): 1, (3, "a", 3, None, None, None): 1}),
    ]


def test_an_unmatched_row_whose_matches_are_earlier_waits_for_its_own_deletion(client: tidegate.Client) -> None:
    near = Near("left_anti", 5, -2)
    with client.create_task(near.plan(final=True), mode="continuous") as task:
        epochs = [
            task.run_epoch({"l": table([(4, "a", 4)] if at == 4 else []), "r": table([(at, "b", at)])}) for at in (4, 5)
        ]
        assert [changes_of(epoch.table()) for epoch in epochs] == [Counter(), Counter()]
        waited = task.run_epoch({"l": table([(6, "a", 6)])}).table()
    assert changes_of(waited) == {(4, "a", 4): 1}


def test_a_row_deleted_in_time_takes_its_pairs_back(client: tidegate.Client) -> None:
    near = Near("left", 0, 5, delays=(10, 10))
    right = table([(2, "a", 2)])
    deleted = tidegate.Changes(right.append_column("_weight", pa.array([-1])))
    with client.create_task(near.plan(final=True), mode="continuous") as task:
        first = task.run_epoch({"l": table([(1, "a", 1)]), "r": right})
        second = task.run_epoch({"r": deleted})
        assert changes_of(first.table()) == {(1, "a", 1, 2, "a", 2): 1}
        assert changes_of(second.table()) == {(1, "a", 1, 2, "a", 2): -1}
        task.add_split("l", table([]))
        task.no_more_splits()
        assert [changes_of(epoch.table()) for epoch in task.epochs()] == [{(1, "a", 1, None, None, None): 1}]


@pytest.mark.parametrize("type_", ["inner", "outer", "left_semi"])
def test_the_task_goes_on_from_a_checkpoint(type_: str, tmp_path: Any) -> None:
    near = Near(type_, 3, 4, delays=(2, 2))
    left = [(at, "ab"[at % 2], at) for at in range(30)]
    right = [(at + at % 3, "ab"[at % 2], at) for at in range(0, 30, 2)]
    sides = [cut(rows, [len(rows) // 3, 2 * len(rows) // 3]) for rows in (left, right)]
    epochs, taken = [], None
    with tidegate.local(checkpoint_root=str(tmp_path)) as client:
        expected = final_answers(client, near, sides, 1)
        for mine, theirs in list(zip(*sides, strict=True))[:-1]:
            with client.create_task(near.plan(final=True), mode="continuous", restore=taken) as task:
                epoch = task.run_epoch({"l": table(mine), "r": table(theirs)}, checkpoint=True)
                epochs.append(changes_of(epoch.table()))
                taken = epoch.checkpoint
    assert epochs == [changes_of(epoch) for epoch in expected[:2]]
    assert epochs[1]


@pytest.mark.parametrize("type_", ["inner", "outer"])
def test_state_is_that_of_rows_that_can_match(client: tidegate.Client, type_: str) -> None:
    near = Near(type_, 5, 5)
    sizes = []
    with client.create_task(near.plan(final=True), mode="continuous") as task:
        for start in range(0, 100_000, 5_000):
            rows = [(at, "ab"[at % 2], at) for at in range(start, start + 5_000)]
            task.run_epoch({"l": table(rows), "r": table(rows[::2])}).table()
            operators = task.statistics().operators
            sizes.append(sum(operator.state_bytes for operator in operators))
    assert max(sizes[10:]) <= 1.2 * max(sizes[:10])


def test_windows_of_two_streams_joined(client: tidegate.Client) -> None:
    """The profit of campaigns per window: both streams are aggregated, and their windows are joined as they end."""
    ads = windows.watermark(sub.read_named_table("ads", {"at": sub.i64, "campaign": sub.i64, "cost": sub.i64}), "at")
    sales = windows.watermark(
        sub.read_named_table("sales", {"time": sub.i64, "campaign": sub.i64, "price": sub.i64}), "time"
    )
    cost = [sub.f.sum(sub.col("cost")).alias("cost")]
    price = [sub.f.sum(sub.col("price")).alias("price")]
    joined = windows.interval_join(
        windows.tumbling(ads, "at", 10, keys=["campaign"], measures=cost, final=True),
        windows.tumbling(sales, "time", 10, keys=["campaign"], measures=price, final=True),
        "window_start",
        keys=["campaign"],
        how="left",
        final=True,
    )
    rows = {
        "ads": {"at": [1, 5, 12, 35], "campaign": [1, 2, 1, 1], "cost": [3, 4, 5, 6]},
        "sales": {"time": [9, 13, 14, 41], "campaign": [1, 1, 1, 2], "price": [10, 20, 30, 40]},
    }
    with client.create_task(joined.to_plan(), mode="continuous", channels=2) as task:
        first = task.run_epoch({name: pa.table(columns) for name, columns in rows.items()}).table()
    profits = first.select([0, 2, 3, 7, 8])
    assert changes_of(profits) == {(0, 1, 3, 10): 1, (0, 2, 4, None): 1, (10, 1, 5, 50): 1}


@pytest.mark.parametrize(
    ("spans", "reason"),
    [({"before": -5, "after": 3}, "WRONG_SPAN"), ({"before": Span(nanoseconds=1), "after": 3}, "WRONG_SPAN")],
    ids=["nothing between", "nanoseconds"],
)
def test_refused_spans(client: tidegate.Client, spans: dict[str, Any], reason: str) -> None:
    sides = [sub.read_named_table(name, {"t": sub.i64}) for name in ("l", "r")]
    [problem] = client.validate(windows.interval_join(*sides, "t", **spans).to_plan())
    assert problem.reason == reason


def test_times_of_two_types_are_refused(client: tidegate.Client) -> None:
    left, right = (sub.read_named_table(str(kind), {"t": kind}) for kind in (sub.i64, sub.date))
    [problem] = client.validate(windows.interval_join(left, right, "t").to_plan())
    assert problem.reason == "MIXED_TYPES"


def test_explain_says_what_is_kept(client: tidegate.Client) -> None:
    text = str(client.explain(Near("left", 2, 3).plan(final=True), mode="continuous"))
    assert "times 2 before to 3 after, keeps rows that can still match" in text
    assert "rows without a match" in text
