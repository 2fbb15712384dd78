"""A graph as an SVG picture: pipelines as boxes in layers, rows flowing down, each node with its streams' routing.

The picture is plain SVG without scripts or links, the same text for the same graph. Node names may come from anybody:
all text is escaped, and shortened if it is long. Graphviz would draw it, too, but is a program to install beside the
Python packages, and its pictures differ between versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.sax.saxutils import escape

from .wording import ENDS

CHARACTER: Final = 7.3
"""Width of a character of the font, and a little more."""

LINE, PADDING, GAP, LAYER_GAP, TITLE = 17, 12, 28, 46, 24
MOST: Final = 52
"""The most characters of a line; a longer line loses its middle."""

_STYLE: Final = (
    "text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1f2933}"
    ".title{fill:#52606d;font-size:11px;paint-order:stroke;stroke:#f5f7fa;stroke-width:4px}.name{font-weight:bold}.what{fill:#52606d}.stream{fill:#0b6e99}.ends{fill:#5c3d99}.written{fill:#8d2b0b}"
    ".pipeline{fill:#f5f7fa;stroke:#cbd2d9}.node{fill:#fff;stroke:#7b8794}.result{stroke:#1f2933;stroke-width:2}"
    ".direct{stroke:#7b8794}.exchange{stroke:#0b6e99;stroke-width:1.8}path{fill:none}"
)

_ARROW: Final = (
    '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" style="fill:#52606d"/></marker></defs>'
)


@dataclass(frozen=True, slots=True)
class _Box:
    """Something to draw, by its size. The picture finds its place."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class _Position:
    x: float
    y: float
    box: _Box

    @property
    def bottom(self) -> tuple[float, float]:
        return self.x + self.box.width / 2, self.y + self.box.height

    def top(self, at: int, of: int) -> tuple[float, float]:
        """The point where stream number `at` of `of` streams comes in."""
        return self.x + self.box.width * (at + 1) / (of + 1), self.y


def picture(document: Mapping[str, Any]) -> str:
    """The picture of a graph's `explain` document."""
    nodes = [
        {**node, "written": document["written"] if node["name"] == document["result"] else None}
        for node in document["nodes"]
    ]
    return _Picture(nodes, document["pipelines"], document["result"]).svg()


def written_to(target: Mapping[str, Any]) -> str:
    """The destination of the rows of a graph that ends in files."""
    return f"written to {target['folder']} as {target['format']} ({target['mode']})"


def _short(text: str) -> str:
    text = " ".join(text.split())
    half = (MOST - 1) // 2
    return text if len(text) <= MOST else f"{text[:half]}\u2026{text[-half:]}"


