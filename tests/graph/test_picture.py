"""The picture of a graph: well-formed, escaped, the same each time, with all nodes and none over another."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tidegate import Client, TaskGraph

from ..house.markdown import TOP, examples
from .executors import NUMBERS, SUMS, First, HashJoin, SumByKey, fed

SVG = "{http://www.w3.org/2000/svg}"


def graph(name: str = "join") -> TaskGraph:
    """A stream that passes a layer of pipelines, another that passes nodes of its reader's pipeline."""
    task_graph = TaskGraph()
    orders, items = fed(task_graph, "orders"), fed(task_graph, "items")
    streams = {"build": orders, "probe": items.map(lambda batch: batch, name="large")}
    waits = {"probe": "build"}
    join = task_graph.node(name, HashJoin, streams, schema=HashJoin.schema, channels=3, partition="k", after=waits)
    columns = join.map(lambda batch: batch.select(["k", "v"]), name="columns")
    both = task_graph.union(columns, task_graph.node("first", First, orders), name="both")
    task_graph.blocking("sums", SumByKey, both, schema=SUMS, channels=2, partition="k")
    return task_graph


def drawn(task_graph: TaskGraph) -> ET.Element:
    svg = task_graph.explain().svg
    assert svg is not None
    return ET.fromstring(svg)


def texts(root: ET.Element, kind: str) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text") if element.get("class") == kind]


def boxes(root: ET.Element, kind: str) -> list[tuple[float, float, float, float]]:
    """Left, top, right, bottom."""
    rectangles = [box for box in root.iter(f"{SVG}rect") if kind in box.get("class", "").split()]
    sizes = [tuple(float(box.get(key, "")) for key in ("x", "y", "width", "height")) for box in rectangles]
    return [(x, y, x + width, y + height) for x, y, width, height in sizes]


def test_the_files_that_a_graph_ends_in_are_told(client: Client) -> None:
    task_graph = TaskGraph()
    task_graph.write(task_graph.source("numbers", NUMBERS), "/somewhere/else", format="csv", mode="replace")
    explained = client.explain(task_graph)
    assert "written to /somewhere/else as csv (replace)" in explained.text
    assert json.loads(explained.json)["written"] == {"folder": "/somewhere/else", "format": "csv", "mode": "replace"}
    assert "\u25c2 written to /somewhere/else as csv (replace)" in (explained.svg or "")


def test_it_has_every_node_pipeline_and_stream_with_its_routing() -> None:
    root = drawn(graph())
    assert sorted(texts(root, "name")) == ["both", "columns", "first", "items", "join", "large", "orders", "sums"]
    assert texts(root, "title")[-1] == "pipeline 5, 2 channels"
    assert "\u25b8 probe: by k, exchange 3 hash, after build" in texts(root, "stream")
    edges = [path.get("class") for path in root.iter(f"{SVG}path") if path.get("class")]
    assert (edges.count("exchange"), edges.count("direct")) == (5, 3)


def test_it_is_the_same_each_time() -> None:
    assert graph().explain().svg == graph().explain().svg


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", 'a"b&c]]>', "x\ny", "n" * 500])
def test_names_are_escaped_and_shortened(name: str) -> None:
    (shown,) = [text for text in texts(drawn(graph(name)), "name") if text[0] == name[0] and text != "orders"]
    assert len(shown) <= 52
    assert shown[:5] == name[:5].replace("\n", " ")


@pytest.mark.parametrize("kind", ["pipeline", "node"])
def test_no_box_lies_over_another(kind: str) -> None:
    corners = boxes(drawn(graph()), kind)
    for at, (left, top, right, bottom) in enumerate(corners):
        for x, y, other_right, other_bottom in corners[at + 1 :]:
            assert right <= x or other_right <= left or bottom <= y or other_bottom <= top


def test_the_picture_in_the_docs_is_that_of_the_example() -> None:
    document = TOP / "docs" / "task-graphs.md"
    names: dict[str, TaskGraph] = {}
    exec(next(examples(document)).code, names)
    picture: Path = TOP / "docs" / "task-graph.svg"
    assert picture.read_text() == names["graph"].explain().svg, (
        "draw it again: graph.explain().svg of the first example"
    )
