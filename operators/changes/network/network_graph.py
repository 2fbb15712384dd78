"""The parts of a network: vertices in a graph, and in the graphs of its loops.

A graph is a value, made once from a plan; a network makes each vertex's operator once for every channel.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

import pyarrow as pa

from ..change_operator import ChangeOperator


@dataclass(frozen=True, slots=True)
class ByKey:
    """A route by the hash of these columns. Without columns all rows go to one channel."""

    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ToAll:
    """A route of all rows to every channel."""


Route: TypeAlias = ByKey | ToAll | None
"""A route. None: rows stay on their channel."""


@dataclass(frozen=True, slots=True)
class Link:
    """An input: the vertex that it comes from, by its position in the graph, and the route of its rows to channels."""

    vertex: int
    route: Route = None


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """An entry: the graph's input number `port`, which comes from outside."""

    port: int
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class KeptState:
    """The rows or numbers that an operator keeps, in words, and which of them stay; no `bound` if all stay for ever."""

    keeps: str
    bound: str | None


NO_STATE: Final = KeptState("", None)


@dataclass(frozen=True, slots=True, eq=False)
class Operate:
    """An operator. `make` is called once for each channel, with the channel's number. `plan_path` is the operator's
    plan path; `sources` are those that feed it, None where they have no names of their own. An operator that has a row
    even without input, and whose input is not routed by a key, is made on channel 0 alone. `state` says what it keeps.
    """

    make: Callable[[int], ChangeOperator]
    inputs: tuple[Link, ...]
    schema: pa.Schema
    plan_path: str
    sources: tuple[str, ...] | None = None
    state: KeptState = NO_STATE


@dataclass(frozen=True, slots=True, eq=False)
class Back:
    """The rows that have come back in the loop whose body this graph is. The graph of an inner loop reads them as an
    entry.
    """

    schema: pa.Schema


class OnLimit(enum.Enum):
    """The behaviour of a loop that would go on beyond its rounds."""

    ERROR = "error"
    RETURN = "return"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a loop that does not end by itself. `rows` counts weights; None is no limit."""

    rounds: int | None = 10_000
    on_rounds: OnLimit = OnLimit.ERROR
    rows: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """A loop: X(0) = nothing, X(k+1) = the entering rows + the body's answer to X(k), until X no longer changes. Its
    rows are X.

    `inputs` are the body's entries, in the order of their ports. Rows of the inputs exist from round 0 on; rows that
    enter, and the body's answer at round 0, exist from round 1 on. The route of the body's links from its `Back` has
    the columns by which rows come back to the channel that owns them. `counted` says that rows inside carry this loop's
    round, after the rounds of the loops around it. Rounds are always counted, except in the outermost loop of a
    per-epoch task, whose rounds are done one after another and never again.
    """

    name: str
    body: Graph
    inputs: tuple[Link, ...]
    entering: Link | None
    limits: Limits
    counted: bool
    schema: pa.Schema
    plan_path: str


Vertex: TypeAlias = Entry | Operate | Back | Loop


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A graph: vertices, each after the ones that it reads. The rows of the vertex `result` are the graph's. The rows
    of the vertices `beside` are further results of a graph that is in no loop.
    """

    vertices: tuple[Vertex, ...]
    result: int
    beside: tuple[int, ...] = ()
    needed: frozenset[int] = field(init=False)
    """The vertices from which a result can be reached. They are found once, because a loop asks its body at every
    level.
    """
    ports: frozenset[int] = field(init=False)
    """The ports of the entries that the results need."""

    def __post_init__(self) -> None:
        needed = {self.result, *self.beside}
        for at in range(max(needed), -1, -1):
            if at in needed:
                needed |= {link.vertex for link in links_of(self.vertices[at])}
        vertices = (self.vertices[at] for at in needed)
        object.__setattr__(self, "needed", frozenset(needed))
        object.__setattr__(self, "ports", frozenset(vertex.port for vertex in vertices if isinstance(vertex, Entry)))


def links_of(vertex: Vertex) -> tuple[Link, ...]:
    """The links that a vertex reads; of a loop's inputs, those that its body's answer needs."""
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
