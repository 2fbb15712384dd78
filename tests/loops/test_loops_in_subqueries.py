"""Loops inside of subqueries, in both modes, also where the subquery is computed again."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
import pytest

from tidegate.planner import ir
from tidegate.proto.errors import PlanError

from ..continuous.histories import Changed, Integral, Row, multiset
from ..continuous.network import Running, prepared
from ..planner.build import I64, aggregate, col, combine, eq, filtered, iterate, join, plan, project, read, reference
from ..planner.build import subquery as asked
from ..planner.changes.epochs import recomputed_nodes
from ..planner.running import Form
from .oracle import evaluate
from .test_rounds import run_it

SCHEMA: Final = pa.schema([("a", pa.int64()), ("b", pa.int64())])
EDGES: Final = read("edges", a=I64, b=I64)
SEEDS: Final = read("seeds", a=I64, b=I64)
ALL: Final = ir.SetOperation.UNION_ALL


def pair(relation: ir.Relation) -> ir.Relation:
    return replace(relation, schema=(I64, I64))


def closure(start: ir.Relation, number: int = 1) -> ir.Relation:
    step = project(join(reference(number, I64, I64), EDGES, ir.JoinType.INNER, eq(col(1), col(2))), col(0), col(3))
    return pair(iterate(number, pair(combine(ir.SetOperation.UNION_DISTINCT, start, step))))


def in_one_of(one: ir.Relation, other: ir.Relation) -> ir.Relation:
    """The seeds that either has as its first column: two branches that look at the row are computed again."""
    branches = [filtered(relation, eq(col(0), col(0, outer=1))) for relation in (one, other)]
    return filtered(SEEDS, asked(ir.SubqueryKind.EXISTS, combine(ALL, *branches)))


def around(body: ir.Relation) -> ir.Relation:
    whole = aggregate(combine(ALL, body, EDGES), (col(0), col(1)))
    return pair(iterate(7, pair(whole), max_rounds=5, at_limit=ir.AtLimit.RETURN))


MORE: Final = read("more", a=I64, b=I64)
PLANS: Final = {
    "a loop": in_one_of(closure(EDGES), MORE),
    "in a loop": around(in_one_of(closure(EDGES), reference(7, I64, I64))),
    "a loop of what came back around it": around(in_one_of(closure(reference(7, I64, I64)), MORE)),
}
EPOCHS: Final[list[dict[str, list[tuple[Row, int]]]]] = [
    {"edges": [((1, 2), 1), ((2, 3), 1)], "seeds": [((1, 1), 1), ((2, 5), 1), ((4, 4), 1)], "more": [((4, 1), 1)]},
    {"edges": [((2, 3), -1), ((5, 1), 1)], "seeds": [((5, 9), 2)], "more": [((4, 1), -1)]},
]


@pytest.mark.parametrize("root", PLANS.values(), ids=PLANS)
def test_a_loop_is_an_input_of_what_is_computed_again(root: ir.Relation) -> None:
    assert recomputed_nodes(prepared(plan(root)).root)
    there = {name: multiset([]) for name in EPOCHS[0]}
    integral = Integral()
    with Running(plan(root), 2) as running:
        for epoch in EPOCHS:
            changed: dict[str, Changed] = dict(epoch)
            for name, rows in epoch.items():
                for row, weight in rows:
                    there[name][row] += weight
            tables = {name: list(rows.elements()) for name, rows in there.items()}
            right = multiset(evaluate(plan(root), {name: (SCHEMA.names, rows) for name, rows in tables.items()}))
            integral.add(running.epoch(changed, dict.fromkeys(epoch, SCHEMA)))
            assert integral.rows == right
            assert multiset(run_it(root, tables, Form(channels=2))) == right


@pytest.mark.parametrize("alone", [True, False])
def test_a_loop_that_reads_the_row_around_it_is_refused_with_its_place(alone: bool) -> None:
    loop = closure(filtered(EDGES, eq(col(0), col(0, outer=1))))
    root = filtered(SEEDS, asked(ir.SubqueryKind.EXISTS, loop)) if alone else in_one_of(loop, MORE)
    for planned in (lambda: prepared(plan(root)), lambda: run_it(root, {"edges": [], "seeds": [], "more": []}, Form())):
        with pytest.raises(PlanError) as refused:
            planned()
        assert {(problem.place, problem.reason) for problem in refused.value.problems} == {
            (loop.plan_path, "UNSUPPORTED_CORRELATION")
        }
