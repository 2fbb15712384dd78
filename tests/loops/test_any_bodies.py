"""Loops of random bodies, whose references stand on all sides of everything: both modes, against what a loop means.

Class of bug: rows that a loop's operators do not keep, or do not decide again, although something meets them later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tidegate.planner import ir

from ..continuous.histories import Changed, Integral, multiset
from ..continuous.network import Running
from ..planner.build import (
    I64,
    aggregate,
    call,
    col,
    combine,
    eq,
    iterate,
    join,
    measure,
    plan,
    project,
    read,
    reference,
)
from ..planner.relations.naive import Row
from ..planner.running import Form
from ..searching import one_of_each, tries
from . import any_bodies
from .oracle import TooManyRows, evaluate
from .test_rounds import run_it

SCHEMA: Final = pa.schema([("a", pa.int64()), ("b", pa.int64())])
MOST_ROWS: Final = 300
FORMS: Final = st.builds(Form, batch=st.sampled_from([None, 2]), channels=st.sampled_from([1, 2, 3]))


def expected(root: ir.Relation, rows: Mapping[str, Sequence[Row]]) -> list[Row]:
    try:
        return evaluate(
            plan(root), {name: (SCHEMA.names, table_rows) for name, table_rows in rows.items()}, most_rows=MOST_ROWS
        )
    except TooManyRows:
        assume(False)
        raise


@given(st.data())
@settings(max_examples=tries(15))
def test_an_epoch_gives_what_any_loop_means(data: st.DataObject) -> None:
    loop, rows = data.draw(any_bodies.loops()), data.draw(any_bodies.tables())
    right = expected(loop, rows)
    assert multiset(run_it(loop, rows, data.draw(FORMS))) == multiset(right)


@given(st.data())
@settings(max_examples=settings.default.max_examples // 2)
def test_the_sum_of_the_changes_is_what_any_loop_means(data: st.DataObject) -> None:
    loop, channels = data.draw(any_bodies.loops()), data.draw(st.integers(1, 3))
    there = {source: Counter[Row]() for source in any_bodies.SOURCES}
    integral = Integral()
    with Running(plan(loop), channels) as running:
        for wanted in data.draw(st.lists(any_bodies.tables(), min_size=1, max_size=3)):
            right = multiset(expected(loop, wanted))
            changed = {source: _changed(there[source], Counter(rows)) for source, rows in wanted.items()}
            integral.add(running.epoch(changed, dict.fromkeys(wanted, SCHEMA)))
            assert integral.rows == right


def _changed(there: Counter[Row], wanted: Counter[Row]) -> Changed:
    """From what is there to what is wanted; afterwards it is there."""
    changed = [(row, wanted[row] - there[row]) for row in there.keys() | wanted.keys()]
    there.clear()
    there.update(wanted)
    return sorted(((row, weight) for row, weight in changed if weight), key=repr)


EDGES: Final = read("edges", a=I64, b=I64)
CAME_BACK: Final = reference(1, I64, I64)
DISTINCT: Final = aggregate(CAME_BACK, (col(0), col(1)))
ONE_OF_A_KEY: Final = aggregate(CAME_BACK, (col(0),), measure("max", col(1)))
BELOW_AN_EDGE: Final = join(CAME_BACK, EDGES, ir.JoinType.LEFT_SEMI, call("lt", col(0), col(2)))
RIGHT: Final = {"distinct": DISTINCT, "a row of a key": ONE_OF_A_KEY, "semi": BELOW_AN_EDGE}
LEFT: Final = {
    "nothing": CAME_BACK,
    "anti": join(CAME_BACK, EDGES, ir.JoinType.LEFT_ANTI, call("gt", col(1), col(3))),
    "anti of itself": join(CAME_BACK, CAME_BACK, ir.JoinType.LEFT_ANTI, eq(col(1), col(2))),
    "left": project(join(CAME_BACK, EDGES, ir.JoinType.LEFT, call("lt", col(0), col(2))), col(0), col(1)),
}


@pytest.mark.parametrize(("right", "left", "channels"), one_of_each(product(RIGHT, LEFT, [1, 2])))
def test_what_came_back_meets_what_is_made_of_it(right: str, left: str, channels: int) -> None:
    """Over a chain the rows of one side come in rounds before those of the other that they meet."""
    step = project(join(LEFT[left], RIGHT[right], ir.JoinType.INNER, eq(col(1), col(2))), col(0), col(3))
    loop = iterate(1, combine(ir.SetOperation.UNION_DISTINCT, EDGES, step), max_rounds=12, at_limit=ir.AtLimit.RETURN)
    rows = {"edges": [(at, at + 1) for at in range(9)]}
    right_rows = evaluate(plan(loop), {"edges": (SCHEMA.names, rows["edges"])})
    assert run_it(loop, rows, Form(channels=channels)) == right_rows


def test_a_chain_joined_with_its_distinct_rows_is_its_closure() -> None:
    step = project(join(CAME_BACK, DISTINCT, ir.JoinType.INNER, eq(col(1), col(2))), col(0), col(3))
    loop = iterate(1, combine(ir.SetOperation.UNION_DISTINCT, EDGES, step))
    rows = run_it(loop, {"edges": [(at, at + 1) for at in range(9)]}, Form())
    assert rows == [(one, other) for one in range(10) for other in range(one + 1, 10)]
