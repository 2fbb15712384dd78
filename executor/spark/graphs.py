"""The division of a graph on Spark: the parts that travel to the executors, and those that stay in the service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ...planner.graph.graph_structure import problem
from ...planner.graph.prepare_graph import PreparedGraph
from ...proto.errors import PlanError, Problem
from ...proto.graph import ByFunction, ExecutorNode, Graph, GraphNode, IterableSource, MapNode, SqlNode
from ...proto.values import TaskOptions
from .iterables import StagedIterable
from .worker.stage import packed


def check_code(graph: Graph) -> None:
    """Raise `PlanError` with each user function that cannot travel, and each node that asks for what Spark decides."""
    problems = [wrong for node in graph.nodes for wrong in _problems(node)]
    if problems:
        raise PlanError(*problems)


def staged_iterables(
    prepared: PreparedGraph, folder: Path, options: TaskOptions
) -> tuple[PreparedGraph, list[StagedIterable]]:
    """The graph with files in `folder` in place of iterables that the service reads, and these iterables."""
    staged: dict[str, StagedIterable] = {}
    for node in prepared.nodes:
        if isinstance(node, IterableSource) and not node.is_function:
            staged[node.name] = StagedIterable(node, folder / f"{len(staged)}.arrow", options)
    nodes = tuple(staged[node.name].source if node.name in staged else node for node in prepared.nodes)
    return replace(prepared, nodes=nodes), list(staged.values())


def _problems(node: GraphNode) -> Iterator[Problem]:
    if isinstance(node, ExecutorNode | MapNode) and node.retries:
        yield problem(
            node.name,
            "NOT_ON_SPARK",
            "it has retries: leave them out, because Spark runs the tasks of a lost process again, as often as its "
            "spark.task.maxFailures says",
        )
    for what, code in _code(node):
        try:
            packed(code)
        except Exception as error:  # noqa: BLE001 - whatever pickling finds, and what users' own methods of it raise
            said = " ".join(str(error).split())
            text = (
                f"{what} cannot be sent to Spark's executors ({type(error).__name__}: {said}): make the objects that "
                f"the code refers to where the code runs{_INSTEAD if isinstance(node, IterableSource) else ''}"
            )
            yield problem(node.name, "NOT_ON_SPARK", text)


_INSTEAD = ", or give the iterable itself, whose rows are read in this process"


def _code(node: GraphNode) -> Iterator[tuple[str, object]]:
    match node:
        case ExecutorNode():
            yield "the function that makes its executor", node.make
        case MapNode():
            yield "its function", node.function
        case IterableSource() if node.is_function:
            yield "the function that makes its iterable", node.items
        case _:
            pass
    if isinstance(node, ExecutorNode | SqlNode):
        for stream in node.inputs:
            if isinstance(stream.partition, ByFunction):
                yield f"the partition function of stream {stream.name!r}", stream.partition.choose
