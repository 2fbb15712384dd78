"""Plans that repeat one kind of relation or expression: `KINDS`, by name. Each is a function of the repetitions.

Relations are repeated in a chain and side by side, expressions inside one another and side by side.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final, TypeAlias

from .plan_growth import Node
from .plan_others import OTHERS
from .plan_parts import (
    F64,
    I64,
    REQUIRED,
    STATIC,
    TEXT,
    Made,
    Make,
    aggregate,
    ascending,
    call,
    case,
    cast,
    col,
    correlated,
    emit,
    exists,
    extension,
    filtered,
    first_of,
    function_of_one,
    in_subquery,
    inside,
    join,
    listed,
    loop_reference,
    measure,
    more_than,
    num,
    number_of,
    one_of,
    pair_of,
    parameter,
    plus,
    project,
    read,
    scalar,
    sort,
    struct_of,
    switch,
    text,
    union_all,
    window_body,
    windowed,
)

Level: TypeAlias = Callable[[Node, int], Node]
"""A relation of one column over another one, or an expression of an i64 over another one, and its number."""


# --------------------------------------------------------------------------------------------------- relations


def _joined(kind: str, table: str = "u") -> Level:
    condition = call("equal", col(), col(1))
    return lambda below, at: join(
        kind, below, read(table.replace("#", str(at))), condition, common=emit(0)
    )  # a table of its own for each `#`


def _by_keys(relation: str) -> Level:
    equal = {"simple": "SIMPLE_COMPARISON_TYPE_EQ"}
    key = {"left": col()["selection"], "right": col()["selection"], "comparison": equal}
    more = {"common": emit(0), "keys": [key], "type": "JOIN_TYPE_INNER"}
    return lambda below, _: {relation: {"left": below, "right": read("u"), **more}}


def _nested_loop(below: Node, at: int) -> Node:
    sides = {"left": below, "right": read("u"), "type": "JOIN_TYPE_INNER"}
    return {
        "nestedLoopJoin": {"common": emit(0), **sides, "expression": call("gt", col(), call("add", col(1), num(at)))}
    }


def _lateral(below: Node, at: int) -> Node:
    return {"lateralJoin": {"common": emit(0), "left": below, "right": correlated(at), "type": "JOIN_TYPE_INNER"}}


def _combined(operation: str) -> Level:
    return lambda below, at: {"set": {"inputs": [below, read(f"u{at % 3}")], "op": f"SET_OP_{operation}"}}


def _windows(below: Node, _: int) -> Node:
    bounds = {"lowerBound": {"unbounded": {}}, "upperBound": {"currentRow": {}}, "boundsType": "BOUNDS_TYPE_ROWS"}
    functions = [{**windowed("row_number")["windowFunction"], **bounds}]
    for unused in ("sorts", "partitions"):
        functions[0].pop(unused)
    keys = {"sorts": [ascending(col())], "partitionExpressions": [col()]}
    return {"window": {"common": emit(0), "input": below, "windowFunctions": functions, **keys}}


def _exchanged(below: Node, _: int) -> Node:
    return {"exchange": {"input": below, "scatterByFields": {"fields": [col()["selection"]]}, "partitionCount": 2}}


def _windows_of_time(below: Node, at: int) -> Node:
    counted = window_body({"measures": [measure("count", col())]})
    size = {"units": str(at % 7 + 2)}
    windows = extension("extensionSingle", "WindowAggregate", below, time=0, size=size, aggregate=counted)
    return project(windows, col(), width=3)


def _unnested(below: Node, _: int) -> Node:
    return project(extension("extensionSingle", "Unnest", project(below, listed(col())), columns=[0]), col())


def _packed(below: Node, _: int) -> Node:
    packed = extension(
        "extensionSingle", "PackLists", project(below, listed(col())), column=0, length=4, windowRows="9"
    )
    return project(extension("extensionSingle", "Unnest", packed, columns=[0]), col(), width=3)


def _in_time(name: str, **detail: object) -> Level:
    more = {"type": "TYPE_INNER", "leftTime": 0, "rightTime": 0, **detail}
    return lambda below, at: project(
        extension("extensionMulti", name, below, read(f"u{at % 3}"), **more), col(), width=2
    )


def _looked_up(below: Node, _: int) -> Node:
    detail = {"keys": [{"left": 0, "right": 0}], "type": "TYPE_LEFT", "index": "arrow"}
    return project(extension("extensionMulti", "IndexLookupJoin", below, read(STATIC), **detail), col(), width=2)


def _iterated(below: Node, at: int) -> Node:
    name = f"loop{at}"
    body = {"set": {"inputs": [loop_reference(name), read(f"m{at % 3}")], "op": "SET_OP_UNION_DISTINCT"}}
    return extension("extensionMulti", "IterationRelation", body, below, iterationName=name, maxRounds="2")


RELATIONS: Final[dict[str, Level]] = {
    "filter": lambda below, at: filtered(below, more_than(at)),
    "fetch": lambda below, at: {"fetch": {"input": below, "offset": str(at % 2), "count": "1000000"}},
    "sort": lambda below, _: sort(below),
    "top n": lambda below, at: {
        "topN": {"input": below, "sorts": [ascending(col())], "count": num(9 + at), "mode": "FETCH_MODE_ROWS_ONLY"}
    },
    "project": lambda below, at: project(below, plus(at)),
    "aggregate": lambda below, at: project(aggregate(below, 1, measure("sum", plus(at))), col(), width=2),
    "distinct aggregate": lambda below, _: project(
        aggregate(below, 1, measure("count", col(), invocation="AGGREGATION_INVOCATION_DISTINCT")), col(), width=2
    ),
    "inner join": _joined("INNER"),
    "inner join of many": _joined("INNER", "u#"),
    "left join": _joined("LEFT"),
    "outer join": _joined("OUTER"),
    "semi join": _joined("LEFT_SEMI"),
    "anti join": _joined("LEFT_ANTI"),
    "single join": _joined("LEFT_SINGLE"),
    "mark join": _joined("LEFT_MARK"),
    "cross": lambda below, _: {"cross": {"common": emit(0), "left": below, "right": read("u")}},
    "hash join": _by_keys("hashJoin"),
    "merge join": _by_keys("mergeJoin"),
    "nested loop join": _nested_loop,
    "lateral join": _lateral,
    "window": _windows,
    "window in a project": lambda below, at: project(below, windowed("lag", col(), order=plus(at))),
    "exchange": _exchanged,
    "expand": lambda below, at: {
        "expand": {"common": emit(0), "input": below, "fields": [{"switchingField": {"duplicates": [plus(at)]}}]}
    },
    "union": _combined("UNION_DISTINCT"),
    "union all": _combined("UNION_ALL"),
    "intersection": _combined("INTERSECTION_PRIMARY"),
    "intersection all": _combined("INTERSECTION_MULTISET_ALL"),
    "difference": _combined("MINUS_PRIMARY"),
    "difference all": _combined("MINUS_PRIMARY_ALL"),
    "unnest": _unnested,
    "packing": _packed,
    "windows of time": _windows_of_time,
    "late rows": lambda below, _: extension("extensionSingle", "LateRows", below, time=0, size={"units": "5"}),
    "as-of join": _in_time("AsOfJoin"),
    "interval join": _in_time("IntervalJoin", after={"units": "3"}),
    "iteration": _iterated,
    "look-up": _looked_up,
    "in subquery": lambda below, at: filtered(below, in_subquery(read(f"m{at % 3}"))),
    "exists": lambda below, at: filtered(below, exists(correlated(at))),
}
OF_READS: Final[dict[str, Level]] = {
    "declared order": lambda below, _: extension(
        "extensionSingle", "DeclaredOrder", below, keys=[{"column": 0, "direction": 2}]
    ),
    "watermark": lambda below, _: extension("extensionSingle", "Watermark", below, time=0),
}
"""Relations over a read alone."""

# ------------------------------------------------------------------------------------------------- expressions


def _to_other(below: Node, at: int) -> Node:
    return cast(I64 if at % 2 else F64, below)


def _as_text(change: Callable[[Node, int], Node]) -> Level:
    """A change of a number's text."""
    return lambda below, at: cast(I64, change(cast(TEXT, below), at))


