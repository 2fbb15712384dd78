"""The physical nodes of a section: its fragments, each with its SQL and the inputs of the SQL."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Container, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from ...operators.core.blocks import BLOCK_ROWS
from ...operators.core.column import Column, KeyCut
from ...operators.duckdb.loop_resources import LoopBound
from ...operators.kernels import SMALL_ROWS, Step, pay_at_any_size
from ...operators.python_functions import WIDE_ROWS
from .. import ir
from ..analysis.row_wise import is_row_wise
from ..distribution.origins import Key
from ..ir import tree
from ..ir.arrow_types import arrow_schema, has_struct
from ..ordering.form import OrderedForm
from ..physical.merge_nodes import AsOfMergeJoinNode, MergeJoinNode, StreamingAggregateNode
from ..physical.pipelines import (
    Feed,
    FileInput,
    FragmentNode,
    LookupNode,
    PhysicalNode,
    ScanNode,
    SelectNode,
    Shape,
    StreamInput,
    UnnestNode,
    read_from_sources,
    walk,
)
from ..sql.select_statement import Statement
from .column_selection import selection
from .divide import Section
from .kernels import kernels
from .long_columns import StreamColumns, long_columns
from .needs_full_cardinality import reads_of_full_cardinality
from .operated import Indexed, IndexKey, operator_node
from .sorted_nodes import order_of

Columns: TypeAlias = Mapping[str, Mapping[str, Column]]
"""The columns that all reads of a source together want, by source and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """The basis of every fragment of a plan. `keys` are the columns by which sources may be cut over channels.
    `strict` says that rows of joins wait until their order is known.
    """

    shared: tuple[ir.Relation, ...]
    indexes: Mapping[IndexKey, Indexed]
    columns: Columns
    shape: Shape
    keys: Mapping[Key, int]
    strict: bool = True


def fragments(
    section: Section, making: Making, nodes: MutableMapping[ir.Relation, PhysicalNode], output: pa.Schema | None
) -> FragmentNode | SelectNode:
    """The section's fragments, each reading those before it. The last fragment is the section's root."""
    mine = ChainMap[ir.Relation, PhysicalNode]({}, nodes)
    lazy = _read_lazily(section)
    for edge in section.edges:
        mine[edge] = _edge(edge, making, mine, lazy=edge in lazy)
    if section.row_wise:
        mine |= _source_read(section.root, making, mine)
    selected = _selected(section.root, mine, output, row_wise=section.row_wise)
    return selected or _in_parts(section.root, making, mine, output, row_wise=section.row_wise)


def _in_parts(
    root: ir.Relation,
    making: Making,
    nodes: Mapping[ir.Relation, PhysicalNode],
    output: pa.Schema | None = None,
    *,
    row_wise: bool,
    lazy: bool = False,
) -> FragmentNode:
    """The fragment of a relation. Where it makes long values of each row of a file, the rows come as a stream, so that
    fewer of them can be computed at once. A filter below, which makes none, still has DuckDB read the file: DuckDB
    skips row groups by their statistics.
    """
    fragment = _Fragment(making, nodes).of(root, output, lazy=lazy)
    if not row_wise or not fragment.files or WIDE_ROWS not in fragment.sql:
        return fragment
    filtered = _filtered_below(root)
    below = None if filtered is None else _Fragment(making, nodes).of(filtered, None)
    if filtered is not None and below is not None and below.files and WIDE_ROWS not in below.sql:
        nodes = {**nodes, filtered: below}
    streamed = _Fragment(making, nodes, streamed=True).of(root, output)
    return streamed if [stream.replayed for stream in streamed.streams] == [False] else fragment


def _filtered_below(root: ir.Relation) -> ir.Filter | None:
    """The last filter of a source's rows below projections and filters; None if there is none."""
    while isinstance(root, ir.Project | ir.Filter):
        if isinstance(root, ir.Filter) and isinstance(root.input, ir.Read | ir.LocalFiles):
            return root
        root = root.input
    return None


