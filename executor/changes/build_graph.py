"""Builds the graph of a network from a plan's nodes.

A node belongs to the innermost loop whose references it reads, at any depth. What a node reads from outside that loop
becomes an entry of the loop's body.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from ...operators.changes.event_time.row_watermarks import EventTime, RowWatermarks
from ...operators.changes.network.network_graph import (
    NO_STATE,
    Back,
    ByKey,
    Entry,
    Graph,
    Link,
    Loop,
    Operate,
    Vertex,
)
from ...operators.changes.retraction_check import RetractionCheck
from ...operators.changes.values.evaluator import Evaluators
from ...planner.changes.change_nodes import (
    MARK,
    BackNode,
    ChangeNode,
    ComputeNode,
    LoopNode,
    Operated,
    OutputsNode,
    SelectNode,
    SourceNode,
    inputs_of,
)
from ...planner.changes.event_time.kept_state import state_of, state_of_source
from ...planner.ir.walk import unroll
from ...proto.errors import InternalError
from .change_routes import routes_to
from .operator_factory import ChangeOperatorFactory


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EntrySource:
    """A source as it is fed: its number among the network's entries, and all columns that the plan uses, by name.

    With an `event_time`, rows get the column `MARK` as their last one. If the source is `checked`, deleting a row that
    is not there is an error. Sources that are not checked are the inputs of a loop, which have no names that a user
    knows.
    """

    port: int
    schema: pa.Schema
    checked: bool = True
    event_time: EventTime | None = None

    @property
    def marked_schema(self) -> pa.Schema:
        """The columns that readers of the source find."""
        mark = pa.field(MARK, pa.int64(), nullable=False)
        return self.schema if self.event_time is None else self.schema.append(mark)


def graph_of(
    root: ChangeNode, sources: Mapping[str, EntrySource], evaluators: Evaluators, *, counted: bool = True
) -> Graph:
    """The nodes as a network's graph.

    `evaluators` run the nodes' statements. The outermost loops' rounds are `counted` if a later epoch may change what
    was found in them.
    """
    factory = ChangeOperatorFactory(evaluators, {name: source.marked_schema for name, source in sources.items()})
    named = frozenset(name for name, source in sources.items() if source.checked)
    making = _Making(factory=factory, leaves=_leaves(root), named=named, counted=counted)
    outside = _Level(loop=None, parent=None, depth=0)
    for name, source in sources.items():
        making.entries[name] = _enter(outside, name, source)
    outputs = root.inputs if isinstance(root, OutputsNode) else (root,)
    return outside.graph(*(unroll(making.step, (outside, node)) for node in outputs))


@dataclass(slots=True, kw_only=True, eq=False)
class _Level:
    """A graph in the making: of a loop's body, or of the nodes outside of loops.

    `depth` is the number of rounds counted in it, including its own round if it is `counted`. Rows in a loop may come
    from all of the loop's `sources`.
    """

    loop: int | None
    parent: _Level | None
    depth: int
    counted: bool = True
    sources: tuple[str, ...] | None = None
    vertices: list[Vertex] = field(default_factory=list)
    numbers: dict[ChangeNode, int] = field(default_factory=dict)
    """Vertices of nodes."""
    inputs: list[Link] = field(default_factory=list)
    _entered: dict[int, int] = field(default_factory=dict)

    def add(self, vertex: Vertex) -> int:
        self.vertices.append(vertex)
        return len(self.vertices) - 1

    def graph(self, result: int, *beside: int) -> Graph:
        return Graph(vertices=tuple(self.vertices), result=result, beside=beside)

    def from_outside(self, vertex: int, schema: pa.Schema) -> int:
        """The entry for a vertex of the graph around this one."""
        if vertex not in self._entered:
            self._entered[vertex] = self.add(Entry(port=len(self.inputs), schema=schema))
            self.inputs.append(Link(vertex))
        return self._entered[vertex]


Leaves: TypeAlias = Mapping[str | int, None]
"""Names of sources, and numbers of loops from which rows come back: a set in order."""

_Wanted: TypeAlias = tuple[_Level, ChangeNode]


@dataclass(slots=True, kw_only=True, eq=False)
class _Making:
    """Makes vertices of nodes, one per node, however many nodes read it.

    A step returns the vertex in the wanted level.
    """

    factory: ChangeOperatorFactory
    leaves: Mapping[ChangeNode, Leaves]
    named: frozenset[str]
    counted: bool
    entries: dict[str, int] = field(default_factory=dict)

    def step(self, wanted: _Wanted) -> Generator[_Wanted, int, int]:
        level, node = wanted
        if level.parent is not None and level.loop not in self.leaves[node]:
            return level.from_outside((yield level.parent, node), node.schema)
        if node not in level.numbers:
            level.numbers[node] = yield from self._made(level, node)
        return level.numbers[node]

    def _made(self, level: _Level, node: ChangeNode) -> Generator[_Wanted, int, int]:
        match node:
            case BackNode():
                return level.add(Back(schema=node.schema))
            case LoopNode():
                return (yield from self._loop(level, node))
            case OutputsNode():
                raise InternalError(f"{node.plan_path}: outputs stand at the root alone")
            case SourceNode():
                entry = self.entries[node.source]
                if self.factory.has_all(node):
                    return entry
                return level.add(self._operated(level, node, (entry,)))
            case _:
                inputs = []
                for child in inputs_of(node):
                    inputs.append((yield level, child))  # noqa: PERF401 (a comprehension cannot yield)
                return level.add(self._operated(level, node, tuple(inputs)))

    def _loop(self, level: _Level, node: LoopNode) -> Generator[_Wanted, int, int]:
        counted = self.counted or level.parent is not None
        sources = self._read(level, node)
        body = _Level(loop=node.loop, parent=level, depth=level.depth + counted, counted=counted, sources=sources)
        result = yield body, node.body
        entering = None if node.entering is None else Link((yield level, node.entering))
        return level.add(
            Loop(
                name=node.name,
                body=body.graph(result),
                inputs=tuple(body.inputs),
                entering=entering,
                limits=node.limits,
                counted=counted,
                schema=node.schema,
                plan_path=node.plan_path,
            )
        )

    def _operated(self, level: _Level, node: Operated, inputs: tuple[int, ...]) -> Operate:
        depth, late, once = level.depth, self._late(level, node), not self.counted
        links = tuple(Link(vertex, route) for vertex, route in zip(inputs, routes_to(node), strict=True))
        return Operate(
            make=lambda channel: self.factory.operator(node, channel, depth, late, once=once),
            inputs=links,
            schema=node.schema,
            plan_path=node.plan_path,
            sources=self._sources(level, node),
            state=state_of(node) or NO_STATE,
        )

    def _sources(self, level: _Level, node: Operated) -> tuple[str, ...] | None:
        sources = self._read(level, node)
        return sources if self.named.issuperset(sources) else None

    def _read(self, level: _Level, node: ChangeNode) -> tuple[str, ...]:
        """The sources of a node's rows: in a loop, all sources of the loop."""
        return (
            tuple(leaf for leaf in self.leaves[node] if isinstance(leaf, str))
            if level.sources is None
            else level.sources
        )

    def _late(self, level: _Level, node: Operated) -> int | None:
        """The input that has rows only once all others have ended for good, or None.

        There is one in a loop whose rounds are not counted: the rows that came back, beside inputs that all come from
        outside of the loop.
        """
        if level.counted or level.loop is None:
            return None
        inside = [at for at, child in enumerate(inputs_of(node)) if level.loop in self.leaves[child]]
        return inside[0] if len(inside) == 1 and _comes_back(inputs_of(node)[inside[0]], level.loop) else None


