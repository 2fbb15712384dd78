"""Operators of stock nodes keep the rules of operators: streams may be cut, interleave, break off and begin anew."""

from __future__ import annotations

import pyarrow as pa

from tidegate import TaskGraph
from tidegate.operators.duckdb.fragment import Fragment, StreamSource
from tidegate.operators.duckdb.instances import Instance
from tidegate.planner.graph.graph_structure import ordered
from tidegate.planner.graph.schemas import steps_of
from tidegate.planner.graph.steps import SqlStep, relation
from tidegate.testing import check_operator

from .executors import numbers
from .test_stock import ANSWERS, CASES, ORDERED, Build, answer, ended, prices


def fragment(graph: TaskGraph, instance: Instance) -> tuple[list[str], Fragment]:
    """Of a graph with one stock node: which sources its streams are, and its operator."""
    steps, schemas = steps_of(ordered(graph.value), {})
    (step,) = (step_ for step_ in steps if isinstance(step_, SqlStep))
    read = [input_.source for input_ in step.inputs]
    streams = [
        StreamSource(relation=relation(at), schema=schemas[source], size_class=1_000) for at, source in enumerate(read)
    ]
    operator = Fragment(
        step.sql, schema=step.schema, instance=instance, streams=streams, strict=True, plan_path=step.name
    )
    return read, operator


@CASES
def test_it_keeps_the_rules_of_operators_and_gives_what_sql_gives(build: Build, warm: Instance) -> None:
    graph = ended(build, 1)
    inputs = [
        {"numbers": numbers(5, keys=3), "prices": prices(5)},
        {"numbers": numbers(0), "prices": prices(2)},
        {"numbers": numbers(4, keys=2), "prices": prices(4).slice(2)},
    ]
    read, _ = fragment(graph, warm)
    epochs: list[list[pa.Table]] = [[tables[source] for source in read] for tables in inputs]
    expected = [answer(build, {source: tables[source] for source in read}) for tables in inputs]
    check_operator(lambda: fragment(graph, warm)[1], epochs, expected=expected, ordered=build in ORDERED)


def test_no_stock_node_is_left_out() -> None:
    kinds = {type(node.operation).__name__ for build in ANSWERS for node in ended(build, 1).value.nodes[-1:]}
    assert kinds == {"Join", "Aggregate", "Distinct", "Sort", "Count"}
