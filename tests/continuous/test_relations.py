"""Every relation over random changes: the sum of what changes is the per-epoch answer over the sum of the input."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from tidegate.operators.changes import regroup, window
from tidegate.operators.changes.values import portions
from tidegate.planner import ir
from tidegate.planner.prepare import prepare
from tidegate.proto.errors import PlanError
from tidegate.proto.values import TaskOptions

from ..planner.build import I64, aggregate, asc, col, fetch, measure, plan, project, read, sort, subquery
from ..planner.changes.epochs import recomputed_nodes
from ..planner.running import run_prepared
from ..searching import every, one_of_each
from .histories import Changed, Integral, Row, multiset, rows_of, total
from .network import Running, prepared
from .relations import COUNTED, INCREMENTAL, LEFT, RECOMPUTED, SCHEMAS, unnest

ALL = {**INCREMENTAL, **RECOMPUTED}


def history(seed: int, epochs: int = 4) -> Iterator[dict[str, Changed]]:
    """Rows come and go; most that are deleted are inserted again or moved to another key."""
    chance = random.Random(seed)
    present: dict[str, list[Row]] = {name: [] for name in SCHEMAS}
    for _ in range(epochs):
        yield {name: _changed(chance, rows) for name, rows in present.items()}


def _changed(chance: random.Random, present: list[Row]) -> Changed:
    changed: list[tuple[Row, int]] = []
    for _ in range(chance.randrange(7)):
        row = _row(chance)
        weight = chance.choice([1, 1, 2])
        present.extend([row] * weight)
        changed.append((row, weight))
    gone = min(len(present), chance.randrange(6))
    changed += [(present.pop(chance.randrange(len(present))), -1) for _ in range(gone)]
    chance.shuffle(changed)
    return changed


def _row(chance: random.Random) -> Row:
    return (
        chance.choice([None, 0, 1, 2]),
        chance.choice([None, *range(-4, 5)]),
        chance.choice([None, 0.0, -0.0, 0.1, 0.2, 1e16, -1e16, float("nan")]),
        chance.choice([None, "", "a", "b"]),
    )


@pytest.mark.parametrize(("name", "seed"), one_of_each(product(ALL, [1, 2])))
def test_the_sum_of_the_changes_is_the_answer_over_the_sum_of_the_input(name: str, seed: int) -> None:
    """And each epoch has the least watermark that its sources have reached, which never goes back."""
    _check(name, seed)


@pytest.mark.parametrize("name", every(3, INCREMENTAL))
def test_keys_that_are_answered_one_at_a_time_have_the_same_answers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those are whose rows are wide."""
    for module in (portions, regroup, window):
        monkeypatch.setattr(module, "TOGETHER", 1)
    _check(name, 3)


def _check(name: str, seed: int) -> None:
    integral, fed = Integral(), []
    per_epoch = prepare(plan(ALL[name]), TaskOptions())
    reached = dict.fromkeys(SCHEMAS, 0)
    with Running(plan(ALL[name]), channels=seed) as running:
        read = [source.name for source in running.computation.sources]
        for number, epoch in enumerate(history(seed * 1000 + len(name))):
            fed.append(epoch)
            watermarks = {"l": (7, 9, 8, 20)[number], "r": (8, 5, 11, 19)[number]}
            integral.add(running.epoch(epoch, SCHEMAS, watermarks=watermarks))
            reached = {source: max(reached[source], watermark) for source, watermark in watermarks.items()}
            assert running.watermark == min(reached[source] for source in read)
            tables = {source: in_order(total(fed, source, schema)) for source, schema in SCHEMAS.items()}
            assert integral.rows == multiset(rows_of(run_prepared(per_epoch, tables)))


def in_order(rows: pa.Table) -> pa.Table:
    """In the order that texts by key are gathered in, where that shows."""
    return rows.sort_by([("k", "ascending"), ("s", "ascending")])


@pytest.mark.parametrize("name", INCREMENTAL)
def test_what_follows_the_change_is_never_computed_again_from_all_rows(name: str) -> None:
    assert recomputed_nodes(prepared(plan(INCREMENTAL[name])).root) == []


