"""Renders the explanation of a graph as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from .graph_picture import written_to
from .wording import ENDS, Document, counted


def graph_lines(document: Document) -> Iterator[str]:
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


def _ends_in(node: Document, stage: Document) -> bool:
    return node["ends_pipeline"] and node["pipeline"] in stage["pipelines"]


def _way(stream: Document) -> str:
    if stream["exchange"] is not None:
        return f"exchange {stream['exchange']}"
    return stream["read"] or "in the same pipeline"