def _asked(at: int) -> Node:
    """A subquery of one row."""
    return scalar({"fetch": {"input": filtered(read(f"m{at % 3}"), more_than(at)), "count": "1"}})


def _called(below: Node, _: int) -> Node:
    function = function_of_one(call("add", parameter(), parameter()))
    return {"lambdaInvocation": {**function, "arguments": {"fields": [below]}}}


def _now(_: Node, __: int) -> Node:
    now = {"executionContextVariable": {"currentTimestamp": {"precision": 6, **REQUIRED}}}
    return number_of(call("is_not_null", now))


EXPRESSIONS: Final[dict[str, Level]] = {
    "sum": lambda below, at: call("add", below, num(at)),
    "case": lambda below, at: case((more_than(at), num(at)), otherwise=below),
    "condition of a case": lambda below, at: number_of(more_than(at, below)),
    "switch": lambda below, _: switch(below, 2),
    "list of literals": lambda below, at: number_of(one_of(below, num(at), num(at + 1))),
    "list of values": lambda below, at: number_of(one_of(below, col(), num(at))),
    "list of pairs": lambda below, at: number_of(pair_of([below, col()], [num(at), num(at + 1)])),
    "between": lambda below, at: number_of(call("between", below, num(at), num(at + 1))),
    "search of a list": lambda below, at: number_of(call("array_has", listed(num(at), num(at + 1)), below)),
    "nullif": lambda below, at: call("nullif", below, num(at)),
    "list with a subquery": lambda below, at: number_of(one_of(below, _asked(at), num(at))),
    "between a subquery and a number": lambda below, at: number_of(call("between", below, _asked(at), num(at + 1))),
    "search of a list with a subquery": lambda below, at: number_of(
        call("array_has", listed(_asked(at), num(at)), below)
    ),
    "nullif with a subquery": lambda below, at: call("nullif", below, _asked(at)),
    "cast": _to_other,
    "text": _as_text(lambda value, _: value),
    "concat": _as_text(lambda value, at: call("concat", value, text(str(at)))),
    "regular expression": _as_text(lambda value, at: call("regexp_replace", value, text("a+b"), text(str(at)))),
    "coalesce": lambda below, at: call("coalesce", below, num(at)),
    "list": lambda below, _: first_of(listed(below)),
    "struct": lambda below, at: inside(struct_of(below, num(at)), structField={"field": 0}),
    "map": lambda below, _: inside(
        {"nested": {"map": {"keyValues": [{"key": num(1), "value": below}]}}}, mapKey={"mapKey": {"i64": "1"}}
    ),
    "lambda": lambda below, at: first_of(
        call("transform", listed(below), function_of_one(call("add", parameter(), num(at))))
    ),
    "call of a lambda": _called,
    "lambda with a lambda": lambda below, at: first_of(
        call("transform", listed(num(at)), function_of_one(call("add", parameter(), below)))
    ),
    "conditions": lambda below, at: number_of(call("and", more_than(at, below), call("not", more_than(at)))),
    "clock": _now,
}


