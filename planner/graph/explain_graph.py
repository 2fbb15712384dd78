"""The document that explains a graph: its pipelines with their nodes and streams, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, assert_never

import pyarrow as pa

from ...operators.user.user_code import shown
from ...proto.graph import (
    DatasetSource,
    ExecutorNode,
    FedSource,
    FileSource,
    Graph,
    IterableSource,
    MapNode,
    UnionNode,
)
from ...proto.values import ExecutorKind, Explanation
from ..explain.explanation_text import explanation
from ..physical.stages import stages_of
from .edges import Edge, edges_of
from .lower_graph import Lowered
from .steps import MergeStep, SqlStep, Step


def explain(
    graph: Graph, nodes: Sequence[Step], schemas: Mapping[str, pa.Schema], lowered: Lowered, executor: ExecutorKind
) -> Explanation:
    """The explanation of a graph: pipelines with their nodes, in the order in which rows pass through them."""
    described = [_node(node, schemas[node.name], lowered, executor) for node in nodes]
    document: dict[str, Any] = {
        "nodes": described,
        "pipelines": len(lowered.physical.pipelines),
        "result": graph.result,
        "written": None if graph.target is None else asdict(graph.target),
    }
    if executor is ExecutorKind.SPARK:
        document["spark"] = _stages(lowered)
    return explanation(document)


def _node(node: Step, schema: pa.Schema, lowered: Lowered, executor: ExecutorKind) -> dict[str, Any]:
    return {
        "name": node.name,
        "kind": _kind(node),
        "what": _what(node) + _where(node, executor),
        "schema": shown(schema),
        "pipeline": lowered.homes[node.name] + 1,
        "channels": lowered.channels[node.name],
        "ends_pipeline": node.name in lowered.ends,
        "streams": [_stream(node, edge, lowered) for edge in edges_of(node)],
    }


def _stream(node: Step, edge: Edge, lowered: Lowered) -> dict[str, Any]:
    exchange, reading = lowered.exchanges.get(edge), lowered.readings.get(edge)
    after = node.inputs[edge.at].after if isinstance(node, ExecutorNode) else ()
    return {
        "name": edge.stream,
        "from": edge.source,
        "partition": str(edge.partition),
        "exchange": exchange.number if exchange is not None else None,
        "routing": exchange.routing.value if exchange is not None else "direct",
        "read": reading.value if reading is not None else None,
        "after": list(after),
    }


def _stages(lowered: Lowered) -> dict[str, Any]:
    """The pipelines as stages of an epoch's job."""
    return {
        "stages": [
            {
                "number": number,
                "tasks": stage.tasks,
                "pipelines": [at + 1 for at in stage.pipelines],
                "to": None if stage.to is None else stage.to + 1,
            }
            for number, stage in enumerate(stages_of(lowered.physical.pipelines), 1)
        ]
    }


def _kind(node: Step) -> str:
    match node:
        case FedSource():
            return "fed"
        case FileSource():
            return "files"
        case DatasetSource():
            return "dataset"
        case IterableSource():
            return "iterable"
        case MapNode():
            return "map"
        case UnionNode():
            return "union"
        case ExecutorNode():
            return "executor"
        case SqlStep():
            return "sql"
        case MergeStep():
            return "merge"
        case _:
            assert_never(node)


def _what(node: Step) -> str:
    match node:
        case FedSource():
            return "splits that the task is fed"
        case FileSource():
            return f"files {', '.join(file.path for file in node.files)}"
        case DatasetSource():
            return f"a Dataset of {node.dataset.rows:,} rows"
        case IterableSource():
            return "an iterable"
        case MapNode():
            return f"function {_name_of(node.function)}"
        case UnionNode():
            return "union"
        case ExecutorNode():
            return f"executor {_name_of(node.make)}"
        case SqlStep():
            return node.what
        case MergeStep():
            return "merge of the channels' sorted rows"
        case _:
            assert_never(node)


def _where(node: Step, executor: ExecutorKind) -> str:
    """The origin of an iterable's rows."""
    if executor is ExecutorKind.LOCAL or not isinstance(node, IterableSource):
        return ""
    return " that a Spark task makes" if node.is_function else " that the service reads and writes to a file"


def _name_of(code: object) -> str:
    return str(getattr(getattr(code, "func", code), "__name__", type(code).__name__))
