"""The cost of plans and their epochs as they grow: `python -m benchmarks.plan_growth [--from N] [--to N] [SHAPE ...]`.

Each shape of a plan is made larger and larger, by factors of two, up to a limit of the service or until it takes
`MOST_SECONDS`. A process of its own makes a task of each plan and runs epochs of one row for each source. The table has
the processor time of the task, of the first epoch and of a later one; the exponents by which each of them grew over the
plan before; and the growth of the peak of memory. Beyond an exponent of about 1 the work is not linear; the first,
small plans have fixed costs above all. Some shapes have one plan, and more and more splits or epochs.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

import tidegate

Node: TypeAlias = dict[str, Any]

MOST_SECONDS: Final = 10.0
_FIRST: Final = 25
_EPOCHS: Final = 3
_REQUIRED: Final = {"nullability": "NULLABILITY_REQUIRED"}
_I64: Final[Node] = {"i64": _REQUIRED}
_FUNCTIONS: Final = ("gt", "and", "add", "sum", "equal", "row_number")


@dataclass(frozen=True, slots=True)
class Shape:
    """A plan of `make(n)`, whose result has the names `c0` to `c<columns(n) - 1>`, for `n` up to `most`.

    `functions(n)` are declared beside those of all plans. `mode` is that of the task. Each epoch has `splits(n)` of
    each source, and one measure runs `epochs(n)` of them.
    """

    make: Callable[[int], Node]
    most: int
    columns: Callable[[int], int] = lambda _: 1
    functions: Callable[[int], int] = lambda _: 0
    splits: Callable[[int], int] = lambda _: 1
    epochs: Callable[[int], int] = lambda _: 1
    mode: Literal["per_epoch", "continuous"] = "per_epoch"


def read(name: str = "t", columns: int = 1) -> Node:
    struct = {"types": [_I64] * columns, **_REQUIRED}
    names = [f"c{at}" for at in range(columns)]
    return {"read": {"baseSchema": {"names": names, "struct": struct}, "namedTable": {"names": [name]}}}


def field(at: int = 0) -> Node:
    return {"selection": {"directReference": {"structField": {"field": at}}, "rootReference": {}}}


def number(value: int) -> Node:
    return {"literal": {"i64": str(value)}}


def function(name: str, *arguments: Node) -> Node:
    reference = _FUNCTIONS.index(name) + 1
    return {
        "functionReference": reference,
        "outputType": _I64,
        "arguments": [{"value": argument} for argument in arguments],
    }


def call(name: str, *arguments: Node) -> Node:
    expression = function(name, *arguments)
    boolean = name in ("gt", "and", "equal")
    return {"scalarFunction": {**expression, "outputType": {"bool": _REQUIRED}} if boolean else expression}


def filtered(below: Node, condition: Node) -> Node:
    return {"filter": {"input": below, "condition": condition}}


def projected(below: Node, width: int, expressions: Sequence[Node]) -> Node:
    mapping = list(range(width, width + len(expressions)))
    emit = {"emit": {"outputMapping": mapping}}
    return {"project": {"common": emit, "input": below, "expressions": [*expressions]}}


def deep(size: int, level: Callable[[Node, int], Node], start: Node) -> Node:
    for at in range(size):
        start = level(start, at)
    return start


def in_list(size: int) -> Node:
    options = [number(at) for at in range(size)]
    return filtered(read(), {"singularOrList": {"value": field(), "options": options}})


def in_subqueries(size: int) -> Node:
    haystacks = (filtered(read("m"), call("gt", field(), number(at))) for at in range(size))
    asked = [{"subquery": {"inPredicate": {"needles": [field()], "haystack": haystack}}} for haystack in haystacks]
    return filtered(read(), call("and", *asked))


def cases(size: int) -> Node:
    ifs = [{"if": call("equal", field(), number(at)), "then": number(at)} for at in range(size)]
    return projected(read(), 1, [{"ifThen": {"ifs": ifs, "else": number(-1)}}])


def grouped(size: int) -> Node:
    keys = [{"expressionReferences": list(range(size))}]
    measures = [{"measure": {**function("sum", field()), "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT"}}]
    expressions = [field(at) for at in range(size)]
    aggregate = {
        "input": read(columns=size), "groupings": keys, "groupingExpressions": expressions, "measures": measures
    }  # fmt: skip
    return {"aggregate": aggregate}


def ordered(size: int) -> Node:
    sorts = [{"expr": field(at), "direction": "SORT_DIRECTION_ASC_NULLS_LAST"} for at in range(size)]
    return {"sort": {"input": read(columns=size), "sorts": sorts}}


def joined(size: int) -> Node:
    def level(below: Node, at: int) -> Node:
        condition = call("equal", field(), field(1))
        return {
            "join": {"left": below, "right": read(f"s{at}"), "type": "JOIN_TYPE_LEFT_SEMI", "expression": condition}
        }

    return deep(size, level, read())


def joined_whole(size: int) -> Node:
    """As many joins, which keep all columns."""

    def level(below: Node, at: int) -> Node:
        condition = call("equal", field(), field(at + 1))
        return {"join": {"left": below, "right": read(f"s{at}"), "type": "JOIN_TYPE_INNER", "expression": condition}}

    return deep(size, level, read())


def measured(size: int) -> Node:
    measures = [
        {
            "measure": {
                **function("sum", call("add", field(), number(at))),
                "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
            }
        }
        for at in range(size)
    ]
    return {"aggregate": {"input": read(), "measures": measures}}


def grouping_sets(size: int) -> Node:
    """As many sets of one key each."""
    return {
        "aggregate": {
            "input": read(columns=size),
            "groupings": [{"expressionReferences": [at]} for at in range(size)],
            "groupingExpressions": [field(at) for at in range(size)],
        }
    }


def windows(size: int) -> Node:
    """As many windows over one order."""
    bound: Node = {"unbounded": {}}
    order = [{"expr": field(), "direction": "SORT_DIRECTION_ASC_NULLS_LAST"}]
    window = {**function("row_number"), "sorts": order, "lowerBound": bound, "upperBound": {"currentRow": {}}}
    return projected(read(), 1, [{"windowFunction": window}] * size)


def cast(below: Node, at: int) -> Node:
    """A cast to the other one of two types, so that none may be left out."""
    kind = {"i32": _REQUIRED} if at % 2 else {"fp64": _REQUIRED}
    return {"cast": {"type": kind, "input": below, "failureBehavior": "FAILURE_BEHAVIOR_THROW_EXCEPTION"}}


def typed(kind: Node, names: Sequence[str] = ("c0",)) -> Node:
    """A read of one column of a type."""
    schema = {"names": list(names), "struct": {"types": [kind], **_REQUIRED}}
    return {"read": {"baseSchema": schema, "namedTable": {"names": ["t"]}}}


def struct_fields(size: int) -> Node:
    """One column, a struct of as many fields; the result is the last of them."""
    kind = {"struct": {"types": [_I64] * size, **_REQUIRED}}
    inside = {"structField": {"field": size - 1}}
    last = {"selection": {"directReference": {"structField": {"field": 0, "child": inside}}, "rootReference": {}}}
    return projected(typed(kind, ["s", *(f"f{at}" for at in range(size))]), 1, [last])


def deep_type(size: int) -> Node:
    """A column of lists of lists; the result is another one."""
    lists = deep(size, lambda below, _: {"list": {"type": below, **_REQUIRED}}, _I64)
    struct = {"types": [_I64, lists], **_REQUIRED}
    base = {"names": ["c0", "c1"], "struct": struct}
    return projected({"read": {"baseSchema": base, "namedTable": {"names": ["t"]}}}, 2, [field()])


def named(size: int) -> Node:
    """A column whose name has as many letters."""
    return projected(typed(_I64, ["x" * size]), 1, [field()])


def one_sort(size: int) -> Node:
    sorts = [{"expr": field(), "direction": "SORT_DIRECTION_ASC_NULLS_LAST"}]
    return {"sort": {"input": read(columns=size), "sorts": sorts}}


def first_row(size: int) -> Node:
    return {"fetch": {"input": one_sort(size), "offset": "0", "count": "1"}}


def summed(size: int) -> Node:
    """As many sums of columns, by the first column."""
    sums = [
        {"measure": {**function("sum", field(at)), "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT"}}
        for at in range(size)
    ]
    keys = {"groupings": [{"expressionReferences": [0]}], "groupingExpressions": [field()]}
    return {"aggregate": {"input": read(columns=size), **keys, "measures": sums}}


def side_by_side(size: int) -> Node:
    """A join of half as many columns on each side."""
    half = size // 2
    sides = {"left": read(columns=half), "right": read("u", columns=half)}
    return {"join": {**sides, "type": "JOIN_TYPE_INNER", "expression": call("equal", field(), field(half))}}


def beside_a_window(size: int) -> Node:
    (window,) = windows(1)["project"]["expressions"]
    return {"project": {"input": read(columns=size), "expressions": [window]}}


def two_tables(operation: str) -> Callable[[int], Node]:
    return lambda size: {"set": {"inputs": [read(columns=size), read("u", columns=size)], "op": operation}}


def filtered_columns(size: int) -> Node:
    return filtered(read(columns=size), call("gt", field(), number(-1)))


def deep_filters(size: int) -> Node:
    return deep(size, lambda inner, at: filtered(inner, call("gt", field(), number(-at))), read())


def computed(size: int) -> Node:
    return projected(read(), 1, [call("add", field(), number(at)) for at in range(size)])


def one_filter(_: int) -> Node:
    return filtered_columns(1)


def intersected(size: int) -> Node:
    return {"set": {"inputs": [read(f"s{at}") for at in range(size)], "op": "SET_OP_INTERSECTION_PRIMARY"}}


def united(size: int) -> Node:
    return {"set": {"inputs": [read(f"s{at}") for at in range(size)], "op": "SET_OP_UNION_ALL"}}


COLUMNS: Final[dict[str, Shape]] = {
    "columns filtered": Shape(filtered_columns, 8_000, lambda n: n),
    "columns sorted": Shape(one_sort, 8_000, lambda n: n),
    "columns of a first row": Shape(first_row, 8_000, lambda n: n),
    "columns grouped by": Shape(grouped, 8_000, lambda n: n + 1),
    "columns summed": Shape(summed, 8_000, lambda n: n + 1),
    "columns joined": Shape(side_by_side, 8_000, lambda n: n),
    "columns of a union": Shape(two_tables("SET_OP_UNION_DISTINCT"), 8_000, lambda n: n),
    "columns of a difference": Shape(two_tables("SET_OP_MINUS_PRIMARY"), 8_000, lambda n: n),
    "columns beside a window": Shape(beside_a_window, 8_000, lambda n: n + 1),
    "columns computed": Shape(computed, 9_999, lambda n: n),
}
"""Every kind of operator over more and more columns."""

BOTH: Final[dict[str, Shape]] = {
    **COLUMNS,
    "literals in a list": Shape(in_list, 100_000),
    "subqueries in a filter": Shape(in_subqueries, 100),
    "deep filters": Shape(deep_filters, 2_400),
    "measures": Shape(measured, 9_000, lambda n: n),
    "grouping sets": Shape(grouping_sets, 400, lambda n: n + 1),
    "windows": Shape(windows, 9_000, lambda n: n),
    "joins": Shape(joined, 400),
    "joins of all columns": Shape(joined_whole, 440, lambda n: n + 1),
    "sources of a union": Shape(united, 2_400),
    "sources that intersect": Shape(intersected, 800),
    "splits": Shape(one_filter, 12_800, splits=lambda n: n),
    "epochs": Shape(one_filter, 3_200, epochs=lambda n: n),
}

SHAPES: Final[dict[str, Shape]] = {
    **BOTH,
    "a deep expression": Shape(
        lambda n: projected(read(), 1, [deep(n, lambda inner, at: call("add", inner, number(at)), field())]), 4_900
    ),
    "cases": Shape(cases, 9_900),
    "columns read": Shape(lambda n: read(columns=n), 10_000, lambda n: n),
    "columns sorted by": Shape(ordered, 8_000, lambda n: n),
    "nested casts": Shape(lambda n: projected(read(), 1, [deep(n, cast, field())]), 4_900),
    "fields of a struct": Shape(struct_fields, 9_000),
    "a deep type": Shape(deep_type, 4_900),
    "a long name": Shape(named, 10_000_000),
    "declared functions": Shape(lambda _: read(), 100_000, functions=lambda n: n),
    **{f"continuous: {name}": replace(shape, mode="continuous") for name, shape in BOTH.items()},
}


def plan(shape: Shape, size: int) -> str:
    functions = (*_FUNCTIONS, *("add" for _ in range(shape.functions(size))))
    extensions = [{"extensionFunction": {"functionAnchor": n, "name": f}} for n, f in enumerate(functions, start=1)]
    root = {"input": shape.make(size), "names": [f"c{at}" for at in range(shape.columns(size))]}
    return json.dumps({"extensions": extensions, "relations": [{"root": root}]}, check_circular=False)


def measure(name: str, size: int) -> None:
    """Make a task and run epochs; print the seconds of the task, of the first epoch and of a later one, and the growth
    of the peak of memory in MiB.
    """
    sys.setrecursionlimit(1_000_000)
    shape = SHAPES[name]
    text = plan(shape, size)
    with tidegate.local() as client:
        before = _peak()
        marks = [time.process_time()]
        with client.create_task(text, mode=shape.mode) as task:
            marks.append(time.process_time())
            rows = {source.name: one_row(source.schema) for source in task.info().sources}
            for _ in range(_EPOCHS):
                splits = {source: [row] * shape.splits(size) for source, row in rows.items()}
                marks.append(time.process_time())
                for _ in range(shape.epochs(size)):
                    task.run_epoch(splits)
                marks.append(time.process_time())
        create, first, *later = (end - start for start, end in batched_pairs(marks))
        print(create, first, min(later), _peak() - before)


def batched_pairs(marks: Sequence[float]) -> Iterator[tuple[float, float]]:
    """The marks two by two."""
    return zip(marks[::2], marks[1::2], strict=True)


def one_row(schema: pa.Schema) -> pa.Table:
    return pa.table([pa.array([value_of(column.type)], column.type) for column in schema], schema=schema)


def value_of(kind: pa.DataType) -> object:
    """A value of a column's type."""
    if pa.types.is_list(kind):
        return []
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "1"
    return dict.fromkeys((column.name for column in kind), 1) if pa.types.is_struct(kind) else 1


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def sizes(least: int, most: int) -> list[int]:
    return [*(least << power for power in range(most.bit_length()) if least << power < most), most]