# ------------------------------------------------------------------------------------------------------- kinds


def _chained(level: Level) -> Make:
    return lambda size: Made(functools.reduce(level, range(size), read()))


def _side_by_side(level: Level) -> Make:
    return lambda size: Made(union_all(*(level(read(f"t{at}"), at) for at in range(max(size, 2)))))


def _over_union(level: Level) -> Make:
    return lambda size: Made(level(union_all(*(read(f"t{at}") for at in range(max(size, 2)))), 1))


def _over_filters(level: Level) -> Make:
    def make(size: int) -> Made:
        return Made(level(union_all(*(filtered(read(f"t{at}"), more_than(at)) for at in range(max(size, 2)))), 1))

    return make


def _deep(level: Level) -> Make:
    return lambda size: Made(project(read(), functools.reduce(level, range(size), col())))


def _wide(level: Level) -> Make:
    return lambda size: Made(project(read(), *(level(col(), at) for at in range(size))), columns=size)


def _all_of(name: str) -> Make:
    return lambda size: Made(filtered(read(), call(name, *(more_than(at, plus(at)) for at in range(max(size, 2))))))


KINDS: Final[dict[str, Make]] = {
    **{f"chain of {name}": _chained(level) for name, level in (*RELATIONS.items(), *OF_READS.items())},
    **{f"{name} side by side": _side_by_side(level) for name, level in (*RELATIONS.items(), *OF_READS.items())},
    **{f"{name} over a union": _over_union(level) for name, level in RELATIONS.items()},
    **{
        f"{name} over a union of filters": _over_filters(RELATIONS[name])
        for name in ("filter", "sort", "aggregate", "inner join", "window", "union")
    },
    **{f"{name} in each other": _deep(level) for name, level in EXPRESSIONS.items()},
    **{f"{name} in each column": _wide(level) for name, level in EXPRESSIONS.items()},
    "all of some conditions": _all_of("and"),
    "one of some conditions": _all_of("or"),
    **OTHERS,
}