def _source_read(
    root: ir.Relation, making: Making, nodes: Mapping[ir.Relation, PhysicalNode]
) -> dict[ir.Relation, PhysicalNode]:
    """The source of a row-wise section that only selects columns."""
    selected = selection(root, nodes, row_wise=True)
    if selected is None or not isinstance(selected.input, ir.Read | ir.LocalFiles):
        return {}
    known = making.columns[selected.input.source]
    columns = tuple(known[name] for name in selected.input.names)
    return {selected.input: _leaf(selected.input).scan(columns, making, selected.input.plan_path)}


def _edge(edge: ir.Relation, making: Making, nodes: Mapping[ir.Relation, PhysicalNode], *, lazy: bool) -> PhysicalNode:
    if isinstance(edge, ir.Operated):
        return operator_node(edge, [nodes[child] for child in tree.read_by(edge)], making.indexes)
    without_statement = scanned(edge, making) or _selected(edge, nodes, None)
    return without_statement or _in_parts(edge, making, nodes, row_wise=is_row_wise(edge, nodes), lazy=lazy)


def _read_lazily(section: Section) -> set[ir.Relation]:
    """The edges of which an operator may not want all rows, or wants the first rows soon."""
    lazy: set[ir.Relation] = set()
    for edge in reversed(section.edges):
        stops = isinstance(edge, ir.MergeJoin | ir.AsOfMergeJoin | ir.StreamingAggregate | ir.DenseSlices | ir.User)
        if stops or (isinstance(edge, ir.Operated) and edge in lazy):
            lazy.update(tree.read_by(edge))
    return lazy


def _selected(
    root: ir.Relation, nodes: Mapping[ir.Relation, PhysicalNode], output: pa.Schema | None, *, row_wise: bool = False
) -> SelectNode | None:
    """A selection of columns of an operator's or a source's rows, which needs no statement; None if `root` is no
    selection.
    """
    selected = selection(root, nodes, row_wise=row_wise)
    node = None if selected is None else nodes.get(selected.input)
    if selected is None or node is None:
        return None
    return SelectNode(
        input=node,
        columns=selected.columns,
        schema=arrow_schema(root.schema) if output is None else output,
        size_class=node.size_class,
        plan_path=root.plan_path,
    )


def scanned(relation: ir.Relation, making: Making) -> ScanNode | None:
    """The scan of a bare read that comes as a stream, which needs no statement; None in other cases."""
    if not isinstance(relation, ir.Read | ir.LocalFiles):
        return None
    leaf = _leaf(relation)
    if leaf.feed(making) is Feed.FILES or any(map(has_struct, relation.schema)):
        return None  # inside a plan the fields of structs have other names
    known = making.columns[relation.source]
    columns = tuple(known[name] for name in relation.names)
    return leaf.scan(columns, making, relation.plan_path)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """An input that a fragment reads once, however often the plan reads it: a source, a share or all of it, in a
    declared order.
    """

    source: str
    whole: bool
    cut: KeyCut | None
    order: tuple[tuple[str, ir.Direction], ...]

    def feed(self, making: Making) -> Feed:
        """The feed of the input. Our own scan checks a declared order."""
        return Feed.STREAM if self.order else making.shape[self.source].feed

    def scan(self, columns: tuple[Column, ...], making: Making, plan_path: str) -> ScanNode:
        positions = {column.name: at for at, column in enumerate(columns)}
        order = (ir.ColumnOrder(column=positions[name], direction=direction) for name, direction in self.order)
        return ScanNode(
            source=self.source,
            columns=columns,
            schema=pa.schema([pa.field(column.name, column.type, column.nullable) for column in columns]),
            size_class=making.shape[self.source].size_class,
            plan_path=plan_path,
            whole=self.whole,
            cut=self.cut,
            order=tuple(map(order_of, order)),
        )


def _leaf(relation: ir.Read | ir.LocalFiles) -> _Leaf:
    order = tuple((relation.names[key.column], key.direction) for key in relation.order)
    return _Leaf(relation.source, relation.whole, relation.cut, order)


@dataclass(slots=True)
class _Use:
    """An input of a fragment: the number of the statement's reads, and the place of the first read. For a source, also
    its columns, their names in the statement, and whether one of the reads has `full_cardinality`.
    """

    relation: str
    plan_path: str
    reads: int = 0
    full_cardinality: bool = False
    columns: dict[str, Column] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