def _comes_back(node: ChangeNode, loop: int) -> bool:
    """True if all of a node's rows are made of rows that came back in this loop."""
    stack = [node]
    while stack:
        match stack.pop():
            case BackNode() as back if back.loop == loop:
                pass
            case ComputeNode() | SelectNode() as visited:
                stack.extend(inputs_of(visited))
            case _:
                return False
    return True


def _leaves(root: ChangeNode) -> Mapping[ChangeNode, Leaves]:
    """The leaves that each node reads: sources, and those loops around the node whose references it reads."""
    leaves: dict[ChangeNode, Leaves] = {}

    def step(node: ChangeNode) -> Generator[ChangeNode, Leaves, Leaves]:
        if node not in leaves:
            read: dict[str | int, None] = {}
            if isinstance(node, SourceNode | BackNode):
                read[node.source if isinstance(node, SourceNode) else node.loop] = None
            for child in inputs_of(node):
                read |= yield child
            if isinstance(node, LoopNode):
                read.pop(node.loop, None)
            leaves[node] = read
        return leaves[node]

    unroll(step, root)
    return leaves


def _enter(level: _Level, name: str, source: EntrySource) -> int:
    """Add an entry. Rows come in by their hash, so that a row's deletions meet its insertions."""
    entry = level.add(Entry(port=source.port, schema=source.schema))
    if source.event_time is not None:
        entry = level.add(_marked(entry, name, source, source.event_time))
    if not source.checked:
        return entry
    every = ByKey(tuple(range(len(source.schema))))
    known = Operate(
        make=lambda _: RetractionCheck(source.marked_schema, name, source.event_time),
        inputs=(Link(entry, every),),
        schema=source.marked_schema,
        plan_path=name,
        state=state_of_source(source.event_time),
    )
    return level.add(known)


def _marked(entry: int, name: str, source: EntrySource, event_time: EventTime) -> Operate:
    """The source's rows with the watermark at each one, before they go to other channels: their order counts."""
    return Operate(
        make=lambda channel: RowWatermarks(source.marked_schema, event_time, fed=channel == 0),
        inputs=(Link(entry),),
        schema=source.marked_schema,
        plan_path=name,
    )
