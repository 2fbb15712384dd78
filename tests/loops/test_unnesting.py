"""Lists taken apart inside of a loop's body, against a search in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pytest

from tidegate.planner import ir
from tidegate.planner.ir import types as t
from tidegate.planner.physical.pipelines import Feed
from tidegate.planner.prepare import prepare
from tidegate.proto.values import TaskOptions

from ..continuous.histories import Changed, Integral, Row
from ..continuous.network import Running, prepared
from ..planner.build import I64, col, combine, eq, iterate, join, new_plan_path, plan, project, read, reference
from ..planner.changes.epochs import recomputed_nodes
from ..planner.running import Form, run, shape_of

LISTS = t.List(element=I64)
SEED = read("seed", a=I64)
NEXT = read("next", a=I64, following=LISTS)
SCHEMAS: Mapping[str, pa.Schema] = {
    "seed": pa.schema([("a", pa.int64())]),
    "next": pa.schema([("a", pa.int64()), ("following", pa.list_(pa.int64()))]),
}


def reached(*, outer: bool, ordinality: bool) -> ir.Iterate:
    """Nodes that lists of following nodes lead to, each with its place in the list that led to it, if that is asked
    for. An `outer` one goes on with null from a list that is empty or null.
    """
    width = 2 if ordinality else 1
    back = reference(1, *(I64,) * width)
    met = join(back, NEXT, ir.JoinType.INNER, eq(col(0), col(width)))
    unnested = ir.Unnest(
        input=met,
        kept=(),
        lists=(col(width + 1, LISTS),),
        ordinality=ordinality,
        outer=outer,
        schema=(I64, I64)[:width],
        plan_path=new_plan_path(),
    )
    start = project(SEED, col(0), col(0)) if ordinality else SEED
    return iterate(1, combine(ir.SetOperation.UNION_DISTINCT, start, unnested))


def found_by_hand(
    seeds: Sequence[Row], following: Sequence[Row], *, outer: bool, ordinality: bool
) -> Counter[tuple[object, ...]]:
    todo = [row * 2 if ordinality else row for row in seeds]
    seen: set[tuple[object, ...]] = set()
    while todo:
        row = todo.pop()
        if row in seen:
            continue
        seen.add(row)
        for node, items in following:
            if node is not None and node == row[0]:
                numbered_items = list(enumerate(items or (), 1)) or ([(None, None)] if outer else [])
                todo += [(item, number) if ordinality else (item,) for number, item in numbered_items]
    return Counter(seen)


def graphs(seed: int) -> Iterator[dict[str, Changed]]:
    """Nodes and their lists that come and go, cycles, empty lists, null ones and nulls in them included."""
    chance = random.Random(seed)
    there: list[Row] = []
    for epoch in range(5):
        changed: list[tuple[Row, int]] = []
        gone = min(len(there), chance.randrange(4))
        changed += [(there.pop(chance.randrange(len(there))), -1) for _ in range(gone)]
        for _ in range(chance.randrange(3, 7)):
            items = (
                None
                if chance.random() < 0.1
                else [chance.choice([None, *range(8)]) for _ in range(chance.randrange(4))]
            )
            there.append((chance.choice([None, *range(8)]), items))
            changed.append((there[-1], 1))
        yield {"seed": [((0,), 1)] if epoch == 0 else [], "next": changed}


HOW = [(outer, ordinality) for outer in (False, True) for ordinality in (False, True)]


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(("outer", "ordinality"), HOW)
def test_each_epoch_goes_on_from_the_items_of_lists(outer: bool, ordinality: bool, channels: int) -> None:
    loop = reached(outer=outer, ordinality=ordinality)
    prepared_plan = prepare(plan(loop), TaskOptions())
    for changed in graphs(7):
        rows = {name: [row for row, weight in row_weights if weight > 0] for name, row_weights in changed.items()} | {
            "seed": [(0,)]
        }
        tables = {name: _table(rows[name], schema) for name, schema in SCHEMAS.items()}
        answer = run(
            prepared_plan.physical(shape_of(prepared_plan, tables, Feed.STREAM)), tables, Form(channels=channels)
        )
        answered = list(zip(*(column.to_pylist() for column in answer.columns), strict=True))
        expected = found_by_hand(rows["seed"], rows["next"], outer=outer, ordinality=ordinality)
        assert answered == sorted(expected, key=lambda row: [(value is None, value or 0) for value in row])


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("outer", "ordinality"), HOW)
def test_changes_of_lists_change_what_they_lead_to(outer: bool, ordinality: bool, seed: int) -> None:
    loop = reached(outer=outer, ordinality=ordinality)
    assert recomputed_nodes(prepared(plan(loop)).root) == []
    there: dict[str, list[Row]] = {name: [] for name in SCHEMAS}
    integral = Integral()
    with Running(plan(loop), channels=seed) as running:
        for changed in graphs(seed):
            for name, rows in changed.items():
                for row, weight in rows:
                    there[name].append(row) if weight > 0 else there[name].remove(row)
            integral.add(running.epoch(changed, SCHEMAS))
            assert integral.rows == found_by_hand(there["seed"], there["next"], outer=outer, ordinality=ordinality)


def _table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    columns = [[row[at] for row in rows] for at in range(len(schema))]
    return pa.Table.from_arrays(
        [pa.array(column, type_) for column, type_ in zip(columns, schema.types, strict=True)], schema=schema
    )
