"""Lowered plans at work: each node's operator in turn, over changes of several epochs, on one channel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.executor.changes.build_graph import EntrySource, graph_of
from tidegate.operators.changes.change_operator import ChangeOperator
from tidegate.operators.changes.network.network_graph import Entry, Operate
from tidegate.operators.changes.values.change import Change
from tidegate.operators.changes.values.evaluator import Evaluators
from tidegate.operators.duckdb.instances import Instance, InstanceSettings
from tidegate.planner import ir
from tidegate.planner.changes.change_nodes import ChangeNode, RecomputeNode, inputs_of
from tidegate.planner.changes.lower_changes import lower
from tidegate.planner.explain.explain_changes import nodes_of
from tidegate.planner.physical.sources import sources

Row: TypeAlias = tuple[Any, ...]
Epoch: TypeAlias = Mapping[str, Sequence[tuple[Row, int]]]
"""By source, rows with weights."""


def nodes(plan: ir.Plan) -> list[ChangeNode]:
    """All nodes that a plan is lowered to."""
    nodes_by_id: dict[int, ChangeNode] = {}
    stack = [lower(plan, 1 << 40).root]
    while stack:
        node = stack.pop()
        if id(node) not in nodes_by_id:
            nodes_by_id[id(node)] = node
            stack.extend(inputs_of(node))
    return list(nodes_by_id.values())


def recomputed_nodes(root: ChangeNode) -> list[RecomputeNode]:
    """The operators that compute all rows again whenever an input changes."""
    return [node for node in nodes_of(root) if isinstance(node, RecomputeNode)]


def recomputed(plan: ir.Plan) -> list[str]:
    """Why nodes are computed again from all rows."""
    return [node.why for node in nodes(plan) if isinstance(node, RecomputeNode)]


def totals(plan: ir.Plan, epochs: Sequence[Epoch]) -> Iterator[Counter[Row]]:
    """What all changes have come to after each epoch."""
    total: Counter[Row] = Counter()
    with closing(Running(plan)) as running:
        for epoch in epochs:
            for row, weight in running.epoch(epoch):
                total[row] += weight
            yield Counter({row: weight for row, weight in total.items() if weight})


class Running:
    def __init__(self, plan: ir.Plan) -> None:
        self.schemas = {
            source.name: pa.schema([pa.field(column.name, column.type) for column in source.columns])
            for source in sources(plan, lambda _: False)
        }
        entries = {
            name: EntrySource(port=port, schema=schema) for port, (name, schema) in enumerate(self.schemas.items())
        }
        self._evaluators = Evaluators(_instance)
        self._graph = graph_of(lower(plan, 1 << 40).root, entries, self._evaluators)
        self.operators: list[ChangeOperator | None] = [
            vertex.make(0) if isinstance(vertex, Operate) else None for vertex in self._graph.vertices
        ]

    def epoch(self, epoch: Epoch) -> list[tuple[Row, int]]:
        """The result's changes."""
        ports = [_changes(epoch.get(name, ()), schema) for name, schema in self.schemas.items()]
        emitted: list[list[Change]] = []
        for vertex, operator in zip(self._graph.vertices, self.operators, strict=True):
            if isinstance(vertex, Entry):
                emitted.append(ports[vertex.port])
                continue
            assert isinstance(vertex, Operate)
            assert operator is not None
            inputs = [emitted[link.vertex] for link in vertex.inputs]
            emitted.append(list(_worked(operator, inputs)))
        schema = self._graph.vertices[self._graph.result].schema
        return [row for change in emitted[self._graph.result] for row in _rows(change, schema)]

    def close(self) -> None:
        self._evaluators.close()

    def touched(self) -> int:
        """Rows of state that operators have looked at."""
        return sum(operator.touched for operator in self.operators if operator is not None)


def _worked(operator: ChangeOperator, inputs: Sequence[Sequence[Change]]) -> Iterator[Change]:
    for port, changes in enumerate(inputs):
        for change in changes:
            yield from operator.receive(port, change)
    while (due := operator.due()) is not None:
        yield from operator.decide(due)
    operator.settle()


def _changes(rows: Sequence[tuple[Row, int]], schema: pa.Schema) -> list[Change]:
    if not rows:
        return []
    columns = zip(*(row for row, _ in rows), strict=True)
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, schema.types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return [Change.of_batch(batch, np.array([weight for _, weight in rows], dtype=np.int64))]


def _rows(change: Change, schema: pa.Schema) -> Iterator[tuple[Row, int]]:
    columns = [column.to_pylist() for column in change.rows.to_arrays(schema.types)]
    values = zip(*columns, strict=True) if columns else [()] * len(change)
    return zip(values, change.weights.tolist(), strict=True)


@cache
def _instance() -> Instance:
    return Instance(InstanceSettings(memory_limit=1 << 30), Path(mkdtemp()))