@pytest.mark.parametrize("name", RECOMPUTED)
def test_what_is_computed_again_says_why(name: str) -> None:
    (node,) = recomputed_nodes(prepared(plan(RECOMPUTED[name])).root)
    assert node.why


def test_ties_of_a_limit_whose_count_is_a_subquery_are_broken_by_all_columns() -> None:
    limit = replace(fetch(sort(LEFT, asc(col(0))), 0), count=COUNTED)
    rows: list[Row] = [(1, value, 0.0, text) for value in (5, 3, 4) for text in ("b", "a")]
    integral = Integral()
    with Running(plan(limit)) as running:
        for left, right in ((rows, rows[:3]), (rows[:0], rows[3:4])):  # three are kept, and then four
            integral.add(running.epoch({"l": [(row, 1) for row in left], "r": [(row, 1) for row in right]}, SCHEMAS))
    assert integral.rows == multiset(sorted(rows)[:4])


def test_the_largest_count_is_no_limit_and_the_one_below_it_is_exact() -> None:
    rows: list[Row] = [(k, k, 0.0, "a") for k in range(3)]
    copies = (1 << 63) - 1
    for count, last in ((copies, copies), (copies - 1, 1)):
        integral = Integral()
        with Running(plan(fetch(sort(LEFT, asc(col(0))), count, 2))) as running:
            for row, weight in zip(rows, (2, copies - 2, copies), strict=True):
                integral.add(running.epoch({"l": [(row, weight)]}, SCHEMAS))
        assert integral.rows == {rows[1]: copies - 2, rows[2]: last}


def test_a_limit_whose_count_is_a_subquery_needs_a_sort_too() -> None:
    with pytest.raises(PlanError) as caught:
        prepared(plan(replace(fetch(LEFT, 0), count=COUNTED)))
    assert [problem.reason for problem in caught.value.problems] == ["LIMIT_WITHOUT_SORT"]


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("ordinality", [False, True])
def test_unnest(outer: bool, ordinality: bool) -> None:
    schema = pa.schema([("k", pa.int64()), ("items", pa.list_(pa.int64()))])
    relation = unnest(outer, ordinality)
    epochs: list[list[tuple[Row, int]]] = [
        [((1, [5, None, 5]), 1), ((2, []), 1), ((3, None), 2), ((None, [7]), 1)],
        [((1, [5, None, 5]), -1), ((3, None), -1), ((2, [8]), 1)],
    ]
    integral, there = Integral(), Counter[Any]()
    with Running(plan(relation)) as running:
        assert recomputed_nodes(prepared(plan(relation)).root) == []
        for changed in epochs:
            integral.add(running.epoch({"n": changed}, {"n": schema}))
            for (key, items), weight in changed:
                for row in _items(relation, key, items):
                    there[row] += weight
            assert integral.rows == Counter({row: weight for row, weight in there.items() if weight})


def _items(relation: ir.Unnest, key: object, items: list[object] | None) -> Iterator[Row]:
    numbered_items = list(enumerate(items or (), 1)) or ([(None, None)] if relation.outer else [])
    for number, item in numbered_items:
        yield (key, item, number) if relation.ordinality else (key, item)


def test_a_source_that_only_a_pruned_column_reads_stays_one_and_may_be_fed() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    sources = ("l", "r")
    left, right = (read(name, a=I64, b=I64) for name in sources)
    most = subquery(ir.SubqueryKind.SCALAR, aggregate(right, [], measure("max", col(1))))
    root = plan(project(project(left, col(0), most), col(0)))
    integral = Integral()
    with Running(root) as running:
        assert {source.name for source in running.computation.sources} == set(sources)
        rows: dict[str, Changed] = {"l": [((1, 2), 1), ((3, 4), 2)], "r": [((5, 6), 1)]}
        integral.add(running.epoch(rows, dict.fromkeys(sources, schema)))
        integral.add(running.epoch({"r": [((7, 8), 1)]}, dict.fromkeys(sources, schema)))
    assert integral.rows == multiset([(1,), (3,), (3,)])
