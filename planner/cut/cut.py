"""The physical plan for a shape: a division's sections as pipelines, on as many channels as the task has."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from ...proto.values import ExecutorKind, TaskOptions
from .. import ir
from ..choose.sliding_operators import sliding_operators
from ..distribution.distribute import Spread, spread
from ..distribution.distributed_stages import Stage, stages
from ..distribution.spreading import Spreading
from ..ir.by_node import ByNode
from ..physical.instance_memory import HEAVY, LIGHT, shortage
from ..physical.pipelines import (
    Exchange,
    FragmentNode,
    Kept,
    KeptIndex,
    KeptNode,
    LookupNode,
    OpenedIndex,
    PhysicalNode,
    PhysicalPlan,
    Pipeline,
    ReceiveNode,
    SelectNode,
    Start,
    walk,
)
from ..physical.slice_nodes import SliceNode
from .chosen_channels import wanted_channels
from .divide import Division, Section, section
from .fragments import Making, fragments, sources_of
from .lookup_joins import Candidate, Sizes, is_small, looked_up
from .operated import Indexed
from .sorted_nodes import order_of


def cut(
    division: Division, making: Making, output: pa.Schema, options: TaskOptions, without: Container[str] = ()
) -> PhysicalPlan:
    """The physical plan for sources of a shape, on the requested number of channels; if the memory does not suffice, on
    half of them, and so on. No join becomes a look-up in the indexes `without`.
    """
    channels = wanted_channels(options, making.shape)
    plan = _on(channels, division, making, output, options, without)
    if all(part.row_wise for part in division.sections):
        return plan
    first = lack = shortage(plan, options, channels)
    while lack is not None:
        channels //= 2
        plan = replace(_on(channels, division, making, output, options, without), shortage=first)
        lack = shortage(plan, options, channels)
    return plan


def _on(
    channels: int, division: Division, making: Making, output: pa.Schema, options: TaskOptions, without: Container[str]
) -> PhysicalPlan:
    indexes = {index.name: _index(index, division, making) for index in division.indexes.values()}
    look_up = _looking_up(division, making, without)
    making = replace(making, shared=tuple(map(look_up, making.shared)))
    nodes = ByNode[PhysicalNode]()
    kept: list[Kept] = []
    uses: dict[str, list[ir.Relation]] = {name: [] for name in division.kept}
    for use, name in division.uses.items():
        uses[name].append(use)
    for name, part in division.kept.items():
        root = fragments(part, making, {}, None)
        node = KeptNode(name=name, schema=root.schema, size_class=root.size_class)
        nodes.update(dict.fromkeys(uses[name], node))
        kept.append(Kept(name=name, root=root, sources=sources_of(root)))
    pipelines: list[Pipeline] = []
    computes: list[ir.Relation] = []
    shared = making.shared
    saved: float | None = None
    for planned in division.sections:
        top = look_up(planned.root)
        part = planned
        if top is not planned.root or making.shared != division.shared:
            part = section(making.shared, top, division.facts, nodes, row_wise=planned.row_wise)
        if channels > 1 and not part.row_wise:
            distributed = _spread(division, part.root, making, channels, options)
            slide = sliding_operators()
            distributed = replace(
                distributed, root=slide(distributed.root), shared=tuple(map(slide, distributed.shared))
            )
            parts = stages(distributed)
            pipelines += _pipelines(division, parts, replace(making, shared=distributed.shared), nodes, output)
            computes += [stage.root for stage in parts]
            saved, shared = distributed.saved, distributed.shared
        else:
            computes.append(part.root)
            pipelines.append(_pipeline(part, making, nodes, output, channels))
    physical = PhysicalPlan(
        pipelines=tuple(pipelines),
        kept=tuple(kept),
        indexes=tuple(indexes.values()),
        saved=saved,
        computes=tuple(computes),
        shared=tuple(shared),
    )
    return _used(physical)


def _index(index: Indexed, division: Division, making: Making) -> KeptIndex:
    root = fragments(division.tables[index.name], making, {}, None)
    among = len(division.indexes)
    return KeptIndex(name=index.name, root=root, keys=index.keys, plan_path=index.relation.plan_path, among=among)


def _looking_up(division: Division, making: Making, without: Container[str]) -> Callable[[ir.Relation], ir.Relation]:
    sizes = Sizes(division.facts, {source: feed.size_class for source, feed in making.shape.items()})
    names = {key: index.name for key, index in division.indexes.items()}

    def chosen(candidate: Candidate) -> bool:
        name = names[candidate.table, candidate.keys]
        return name not in without and is_small(candidate, sizes)

    return lambda root: looked_up(root, division.lookups, chosen)


def _used(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan without the kept rows and indexes that nothing reads."""
    roots = [pipeline.root for pipeline in plan.pipelines]
    rows = {node.name for root in roots for node in walk(root) if isinstance(node, KeptNode)}
    kept = tuple(kept_rows for kept_rows in plan.kept if kept_rows.name in rows)
    looked_into = _looked_into(*roots, *(kept_rows.root for kept_rows in kept))
    indexes: list[KeptIndex] = []
    for index in reversed(plan.indexes):
        if index.name in looked_into:
            indexes.append(index)
            looked_into |= _looked_into(index.root)
    return replace(plan, kept=kept, indexes=tuple(reversed(indexes)))


