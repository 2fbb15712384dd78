"""Loops that the cases run, written with substrait's builders, and the graphs that they run over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from substrait.algebra_pb2 import JoinRel, SetRel
from substrait.builders import plan
from substrait.builders.extended_expression import aggregate_function, cast, column, literal, scalar_function
from substrait.builders.type import fp64, i64, named_struct, struct
from substrait.dataframe import default_registry
from substrait.extension_registry import ExtensionRegistry

from tidegate.plans import iterate


@dataclass(frozen=True)
class Loop:
    """The same loop as a Substrait plan and as DuckDB's SQL."""

    plan: bytes
    sql: str


def reachable() -> Loop:
    """Of `roots(a)` and `edges(a, b)`: all nodes that edges lead to from the roots."""
    edges = plan.read_named_table("edges", _columns("a", "b"))

    def further(reached: Any) -> Any:
        return plan.select(plan.join(reached, edges, _equal(0, 1), JoinRel.JOIN_TYPE_INNER), [column(2)])

    loop = iterate("reachable", plan.read_named_table("roots", _columns("a")), further, distinct=True)
    return Loop(
        _bytes(loop),
        "WITH RECURSIVE found(a) AS (SELECT a FROM roots UNION SELECT b FROM found JOIN edges USING (a)) "
        "SELECT a FROM found",
    )


def closure() -> Loop:
    """Of `edges(a, b)`: all pairs of nodes of which edges lead from the first to the second."""
    edges = plan.read_named_table("edges", _columns("a", "b"))

    def longer(paths: Any) -> Any:
        return plan.select(plan.join(paths, edges, _equal(1, 2), JoinRel.JOIN_TYPE_INNER), [column(0), column(3)])

    return Loop(
        _bytes(iterate("paths", edges, longer, distinct=True)),
        "WITH RECURSIVE paths(a, b) AS (SELECT a, b FROM edges UNION "
        "SELECT paths.a, edges.b FROM paths JOIN edges ON paths.b = edges.a) SELECT a, b FROM paths",
    )


def components() -> bytes:
    """Of `edges(a, b)`, which go both ways: each node, and the least node that it is connected with."""
    edges = plan.read_named_table("edges", _columns("a", "b"))
    both_ways = plan.set([edges, plan.select(edges, [column(1), column(0)])], SetRel.SET_OP_UNION_ALL)
    itself = plan.select(both_ways, [column(0), column(0, alias="component")])

    def least(labels: Any) -> Any:
        met = plan.join(labels, both_ways, _equal(0, 2), JoinRel.JOIN_TYPE_INNER)
        labelled = plan.set([itself, plan.select(met, [column(3), column(1)])], SetRel.SET_OP_UNION_ALL)
        smallest = aggregate_function("extension:io.substrait:functions_arithmetic", "min", expressions=[column(1)])
        return plan.aggregate(labelled, [column(0)], [smallest])

    return _bytes(iterate("components", None, least, schema=_columns("a", "component")))


def swapping(rounds: int) -> bytes:
    """Of `edges(a, b)`: so many rounds in which each of them is turned round and handed on."""

    def swapped(pairs: Any) -> Any:
        return plan.select(pairs, [column(1), column(0)])

    edges = plan.read_named_table("edges", _columns("a", "b"))
    return _bytes(iterate("swapping", edges, swapped, max_rounds=rounds, at_limit="return"))


def chains(edges: int, side_by_side: int) -> pa.Table:
    """Chains of so many edges, the first of them from 0, the next one from 1, and so on."""
    starts = np.arange(edges * side_by_side)
    return _edges(starts, starts + side_by_side)


def ranks(damping: float, rounds: int) -> Loop:
    """Of `edges(a, b)` and `nodes(a, jump)`: PageRank after so many rounds. A node has the rank it is jumped to with,
    `jump`, and of every node that leads to it a share of the damped rank; in the first round all ranks are the jumps.
    Its SQL is a round, from `ranks` to the next ones, over `links`, edges with their shares.
    """
    edges = plan.read_named_table("edges", _columns("a", "b"))
    jump = named_struct(["a", "jump"], struct([i64(), fp64()], nullable=False))
    nodes = plan.read_named_table("nodes", jump)
    count = aggregate_function("extension:io.substrait:functions_aggregate_generic", "count", expressions=[])
    degrees = plan.aggregate(edges, [column(0)], [count])
    share = _arithmetic("divide", literal(damping, fp64()), cast(column(3), fp64()))
    links = plan.select(plan.join(edges, degrees, _equal(0, 2), JoinRel.JOIN_TYPE_INNER), [column(0), column(1), share])

    def handed_on(ranks: Any) -> Any:
        onward = plan.join(ranks, links, _equal(0, 2), JoinRel.JOIN_TYPE_INNER)
        shares = plan.select(onward, [column(3), _arithmetic("multiply", column(1), column(4))])
        total = aggregate_function("extension:io.substrait:functions_arithmetic", "sum", expressions=[column(1)])
        return plan.aggregate(plan.set([nodes, shares], SetRel.SET_OP_UNION_ALL), [column(0)], [total])

    return Loop(
        _bytes(iterate("ranks", None, handed_on, schema=jump, max_rounds=rounds, at_limit="return")),
        "SELECT a, sum(rank) AS rank FROM (SELECT a, jump AS rank FROM nodes UNION ALL "
        "SELECT b, rank * share FROM ranks JOIN links USING (a)) GROUP BY a",
    )


def chain(edges: int) -> pa.Table:
    """0 to 1, 1 to 2, and so on: a round for every edge."""
    return chains(edges, 1)


def grid(side: int) -> pa.Table:
    """From each node of a square to its neighbours on the right and below."""
    nodes = np.arange(side * side)
    right, below = nodes[nodes % side < side - 1], nodes[nodes < side * (side - 1)]
    return _edges(np.concatenate([right, below]), np.concatenate([right + 1, below + side]))


def random_graph(nodes: int, edges: int) -> pa.Table:
    """Always the same edges."""
    random = np.random.default_rng(11)
    return _edges(random.integers(0, nodes, edges), random.integers(0, nodes, edges))


def _edges(start: np.ndarray[Any, Any], end: np.ndarray[Any, Any]) -> pa.Table:
    return pa.table({"a": start.astype(np.int64), "b": end.astype(np.int64)})


def _columns(*names: str) -> Any:
    return named_struct(list(names), struct([i64() for _ in names], nullable=False))


def _equal(left: int, right: int) -> Any:
    both = [column(left), column(right)]
    return scalar_function("extension:io.substrait:functions_comparison", "equal", expressions=both)


def _arithmetic(name: str, *values: Any) -> Any:
    return scalar_function("extension:io.substrait:functions_arithmetic", name, expressions=values)


def _bytes(unresolved: Callable[[ExtensionRegistry], Any]) -> bytes:
    return bytes(unresolved(default_registry()).SerializeToString())
