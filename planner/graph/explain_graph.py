"""A graph's pipelines, explained to people and programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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
from ..explain.explanation_text import ENDS, counted
from ..physical.stages import stages_of
from .edges import Edge, edges_of
from .lower_graph import Lowered
from .picture import picture, written_to
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
    return Explanation(text="\n".join(_lines(document)), json=json.dumps(document), svg=picture(document))


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


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    nodes = document["nodes"]
    written = "" if document["written"] is None else f", {written_to(document['written'])}"
    yield f"{len(nodes)} nodes in {document['pipelines']} pipelines, result {document['result']}{written}"
    for pipeline in range(1, document["pipelines"] + 1):
        mine = [node for node in nodes if node["pipeline"] == pipeline]
        yield f"pipeline {pipeline}: {counted(mine[-1]['channels'], 'channel')}"
        for node in mine:
            ends = f", {ENDS}" if node["ends_pipeline"] else ""
            yield f"  {node['name']}: {node['what']}{ends} -> ({node['schema']})"
            for stream in node["streams"]:
                after = f", after {', '.join(stream['after'])}" if stream["after"] else ""
                yield f"    {stream['name']}: from {stream['from']}, {stream['partition']}, {_way(stream)}{after}"

    if "spark" in document:
        stages = document["spark"]["stages"]
        tasks = counted(sum(job["tasks"] for job in stages), "task")
        yield f"on Spark an epoch is a job of {counted(len(stages), 'stage')}, {tasks}:"
        for stage in stages:
            members = ", ".join(f"pipeline {at}" for at in stage["pipelines"])
            to = "the result" if stage["to"] is None else f"to pipeline {stage['to']}"
            ended = ", ".join(node["name"] for node in nodes if _ends_in(node, stage))
            yield f"  stage {stage['number']}: {members} (ended by {ended}), {counted(stage['tasks'], 'task')}, {to}"


def _ends_in(node: Mapping[str, Any], stage: Mapping[str, Any]) -> bool:
    return node["ends_pipeline"] and node["pipeline"] in stage["pipelines"]


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


def _way(stream: Mapping[str, Any]) -> str:
    if stream["exchange"] is not None:
        return f"exchange {stream['exchange']}"
    return stream["read"] or "in the same pipeline"


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
