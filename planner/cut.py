"""Cut a plan into pipelines, fragments and what is kept.

`divide` decides where, once per plan; `cut` makes the physical plan for a shape, with the SQL of every fragment.

- A row-wise plan becomes a pipeline per leaf that starts with the first piece; any other waits for the seal, as one.
- A subtree that only static sources feed is computed once per task and kept: the largest such one, unless it is a bare
  read (which DuckDB reads again, with pushdown) or reads nothing at all. When all of the plan is static nothing is
  kept: it is one pipeline, and every epoch computes its answer afresh.
- A fragment is cut where it is `DEPTH` relations deep. What looks out to an enclosing row cannot be computed alone and
  is not cut; its own depth is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import pyarrow as pa

from ..operators.column import Column
from ..proto.errors import PlanError, Problem
from ..proto.values import TaskOptions
from . import ir, tree
from .branches import branches
from .facts import FactTable
from .pipelines import (
    Exchange,
    Feed,
    FileInput,
    FragmentNode,
    Kept,
    KeptNode,
    MergeKey,
    PhysicalNode,
    PhysicalPlan,
    Pipeline,
    ReceiveNode,
    ScanNode,
    Shape,
    Start,
    StreamInput,
)
from .spread.spreading import Spreading, spread
from .spread.stages import stages
from .sql.statement import Statement
from .sql.types import arrow_type, unnamed
from .types import Type
from .visit import subqueries
from .walk import unroll

DEPTH: Final = 100
"""Relations in a statement, one inside the other: DuckDB fails beyond about 900 and slows down long before."""

CORRELATED_DEPTH: Final = 300
"""The same where no cut is possible."""

_WEIGHT: Final = 4
_ROW_WISE_WEIGHT: Final = 1
"""Of a pipeline's memory beside the others': one that goes row by row holds little."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Section:
    """What a pipeline or a kept result computes: `root`, in fragments that end at `edges` (innermost first)."""

    root: ir.Relation
    edges: tuple[ir.Relation, ...]
    row_wise: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Division:
    """Where a plan is cut. `kept` gives a name to each kept section, `uses` says which relations are whose."""

    sections: tuple[Section, ...]
    facts: FactTable
    kept: dict[str, Section] = field(default_factory=dict)
    uses: dict[int, str] = field(default_factory=dict)
    shared: tuple[ir.Relation, ...] = ()


# ------------------------------------------------------------------------------------------------ where to cut


def divide(plan: ir.Plan, static: Callable[[ir.Read], bool]) -> Division:
    """Raises `PlanError` where a correlated part is too deep."""
    facts = FactTable(plan.shared, static)
    if not facts.of(plan.root).fed:
        return Division(sections=(_section(plan.shared, plan.root, facts, ()),), shared=plan.shared, facts=facts)
    found = branches(plan.root, facts)
    roots = (plan.root,) if found is None else found
    kept = _Keeping(plan, facts)
    for root in roots:
        kept.look_below(root)
    roots = tuple(tree.all_of(root) if id(root) in kept.uses else root for root in roots)
    return Division(
        sections=tuple(_section(plan.shared, root, facts, kept.uses, row_wise=found is not None) for root in roots),
        kept={name: _section(plan.shared, root, facts, ()) for name, root in kept.roots.items()},
        uses=kept.uses,
        shared=plan.shared,
        facts=facts,
    )


class _Keeping:
    """Finds the largest subtrees that only static sources feed."""

    def __init__(self, plan: ir.Plan, facts: FactTable) -> None:
        self._plan = plan
        self._facts = facts
        self._names: dict[int, str] = {}
        self._seen: set[int] = set()
        self.roots: dict[str, ir.Relation] = {}
        self.uses: dict[int, str] = {}

    def look_below(self, root: ir.Relation) -> None:
        stack = [root]
        while stack:
            relation = stack.pop()
            definition = self._plan.shared[relation.ordinal] if isinstance(relation, ir.Shared) else relation
            if self._is_kept(relation):
                self.uses[id(relation)] = self._name(definition)
            elif isinstance(relation, ir.Shared):
                if relation.ordinal not in self._seen:
                    self._seen.add(relation.ordinal)
                    stack.append(definition)
            else:
                stack.extend(reversed(list(below(relation))))

    def _is_kept(self, relation: ir.Relation) -> bool:
        facts = self._facts.of(relation)
        return not facts.fed and not facts.reach and facts.reads > 0 and not _bare(relation)

    def _name(self, definition: ir.Relation) -> str:
        name = self._names.setdefault(id(definition), f"kept{len(self._names)}")
        self.roots[name] = definition
        return name


def _bare(relation: ir.Relation) -> bool:
    """A read, or some of its columns."""
    while isinstance(relation, ir.Project) and all(
        isinstance(each, ir.Field) and not each.steps for each in relation.expressions
    ):
        relation = relation.input
    return isinstance(relation, ir.Read | ir.LocalFiles)


