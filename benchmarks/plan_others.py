"""Plans that repeat something that is no relation and no expression of its own: literals, keys, measures, references.

`OTHERS` has them by name.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from .plan_growth import Node
from .plan_parts import (
    FILE,
    I64,
    TEXT,
    Made,
    Make,
    aggregate,
    call,
    case,
    cast,
    col,
    correlated,
    emit,
    exists,
    filtered,
    in_subquery,
    join,
    less_than_all,
    listed,
    measure,
    more_than,
    num,
    one_of,
    outer,
    pair_of,
    plus,
    project,
    read,
    scalar,
    schema,
    sort,
    struct_of,
    switch,
    text,
    union_all,
    windowed,
)

_WIDE: Final = 1_000


def _columns(make: Callable[[int], Node]) -> Make:
    """As many expressions, each a column."""
    return lambda size: Made(project(read(), *map(make, range(size))), size)


def _condition(*types: Node) -> Callable[[Callable[[int], Node]], Make]:
    return lambda make: lambda size: Made(filtered(read("t", *types), make(max(size, 2))), len(types))


def _cases(value: Callable[[int], Node]) -> Make:
    def make(size: int) -> Made:
        pairs = ((call("equal", col(), num(at)), value(at)) for at in range(size))
        return Made(project(read(), case(*pairs, otherwise=value(size))))

    return make


def _measures(make: Callable[[int], Node]) -> Make:
    return lambda size: Made(aggregate(read(), 0, *map(make, range(size))), size)


def _sets(sets: int) -> Make:
    """So many grouping sets of as many keys."""

    def make(size: int) -> Made:
        groups = {
            "groupings": [{"expressionReferences": [*range(at % 2, size)]} for at in range(sets)],
            "groupingExpressions": [col(at) for at in range(size)],
        }
        return Made({"aggregate": {"input": read("t", *[I64] * size), **groups}}, size + 1)

    return make


def _literals(value: Callable[[int], Node]) -> Make:
    return _columns(lambda at: {"literal": value(at)})


def _decimal(at: int) -> Node:
    value = base64.b64encode(at.to_bytes(16, "little")).decode()
    return {"decimal": {"value": value, "precision": 38, "scale": 2}}


def _rows(columns: int) -> Make:
    def make(size: int) -> Made:
        values = [{"fields": [{"i64": str(at)}] * columns} for at in range(size)]
        return Made({"read": {"baseSchema": schema(*[I64] * columns), "virtualTable": {"values": values}}}, columns)

    return make


def _computed_rows(size: int) -> Made:
    expressions = [{"fields": [call("add", num(at), num(1))]} for at in range(size)]
    return Made({"read": {"baseSchema": schema(I64), "virtualTable": {"expressions": expressions}}})


def _referred(below: Callable[[Sequence[Node]], Node], fan: int) -> Make:
    """As many shared subtrees, each of which reads the one before `fan` times."""

    def make(size: int) -> Made:
        subtrees = [filtered(read(), more_than(1))]
        subtrees += [below([{"reference": {"subtreeOrdinal": at}}] * fan) for at in range(size)]
        return Made({"reference": {"subtreeOrdinal": size}}, subtrees=tuple(subtrees))

    return make


def _one_subtree(size: int) -> Made:
    reference = {"reference": {"subtreeOrdinal": 0}}
    inputs = (filtered(reference, more_than(at)) for at in range(max(size, 2)))
    return Made(union_all(*inputs), subtrees=(filtered(read(), more_than(1)),))


def _detached(following: Callable[[Node, int], Node]) -> Make:
    """Detached expressions, each with the one before in it."""

    def make(size: int) -> Made:
        uses = [{"detachedExpressionOrdinal": at} for at in range(size + 1)]
        kept = [col(), *(following(uses[at], at) for at in range(size))]
        return Made(project(read(), uses[size]), detached=tuple(kept))

    return make


def _parameter(letters: int) -> Make:
    """As many uses of a parameter of so many letters."""

    def make(size: int) -> Made:
        bindings = [{"parameterAnchor": 1, "value": {"string": "x" * letters}}]
        use = {"dynamicParameter": {"type": TEXT, "parameterReference": 1}}
        return Made(project(read(), *[use] * size), size, more={"parameterBindings": bindings})

    return make


def _detached_text(letters: int) -> Make:
    def make(size: int) -> Made:
        use = {"detachedExpressionOrdinal": 0}
        return Made(project(read(), *[use] * size), size, detached=(text("x" * letters),))

    return make


def _files(size: int) -> Made:
    items = [{"uriFile": f"file://{FILE}", "parquet": {}}] * size
    return Made({"read": {"baseSchema": schema(I64), "localFiles": {"items": items}}})


def _emitted(size: int) -> Made:
    """Columns of a table, each many times."""
    mapping = (at % _WIDE for at in range(size))
    return Made(
        {"filter": {"common": emit(*mapping), "input": read("t", *[I64] * _WIDE), "condition": more_than(1)}}, size
    )


def _wide_chain(level: Callable[[Node, int], Node]) -> Make:
    return lambda size: Made(functools.reduce(level, range(size), read("t", *[I64] * _WIDE)), _WIDE)


def _nested_struct(size: int) -> Made:
    names = ("s", *(f"f{at}" for at in range(size)))
    return Made(project(read(), struct_of(*map(plus, range(size)))), names=names)


def _deep_structs(size: int) -> Made:
    struct = functools.reduce(lambda below, _: struct_of(below), range(size), col())
    return Made(project(read(), struct), names=tuple(f"s{at}" for at in range(size + 1)))


def _join_on(name: str) -> Make:
    def make(size: int) -> Made:
        terms = [call("equal", plus(at), col(1)) for at in range(max(size, 2))]
        return Made(join("INNER", read(), read("u"), call(name, *terms), common=emit(0)))

    return make


def _star(size: int) -> Made:
    """Joins that keep all columns, whose order DuckDB may choose."""

    def level(below: Node, at: int) -> Node:
        return join("INNER", below, read(f"s{at}"), call("equal", col(), col(at + 1)))

    return Made(functools.reduce(level, range(size), read()), size + 1)


def _set_of_all(operation: str) -> Make:
    return lambda size: Made(
        {"set": {"inputs": [read(f"s{at}") for at in range(max(size, 2))], "op": f"SET_OP_{operation}"}}
    )


def _subqueries(make: Callable[[int], Node]) -> Make:
    """As many subqueries in one condition."""
    return lambda size: Made(filtered(read(), call("and", *map(make, range(max(size, 2))))))


def _wide(subqueries: int) -> Make:
    """As many columns, and a condition of so many correlated subqueries."""
    return lambda size: Made(
        filtered(read("t", *[I64] * size), call("and", *(exists(correlated(at)) for at in range(subqueries)))), size
    )


def _in_each_other(subquery: Callable[[Node], Node]) -> Make:
    def level(below: Node, at: int) -> Node:
        return filtered(read(f"m{at}"), call("and", call("equal", plus(at), outer()), subquery(below)))

    def make(size: int) -> Made:
        return Made(filtered(read(), subquery(functools.reduce(level, range(size), correlated(size)))))

    return make


def _sum_of(relation: Node) -> Node:
    return scalar(aggregate(relation, 0, measure("sum", col())))


def _long_names(size: int) -> Made:
    struct: Node = schema(*[I64] * size)
    names = [f"{at}{'n' * 1_000}" for at in range(size)]
    return Made({"read": {"baseSchema": {**struct, "names": names}, "namedTable": {"names": ["t"]}}}, size)


_numbers, _texts, _pairs = _condition(I64), _condition(TEXT), _condition(I64, I64)
_DISTINCT: Final[dict[str, Any]] = {"invocation": "AGGREGATION_INVOCATION_DISTINCT"}

OTHERS: Final[dict[str, Make]] = {
    "branches of a case": _cases(num),
    "branches of a case, texts": _cases(lambda at: text(f"branch {at}")),
    "branches of a switch": lambda size: Made(project(read(), switch(col(), size))),
    "literals in a list": _numbers(lambda size: one_of(col(), *map(num, range(size)))),
    "values in a list": _numbers(lambda size: one_of(col(), *map(plus, range(size)))),
    "texts in a list": _texts(lambda size: one_of(col(), *(text(f"a text {at}") for at in range(size)))),
    "pairs in a list": _pairs(lambda size: pair_of([col(), col(1)], *([num(at), num(at)] for at in range(size)))),
    "patterns": _texts(lambda size: call("or", *(call("like", col(), text(f"%a{at}_b%")) for at in range(size)))),
    "texts in a concat": lambda size: Made(project(read("t", TEXT), call("concat", *[col()] * max(size, 2)))),
    "values in a coalesce": lambda size: Made(project(read(), call("coalesce", *map(plus, range(max(size, 2)))))),
    "items of a list": lambda size: Made(project(read(), listed(*map(plus, range(size))))),
    "fields of a struct": _nested_struct,
    "structs in each other": _deep_structs,
    "sums": _measures(lambda at: measure("sum", plus(at))),
    "distinct counts": _measures(lambda at: measure("count", plus(at), **_DISTINCT)),
    "filtered sums": _measures(lambda at: {**measure("sum", col()), "filter": more_than(at)}),
    "sorted texts": _measures(
        lambda at: measure("string_agg", cast(TEXT, col()), text(","), sorts=sort(read(), plus(at))["sort"]["sorts"])
    ),
    "keys in 2 grouping sets": _sets(2),
    "keys in 100 grouping sets": _sets(100),
    "keys in 1,000 grouping sets": _sets(1_000),
    "windows of one order": _columns(lambda _: windowed("row_number")),
    "windows of an order each": _columns(lambda at: windowed("row_number", order=plus(at))),
    "windows of a partition each": _columns(lambda at: windowed("sum", col(), partition=plus(at))),
    "keys of a sort": lambda size: Made(sort(read(), *map(plus, range(size)))),
    "literals": _literals(lambda at: {"i64": str(at)}),
    "texts": _literals(lambda at: {"string": f"a text {at}"}),
    "decimals": _literals(_decimal),
    "lists of literals": _literals(lambda _: {"list": {"values": [{"i64": str(value)} for value in range(9)]}}),
    "a list of literals": lambda size: Made(
        project(read(), {"literal": {"list": {"values": [{"i64": str(value)} for value in range(size)]}}})
    ),
    "rows of one column": _rows(1),
    "rows of ten columns": _rows(10),
    "rows of 1,000 columns": _rows(1_000),
    "computed rows": _computed_rows,
    "references, one each": _referred(lambda before: before[0], 1),
    "references, two each": _referred(lambda before: union_all(*before), 2),
    "references, ten each": _referred(lambda before: union_all(*before), 10),
    "references, joined": _referred(
        lambda before: join("INNER", before[0], before[1], call("equal", col(), col(1)), common=emit(0)), 2
    ),
    "references to one subtree": _one_subtree,
    "detached expressions": _detached(lambda before, at: call("add", before, num(at))),
    "detached expressions, twice each": _detached(lambda before, _: call("add", before, before)),
    "uses of a parameter of 1,000 letters": _parameter(1_000),
    "uses of a parameter of 100,000 letters": _parameter(100_000),
    "uses of a detached text of 100,000 letters": _detached_text(100_000),
    "files": _files,
    "columns of an emit": _emitted,
    "filters of 1,000 columns": _wide_chain(lambda below, at: filtered(below, more_than(at))),
    "sorts of 1,000 columns": _wide_chain(lambda below, at: sort(below, col(at))),
    "aggregates of 1,000 columns": _wide_chain(lambda below, _: aggregate(below, _WIDE)),
    "unions of 1,000 columns": _wide_chain(
        lambda below, _: {"set": {"inputs": [below, read("u", *[I64] * _WIDE)], "op": "SET_OP_UNION_DISTINCT"}}
    ),
    "conditions of a join, all of them": _join_on("and"),
    "conditions of a join, one of them": _join_on("or"),
    "joins that keep all columns": _star,
    **{
        f"inputs of {name}": _set_of_all(operation)
        for name, operation in (
            ("a union", "UNION_DISTINCT"),
            ("an intersection", "INTERSECTION_PRIMARY"),
            ("an intersection of multisets", "INTERSECTION_MULTISET"),
            ("an intersection of all", "INTERSECTION_MULTISET_ALL"),
            ("a difference", "MINUS_PRIMARY"),
            ("a difference of all", "MINUS_PRIMARY_ALL"),
            ("a difference of multisets", "MINUS_MULTISET"),
        )
    },
    "subqueries: in": _subqueries(lambda at: in_subquery(filtered(read("m"), more_than(at)))),
    "subqueries: exists": _subqueries(lambda at: exists(correlated(at))),
    "subqueries: all": _subqueries(lambda at: less_than_all(filtered(read("m"), more_than(at)))),
    "subqueries: all, correlated": _subqueries(lambda at: less_than_all(correlated(at))),
    "subqueries: one value": _columns(lambda at: _sum_of(filtered(read("m"), more_than(at)))),
    "subqueries: one value, correlated": _columns(lambda at: _sum_of(correlated(at))),
    "columns beside two correlated subqueries": _wide(2),
    "columns beside eight correlated subqueries": _wide(8),
    "subqueries in each other: in": _in_each_other(in_subquery),
    "subqueries in each other: exists": _in_each_other(exists),
    "subqueries in each other: all": _in_each_other(less_than_all),
    "columns of long names": _long_names,
}
