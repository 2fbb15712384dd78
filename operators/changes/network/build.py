"""Builds the nodes of a network from its graph: one for each vertex and channel, linked by queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from .channel_nodes import Node, OperatorNode, Sink, Source
from .link_queues import Emitter, LinkQueue, connect
from .locking import Locked, Locking
from .network_graph import Back, ByKey, Entry, Graph, Link, Loop, Operate, Route, links_of
from .network_loop import Ingress, Inlet, LoopNode
from .rounds_and_limits import LoopRounds
from .schedule import Schedule

MakeLocking = Callable[[Locked, int, Schedule], Locking]


@dataclass(slots=True)
class Nodes:
    """The nodes of a network. `dummies` supply the events of loops that nothing enters, and of constants."""

    sources: dict[int, list[list[Source]]] = field(default_factory=dict)
    """The entries of each port, each with one source a channel."""
    dummies: list[Source] = field(default_factory=list)
    operators: dict[tuple[str, int], OperatorNode] = field(default_factory=dict)
    """The operators' nodes, by path and channel."""
    loops: dict[str, LoopNode] = field(default_factory=dict)
    """The loops' nodes, by path."""
    sinks: list[list[Sink]] = field(default_factory=list)
    """The sinks of each result, one a channel. The first result is the graph's."""
    queues: list[LinkQueue] = field(default_factory=list)


def build(graph: Graph, channels: int, schedule: Schedule, locking: MakeLocking) -> Nodes:
    """Build the nodes of a graph that is in no loop."""
    nodes = Nodes()
    builder = _Builder(nodes, channels, schedule, locking)
    emitters = builder.vertices(graph, "", None, 0)
    for vertex in graph.vertices:
        if isinstance(vertex, Entry) and vertex.port not in nodes.sources:
            nodes.sources[vertex.port] = [
                [Source() for _ in range(channels)]
            ]  # no node reads it, and it still ends epochs
    for at in (graph.result, *graph.beside):
        nodes.sinks.append([Sink() for _ in range(channels)])
        builder.connect(emitters[at], None, nodes.sinks[-1], 0)
    return nodes