def below(relation: ir.Relation) -> Iterator[ir.Relation]:
    """The relations right below one, those of its subqueries last."""
    yield from tree.inputs(relation)
    for expression in tree.expressions(relation):
        for subquery in subqueries(expression):
            yield subquery.relation


def _section(
    shared: Sequence[ir.Relation],
    root: ir.Relation,
    facts: FactTable,
    uses: Container[int],
    *,
    row_wise: bool = False,
) -> Section:
    """`uses` are relations that something else computes."""
    edges: list[ir.Relation] = []
    seen: dict[int, int] = {}

    def step(relation: ir.Relation) -> Generator[ir.Relation, int, int]:
        """How deep the statement is that this relation's rows come out of, at it."""
        if id(relation) in uses or isinstance(relation, ir.Exchange):
            return 1
        if isinstance(relation, ir.Shared):
            if relation.ordinal not in seen:
                seen[relation.ordinal] = 0
                seen[relation.ordinal] = yield shared[relation.ordinal]
            return 1
        depth = 0
        for each in below(relation):
            depth = max(depth, (yield each))
        depth += 1
        if depth < DEPTH or relation is root:
            return depth
        if not facts.of(relation).reach:
            edges.append(relation)
            return 1
        if depth > CORRELATED_DEPTH:
            raise PlanError(_too_deep(relation.place))
        return depth

    unroll(step, root)
    return Section(root=root, edges=tuple(edges), row_wise=row_wise)


def _too_deep(place: str) -> Problem:
    return Problem(
        place=place,
        reason="TOO_DEEP",
        message=f"more than {CORRELATED_DEPTH} relations, one inside the other, read the row of an enclosing query, so "
        "that none can be computed alone",
    )


# --------------------------------------------------------------------------------------- for a shape of inputs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Output:
    """What a plan's root hands out: columns and their types with the plan's names, those of structs' fields too."""

    schema: pa.Schema
    types: tuple[Type, ...]


Columns: TypeAlias = Mapping[str, Mapping[str, Column]]
"""By source and name, the columns as all reads of the source want them."""


def cut(division: Division, columns: Columns, shape: Shape, output: Output, options: TaskOptions) -> PhysicalPlan:
    """The physical plan for sources of this shape."""
    making = _Making(shared=division.shared, columns=columns, shape=shape)
    nodes: dict[int, PhysicalNode] = {}
    kept: list[Kept] = []
    for name, section in division.kept.items():
        root = _fragments(section, making, nodes, None)
        node = KeptNode(name=name, schema=root.schema, size_class=root.size_class)
        nodes |= {use: node for use, used in division.uses.items() if used == name}
        kept.append(Kept(name=name, root=root, sources=sources_of(root)))
    pipelines: list[Pipeline] = []
    for section in division.sections:
        if options.channels > 1 and not section.row_wise:
            pipelines += _spread(division, section, making, nodes, output, options)
        else:
            pipelines.append(_pipeline(section, making, nodes, output, options.channels))
    return PhysicalPlan(pipelines=tuple(pipelines), kept=tuple(kept))


def _pipeline(
    section: Section, making: _Making, nodes: dict[int, PhysicalNode], output: Output, channels: int
) -> Pipeline:
    """A section as one pipeline; on several channels if each of its rows comes from one row of a source."""
    node = _fragments(section, making, nodes, output)
    sources = sources_of(node)
    start = Start.PIECE if section.row_wise and len(sources) == 1 else Start.SEAL
    return Pipeline(root=node, sources=sources, start=start, channels=channels if sources else 1)


def _spread(
    division: Division,
    section: Section,
    making: _Making,
    nodes: dict[int, PhysicalNode],
    output: Output,
    options: TaskOptions,
) -> Iterator[Pipeline]:
    """A section as pipelines on several channels. A plan that is not row-wise has one section."""
    spreading = Spreading(
        channels=options.channels,
        rows={source: each.size_class for source, each in making.shape.items()},
        facts=division.facts,
        shared=division.shared,
        kept=division.uses,
        broadcast=options.broadcast,
    )
    found = spread(section.root, spreading)
    making = replace(making, shared=found.shared)
    received: dict[int, PhysicalNode] = {}
    parts = stages(found)
    for stage in parts:
        mine = nodes | {use: received[number] for use, number in stage.receives.items()}
        part = _section(making.shared, stage.root, division.facts, nodes)
        root = _fragments(part, making, mine, output if stage is parts[-1] else None)
        into = []
        for number, (exchange, consumers) in stage.sends.items():
            into.append(_exchange(exchange, number, consumers, root.schema))
            received[number] = ReceiveNode(
                exchange=number, schema=root.schema, size_class=root.size_class, place=exchange.place
            )
        yield Pipeline(
            root=root,
            sources=sources_of(root),
            start=Start.SEAL,
            channels=stage.channels,
            weight=_ROW_WISE_WEIGHT if root.row_wise else _WEIGHT,
            into=tuple(into),
        )


