"""A graph for a network, from a plan's nodes.

Rows are routed to where their key is: a join's by what has to be equal, a group's by what it is grouped by. What works
on rows by themselves takes them on whichever channel they are.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np
import pyarrow as pa

from ...operators.changes.columns import Mask
from ...operators.changes.compute import Compute
from ...operators.changes.constant import Constant
from ...operators.changes.difference import Difference
from ...operators.changes.evaluator import Evaluator
from ...operators.changes.group import Group
from ...operators.changes.join import Join
from ...operators.changes.known import Known
from ...operators.changes.network.graph import ByKey, Entry, Graph, Link, Operate, Route, Vertex
from ...operators.changes.only_one import OnlyOne
from ...operators.changes.operator import ChangeOperator
from ...operators.changes.recompute import Recompute
from ...operators.changes.regroup import Regroup
from ...operators.changes.rows import Rows
from ...operators.changes.select import Select
from ...operators.changes.top import Top
from ...operators.changes.weigh import Weigh
from ...operators.instances import Instance
from ...planner.changes.nodes import (
    ChangeNode,
    ComputeNode,
    ConstantNode,
    DifferenceNode,
    GroupNode,
    JoinNode,
    OnlyOneNode,
    PairCondition,
    RecomputeNode,
    RegroupNode,
    SelectNode,
    SourceNode,
    TopNode,
    WeighNode,
    inputs_of,
)
from ...planner.walk import unroll

_NUMBER = pa.field("number", pa.int64())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EntrySource:
    """A source as it is fed: its number among the network's entries, and all columns that the plan uses, by name."""

    port: int
    schema: pa.Schema


def graph_of(root: ChangeNode, sources: Mapping[str, EntrySource], instance: Instance) -> Graph:
    """The nodes as a network's graph. Statements run on `instance`, one at a time."""
    making = _Making(sources=sources, instance=instance, depth=0)
    making.enter()
    result = unroll(making.step, root)
    return Graph(vertices=tuple(making.vertices), result=result)