@dataclass(frozen=True, slots=True)
class _Builder:
    nodes: Nodes
    channels: int
    schedule: Schedule
    locking: MakeLocking

    def vertices(self, graph: Graph, path: str, loop: LoopNode | None, depth: int) -> dict[int, Sequence[Emitter]]:
        """The emitters of each vertex of a graph; `loop` is the one whose body it is, `depth` the loops that count."""
        emitters: dict[int, Sequence[Emitter]] = {}
        for at in sorted(graph.needed):
            here = f"{path}{at}"
            match graph.vertices[at]:
                case Entry() as entry:
                    emitters[at] = self._entry(entry, loop)
                case Back():
                    if loop is None:
                        raise ValueError(f"vertex {here} reads what comes back, but is in no loop")
                    emitters[at] = loop.backs
                case Operate() as vertex:
                    emitters[at] = self._operate(graph, vertex, here, emitters, loop)
                case Loop() as vertex:
                    emitters[at] = self._loop(vertex, here, emitters, loop, depth)
                case never:
                    assert_never(never)
        return emitters

    def connect(self, sources: Sequence[Emitter], route: Route, targets: Sequence[Node | Ingress], port: int) -> None:
        for target, queues in zip(targets, connect(sources, route, targets, port, self.schedule), strict=True):
            target.queues.extend(queues)
            self.nodes.queues.extend(queues)

    def _entry(self, entry: Entry, loop: LoopNode | None) -> Sequence[Emitter]:
        if loop is not None:
            return loop.inputs[entry.port]
        sources = [Source() for _ in range(self.channels)]
        self.nodes.sources.setdefault(entry.port, []).append(sources)
        return sources

    def _operate(
        self, graph: Graph, vertex: Operate, path: str, emitters: dict[int, Sequence[Emitter]], loop: LoopNode | None
    ) -> Sequence[Emitter]:
        channels = range(self.channels)
        nodes = [
            OperatorNode(vertex.make(channel), vertex.plan_path, loop, self.schedule, vertex.sources, vertex.state)
            for channel in channels
        ]
        for port, link in enumerate(vertex.inputs):
            self.connect(emitters[link.vertex], link.route, nodes, port)
        if not vertex.inputs:
            self.connect(self._dummy(loop), None, nodes, 0)
        entries = {port for port, link in enumerate(vertex.inputs) if isinstance(graph.vertices[link.vertex], Entry)}
        for channel, node in enumerate(nodes):
            self.nodes.operators[path, channel] = node
            for queue in node.queues if loop is not None and len(entries) < len(vertex.inputs) else ():
                queue.quiet = queue.port in entries
        return nodes

    def _loop(
        self, vertex: Loop, path: str, emitters: dict[int, Sequence[Emitter]], around: LoopNode | None, depth: int
    ) -> Sequence[Emitter]:
        if around is not None and not vertex.counted:
            raise ValueError(f"loop {vertex.name!r} does not count its rounds, and is in another loop")
        owner, body = _owned(vertex)
        progress = LoopRounds(
            vertex.name, vertex.schema, vertex.limits, channels=self.channels, outer=depth, counted=vertex.counted
        )
        loop = LoopNode(
            progress,
            counted=vertex.counted,
            plan_path=vertex.plan_path,
            channels=self.channels,
            schedule=self.schedule,
            locking=self.locking,
        )
        self.nodes.loops[path] = loop
        for port, link in enumerate(vertex.inputs):
            if port not in vertex.body.ports:
                continue
            loop.inputs[port] = [Ingress(loop) for _ in range(self.channels)]
            self.connect(emitters[link.vertex], link.route, loop.inputs[port], 0)
        entering = self._dummy(around) if vertex.entering is None else emitters[vertex.entering.vertex]
        self.connect(entering, None if vertex.entering is None else owner, loop.entering, 0)
        inside = self.vertices(body, f"{path}/", loop, depth + vertex.counted)
        self.connect(inside[body.result], owner, loop.returns, 0)
        return loop.outputs

    def _dummy(self, around: LoopNode | None) -> Sequence[Emitter]:
        if around is None:
            sources = [Source() for _ in range(self.channels)]
            self.nodes.dummies.extend(sources)
            return sources
        inlets = [Inlet() for _ in range(self.channels)]
        around.dummies.extend(inlets)
        return inlets


def _owned(loop: Loop) -> tuple[Route, Graph]:
    """The route to the channel that owns a row of the loop, and the body, linked for that.

    Where all readers of the rows that came back want them by one key, that key decides the owner, and no row has to
    move again.
    """
    backs = {at for at in loop.body.needed if isinstance(loop.body.vertices[at], Back)}
    routes = {link.route for link in _links(loop.body) if link.vertex in backs}
    whole = ByKey(tuple(range(len(loop.schema))))
    if loop.body.result in backs or len(routes) != 1:
        return whole, loop.body
    (route,) = routes
    if not isinstance(route, ByKey):
        return whole, loop.body
    return route, _staying(loop.body, backs)


def _links(graph: Graph) -> Iterator[Link]:
    for at in graph.needed:
        yield from links_of(graph.vertices[at])


def _staying(graph: Graph, backs: set[int]) -> Graph:
    """The same graph, in which rows that came back stay on their channel."""

    def stay(link: Link) -> Link:
        return replace(link, route=None) if link.vertex in backs else link

    def staying(vertex: Entry | Operate | Back | Loop) -> Entry | Operate | Back | Loop:
        match vertex:
            case Entry() | Back():
                return vertex
            case Operate(inputs=inputs):
                return replace(vertex, inputs=tuple(map(stay, inputs)))
            case Loop(inputs=inputs):
                # Rows that enter an inner loop go to the channels that own them, whatever the link says.
                return replace(vertex, inputs=tuple(map(stay, inputs)))
            case never:
                assert_never(never)

    return Graph(tuple(map(staying, graph.vertices)), graph.result)
