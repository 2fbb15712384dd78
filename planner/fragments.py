"""The physical nodes of a section: its fragments, each with its SQL and the inputs that this asks for."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from ..operators.column import Column
from . import ir, tree
from .divide import Section, read_by
from .operated import Indexed, IndexKey, operator_node
from .ordering.form import OrderedForm
from .pipelines import (
    Feed,
    FileInput,
    FragmentNode,
    PhysicalNode,
    ScanNode,
    Shape,
    StreamInput,
    walk,
)
from .spread.origins import Key
from .sql.statement import Statement
from .sql.types import arrow_schema, has_struct
from .types import Type
from .visit import subqueries


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Output:
    """What a plan's root hands out: columns and their types with the plan's names, those of structs' fields too."""

    schema: pa.Schema
    types: tuple[Type, ...]


Columns: TypeAlias = Mapping[str, Mapping[str, Column]]
"""By source and name, the columns as all reads of the source want them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What every fragment of a plan is made from. `keys` are the columns that sources may be cut by, over channels."""

    shared: tuple[ir.Relation, ...]
    indexes: Mapping[IndexKey, Indexed]
    columns: Columns
    shape: Shape
    keys: Mapping[Key, int]


def fragments(
    section: Section, making: Making, nodes: Mapping[int, PhysicalNode], output: Output | None
) -> FragmentNode:
    """The section's fragments, each reading those before it. The last one is its root."""
    mine = dict(nodes)
    for edge in section.edges:
        mine[id(edge)] = _edge(edge, making, mine)
    return _Fragment(making, mine).of(section.root, output)


def _edge(edge: ir.Relation, making: Making, nodes: dict[int, PhysicalNode]) -> PhysicalNode:
    if isinstance(edge, ir.Operated):
        return operator_node(edge, [nodes[id(each)] for each in read_by(edge)], making.indexes)
    return scanned(edge, making) or _Fragment(making, nodes).of(edge, None)


def scanned(relation: ir.Relation, making: Making) -> ScanNode | None:
    """A bare read that comes as a stream needs no statement."""
    if not isinstance(relation, ir.Read | ir.LocalFiles) or making.shape[relation.source].feed is Feed.FILES:
        return None
    if any(map(has_struct, relation.schema)):
        return None  # inside a plan their fields have other names
    known = making.columns[relation.source]
    columns = tuple(known[name] for name in relation.names)
    return scan_node(relation.source, columns, making, place=relation.place, whole=relation.whole)


def scan_node(source: str, columns: tuple[Column, ...], making: Making, *, place: str, whole: bool) -> ScanNode:
    return ScanNode(
        source=source,
        columns=columns,
        schema=pa.schema([pa.field(each.name, each.type, each.nullable) for each in columns]),
        size_class=making.shape[source].size_class,
        place=place,
        whole=whole,
    )


class _Reading(NamedTuple):
    """Reads of a source that have the same rows."""

    source: str
    whole: bool
    cut: tuple[str, int] | None


@dataclass(slots=True)
class _Use:
    """An input of a fragment: how often the statement reads it, and where first. For a source, its columns too."""

    relation: str
    place: str
    reads: int = 0
    columns: dict[str, Column] = field(default_factory=dict)