@dataclass(slots=True, kw_only=True)
class _Making:
    """A graph being made: a node becomes a vertex once, however many read it."""

    sources: Mapping[str, EntrySource]
    instance: Instance
    depth: int
    vertices: list[Vertex] = field(default_factory=list)
    _entries: dict[str, int] = field(default_factory=dict)
    _places: dict[int, int] = field(default_factory=dict)

    def enter(self) -> None:
        """Sources come in by the hash of the row, so that a row's deletions meet its insertions."""
        for name, source in self.sources.items():
            entry = self._add(Entry(port=source.port, schema=source.schema))
            self._entries[name] = self._add(_known(name, source.schema, entry))

    def step(self, node: ChangeNode) -> Generator[ChangeNode, int, int]:
        known = self._places.get(id(node))
        if known is not None:
            return known
        inputs = []
        for each in inputs_of(node):
            inputs.append((yield each))  # noqa: PERF401 (a comprehension cannot yield)
        place = self._places[id(node)] = self._add(self._vertex(node, inputs))
        return place

    def _add(self, vertex: Vertex) -> int:
        self.vertices.append(vertex)
        return len(self.vertices) - 1

    def _vertex(self, node: ChangeNode, inputs: Sequence[int]) -> Operate:
        if isinstance(node, SourceNode):
            inputs = (self._entries[node.source],)
        links = tuple(Link(vertex, route) for vertex, route in zip(inputs, self._routes(node), strict=True))
        return Operate(
            make=lambda channel: self._operator(node, channel), inputs=links, schema=node.schema, place=node.place
        )

    def _routes(self, node: ChangeNode) -> Sequence[Route]:
        match node:
            case SourceNode() | ComputeNode():
                return (None,)
            case ConstantNode():
                return ()
            case SelectNode():
                return (None,) * len(node.inputs)
            case DifferenceNode():
                return (None, None)
            case JoinNode():
                return ByKey(tuple(key.left for key in node.keys)), ByKey(tuple(key.right for key in node.keys))
            case OnlyOneNode():
                left = ByKey(tuple(range(len(node.left.schema))))
                return left, left
            case WeighNode():
                return (ByKey(tuple(range(len(node.schema)))),) * len(node.inputs)
            case GroupNode() | TopNode() | RegroupNode():
                return (ByKey(node.key),)
            case RecomputeNode():
                return (ByKey(()),) * len(node.inputs)
            case _:
                assert_never(node)

    def _operator(self, node: ChangeNode, channel: int) -> ChangeOperator:  # noqa: C901 (a line per node)
        depth = self.depth
        match node:
            case SourceNode():
                names = self.sources[node.source].schema.names
                return Select(node.schema, [names.index(column) for column in node.columns])
            case ConstantNode():
                return Constant(node.schema, self._constant(node) if channel == 0 else (), depth=depth)
            case SelectNode():
                return Select(node.schema, node.columns)
            case ComputeNode():
                return Compute(node.input.schema, node.schema, self._computing(node))
            case DifferenceNode():
                return Difference(node.schema)
            case JoinNode():
                condition = None if node.condition is None else self._condition(node, node.condition)
                return Join(
                    node.left.schema, node.right.schema, node.keys, node.output, condition=condition, depth=depth
                )
            case OnlyOneNode():
                return OnlyOne(node.schema, node.left.schema, place=node.place, depth=depth)
            case WeighNode():
                return Weigh(node.schema, node.weighing, inputs=len(node.inputs), depth=depth)
            case GroupNode():
                return Group(
                    node.input.schema,
                    node.key,
                    node.measures,
                    node.schema,
                    place=node.place,
                    depth=depth,
                    always=not node.key and channel == 0,
                )
            case TopNode():
                return Top(node.input.schema, node.key, node.orders, offset=node.offset, count=node.count, depth=depth)
            case RegroupNode():
                return self._regroup(node, channel)
            case RecomputeNode():
                schemas = [each.schema for each in node.inputs]
                evaluate = self._evaluator(node.sql, schemas, node.schema, node.place)
                return Recompute(schemas, node.schema, evaluate, depth=depth, always=channel == 0)
            case _:
                assert_never(node)

    def _regroup(self, node: RegroupNode, channel: int) -> Regroup:
        behind = pa.schema(list(node.schema)[len(node.key) :]).append(_NUMBER)
        read = [node.input.schema.append(_NUMBER)]
        nothing = None if node.nothing is None else self._evaluator(node.nothing, read, behind, node.place)
        return Regroup(
            node.input.schema,
            node.key,
            node.schema,
            self._evaluator(node.sql, read, behind, node.place),
            evaluate_nothing=nothing,
            depth=self.depth,
            always=nothing is not None and channel == 0,
        )

    def _computing(self, node: ComputeNode) -> Evaluator:
        read = node.input.schema.append(_NUMBER)
        return self._evaluator(node.sql, [read], node.schema.append(_NUMBER), node.place)

    def _constant(self, node: ConstantNode) -> Sequence[pa.RecordBatch]:
        evaluate = self._evaluator(node.sql, [], node.schema, node.place)
        try:
            return (pa.RecordBatch.from_arrays(evaluate(), schema=node.schema),)
        finally:
            evaluate.close()

    def _condition(self, node: JoinNode, condition: PairCondition) -> Pairs:
        both = [*node.left.schema, *node.right.schema]
        read = pa.schema([both[at] for at in condition.columns]).append(_NUMBER)
        evaluate = self._evaluator(condition.sql, [read], pa.schema([_NUMBER]), node.place)
        return Pairs(evaluate, condition.columns, read.types[:-1])

    def _evaluator(self, sql: str, inputs: Sequence[pa.Schema], schema: pa.Schema, place: str) -> Evaluator:
        return Evaluator(sql, inputs, schema, instance=self.instance, place=place)


def _known(name: str, schema: pa.Schema, entry: int) -> Operate:
    every = ByKey(tuple(range(len(schema))))
    return Operate(make=lambda _: Known(schema, name), inputs=(Link(entry, every),), schema=schema, place=name)


class Pairs:
    """A join's condition: which of its pairs a statement gives the numbers of."""

    def __init__(self, evaluate: Evaluator, columns: Sequence[int], types: Sequence[pa.DataType]) -> None:
        self._evaluate = evaluate
        self._columns = tuple(columns)
        self._types = tuple(types)

    def __call__(self, pairs: Rows) -> Mask:
        arrays = pairs.select(self._columns).to_arrays(self._types)
        [numbers] = self._evaluate([*arrays, pa.array(np.arange(len(pairs)))])
        matches = np.zeros(len(pairs), dtype=np.bool_)
        matches[numbers.to_numpy(zero_copy_only=False)] = True
        return matches
