"""The cost of planning as plans grow: `python -m benchmarks.plan_growth [SHAPE ...]`.

Each shape of a plan is made larger and larger, by factors of two, up to a limit of the service or until it takes
`MOST_SECONDS`. A process of its own makes a task of each plan and runs one epoch of one row. The table has the
processor time of both, the exponent by which it grew over the plan before, and the growth of the peak of memory.
Beyond an exponent of about 1 planning is not linear; the first, small plans have fixed costs above all.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

import tidegate

Node: TypeAlias = dict[str, Any]

MOST_SECONDS: Final = 10.0
_FIRST: Final = 25
_REQUIRED: Final = {"nullability": "NULLABILITY_REQUIRED"}
_I64: Final[Node] = {"i64": _REQUIRED}
_FUNCTIONS: Final = ("gt", "and", "add", "sum", "equal", "row_number")


@dataclass(frozen=True, slots=True)
class Shape:
    """A plan of `make(n)`, whose result has the names `c0` to `c<columns(n) - 1>`, for `n` up to `most`.

    `functions(n)` are declared beside those of all plans. `mode` is that of the task.
    """

    make: Callable[[int], Node]
    most: int
    columns: Callable[[int], int] = lambda _: 1
    functions: Callable[[int], int] = lambda _: 0
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


def united(size: int) -> Node:
    return {"set": {"inputs": [read(f"s{at}") for at in range(size)], "op": "SET_OP_UNION_ALL"}}


SHAPES: Final[dict[str, Shape]] = {
    "literals in a list": Shape(in_list, 100_000),
    "subqueries in a filter": Shape(in_subqueries, 100),
    "a deep expression": Shape(
        lambda n: projected(read(), 1, [deep(n, lambda inner, at: call("add", inner, number(at)), field())]), 4_900
    ),
    "deep filters": Shape(
        lambda n: deep(n, lambda inner, at: filtered(inner, call("gt", field(), number(-at))), read()), 9_000
    ),
    "cases": Shape(cases, 20_000),
    "columns read": Shape(lambda n: read(columns=n), 10_000, lambda n: n),
    "columns computed": Shape(
        lambda n: projected(read(), 1, [call("add", field(), number(at)) for at in range(n)]), 9_999, lambda n: n
    ),
    "columns sorted by": Shape(ordered, 8_000, lambda n: n),
    "columns grouped by": Shape(grouped, 8_000, lambda n: n + 1),
    "measures": Shape(measured, 9_000, lambda n: n),
    "grouping sets": Shape(grouping_sets, 400, lambda n: n + 1),
    "windows": Shape(windows, 9_000, lambda n: n),
    "nested casts": Shape(lambda n: projected(read(), 1, [deep(n, cast, field())]), 4_900),
    "fields of a struct": Shape(struct_fields, 9_000),
    "a deep type": Shape(deep_type, 4_900),
    "a long name": Shape(named, 10_000_000),
    "declared functions": Shape(lambda _: read(), 100_000, functions=lambda n: n),
    "joins": Shape(joined, 400),
    "sources of a union": Shape(united, 3_200),
    "continuous filters": Shape(
        lambda n: deep(n, lambda inner, at: filtered(inner, call("gt", field(), number(-at))), read()),
        9_000,
        mode="continuous",
    ),
    "continuous unions": Shape(united, 3_200, mode="continuous"),
    "continuous joins": Shape(joined, 400, mode="continuous"),
    "continuous columns": Shape(
        lambda n: projected(read(), 1, [call("add", field(), number(at)) for at in range(n)]),
        9_999,
        lambda n: n,
        mode="continuous",
    ),
    "continuous keys": Shape(grouped, 8_000, lambda n: n + 1, mode="continuous"),
}


def plan(shape: Shape, size: int) -> str:
    functions = (*_FUNCTIONS, *("add" for _ in range(shape.functions(size))))
    extensions = [{"extensionFunction": {"functionAnchor": n, "name": f}} for n, f in enumerate(functions, start=1)]
    root = {"input": shape.make(size), "names": [f"c{at}" for at in range(shape.columns(size))]}
    return json.dumps({"extensions": extensions, "relations": [{"root": root}]}, check_circular=False)


def measure(name: str, size: int) -> None:
    """Make a task and run an epoch; print the seconds of each, and the growth of the peak of memory in MiB."""
    sys.setrecursionlimit(1_000_000)
    text = plan(SHAPES[name], size)
    with tidegate.local() as client:
        before = _peak()
        started = time.process_time()
        with client.create_task(text, mode=SHAPES[name].mode) as task:
            created = time.process_time()
            tables = {source.name: one_row(source.schema) for source in task.info().sources}
            begun = time.process_time()
            task.run_epoch(tables)
            print(created - started, time.process_time() - begun, _peak() - before)


def one_row(schema: pa.Schema) -> pa.Table:
    return pa.table([pa.array([value_of(column.type)], column.type) for column in schema], schema=schema)


def value_of(kind: pa.DataType) -> object:
    """A value of a column's type."""
    if pa.types.is_list(kind):
        return []
    return dict.fromkeys((column.name for column in kind), 1) if pa.types.is_struct(kind) else 1


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def sizes(most: int) -> list[int]:
    return [*(_FIRST << power for power in range(int(math.log2(most / _FIRST)) + 1) if _FIRST << power < most), most]


def grow(name: str) -> None:
    before: tuple[int, float] | None = None
    for size in sizes(SHAPES[name].most):
        command = [sys.executable, "-m", __spec__.name, "--one", name, str(size)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name:24} {size:8,}  {(done.stderr.strip().splitlines() or ['no message'])[-1][:120]}", flush=True)
            return
        create, epoch, memory = map(float, done.stdout.split())
        spent = create + epoch
        exponent = "" if before is None else f"{math.log(spent / before[1]) / math.log(size / before[0]):.1f}"
        print(
            f"{name:24} {size:8,} {create:8.2f} s {epoch:8.2f} s  exponent {exponent:>4} {memory:7.0f} MiB", flush=True
        )
        if spent > MOST_SECONDS:
            return
        before = size, spent


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["--one"]:
        measure(arguments[1], int(arguments[2]))
        return
    print(f"{'shape':24} {'size':>8} {'create':>10} {'epoch':>10}")
    for name in arguments or SHAPES:
        grow(name)


if __name__ == "__main__":
    main(sys.argv[1:])