class _Fragment:
    """One fragment being made. It answers the statement's questions about its leaves and notes them as inputs."""

    def __init__(self, making: Making, nodes: dict[int, PhysicalNode]) -> None:
        self._making = making
        self._nodes = nodes
        self._sources: dict[_Reading, _Use] = {}
        self._streams: dict[int, tuple[PhysicalNode, _Use]] = {}
        self._clocks: list[ir.Clock] = []

    def of(self, root: ir.Relation, output: Output | None) -> FragmentNode:
        statement = Statement(self, self._making.shared)
        sql = statement.select(root, output.types if output else None)
        scans = [self._scan(read, use) for read, use in self._sources.items() if self._feed(read.source) is Feed.STREAM]
        streams = (
            *scans,
            *(
                StreamInput(node=node, relation=use.relation, replayed=use.reads > 1)
                for node, use in self._streams.values()
            ),
        )
        return FragmentNode(
            sql=sql,
            streams=streams,
            files=tuple(
                self._files(read, use) for read, use in self._sources.items() if self._feed(read.source) is Feed.FILES
            ),
            context=tuple(self._clocks),
            schema=output.schema if output else arrow_schema(root.schema),
            size_class=max(
                (
                    *(self._making.shape[read.source].size_class for read in self._sources),
                    *(each.node.size_class for each in streams),
                ),
                default=0,
            ),
            row_wise=is_row_wise(root, self._nodes),
            blocking=is_blocking(root, self._nodes),
            place=root.place,
            relations=statement.relations,
            ordered=OrderedForm(
                root=root,
                shared=self._making.shared,
                ends=self._nodes,
                render=lambda relation, shared: Statement(self, shared).select(
                    relation, output.types if output else None
                ),
            ),
        )

    def read(self, relation: ir.Read | ir.LocalFiles) -> tuple[str, Sequence[str]]:
        name = relation.source
        prefix = "src" if self._feed(name) is Feed.FILES else "in"
        read = _Reading(name, relation.whole, relation.cut)
        use = self._sources.get(read)
        if use is None:
            use = self._sources[read] = _Use(relation=self._numbered(prefix), place=relation.place)
        use.reads += 1
        for column in relation.names:
            use.columns.setdefault(column, self._making.columns[name][column])
        order = {column: f"c{at}" for at, column in enumerate(use.columns)}
        return use.relation, [order[column] for column in relation.names]

    def edge(self, relation: ir.Relation) -> str | None:
        node = self._nodes.get(id(relation))
        if node is None:
            return None
        if id(node) not in self._streams:
            self._streams[id(node)] = (node, _Use(relation=self._numbered("in"), place=relation.place))
        _, use = self._streams[id(node)]
        use.reads += 1
        return use.relation

    def clock(self, variable: ir.Clock) -> str:
        if variable not in self._clocks:
            self._clocks.append(variable)
        return f"c{self._clocks.index(variable)}"

    @property
    def reads_clock(self) -> bool:
        return bool(self._clocks)

    def _feed(self, source: str) -> Feed:
        return self._making.shape[source].feed

    def _numbered(self, prefix: str) -> str:
        return f"{prefix}{len(self._sources) + len(self._streams)}"

    def _scan(self, read: _Reading, use: _Use) -> StreamInput:
        columns = tuple(use.columns.values())
        node = scan_node(read.source, columns, self._making, place=use.place, whole=read.whole)
        return StreamInput(node=node, relation=use.relation, replayed=use.reads > 1)

    def _files(self, read: _Reading, use: _Use) -> FileInput:
        columns = tuple(use.columns.values())
        return FileInput(
            source=read.source,
            relation=use.relation,
            columns=columns,
            place=use.place,
            whole=read.whole,
            cut=read.cut,
        )


def sources_of(root: PhysicalNode) -> tuple[str, ...]:
    """The sources that a node and what it reads from ask for, each once, in order."""
    found: dict[str, None] = {}
    for node in walk(root):
        if isinstance(node, ScanNode):
            found[node.source] = None
        elif isinstance(node, FragmentNode):
            found.update((each.source, None) for each in node.files)
    return tuple(found)


def is_row_wise(root: ir.Relation, edges: Container[int]) -> bool:
    """Whether each row comes from one row of a single input, in order."""
    relation = root
    while True:
        if isinstance(relation, ir.Operated):
            return True
        if isinstance(relation, ir.Read | ir.LocalFiles) or (relation is not root and id(relation) in edges):
            return True
        if not isinstance(relation, ir.Filter | ir.Project | ir.Expand):
            return False
        if any(next(subqueries(each), None) for each in tree.expressions(relation)):
            return False
        relation = relation.input


def is_blocking(root: ir.Relation, edges: Container[int]) -> bool:
    """Whether all input is consumed before the first row comes out."""
    relation = root
    while relation is root or id(relation) not in edges:
        match relation:
            case ir.Filter() | ir.Project() | ir.Expand() | ir.Fetch():
                relation = relation.input
            case ir.Sort() | ir.TopN() | ir.Aggregate() | ir.Window() | ir.Values():
                return True
            case ir.Set():
                return relation.operation is not ir.SetOperation.UNION_ALL
            case _:
                return False
    return False