class _Fragment:
    """One fragment being made. It answers the statement's questions about its leaves and notes the leaves as inputs. If
    `streamed`, DuckDB reads no files itself.
    """

    def __init__(self, making: Making, nodes: Mapping[ir.Relation, PhysicalNode], *, streamed: bool = False) -> None:
        self._making = making
        self._nodes = nodes
        self._streamed = streamed
        self._sources: dict[_Leaf, _Use] = {}
        self._streams: dict[PhysicalNode, _Use] = {}
        self._clocks: list[ir.Clock] = []
        self._of_full_cardinality: Container[ir.Relation] = ()

    def of(self, root: ir.Relation, output: pa.Schema | None, *, lazy: bool = False) -> FragmentNode:
        self._of_full_cardinality = reads_of_full_cardinality(root, self._making.shared, self._nodes)
        statement = Statement(self, self._making.shared)
        result = root if isinstance(root, ir.Recursion) else None
        row_wise = is_row_wise(root, self._nodes)
        sql = statement.select(root, result=result, row_wise=row_wise)
        long = long_columns(root, self._making.shared, self._nodes, self._stream_of, joins_hold=self._making.strict)
        scanned = [(self._scan(leaf, use), use) for leaf, use in self._fed(Feed.STREAM)]
        streams = tuple(
            StreamInput(
                node=node,
                relation=use.relation,
                replayed=use.reads > 1,
                unnamed=True,
                long=long.streams.get(use.relation, {}),
            )
            for node, use in (*scanned, *self._streams.items())
        )
        sizes = (self._making.shape[leaf.source].size_class for leaf in self._sources)
        size_class = max((*sizes, *(stream.node.size_class for stream in streams)), default=0)
        lazy = lazy or any(_comes_lazily(stream.node) for stream in streams)
        return FragmentNode(
            sql=sql,
            streams=streams,
            files=tuple(self._files(leaf, use) for leaf, use in self._fed(Feed.FILES)),
            context=tuple(self._clocks),
            schema=arrow_schema(root.schema) if output is None else output,
            size_class=size_class,
            row_wise=row_wise,
            plan_path=root.plan_path,
            relations=statement.relations,
            collects=statement.collects,
            ordered=OrderedForm(
                root=root,
                shared=self._making.shared,
                ends=self._nodes,
                render=lambda relation, shared: Statement(self, shared).select(relation, result=result),
            ),
            loops=tuple(map(_bound, statement.loops.values())),
            result=None if result is None else _bound(result),
            lazy=lazy and size_class > BLOCK_ROWS and _passes_rows(root, self._nodes),
            long=long.result,
            kernels=self._kernels(root, streams, size_class),
        )

    def read(self, relation: ir.Read | ir.LocalFiles) -> tuple[str, Sequence[str]]:
        leaf = _leaf(relation)
        prefix = "src" if self._feed(leaf) is Feed.FILES else "in"
        use = self._sources.get(leaf)
        if use is None:
            use = self._sources[leaf] = _Use(relation=self._numbered(prefix), plan_path=relation.plan_path)
        use.reads += 1
        use.full_cardinality |= relation in self._of_full_cardinality
        for column in relation.names:
            use.columns.setdefault(column, self._making.columns[leaf.source][column])
            use.names.setdefault(column, f"c{len(use.names)}")
        return use.relation, [use.names[column] for column in relation.names]

    def edge(self, relation: ir.Relation) -> str | None:
        node = self._nodes.get(relation)
        if node is None:
            return None
        if node not in self._streams:
            self._streams[node] = _Use(relation=self._numbered("in"), plan_path=relation.plan_path)
        use = self._streams[node]
        use.reads += 1
        return use.relation

    def clock(self, variable: ir.Clock) -> str:
        if variable not in self._clocks:
            self._clocks.append(variable)
        return f"c{self._clocks.index(variable)}"

    @property
    def reads_clock(self) -> bool:
        return bool(self._clocks)

    def _kernels(self, root: ir.Relation, streams: Sequence[StreamInput], size_class: int) -> tuple[Step, ...] | None:
        """The kernels of a statement that reads one stream, once, and nothing else; None for other statements, and
        where DuckDB costs less.
        """
        if len(streams) != 1 or streams[0].replayed or len(self._sources) + len(self._streams) > 1 or self._clocks:
            return None
        steps = kernels(root, self._columns_of)
        return steps if steps is not None and (size_class <= SMALL_ROWS or pay_at_any_size(steps)) else None

    def _columns_of(self, relation: ir.Relation) -> Sequence[tuple[int, pa.DataType]] | None:
        """The positions of an input's columns in its stream, and their types; None for a relation that is no input."""
        if relation in self._nodes:
            return list(enumerate(self._nodes[relation].schema.types))
        if isinstance(relation, ir.Read | ir.LocalFiles):
            columns = list(self._sources[_leaf(relation)].columns.values())
            positions = {column.name: at for at, column in enumerate(columns)}
            return [(at, columns[at].type) for at in (positions[name] for name in relation.names)]
        return None

    def _feed(self, leaf: _Leaf) -> Feed:
        return Feed.STREAM if self._streamed else leaf.feed(self._making)

    def _fed(self, feed: Feed) -> list[tuple[_Leaf, _Use]]:
        return [(leaf, use) for leaf, use in self._sources.items() if self._feed(leaf) is feed]

    def _numbered(self, prefix: str) -> str:
        return f"{prefix}{len(self._sources) + len(self._streams)}"

    def _stream_of(self, relation: ir.Relation) -> StreamColumns | None:
        """The stream that an input's rows come from, and its columns; None for an input that DuckDB reads itself."""
        if relation in self._nodes:
            use = self._streams[self._nodes[relation]]
        elif isinstance(relation, ir.Read | ir.LocalFiles) and self._feed(_leaf(relation)) is Feed.STREAM:
            use = self._sources[_leaf(relation)]
        else:
            return None
        columns = self._columns_of(relation)
        return None if columns is None else (use.relation, columns)

    def _scan(self, leaf: _Leaf, use: _Use) -> ScanNode:
        return leaf.scan(tuple(use.columns.values()), self._making, use.plan_path)

    def _files(self, leaf: _Leaf, use: _Use) -> FileInput:
        columns = tuple(use.columns.values())
        return FileInput(
            source=leaf.source,
            relation=use.relation,
            columns=columns,
            plan_path=use.plan_path,
            whole=leaf.whole,
            cut=leaf.cut,
            full_cardinality=use.full_cardinality,
        )