def grow(name: str, least: int, most: int) -> None:
    before: tuple[int, Sequence[float]] | None = None
    for size in sizes(least, min(most, SHAPES[name].most)):
        command = [sys.executable, "-m", __spec__.name, "--one", name, str(size)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name:36} {size:8,}  {(done.stderr.strip().splitlines() or ['no message'])[-1][:120]}", flush=True)
            return
        *seconds, memory = map(float, done.stdout.split())
        print(f"{name:36} {size:8,} {_row(size, seconds, before)} {memory:7.0f} MiB", flush=True)
        if sum(seconds) > MOST_SECONDS:
            return
        before = size, seconds


def _row(size: int, seconds: Sequence[float], before: tuple[int, Sequence[float]] | None) -> str:
    """The seconds, each with its exponent."""
    parts = []
    for at, spent in enumerate(seconds):
        exponent = "" if before is None else f"{_log(spent / before[1][at]) / _log(size / before[0]):.1f}"
        parts.append(f"{spent:8.3f} s {exponent:>4}")
    return "  ".join(parts)


def _log(ratio: float) -> float:
    return math.log(max(ratio, 1e-9))


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["--one"]:
        measure(arguments[1], int(arguments[2]))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--from", dest="least", type=int, default=_FIRST, help="the first size (default: %(default)s)")
    parser.add_argument("--to", dest="most", type=int, default=sys.maxsize, help="the last size (default: each limit)")
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help="default: all")
    chosen = parser.parse_args(arguments)
    print(f"{'shape':36} {'size':>8} {'create':>10} {'first epoch':>16} {'later epoch':>16}   exponents behind each")
    for name in chosen.shapes or SHAPES:
        grow(name, chosen.least, chosen.most)


if __name__ == "__main__":
    main(sys.argv[1:])