def _looked_into(*roots: PhysicalNode) -> set[str | OpenedIndex]:
    return {node.index for root in roots for node in walk(root) if isinstance(node, LookupNode)}


def _pipeline(part: Section, making: Making, nodes: ByNode[PhysicalNode], output: pa.Schema, channels: int) -> Pipeline:
    """A section as one pipeline; on several channels if each of its rows comes from one row of a source."""
    node = fragments(part, making, nodes, output)
    sources = sources_of(node)
    start = Start.PIECE if part.row_wise and len(sources) == 1 else Start.SEAL
    return Pipeline(root=node, sources=sources, start=start, channels=channels if sources else 1)


def _spread(division: Division, root: ir.Relation, making: Making, channels: int, options: TaskOptions) -> Spread:
    """A section's root on several channels. A plan that is not row-wise has one section."""
    spreading = Spreading(
        channels=channels,
        rows={source: feed.size_class for source, feed in making.shape.items()},
        bytes={source: feed.byte_class for source, feed in making.shape.items()},
        facts=division.facts,
        shared=making.shared,
        kept=division.uses,
        broadcast=options.broadcast,
        least_saved=options.parallel_threshold_seconds * 1e9,
        ranges=options.executor is ExecutorKind.SPARK,
        keys=making.keys,
        clustered={source: feed.clustered for source, feed in making.shape.items()},
        rising={source: feed.rising for source, feed in making.shape.items()},
        sliced={source: feed.sliced for source, feed in making.shape.items()},
    )
    return spread(root, spreading)


def _pipelines(
    division: Division,
    parts: Sequence[Stage],
    making: Making,
    nodes: ByNode[PhysicalNode],
    output: pa.Schema,
) -> Iterator[Pipeline]:
    """The pipelines of a distributed plan, taken apart at its exchanges."""
    received: dict[int, PhysicalNode] = {}
    for stage in parts:
        ends: dict[ir.Relation, PhysicalNode] = {use: received[number] for use, number in stage.receives.items()}
        mine = ChainMap(ends, nodes)
        part = section(making.shared, stage.root, division.facts, nodes)
        root = fragments(part, making, mine, output if stage is parts[-1] else None)
        into = []
        for number, (exchange, consumers) in stage.sends.items():
            into.append(_exchange(exchange, number, consumers, root.schema))
            received[number] = ReceiveNode(
                exchange=number,
                schema=root.schema,
                size_class=root.size_class,
                rows=exchange.rows // (consumers if exchange.routing in _PARTED else 1),
                plan_path=exchange.plan_path,
            )
        yield Pipeline(
            root=root,
            sources=sources_of(root),
            start=Start.SEAL,
            channels=stage.channels,
            weight=_weight(root),
            into=tuple(into),
        )


_PARTED: Final = (ir.Routing.HASH, ir.Routing.RANGE)


def _weight(root: FragmentNode | SelectNode) -> int:
    heavy = isinstance(root, FragmentNode) and not root.row_wise
    return HEAVY if heavy or any(isinstance(node, SliceNode) for node in walk(root)) else LIGHT


def _exchange(exchange: ir.Exchange, number: int, consumers: int, schema: pa.Schema) -> Exchange:
    return Exchange(
        number=number,
        routing=exchange.routing,
        schema=schema,
        consumers=consumers,
        keys=exchange.keys,
        order=tuple(map(order_of, exchange.order)),
    )
