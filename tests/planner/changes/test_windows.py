"""Windows that follow the change, against windows worked out row by row in Python, ties broken by all columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from functools import cmp_to_key
from itertools import pairwise
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.operators.changes import window as operator
from tidegate.planner import ir
from tidegate.planner.changes.change_nodes import TopNode, WindowNode
from tidegate.planner.ir import types as t

from ...searching import tries
from ..build import F64, I64, TEXT, asc, call, col, filtered, lit, plan, project, read, topn, window, window_call
from .epochs import Row, Running, nodes, totals

ROWS_: Final = ir.BoundsKind.ROWS
RANGE: Final = ir.BoundsKind.RANGE
SOURCE: Final = read("r", k=I64, v=I64, f=F64, s=TEXT)
K, V, F, S = col(0), col(1), col(2, F64), col(3, TEXT)

Naive: TypeAlias = Callable[[Sequence[Row], int, Sequence[int]], Any]
"""The answer for the row at a position of its partition; the last argument numbers each row's peers."""


def running(bounds: ir.BoundsKind) -> Mapping[str, Any]:
    return {"lower": ir.Bound(offset=None), "upper": ir.Bound(offset=0), "bounds": bounds}


def rows_between(lower: int, upper: int) -> Mapping[str, Any]:
    return {"lower": ir.Bound(offset=lower), "upper": ir.Bound(offset=upper), "bounds": ROWS_}


def total(values: Sequence[Any]) -> Any:
    there = [value for value in values if value is not None]
    return sum(there) if there else None


def so_far(rows: Sequence[Row], at: int, peers: Sequence[int]) -> list[Row]:
    return [row for row, peer in zip(rows, peers, strict=True) if peer <= peers[at]]