def _bound(loop: ir.Recursion) -> LoopBound:
    return LoopBound(
        loop=loop.loop, name=loop.name, columns=len(loop.schema), max_rows=loop.max_rows, plan_path=loop.plan_path
    )


def _comes_lazily(node: PhysicalNode) -> bool:
    """Tests whether a node hands out rows before it has read all of its inputs, so that its inputs are read lazily."""
    while isinstance(node, UnnestNode | LookupNode | SelectNode):
        node = node.input
    match node:
        case MergeJoinNode() | AsOfMergeJoinNode() | StreamingAggregateNode():
            return True
        case FragmentNode():
            return node.lazy
        case _:
            return False


def sources_of(root: PhysicalNode) -> tuple[str, ...]:
    """The sources that a node and the nodes below it read, each once, in order."""
    names: dict[str, None] = {}
    for node in walk(root):
        names.update((leaf.source, None) for leaf in read_from_sources(node))
    return tuple(names)


def _passes_rows(root: ir.Relation, edges: Container[ir.Relation]) -> bool:
    """Tests whether the rows are those of `is_row_wise`, or only a counted part of them."""
    while isinstance(root, ir.Fetch):
        root = root.input
    return root in edges or is_row_wise(root, edges)


def is_blocking(root: ir.Relation, edges: Container[ir.Relation]) -> bool:
    """Tests whether all input is consumed before the first row comes out."""
    relation = root
    while relation is root or relation not in edges:
        if relation.traits.takes == "all" or isinstance(relation, ir.Values):
            return True
        if not isinstance(relation, ir.Filter | ir.Project | ir.Expand | ir.Fetch):
            return False
        relation = relation.input
    return False
