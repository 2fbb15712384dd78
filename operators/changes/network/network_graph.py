"""What a network is made of: vertices in a graph, and in its loops' graphs.

A graph is a value, made once from a plan; a network makes each vertex's operator once for every channel.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

import pyarrow as pa

from ..change_operator import ChangeOperator


@dataclass(frozen=True, slots=True)
class ByKey:
    """Rows go to the channel that the hash of these columns says; without columns all go to one channel."""

    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ToAll:
    """Rows go to every channel."""


Route: TypeAlias = ByKey | ToAll | None
"""None: rows stay on their channel."""


@dataclass(frozen=True, slots=True)
class Link:
    """An input: what vertex it comes from, by its place in the graph, and to which channels its rows go."""

    vertex: int
    route: Route = None


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """What comes from outside the graph: its input number `port`."""

    port: int
    schema: pa.Schema


@dataclass(frozen=True, slots=True, eq=False)
class Operate:
    """An operator; `make` is called once for each channel, with its number. `place` is where in the plan it comes
    from. What is not routed to one channel by its key, and has a row even without input, is made on channel 0 alone.
    """

    make: Callable[[int], ChangeOperator]
    inputs: tuple[Link, ...]
    schema: pa.Schema
    place: str


@dataclass(frozen=True, slots=True, eq=False)
class Back:
    """What has come back in the loop whose body this graph is. The graph of a loop inside it reads it as an entry."""

    schema: pa.Schema


class OnLimit(enum.Enum):
    """What a loop does that would go on beyond its rounds."""

    ERROR = "error"
    RETURN = "return"


@dataclass(frozen=True, slots=True)
class Limits:
    """When a loop ends that does not end by itself. `rows` counts weights; None is no limit."""

    rounds: int | None = 10_000
    on_rounds: OnLimit = OnLimit.ERROR
    rows: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """X(0) = nothing, X(k+1) = what enters + the body's answer when it reads X(k), until X no longer changes; then X.

    `inputs` are the body's entries, in the order of their ports; they are there from round 0 on. What enters is there
    from round 1 on, as is what the body answers at round 0. Columns by which rows come back to the channel that owns
    them are said by the route of the body's links from its `Back`. `counted` says that rows inside carry this loop's
    round, after those of the loops around it: always, but for the outermost loop of a per-epoch task, whose rounds
    are worked off one after another and never again.
    """

    name: str
    body: Graph
    inputs: tuple[Link, ...]
    entering: Link | None
    limits: Limits
    counted: bool
    schema: pa.Schema
    place: str


Vertex: TypeAlias = Entry | Operate | Back | Loop


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Vertices, each after those it reads; `result` is the one whose rows are the graph's."""

    vertices: tuple[Vertex, ...]
    result: int
    needed: frozenset[int] = field(init=False)
    """The vertices from which the result can be reached. It is found once: a loop asks its body, at every level."""
    ports: frozenset[int] = field(init=False)
    """Of its entries, those that the result needs."""

    def __post_init__(self) -> None:
        needed = {self.result}
        for at in range(self.result, -1, -1):
            if at in needed:
                needed |= {link.vertex for link in links_of(self.vertices[at])}
        found = (self.vertices[at] for at in needed)
        object.__setattr__(self, "needed", frozenset(needed))
        object.__setattr__(self, "ports", frozenset(each.port for each in found if isinstance(each, Entry)))


def links_of(vertex: Vertex) -> tuple[Link, ...]:
    """What a vertex reads; of a loop's inputs those that its body's answer needs."""
    match vertex:
        case Entry() | Back():
            return ()
        case Operate(inputs=inputs):
            return inputs
        case Loop(inputs=inputs, entering=entering, body=body):
            read = tuple(link for port, link in enumerate(inputs) if port in body.ports)
            return read if entering is None else (*read, entering)
        case never:
            assert_never(never)
