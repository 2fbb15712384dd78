"""Joins that ask whether there is a row beyond a value: as Python says row by row, and without their pairs in state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.join import Join
from tidegate.operators.changes.values.change import Change
from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.changes.values.value_columns import Mask
from tidegate.planner import ir
from tidegate.planner.changes.change_nodes import GroupNode

from ...searching import tries
from ..build import I64, call, col, eq, join, lit, plan, read
from .epochs import Row, nodes, totals

LEFT, RIGHT = read("l", k=I64, v=I64, w=I64), read("r", k=I64, v=I64, w=I64)
LK, LV, LW, RK, RV, RW = map(col, range(6))

Met: TypeAlias = Callable[[Row, Row], bool]


def less(left: Any, right: Any) -> bool:
    return left is not None and right is not None and left < right


def same(left: Any, right: Any) -> bool:
    return left is not None and left == right


BOUNDED: Final[Mapping[str, tuple[ir.Expression, Met]]] = {
    "less": (call("lt", RV, LV), lambda left, right: less(right[1], left[1])),
    "not less": (call("gte", LV, RV), lambda left, right: less(right[1], left[1]) or same(left[1], right[1])),
    "more": (call("gt", RV, LV), lambda left, right: less(left[1], right[1])),
    "more, of a sum": (
        call("lt", call("add", LV, LW), RV),
        lambda left, right: None not in left[1:] and less(sum(left[1:]), right[1]),
    ),
    "a key and more": (
        call("and", eq(LK, RK), call("lte", LV, RV)),
        lambda left, right: same(left[0], right[0]) and (less(left[1], right[1]) or same(left[1], right[1])),
    ),
    "each side's own and less": (
        call("and", call("lt", RV, LV), call("gt", RW, lit(0)), call("lt", LW, lit(2))),
        lambda left, right: less(right[1], left[1]) and less(0, right[2]) and less(left[2], 2),
    ),
    "a computed key, one's own, and more": (
        call("and", eq(call("add", LK, lit(1)), RK), call("gt", RW, lit(0)), call("gt", RV, LV)),
        lambda left, right: (
            left[0] is not None and same(left[0] + 1, right[0]) and less(0, right[2]) and less(left[1], right[1])
        ),
    ),
}
OTHERS: Final[Mapping[str, tuple[ir.Expression, Met]]] = {
    "two": (
        call("and", call("lt", RV, LV), call("gt", RW, LW)),
        lambda left, right: less(right[1], left[1]) and less(left[2], right[2]),
    ),
    "both sides' sum": (
        call("lt", call("add", LV, RV), lit(1)),
        lambda left, right: None not in (left[1], right[1]) and left[1] + right[1] < 1,
    ),
}
CONDITIONS: Final = {**BOUNDED, **OTHERS}

VALUE: Final = st.sampled_from([0, 1, 2, -1, None])
ROWS: Final = st.lists(st.tuples(VALUE, VALUE, VALUE), max_size=8)


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, list[tuple[Row, int]]]]:
    there: dict[str, Counter[Row]] = {"l": Counter(), "r": Counter()}
    epochs = []
    for _ in range(draw(st.integers(1, 4))):
        epoch: dict[str, list[tuple[Row, int]]] = {}
        for name, present in there.items():
            changed: list[tuple[Row, int]] = [(row, draw(st.sampled_from([1, 1, 2]))) for row in draw(ROWS)]
            for row, weight in changed:
                present[row] += weight
            elements = sorted(present.elements(), key=repr)
            for row in draw(st.lists(st.sampled_from(elements), max_size=4)) if elements else ():
                if present[row]:
                    present[row] -= 1
                    changed.append((row, -1))
            epoch[name] = changed
        epochs.append(epoch)
    return epochs


def naive(left: Counter[Row], right: Counter[Row], met: Met, type_: ir.JoinType) -> Counter[Row]:
    joined: Counter[Row] = Counter()
    for row, count in left.items():
        pairs = [(other, copies) for other, copies in right.items() if copies and met(row, other)]
        if type_ is ir.JoinType.LEFT:
            for other, copies in pairs:
                joined[(*row, *other)] += count * copies
            if not pairs:
                joined[(*row, None, None, None)] += count
        elif bool(pairs) == (type_ is ir.JoinType.LEFT_SEMI):
            joined[row] += count
    return +joined


@settings(max_examples=tries(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    history=histories(),
    name=st.sampled_from(sorted(CONDITIONS)),
    type_=st.sampled_from([ir.JoinType.LEFT_SEMI, ir.JoinType.LEFT_ANTI, ir.JoinType.LEFT]),
)
def test_the_sum_of_all_changes_is_what_every_pair_says(
    history: list[dict[str, list[tuple[Row, int]]]], name: str, type_: ir.JoinType
) -> None:
    condition, met = CONDITIONS[name]
    there: dict[str, Counter[Row]] = {"l": Counter(), "r": Counter()}
    for epoch, total_so_far in zip(history, totals(plan(join(LEFT, RIGHT, type_, condition)), history), strict=True):
        for source, changed in epoch.items():
            for row, weight in changed:
                there[source][row] += weight
        assert total_so_far == naive(there["l"], there["r"], met, type_)


@pytest.mark.parametrize("name", sorted(CONDITIONS))
def test_one_comparison_is_made_with_the_other_side_s_extreme_value(name: str) -> None:
    change_nodes = nodes(plan(join(LEFT, RIGHT, ir.JoinType.LEFT_SEMI, CONDITIONS[name][0])))
    assert any(isinstance(node, GroupNode) for node in change_nodes) == (name in BOUNDED)


@pytest.mark.parametrize("port", [0, 1])
def test_rows_that_meet_many_others_are_given_out_once(port: int) -> None:
    """A thousand rows of each side: a million pairs."""
    count = 1_000

    def all_but_one(pairs: Rows) -> Mask:
        left, right = (column.to_arrow(pa.int64()).to_numpy() for column in pairs.columns)
        return np.asarray((left != 7) | (right < 3))

    schema = pa.schema([("v", pa.int64())])
    joined = Join(schema, schema, (), (0,), condition=all_but_one)
    rows = Change.of_batch(pa.RecordBatch.from_arrays([pa.array(range(count))], schema=schema))
    assert [change for change in joined.receive(1 - port, rows) if len(change)] == []
    changes = [change for change in joined.receive(port, rows) if len(change)]
    assert sum(map(len, changes)) == count
    weights = {
        value: weight
        for change in changes
        for value, weight in zip(
            change.rows.columns[0].to_arrow(pa.int64()).to_pylist(), change.weights.tolist(), strict=True
        )
    }
    assert weights == {value: 3 if value == 7 else count for value in range(count)}