def _exchange(exchange: ir.Exchange, number: int, consumers: int, schema: pa.Schema) -> Exchange:
    order = (
        MergeKey(
            column=each.column,
            descending=each.direction in (ir.Direction.DESC_NULLS_FIRST, ir.Direction.DESC_NULLS_LAST),
            nulls_first=each.direction in (ir.Direction.ASC_NULLS_FIRST, ir.Direction.DESC_NULLS_FIRST),
        )
        for each in exchange.order
    )
    return Exchange(
        number=number,
        routing=exchange.routing,
        schema=schema,
        consumers=consumers,
        keys=exchange.keys,
        order=tuple(order),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Making:
    """What every fragment of a plan is made from."""

    shared: tuple[ir.Relation, ...]
    columns: Columns
    shape: Shape


def _fragments(
    section: Section, making: _Making, nodes: Mapping[int, PhysicalNode], output: Output | None
) -> FragmentNode:
    """The section's fragments, each reading those before it. The last one is its root."""
    mine = dict(nodes)
    for edge in section.edges:
        mine[id(edge)] = _Fragment(making, mine).of(edge, None)
    return _Fragment(making, mine).of(section.root, output)


@dataclass(slots=True)
class _Use:
    """An input of a fragment: how often the statement reads it, and where first. For a source, its columns too."""

    relation: str
    place: str
    reads: int = 0
    columns: dict[str, Column] = field(default_factory=dict)


class _Fragment:
    """One fragment being made. It answers the statement's questions about its leaves and notes them as inputs."""

    def __init__(self, making: _Making, nodes: dict[int, PhysicalNode]) -> None:
        self._making = making
        self._nodes = nodes
        self._sources: dict[tuple[str, bool], _Use] = {}
        self._streams: dict[int, tuple[PhysicalNode, _Use]] = {}
        self._clocks: list[ir.Clock] = []

    def of(self, root: ir.Relation, output: Output | None) -> FragmentNode:
        statement = Statement(self, self._making.shared)
        sql = statement.select(root, output.types if output else None)
        scans = [self._scan(*read, use) for read, use in self._sources.items() if self._feed(read[0]) is Feed.STREAM]
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
                self._files(*read, use) for read, use in self._sources.items() if self._feed(read[0]) is Feed.FILES
            ),
            context=tuple(self._clocks),
            schema=output.schema if output else arrow_schema(root.schema),
            size_class=max(
                (
                    *(self._making.shape[name].size_class for name, _ in self._sources),
                    *(each.node.size_class for each in streams),
                ),
                default=0,
            ),
            row_wise=is_row_wise(root, self._nodes),
            blocking=is_blocking(root, self._nodes),
            place=root.place,
            relations=statement.relations,
        )

    def read(self, relation: ir.Read | ir.LocalFiles) -> tuple[str, Sequence[str]]:
        name = relation.source
        prefix = "src" if self._feed(name) is Feed.FILES else "in"
        read = name, relation.whole
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

    def _scan(self, source: str, whole: bool, use: _Use) -> StreamInput:
        columns = tuple(use.columns.values())
        node = ScanNode(
            source=source,
            columns=columns,
            schema=pa.schema([pa.field(each.name, each.type, each.nullable) for each in columns]),
            size_class=self._making.shape[source].size_class,
            place=use.place,
            whole=whole,
        )
        return StreamInput(node=node, relation=use.relation, replayed=use.reads > 1)

    def _files(self, source: str, whole: bool, use: _Use) -> FileInput:
        columns = tuple(use.columns.values())
        return FileInput(source=source, relation=use.relation, columns=columns, place=use.place, whole=whole)


def arrow_schema(types: Sequence[Type]) -> pa.Schema:
    """The schema of a relation inside the plan, where columns have no names."""
    return pa.schema([pa.field(f"c{at}", arrow_type(unnamed(each)), each.nullable) for at, each in enumerate(types)])


def sources_of(root: PhysicalNode) -> tuple[str, ...]:
    """The sources that a node and what it reads from ask for, each once, in order."""
    found: dict[str, None] = {}
    stack: list[PhysicalNode] = [root]
    while stack:
        node = stack.pop()
        match node:
            case ScanNode():
                found[node.source] = None
            case FragmentNode():
                found.update((each.source, None) for each in node.files)
                stack.extend(each.node for each in reversed(node.streams))
            case KeptNode() | ReceiveNode():
                pass
    return tuple(found)


def is_row_wise(root: ir.Relation, edges: Container[int]) -> bool:
    """Whether each row comes from one row of a single input, in order."""
    relation = root
    while True:
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
