"""Random loops that one recursive statement can run, over two sources of edges.

Their rows have two columns. A body is the distinct rows of some parts; a part takes rows from a source or from the
reference through filters, joins with edges and changes of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import pyarrow as pa
from hypothesis import strategies as st

from tidegate.planner import ir
from tidegate.planner.ir import types as t
from tidegate.planner.physical.sources import PlannedSource

from ..planner.build import call, col, combine, cross, eq, filtered, iterate, join, lit, project, read, reference
from ..planner.relations.naive import Row

Start: TypeAlias = Callable[[], ir.Relation]

LOOP: Final = 7
NAMES: Final = ("a", "b")


def values(type_: t.Type) -> st.SearchStrategy[object]:
    """Few, so that rows meet, nulls among them, and of floats those that are equal and differ."""
    if isinstance(type_, t.Float):
        return st.none() | st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("-inf")])
    if isinstance(type_, t.String):
        return st.none() | st.sampled_from(["", "a", "b", "\u00e9"])
    return st.none() | st.integers(0, 4)


def tables(type_: t.Type) -> st.SearchStrategy[dict[str, list[Row]]]:
    """Rows of the sources: `edges` and `more` to go along, `seed` to enter."""
    rows = st.lists(st.tuples(values(type_), values(type_)), max_size=9)
    return st.fixed_dictionaries({"edges": rows, "more": rows, "seed": rows})


def source(name: str, type_: t.Type) -> ir.Read:
    return read(name, a=type_, b=type_)


@st.composite
def parts(draw: st.DrawFn, type_: t.Type, start: Start) -> ir.Relation:
    """What goes on from `start` in up to three steps."""
    relation = start()
    for _ in range(draw(st.integers(0, 3))):
        relation = draw(_steps(relation, type_))
    return relation


@st.composite
def _steps(draw: st.DrawFn, below: ir.Relation, type_: t.Type) -> ir.Relation:
    edges = source(draw(st.sampled_from(["edges", "more"])), type_)
    order = draw(st.sampled_from([(0, 1), (1, 0), (1, 1)]))
    match draw(st.sampled_from(["filter", "turn", "constant", "step", "step back", "cross"])):
        case "filter":
            how = draw(st.sampled_from(["equal", "is_not_distinct_from", "lt"]))
            return filtered(below, call(how, col(0, type_), col(1, type_)))
        case "turn":
            return project(below, *(col(at, type_) for at in order))
        case "constant":
            return project(below, col(order[0], type_), lit(draw(values(type_)), type_))
        case "step":
            joined = join(below, edges, ir.JoinType.INNER, eq(col(1, type_), col(2, type_)))
            return project(joined, col(0, type_), col(3, type_))
        case "step back":
            joined = join(edges, below, ir.JoinType.INNER, call("is_not_distinct_from", col(0, type_), col(3, type_)))
            return project(joined, col(1, type_), col(2, type_))
        case _:
            return project(cross(below, edges), col(order[0], type_), col(2 + order[1], type_))


@st.composite
def linear_loops(draw: st.DrawFn, type_: t.Type) -> ir.Iterate:
    """A loop with or without an input, some parts of whose body may refer to nothing, and all of them or none to it."""
    base = st.sampled_from(["edges", "more"]).map(lambda name: lambda: source(name, type_))
    came_back = st.just(lambda: reference(LOOP, type_, type_))
    starts = draw(st.lists(base | came_back, min_size=2, max_size=4))
    parts_drawn = [draw(parts(type_, start)) for start in starts]
    entering = draw(st.none() | st.builds(lambda: source("seed", type_)))
    body = replace(
        combine(ir.SetOperation.UNION_DISTINCT, *parts_drawn), schema=(type_, type_)
    )  # any of them may be null
    return iterate(LOOP, body, entering)


def input_table(source: PlannedSource, rows: Sequence[Row]) -> pa.Table:
    """The columns that a plan reads of a source, of all of its rows, even if the plan reads no column."""
    if not source.columns:
        return pa.table({"unread": pa.nulls(len(rows))})
    return pa.table(
        {
            column.name: pa.array([row[NAMES.index(column.name)] for row in rows], column.type)
            for column in source.columns
        }
    )