def _texts(node: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The lines of a node, each with its class."""
    lines = [("name", _short(node["name"])), ("what", _short(node["what"]))]
    for stream in node["streams"]:
        route = "same channel" if stream["exchange"] is None else f"exchange {stream['exchange']} {stream['routing']}"
        after = f", after {', '.join(stream['after'])}" if stream["after"] else ""
        lines.append(("stream", _short(f"\u25b8 {stream['name']}: {stream['partition']}, {route}{after}")))
    if node["ends_pipeline"]:
        lines.append(("ends", f"\u25a0 {ENDS}"))
    if node["written"] is not None:
        lines.append(("written", _short(f"\u25c2 {written_to(node['written'])}")))
    return lines


def _box_of(node: Mapping[str, Any] | int) -> _Box:
    """The box of a node, or of a stream that passes."""
    if isinstance(node, int):
        return _Box(0, 0)
    lines = _texts(node)
    return _Box(max(len(text) for _, text in lines) * CHARACTER + 2 * PADDING, len(lines) * LINE + PADDING)


class _Picture:
    def __init__(self, nodes: Sequence[Mapping[str, Any]], pipelines: int, result: str) -> None:
        self._nodes = {node["name"]: node for node in nodes}
        self._result = result
        self._pipelines = range(1, pipelines + 1)
        self._inside = {p: [node for node in nodes if node["pipeline"] == p] for p in self._pipelines}
        self._positions: dict[str, _Position] = {}
        self._routes: dict[int, list[tuple[float, float]]] = {}

    def svg(self) -> str:
        boxes, width, height = self._arranged()
        title = escape(_short(f"graph with the result {self._result}"))
        size = f'width="{width:.0f}" height="{height:.0f}"'
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" {size} role="img">',
            f"<title>{title}</title>",
            f"<style>{_STYLE}</style>",
            _ARROW,
            f'<rect {size} fill="#fff"/>',
        ]
        parts += [_rect("pipeline", position, 8) for position in boxes.values()]
        parts += self._edges()
        for pipeline, position in boxes.items():
            parts.append(_text("title", position.x + PADDING, position.y + 16, self._title(pipeline)))
        for name, position in self._positions.items():
            parts += self._node(self._nodes[name], position)
        return "\n".join([*parts, "</svg>"]) + "\n"

    # ---------------------------------------------------------------------------------------------- positions

    def _arranged(self) -> tuple[dict[int, _Position], float, float]:
        """The position of each pipeline, and the size of the picture."""
        layers = self._layers()
        sizes = {pipeline: self._size(pipeline) for pipeline in self._pipelines}
        widths = [
            sum(sizes[number].width if number > 0 else GAP for number in row) + GAP * (len(row) + 1) for row in layers
        ]
        width, y = max(widths), float(GAP)
        positions: dict[int, _Position] = {}
        for row, wide in zip(layers, widths, strict=True):
            x = (width - wide) / 2 + GAP
            height = max(sizes[number].height for number in row if number > 0)
            for number in row:
                if number > 0:
                    positions[number] = _Position(x, y, sizes[number])
                    self._put_inside(number, x, y)
                else:
                    self._passing(-number, x + GAP / 2, y, height)
                x += (sizes[number].width if number > 0 else GAP) + GAP
            y += height + LAYER_GAP
        return positions, width, y - LAYER_GAP + GAP

    def _between(self) -> list[tuple[int, int, int]]:
        """The pipelines, from and to, of each stream between pipelines, and the stream's number, in order."""
        return [
            (self._nodes[stream["from"]]["pipeline"], node["pipeline"], stream["exchange"])
            for node in self._nodes.values()
            for stream in node["streams"]
            if stream["exchange"] is not None
        ]

    def _layers(self) -> list[list[int]]:
        """Pipelines by their distance from the result, the farthest first. A stream that passes a layer has a gap
        there, as the negative of its number.
        """
        away = dict.fromkeys(self._pipelines, 0)
        between = self._between()
        for source, reader, _ in sorted(
            between, key=lambda pair: -pair[1]
        ):  # pipelines stand before those that read them
            away[source] = max(away[source], away[reader] + 1)
        deepest = max(away.values())
        rows: list[list[int]] = [[] for _ in range(deepest + 1)]
        for pipeline in self._pipelines:
            rows[deepest - away[pipeline]].append(pipeline)
        for source, reader, number in between:
            for layer in range(deepest - away[source] + 1, deepest - away[reader]):
                rows[layer].append(-number)
        return rows

    def _rows(self, pipeline: int) -> list[list[Mapping[str, Any] | int]]:
        """A pipeline's nodes by their distance from its last node, the farthest first. Streams that come from elsewhere
        and pass some nodes have gaps there, each as its number.
        """
        away = {node["name"]: 0 for node in self._inside[pipeline]}
        for node in reversed(self._inside[pipeline]):
            for stream in node["streams"]:
                if stream["exchange"] is None:
                    away[stream["from"]] = max(away[stream["from"]], away[node["name"]] + 1)
        rows: list[list[Mapping[str, Any] | int]] = [[] for _ in range(max(away.values()) + 1)]
        for node in self._inside[pipeline]:
            rows[len(rows) - 1 - away[node["name"]]].append(node)
        for node in self._inside[pipeline]:
            for stream in node["streams"]:
                if stream["exchange"] is not None:
                    for row in rows[: len(rows) - 1 - away[node["name"]]]:
                        row.append(stream["exchange"])
        return rows

    def _size(self, pipeline: int) -> _Box:
        rows = [[_box_of(cell) for cell in row] for row in self._rows(pipeline)]
        width = max(sum(box.width for box in row) + GAP * (len(row) - 1) for row in rows)
        title = len(self._title(pipeline)) * CHARACTER
        height = sum(max(box.height for box in row) for row in rows) + GAP * (len(rows) - 1)
        return _Box(max(width, title) + 2 * PADDING, height + TITLE + PADDING)

    def _put_inside(self, pipeline: int, left: float, top: float) -> None:
        y = top + TITLE
        width = self._size(pipeline).width
        for row in self._rows(pipeline):
            boxes = [_box_of(cell) for cell in row]
            height = max(box.height for box in boxes)
            x = left + (width - sum(box.width for box in boxes) - GAP * (len(boxes) - 1)) / 2
            for cell, box in zip(row, boxes, strict=True):
                if isinstance(cell, int):
                    self._passing(cell, x, y, height)
                else:
                    self._positions[cell["name"]] = _Position(x, y, box)
                x += box.width + GAP
            y += height + GAP

    def _passing(self, exchange: int, x: float, y: float, height: float) -> None:
        """Adds the straight part of a stream that passes here."""
        self._routes.setdefault(exchange, []).extend(((x, y), (x, y + height)))

    # ------------------------------------------------------------------------------------------------ drawing

    def _title(self, pipeline: int) -> str:
        channels = self._inside[pipeline][-1]["channels"]
        return f"pipeline {pipeline}, {channels} channel{'' if channels == 1 else 's'}"

    def _node(self, node: Mapping[str, Any], position: _Position) -> Iterator[str]:
        yield _rect("node result" if node["name"] == self._result else "node", position, 4)
        for at, (kind, text) in enumerate(_texts(node), 1):
            yield _text(kind, position.x + PADDING, position.y + at * LINE, text)

    def _edges(self) -> Iterator[str]:
        for node in self._nodes.values():
            streams = node["streams"]
            for at, stream in enumerate(streams):
                through = self._routes.get(stream["exchange"], ())
                end = self._positions[node["name"]].top(at, len(streams))
                points = [self._positions[stream["from"]].bottom, *through, end]
                kind = "direct" if stream["exchange"] is None else "exchange"
                yield f'<path class="{kind}" marker-end="url(#end)" d="{_curve(points)}"/>'


def _rect(kind: str, position: _Position, round_: int) -> str:
    where = (
        f'x="{position.x:.1f}" y="{position.y:.1f}" width="{position.box.width:.1f}" height="{position.box.height:.1f}"'
    )
    return f'<rect class="{kind}" {where} rx="{round_}"/>'


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """A curve down from each point to the next."""
    first, *rest = points
    parts = [f"M{first[0]:.1f} {first[1]:.1f}"]
    x, y = first
    for to_x, to_y in rest:
        middle = (y + to_y) / 2
        parts.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return "".join(parts)
