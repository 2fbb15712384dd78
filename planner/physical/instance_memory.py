"""The memory of each DuckDB instance of a plan, and the least memory that it needs.

The shares depend on the plan, the options and the sizes, never on other work of the process. The same holds for the
test whether the shares are large enough: a plan on several channels gets fewer channels if the memory does not suffice
for all its instances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ...proto.values import ExecutorKind, TaskOptions
from .pipelines import FragmentNode, PhysicalPlan, Pipeline, Shortage

HEAVY: Final = 4
LIGHT: Final = 1
"""The memory weight of a light pipeline: a pipeline that goes row by row holds little."""

LEAST: Final = 10 << 20
LEAST_OF_JOIN: Final = 10 << 20
"""The least memory that each join in the statements of a heavy instance adds. DuckDB spills all rows of a statement of
joins in order, their sort and groups above it; still such a statement was seen to take 18, 28, 40 and 40 to 48 MiB with
one to four joins, and without groups 12 to 40 MiB.
"""

_INDEXES: Final = 4
_COPIES: Final = 2
"""A group's list is in memory twice when DuckDB hands it out, and DuckDB counts one of them."""


def undivided_memory(options: TaskOptions) -> int:
    """The bytes for what runs on one channel alone."""
    return options.slot_memory or options.memory_limit


def channel_memory(options: TaskOptions) -> int:
    """The bytes of a channel, whatever its pipelines."""
    return options.slot_memory or options.memory_limit // options.channels


def index_memory(options: TaskOptions) -> int:
    """The bytes that a task's indexes may take. If there are any, DuckDB has so many bytes fewer."""
    return undivided_memory(options) // _INDEXES


def instance_memory(physical: PhysicalPlan, options: TaskOptions) -> Sequence[int]:
    """The bytes of each instance of each pipeline: its share of the task's memory, or a slot's memory.

    It is the same wherever the channels run: DuckDB gives the rows of groups that spill in an order that depends on
    its memory limit.
    """
    memory = undivided_memory(options)
    if physical.indexes:
        memory -= index_memory(options)
    divided = physical.parallel and not options.slot_memory
    parts = _parts(physical.pipelines) if divided else 1
    return [
        memory * (pipeline.weight if divided else 1) // (parts * _copies(pipeline)) for pipeline in physical.pipelines
    ]


def shortage(physical: PhysicalPlan, options: TaskOptions, channels: int) -> Shortage | None:
    """The shortage that keeps the plan from running on so many channels; None if it can run on them."""
    if not physical.parallel:
        return None
    if options.slot_memory:
        return _shortage_of_slots(physical, options, channels)
    memory = instance_memory(physical, options)
    short = [
        (least(pipeline), has, pipeline.weight / _copies(pipeline))
        for pipeline, has in zip(physical.pipelines, memory, strict=True)
    ]
    if all(has >= wanted for wanted, has, _ in short):
        return None
    parts = _parts(physical.pipelines)
    needed = max(math.ceil(wanted * parts / weight) for wanted, _, weight in short)
    if physical.indexes:
        needed = -(-needed * _INDEXES // (_INDEXES - 1))
    wanted, has, _ = max(short, key=lambda lack: lack[0] / lack[1])
    return Shortage(channels=channels, instance_memory=has, least=wanted, memory_limit=needed)


def _shortage_of_slots(physical: PhysicalPlan, options: TaskOptions, channels: int) -> Shortage | None:
    """All instances of a local task may run at the same time; a task slot of Spark has one at a time."""
    instances = sum(pipeline.channels for pipeline in physical.pipelines)
    needed = options.slot_memory * instances
    if options.executor is ExecutorKind.SPARK or needed <= options.memory_limit:
        return None
    return Shortage(
        channels=channels,
        instance_memory=options.memory_limit // instances,
        least=options.slot_memory,
        memory_limit=needed,
    )


def _copies(pipeline: Pipeline) -> int:
    fragments = (node for node in pipeline.nodes if isinstance(node, FragmentNode))
    return _COPIES if any(fragment.collects for fragment in fragments) else 1


def least(pipeline: Pipeline) -> int:
    """The bytes that an instance of the pipeline must have."""
    fragments = [node for node in pipeline.nodes if isinstance(node, FragmentNode)]
    ordered = [fragment.ordered for fragment in fragments if fragment.ordered is not None]
    joins = sum(len(form.joins) for form in ordered if form.builds is not False)
    return (LEAST + LEAST_OF_JOIN * joins) * pipeline.weight // HEAVY


def _parts(pipelines: Sequence[Pipeline]) -> int:
    return sum(pipeline.weight * pipeline.channels for pipeline in pipelines)