def greatest(values: Sequence[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)


def least(values: Sequence[Any]) -> Any:
    return min((value for value in values if value is not None), default=None)


def newest(values: Sequence[Any]) -> Any:
    return next((value for value in reversed(values) if value is not None), None)


def at(rows: Sequence[Row], position: int, column: int) -> Any:
    return rows[position][column] if 0 <= position < len(rows) else None


CALLS: Final[Mapping[str, tuple[ir.WindowCall, Naive]]] = {
    "row_number": (window_call("row_number"), lambda _rows, at_, _peers: at_ + 1),
    "rank": (window_call("rank"), lambda _, at_, peers: 1 + sum(peer < peers[at_] for peer in peers)),
    "dense_rank": (window_call("dense_rank"), lambda _, at_, peers: 1 + peers[at_]),
    "lag": (window_call("lag", V), lambda rows, at_, _: at(rows, at_ - 1, 1)),
    "lead by two": (window_call("lead", S, lit(2)), lambda rows, at_, _: at(rows, at_ + 2, 3)),
    "sum of rows so far": (
        window_call("sum", V, **running(ROWS_)),
        lambda rows, at_, _: total([row[1] for row in rows[: at_ + 1]]),
    ),
    "sum so far": (
        window_call("sum", V, **running(RANGE)),
        lambda rows, at_, peers: total([row[1] for row in so_far(rows, at_, peers)]),
    ),
    "count so far": (
        window_call("count", S, **running(ROWS_)),
        lambda rows, at_, _: sum(row[3] is not None for row in rows[: at_ + 1]),
    ),
    "greatest so far": (
        window_call("max", F, **running(RANGE)),
        lambda rows, at_, peers: greatest([row[2] for row in so_far(rows, at_, peers)]),
    ),
    "least so far": (
        window_call("min", V, **running(ROWS_)),
        lambda rows, at_, _: least([row[1] for row in rows[: at_ + 1]]),
    ),
    "first": (window_call("first_value", V, **running(RANGE)), lambda rows, _at, _peers: rows[0][1]),
    "last that is there so far": (
        window_call("last_not_null", V, **running(ROWS_)),
        lambda rows, at_, _: newest([row[1] for row in rows[: at_ + 1]]),
    ),
    "last that is there up to the peers": (
        window_call("last_not_null", S, **running(RANGE)),
        lambda rows, at_, peers: newest([row[3] for row in so_far(rows, at_, peers)]),
    ),
    "last that is there of three": (
        window_call("last_not_null", V, **rows_between(-1, 1)),
        lambda rows, at_, _: newest([row[1] for row in rows[max(at_ - 1, 0) : at_ + 2]]),
    ),
    "last of three": (
        window_call("last_value", F, **rows_between(-1, 1)),
        lambda rows, at_, _: rows[min(at_ + 1, len(rows) - 1)][2],
    ),
    "sum of those behind": (
        window_call("sum", V, **rows_between(1, 3)),
        lambda rows, at_, _: total([row[1] for row in rows[at_ + 1 : at_ + 4]]),
    ),
    "sum of those ahead": (
        window_call("sum", V, **rows_between(-3, -2)),
        lambda rows, at_, _: total([row[1] for row in rows[max(at_ - 3, 0) : max(at_ - 1, 0)]]),
    ),
    "average of three": (
        window_call("avg", V, **rows_between(-2, 0)),
        lambda rows, at_, _: average([row[1] for row in rows[max(at_ - 2, 0) : at_ + 1]]),
    ),
}


def last(expression: ir.Expression) -> ir.SortKey:
    return ir.SortKey(expression=expression, direction=ir.Direction.DESC_NULLS_LAST)


SORTS: Final[Mapping[str, tuple[tuple[ir.SortKey, ...], tuple[tuple[int, bool, bool], ...]]]] = {
    "number": ((asc(V),), ((1, False, False),)),
    "float, descending": ((last(F),), ((2, True, False),)),
    "text, nulls first": (
        (ir.SortKey(expression=S, direction=ir.Direction.DESC_NULLS_FIRST),),
        ((3, True, True),),
    ),
    "two": ((last(S), asc(V)), ((3, True, False), (1, False, False))),
}
"""Sort keys, and for each its column, whether it descends, and whether nulls are first."""


def average(values: Sequence[Any]) -> Any:
    there = [value for value in values if value is not None]
    return int(sum(there) / len(there)) if there else None


def compared(left: Row, right: Row, orders: Sequence[tuple[int, bool, bool]]) -> int:
    for column, descending, nulls_first in orders:
        one, other = left[column], right[column]
        if one is None or other is None:
            if (one is None) != (other is None):
                return -1 if (one is None) == nulls_first else 1
        elif one != other:
            return -1 if (one < other) != descending else 1
    return 0


def naive(rows: Counter[Row], orders: Sequence[tuple[int, bool, bool]], names: Sequence[str]) -> Counter[Row]:
    everything = (*orders, *((column, False, False) for column in range(4)))
    expected: Counter[Row] = Counter()
    for key in {row[0] for row in rows}:
        mine = [row for row in rows.elements() if row[0] == key]
        mine.sort(key=cmp_to_key(lambda left, right: compared(left, right, everything)))
        peers = [0]
        for before, row in pairwise(mine):
            peers.append(peers[-1] + bool(compared(before, row, orders)))
        for position, row in enumerate(mine):
            expected[(*row, *(CALLS[name][1](mine, position, peers) for name in names))] += 1
    return expected


ROW: Final = st.tuples(
    st.sampled_from([1, 1, 1, 2, None]),
    st.sampled_from([0, 1, -2, 3, 5, None]),
    st.sampled_from([0.5, -1.0, 2.25, None]),
    st.sampled_from(["a", "ab", "é", None]),
)


@st.composite
def histories(draw: st.DrawFn) -> list[list[tuple[Row, int]]]:
    there: Counter[Row] = Counter()
    epochs = []
    for most in (30, 4, 4, 4, 4):
        changed: list[tuple[Row, int]] = [
            (row, draw(st.sampled_from([1, 1, 2, 3]))) for row in draw(st.lists(ROW, max_size=most))
        ]
        there.update({row: there[row] * 0 for row, _ in changed})
        for row, weight in changed:
            there[row] += weight
        gone = draw(st.lists(st.sampled_from(sorted(there.elements(), key=repr)), max_size=3)) if there else []
        for row in gone:
            if there[row]:
                there[row] -= 1
                changed.append((row, -1))
        there = +there
        epochs.append(changed)
    return epochs


@pytest.fixture(autouse=True)
def _near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small partitions are worked on as large ones, a few rows at a time."""
    monkeypatch.setattr(operator, "_WORTH", 1)
    monkeypatch.setattr(operator, "_FIRST", 1)
    monkeypatch.setattr(operator, "_MORE", 2)


@settings(max_examples=tries(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    history=histories(),
    order=st.sampled_from(sorted(SORTS)),
    names=st.lists(st.sampled_from(sorted(CALLS)), min_size=1, max_size=3, unique=True),
)
def test_the_sum_of_all_changes_is_what_windows_over_all_rows_say(
    history: list[list[tuple[Row, int]]], order: str, names: list[str]
) -> None:
    sorts, orders = SORTS[order]
    calls = [replace(CALLS[name][0], partitions=(K,), sorts=sorts) for name in names]
    there: Counter[Row] = Counter()
    epochs = [{"r": epoch} for epoch in history]
    for epoch, total_so_far in zip(history, totals(plan(window(SOURCE, *calls)), epochs), strict=True):
        for row, weight in epoch:
            there[row] += weight
        assert total_so_far == naive(+there, orders, names)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_each_is_worked_out_around_what_changes(name: str) -> None:
    change_nodes = nodes(plan(window(SOURCE, replace(CALLS[name][0], partitions=(K,), sorts=(asc(V),)))))
    assert [node.reach.whole for node in change_nodes if isinstance(node, WindowNode)] == [False]


@pytest.mark.parametrize(
    "call",
    [
        window_call("sum", F, **running(ROWS_)),
        window_call("sum", V),
        window_call("ntile", lit(4)),
        window_call("last_value", V, **running(RANGE)),
        window_call("avg", F, **rows_between(-1, 1)),
    ],
)
def test_what_depends_on_the_whole_partition_is_computed_from_it(call: ir.WindowCall) -> None:
    change_nodes = nodes(plan(window(SOURCE, replace(call, partitions=(K,), sorts=(asc(V),)))))
    assert [node.reach.whole for node in change_nodes if isinstance(node, WindowNode)] == [True]


def test_a_sum_that_is_only_too_large_without_what_comes_before_is_no_error() -> None:
    most = (1 << 63) - 1
    call = window_call("sum", V, partitions=(K,), sorts=(asc(F),), **running(ROWS_))
    rows = [((1, -most, 0.0, "a"), 1), ((1, 0, 1.0, "b"), 1), ((1, most, 2.0, "c"), 1), ((1, most, 3.0, "d"), 1)]
    *_, last = totals(plan(window(SOURCE, call)), [{"r": rows}, {"r": [((1, 0, 1.5, "e"), 1)]}])
    assert sorted(row[-1] for row in last) == [-most, -most, -most, 0, most]


RANKS: Final = {"row_number": 0, "rank": 1, "dense_rank": 1}


@settings(max_examples=tries(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    history=histories(),
    order=st.sampled_from(sorted(SORTS)),
    ranked=st.sampled_from(sorted(RANKS)),
    most=st.integers(min_value=0, max_value=4),
    more=st.sampled_from(["lag", "sum of rows so far", "row_number", "dense_rank"]),
)
def test_the_first_of_each_partition_are_those_that_a_filter_keeps(
    history: list[list[tuple[Row, int]]], order: str, ranked: str, most: int, more: str
) -> None:
    sorts, orders = SORTS[order]
    names = [ranked, more]
    calls = [replace(CALLS[name][0], partitions=(K,), sorts=sorts) for name in names]
    first = plan(filtered(window(SOURCE, *calls), call("lte", col(4), lit(most))))
    assert [node.counting.value for node in nodes(first) if isinstance(node, TopNode)] == [
        "rows" if ranked == "row_number" else ranked
    ]
    there: Counter[Row] = Counter()
    for epoch, total_so_far in zip(history, totals(first, [{"r": epoch} for epoch in history]), strict=True):
        for row, weight in epoch:
            there[row] += weight
        everything = naive(+there, orders, names)
        assert total_so_far == Counter({row: count for row, count in everything.items() if row[4] <= most})


def wide(expression: ir.Expression) -> ir.Expression:
    return ir.Cast(operand=expression, type=t.Decimal(precision=20, scale=0))


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        (call("lt", col(4), lit(3)), 2),
        (call("equal", col(4), lit(3)), 3),
        (call("gte", lit(3), col(4)), 3),
        (call("lte", wide(col(4)), wide(lit(3))), 3),
        (call("and", call("gt", col(1), lit(0)), call("gt", lit(3), col(4))), 2),
    ],
)
def test_a_filter_is_a_limit_however_it_is_written(condition: ir.Expression, count: int) -> None:
    numbered = window(SOURCE, window_call("row_number", partitions=(K,), sorts=(asc(V),)))
    change_nodes = nodes(plan(filtered(numbered, condition)))
    assert [node.count for node in change_nodes if isinstance(node, TopNode)] == [count]


@pytest.mark.parametrize("comparison", ["lte", "equal", "lt"])
def test_a_fraction_that_is_cast_to_a_whole_number_is_rounded_before_it_is_compared(comparison: str) -> None:
    """2.5 is 3 then."""
    three = ir.Cast(operand=lit(Decimal("2.5"), t.Decimal(precision=2, scale=1)), type=I64)
    numbered = window(SOURCE, window_call("row_number", partitions=(K,), sorts=(asc(V),)))
    *_, last_total = totals(plan(filtered(numbered, call(comparison, col(4), three))), [{"r": FIVE}])
    assert sorted(row[-1] for row in last_total) == {"lte": [1, 2, 3], "equal": [3], "lt": [1, 2]}[comparison]


FIVE: Final[list[tuple[Row, int]]] = [((1, value, 1.0, "a"), 1) for value in range(5)]


@pytest.mark.parametrize(
    "other",
    [
        window_call("count", partitions=(K,)),
        window_call("lead", V, partitions=(K,), sorts=(asc(V),)),
        window_call("sum", V, partitions=(K,), sorts=(asc(V),), **running(RANGE)),
        window_call("row_number", partitions=(K,), sorts=(asc(F),)),
    ],
)
def test_what_looks_at_later_rows_keeps_a_filter_from_being_a_limit(other: ir.WindowCall) -> None:
    numbered = window(SOURCE, window_call("row_number", partitions=(K,), sorts=(asc(V),)), other)
    change_nodes = nodes(plan(filtered(numbered, call("lte", col(4), lit(3)))))
    assert [node for node in change_nodes if isinstance(node, TopNode)] == []


@settings(max_examples=tries(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(history=histories(), count=st.integers(0, 4), offset=st.integers(0, 3))
def test_a_limit_with_ties_keeps_the_rows_that_tie_with_its_last(
    history: list[list[tuple[Row, int]]], count: int, offset: int
) -> None:
    first = plan(topn(project(SOURCE, V, S), (asc(col(0)),), count, offset, ties=True))
    there: Counter[Row] = Counter()
    for epoch, total_so_far in zip(history, totals(first, [{"r": epoch} for epoch in history]), strict=True):
        for row, weight in epoch:
            there[row[1], row[3]] += weight
        rows = sorted(there.elements(), key=cmp_to_key(lambda left, right: compared(left, right, BOTH)))
        last = rows[: offset + count][-1:]
        kept = [row for at_, row in enumerate(rows) if at_ < offset + count or (last and row[0] == last[0][0])]
        assert total_so_far == Counter(kept[offset:] if count else [])


BOTH: Final = ((0, False, False), (1, False, False))


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"sum of rows so far", "sum so far", "sum of those behind"}))
def test_a_row_that_is_replaced_touches_no_more_rows_of_a_large_partition(name: str) -> None:
    """One in the middle, with another text: what is not said of it, or of a row near it, stays as it is."""

    def touched(count: int) -> int:
        relation = window(SOURCE, replace(CALLS[name][0], partitions=(K,), sorts=(asc(V),)))
        with closing(Running(plan(relation))) as running:
            running.epoch({"r": [((1, at_, 1.0, "a"), 1) for at_ in range(count)]})
            before = running.touched()
            row = (1, count // 2, 1.0, "a")
            running.epoch({"r": [(row, -1), ((*row[:3], "b"), 1)]})
            return running.touched() - before

    small, large = touched(500), touched(4_000)
    assert large <= 1.3 * small
    assert small < 200
