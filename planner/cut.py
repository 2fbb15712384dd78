"""The physical plan for a shape: a division's sections as pipelines, on as many channels as the task has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa

from ..proto.values import TaskOptions
from . import ir
from .divide import Division, Section, section
from .fragments import Making, Output, fragments, sources_of
from .operated import Indexed
from .pipelines import (
    Exchange,
    Kept,
    KeptIndex,
    KeptNode,
    MergeKey,
    PhysicalNode,
    PhysicalPlan,
    Pipeline,
    ReceiveNode,
    Start,
)
from .spread.spreading import Spreading, spread
from .spread.stages import stages

_WEIGHT: Final = 4
_ROW_WISE_WEIGHT: Final = 1
"""Of a pipeline's memory beside the others': one that goes row by row holds little."""


def cut(division: Division, making: Making, output: Output, options: TaskOptions) -> PhysicalPlan:
    """The physical plan for sources of a shape."""
    indexes = [_index(each, division.tables[each.name], making) for each in division.indexes.values()]
    nodes: dict[int, PhysicalNode] = {}
    kept: list[Kept] = []
    for name, part in division.kept.items():
        root = fragments(part, making, nodes, None)
        node = KeptNode(name=name, schema=root.schema, size_class=root.size_class)
        nodes |= {use: node for use, used in division.uses.items() if used == name}
        kept.append(Kept(name=name, root=root, sources=sources_of(root)))
    pipelines: list[Pipeline] = []
    for part in division.sections:
        if options.channels > 1 and not part.row_wise:
            pipelines += _spread(division, part, making, nodes, output, options)
        else:
            pipelines.append(_pipeline(part, making, nodes, output, options.channels))
    return PhysicalPlan(pipelines=tuple(pipelines), kept=tuple(kept), indexes=tuple(indexes))


def _index(index: Indexed, table: Section, making: Making) -> KeptIndex:
    root = fragments(table, making, {}, None)
    return KeptIndex(name=index.name, root=root, keys=index.keys, place=index.relation.place)


def _pipeline(part: Section, making: Making, nodes: dict[int, PhysicalNode], output: Output, channels: int) -> Pipeline:
    """A section as one pipeline; on several channels if each of its rows comes from one row of a source."""
    node = fragments(part, making, nodes, output)
    sources = sources_of(node)
    start = Start.PIECE if part.row_wise and len(sources) == 1 else Start.SEAL
    return Pipeline(root=node, sources=sources, start=start, channels=channels if sources else 1)


def _spread(
    division: Division,
    whole: Section,
    making: Making,
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
        keys=making.keys,
        clustered={source: each.clustered for source, each in making.shape.items()},
    )
    found = spread(whole.root, spreading)
    making = replace(making, shared=found.shared)
    received: dict[int, PhysicalNode] = {}
    parts = stages(found)
    for stage in parts:
        mine = nodes | {use: received[number] for use, number in stage.receives.items()}
        part = section(making.shared, stage.root, division.facts, nodes)
        root = fragments(part, making, mine, output if stage is parts[-1] else None)
        into = []
        for number, (exchange, consumers) in stage.sends.items():
            into.append(_exchange(exchange, number, consumers, root.schema))
            received[number] = ReceiveNode(
                exchange=number,
                schema=root.schema,
                size_class=root.size_class,
                rows=exchange.rows // (consumers if exchange.routing is ir.Routing.HASH else 1),
                place=exchange.place,
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
            descending=each.direction.descending,
            nulls_first=each.direction.nulls_first,
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
