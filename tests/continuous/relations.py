"""A plan for each way that a relation is kept up to date, over the sources `l` and `r`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from tidegate.planner import ir
from tidegate.planner.ir import JoinType, SetOperation
from tidegate.planner.ir import types as t

from ..planner.build import (
    BOOL,
    F64,
    I64,
    TEXT,
    aggregate,
    asc,
    call,
    case,
    col,
    combine,
    cross,
    desc,
    eq,
    expand,
    fetch,
    filtered,
    join,
    lit,
    measure,
    new_plan_path,
    project,
    read,
    sort,
    subquery,
    topn,
    values,
    window,
    window_call,
)

LEFT: Final = read("l", k=I64, v=I64, f=F64, s=TEXT)
RIGHT: Final = read("r", k=I64, v=I64, f=F64, s=TEXT)
SCHEMA: Final = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("f", pa.float64()), ("s", pa.string())])
SCHEMAS: Final = {"l": SCHEMA, "r": SCHEMA}

CONDITIONS: Final[Mapping[str, ir.Expression]] = {
    "equal keys": eq(col(0), col(4)),
    "two keys": call("and", eq(col(0), col(4)), eq(col(3, TEXT), col(7, TEXT))),
    "a key and more": call("and", eq(col(0), col(4)), call("lt", col(1), col(5))),
    "computed keys": eq(call("add", col(0), lit(1)), col(4)),
    "nulls match": call("is_not_distinct_from", col(0), col(4)),
    "no key": call("lt", col(1), col(5)),
}
_SINGLE: Final = (JoinType.LEFT_SINGLE, JoinType.RIGHT_SINGLE)


def joins() -> Iterator[tuple[str, ir.Relation]]:
    for type_ in JoinType:
        for name, condition in CONDITIONS.items():
            if type_ not in _SINGLE:
                yield f"join, {type_.value}, {name}", join(LEFT, RIGHT, type_, condition)
    ones = {
        side: aggregate(side_relation, [col(0)], measure("max", col(1)), measure("min", col(2, F64)))
        for side, side_relation in (("left", LEFT), ("right", RIGHT))
    }
    yield "join, left_single", join(LEFT, ones["right"], JoinType.LEFT_SINGLE, eq(col(0), col(4)))
    yield "join, right_single", join(ones["left"], RIGHT, JoinType.RIGHT_SINGLE, eq(col(0), col(3)))
    yield "cross", cross(LEFT, project(RIGHT, col(1)))


def marks() -> Iterator[tuple[str, ir.Relation]]:
    """Marks that may be null though no column of the pair is."""
    conditions = {
        "of a null": (JoinType.LEFT_MARK, eq(col(0), lit(None, I64))),
        "that is null": (JoinType.RIGHT_MARK, lit(None, BOOL)),
        "of a case": (JoinType.RIGHT_MARK, eq(col(0), case(call("gt", col(5), lit(0)), col(4)))),
        "of a function": (
            JoinType.LEFT_MARK,
            call("and", eq(col(0), col(4)), call("lt", call("nullif", col(1), lit(2)), col(5))),
        ),
    }
    for name, (type_, condition) in conditions.items():
        yield f"join, {type_.value}, a condition {name}", join(LEFT, RIGHT, type_, condition)
    union = combine(SetOperation.UNION_DISTINCT, project(RIGHT, lit(7)), project(RIGHT, col(0)))
    some_null = replace(union, schema=(I64,))
    yield (
        "join, left_mark, of a required column united with one that has nulls",
        join(LEFT, some_null, JoinType.LEFT_MARK, eq(col(0), col(4))),
    )


def aggregates() -> Iterator[tuple[str, ir.Relation]]:
    wanted = call("gt", col(1), lit(0))
    measures = {
        "counts": (measure("count"), measure("count", col(1))),
        "sums": (measure("sum", col(1)),),
        "averages": (measure("avg", col(1)), replace(measure("avg", col(1)), type=t.nullable(F64))),
        "averages of floats": (measure("avg", col(2, F64)),),
        "sums of floats": (measure("sum", col(2, F64)),),
        "extremes": (measure("min", col(1)), measure("max", col(2, F64))),
        "distinct ones": (measure("count", col(1), distinct=True), measure("sum", col(1), distinct=True)),
        "distinct ones and others": (
            measure("count"),
            measure("count", col(1), distinct=True),
            measure("count", col(3, TEXT), distinct=True, condition=wanted),
            measure("sum", col(1)),
            measure("max", col(2, F64)),
        ),
        "filtered ones": (measure("sum", col(1), condition=wanted), measure("count", condition=wanted)),
    }
    for name, keys_and_measure in measures.items():
        yield f"aggregate, {name}", aggregate(LEFT, [col(0)], *keys_and_measure)
        yield f"aggregate without keys, {name}", aggregate(LEFT, [], *keys_and_measure)
    texts = project(LEFT, col(0), col(3, TEXT))
    yield "aggregate, the rest", aggregate(texts, [col(0)], measure("string_agg", col(1, TEXT), lit(",")))
    yield "aggregate without keys, the rest", aggregate(LEFT, [], measure("bool_or", wanted))
    yield "aggregate, computed keys", aggregate(LEFT, [call("add", col(0), lit(1)), col(3, TEXT)], measure("count"))
    sets = [(0, 1), (0,), ()]
    yield "grouping sets", aggregate(LEFT, [col(0), col(3, TEXT)], measure("sum", col(1)), sets=sets)
    yield "distinct", aggregate(LEFT, [col(0), col(3, TEXT)])


def sets() -> Iterator[tuple[str, ir.Relation]]:
    two = [project(side_relation, col(0), col(3, TEXT)) for side_relation in (LEFT, RIGHT)]
    third = filtered(two[0], call("gt", col(0), lit(1)))
    for operation in SetOperation:
        for inputs in (two[:1], two, [*two, third]):
            yield f"set, {operation.value} of {len(inputs)}", combine(operation, *inputs)


def windows() -> Iterator[tuple[str, ir.Relation]]:
    by_key = {"partitions": (col(0),), "sorts": (desc(col(1)), asc(col(2, F64)), asc(col(3, TEXT)))}
    ranked = window_call("row_number", **by_key)
    summed = window_call("sum", col(1), partitions=(col(3, TEXT),), sorts=(asc(col(1)),))
    least = window_call("min", col(1))
    yield "window", window(LEFT, ranked)
    yield "windows of two partitions", window(LEFT, ranked, summed)
    yield (
        "windows of several partitions",
        window(LEFT, ranked, summed, least, replace(ranked, function=ranked.function)),
    )
    yield "first rows of each key", filtered(window(LEFT, ranked), call("lte", col(4), lit(2)))


def rowwise() -> Iterator[tuple[str, ir.Relation]]:
    yield "filter", filtered(LEFT, call("gt", col(1), lit(0)))
    yield "project", project(LEFT, call("add", col(0), col(1)), col(3, TEXT))
    yield "expand", expand(LEFT, [col(0), lit(None, TEXT)], [col(1), col(3, TEXT)])
    yield "values", combine(SetOperation.UNION_ALL, project(LEFT, col(0)), values((I64,), (7,), (7,), (None,)))


def nested() -> Iterator[tuple[str, ir.Relation]]:
    of_key = filtered(RIGHT, eq(col(0), col(0, outer=1)))
    greatest = aggregate(of_key, [], measure("max", col(1)))
    yield "exists", filtered(LEFT, subquery(ir.SubqueryKind.EXISTS, of_key))
    yield "in", filtered(LEFT, subquery(ir.SubqueryKind.IN, project(RIGHT, col(1)), col(1)))
    of_next = filtered(RIGHT, eq(col(0), call("add", col(0, outer=1), lit(1))))
    there = subquery(ir.SubqueryKind.IN, project(of_next, col(1)), col(1))
    yield "not in rows of a computed key", filtered(LEFT, call("not", there))
    yield "scalar", project(LEFT, col(1), subquery(ir.SubqueryKind.SCALAR, greatest))
    yield "lateral join", join(LEFT, greatest, ir.JoinType.LEFT, None, lateral=True)
    floats = project(of_key, col(2, F64), col(2, F64))
    counted = aggregate(floats, [], measure("regr_count", col(0, F64), col(1, F64)))
    yield "scalar that is zero for no rows", project(LEFT, col(1), subquery(ir.SubqueryKind.SCALAR, counted))
    others = fetch(sort(of_key, asc(col(1)), asc(col(2, F64)), asc(col(3, TEXT))), (1 << 63) - 1, 1)
    for kind in (ir.JoinType.LEFT, ir.JoinType.LEFT_SEMI):
        yield f"lateral join, {kind.value}, all but the first row", join(LEFT, others, kind, None, lateral=True)


def firsts() -> Iterator[tuple[str, ir.Relation]]:
    keys = (desc(col(1)), asc(col(2, F64)), asc(col(0)), asc(col(3, TEXT)))
    yield "sorted limit", fetch(sort(LEFT, *keys), 3, 1)
    yield "top-n", topn(LEFT, keys, 2)
    most = (1 << 63) - 1
    yield "offset", fetch(sort(LEFT, *keys), None, 2)
    yield "offset of a limit", fetch(fetch(sort(LEFT, *keys), 4), None, 2)
    yield "limit of an offset", fetch(fetch(sort(LEFT, *keys), None, 2), 3)
    yield "offset beyond all rows", fetch(sort(LEFT, *keys), None, most)
    for count in (most - 1, most):
        yield f"limit of {count}", fetch(sort(LEFT, *keys), count)
        yield f"limit of {count} after two", fetch(sort(LEFT, *keys), count, 2)
    yield "top-n with ties", topn(LEFT, [desc(col(1))], 2, ties=True)
    yield "limit of a limit", fetch(fetch(sort(LEFT, *keys), 4), 2, 1)
    yield "limit above a projection", fetch(project(sort(LEFT, *keys), col(1), col(0)), 3)
    yield "limit above a filter", fetch(filtered(sort(LEFT, *keys), call("gt", col(1), lit(-3))), 2)


INCREMENTAL: Final = dict([*rowwise(), *joins(), *marks(), *aggregates(), *sets(), *windows(), *nested(), *firsts()])
"""What must never fall back to computing everything again."""

COUNTED: Final = subquery(ir.SubqueryKind.SCALAR, aggregate(RIGHT, [], measure("count", col(0))))
"""How many rows there are on the right, as a number of rows to keep."""

RECOMPUTED: Final[Mapping[str, ir.Relation]] = {
    "limit of as many rows as are counted": replace(
        fetch(sort(LEFT, desc(col(1)), asc(col(2, F64)), asc(col(0)), asc(col(3, TEXT))), 0), count=COUNTED
    ),
    "exists one of two kinds": filtered(
        LEFT,
        subquery(
            ir.SubqueryKind.EXISTS,
            combine(
                ir.SetOperation.UNION_ALL,
                filtered(RIGHT, eq(col(0), col(0, outer=1))),
                filtered(RIGHT, eq(col(1), col(1, outer=1))),
            ),
        ),
    ),
}
"""What is computed again from all rows."""


def unnest(outer: bool, ordinality: bool) -> ir.Unnest:
    of = read("n", k=I64, items=t.List(element=I64))
    number = (t.required(I64),) if ordinality and not outer else (I64,) if ordinality else ()
    return ir.Unnest(
        input=of,
        kept=(col(0),),
        lists=(col(1, t.List(element=I64)),),
        ordinality=ordinality,
        outer=outer,
        schema=(I64, I64, *number),
        plan_path=new_plan_path(),
    )
