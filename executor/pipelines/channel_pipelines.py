"""The pipelines of a physical plan made ready to run, channel by channel, each at its first run.

A plan with one channel and without exchanges runs one pipeline after the other, on one DuckDB instance with all of the
task's memory. In any other plan each channel of each pipeline has its own instance and a fixed share of the memory, so
that nothing that runs beside it can change its result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from ...operators.changes.network.network_statistics import LoopStatistics, OperatorStatistics
from ...planner.physical.instance_memory import instance_memory
from ...planner.physical.pipelines import (
    Kept,
    KeptIndex,
    PhysicalNode,
    PhysicalPlan,
    Pipeline,
    read_from_sources,
    walk,
)
from ...proto.values import TaskOptions
from .input_progress import InputRead, reads_of
from .pipeline import PipelineInstance, Sent

K = TypeVar("K", bound=Hashable)

Make: TypeAlias = Callable[[PhysicalNode, int, int, int], PipelineInstance]
"""Makes an instance.

The arguments are a root, the number of its channel, the bytes of memory of its DuckDB instance, and the number of that
instance among those with as much memory.
"""


class Pipelines:
    """The pipelines of a physical plan, each channel's made when it first runs. `ended` gets each instance that is
    dropped before the others, so that its statistics stay.
    """

    def __init__(
        self, physical: PhysicalPlan, options: TaskOptions, make: Make, ended: Callable[[PipelineInstance], None]
    ) -> None:
        self.physical = physical
        self._ended = ended
        self.parallel = physical.parallel
        self.sources = frozenset(source for pipeline in physical.pipelines for source in pipeline.sources)
        self.sent = sent_sources(physical.pipelines, physical)
        self._make = make
        self._made: dict[tuple[int, int], PipelineInstance] = {}
        self._reads: dict[tuple[int, int], tuple[InputRead, ...]] = {}
        self._memory = instance_memory(physical, options)
        self._first = tuple(_numbers(physical, self._memory))

    def __len__(self) -> int:
        return len(self.physical.pipelines)

    def get(self, index: int, channel: int = 0) -> PipelineInstance:
        """The pipeline of a channel. From any thread, but by one thread at a time for one channel."""
        instance = self._made.get((index, channel))
        if instance is not None and instance.broken:
            self.drop(index, channel)
            instance = None
        if instance is None:
            root = self.physical.pipelines[index].root
            instance = self._make(root, channel, self._memory[index], self._number(index, channel))
            self._made[index, channel] = instance
        return instance

    def drop(self, index: int, channel: int) -> None:
        """Have the pipeline of a channel made anew when it is wanted next. Its run must have ended."""
        instance = self._made.pop((index, channel), None)
        if instance is not None:
            self._ended(instance)
            instance.close()

    def reads(self, first: int, last: int) -> tuple[InputRead, ...]:
        """The inputs that the pipelines from `first` to `last` read."""
        reads = self._reads.get((first, last))
        if reads is None:
            reads = self._reads[first, last] = reads_of(self.physical.pipelines[first:last])
        return reads

    def _number(self, index: int, channel: int) -> int:
        """The channel's number among the instances of its size.

        Pipelines of other shapes use the same instances again.
        """
        return channel + self._first[index] if self.parallel else 0

    @property
    def plans(self) -> int:
        return sum(instance.plans for instance in tuple(self._made.values()))

    @property
    def lasting(self) -> bool:
        """True where an operator keeps what cannot be made again."""
        return any(instance.lasting for instance in tuple(self._made.values()))

    @property
    def loops(self) -> tuple[LoopStatistics, ...]:
        return tuple(loop for instance in tuple(self._made.values()) for loop in instance.loops)

    @property
    def bodies(self) -> tuple[OperatorStatistics, ...]:
        return tuple(body for instance in tuple(self._made.values()) for body in instance.bodies)

    def close(self) -> None:
        for instance in self._made.values():
            instance.close()


class ChannelInstances:
    """The instances of one channel of one pipeline, one at a time."""

    def __init__(self, pipelines: Pipelines, index: int, channel: int) -> None:
        self._pipelines = pipelines
        self._index = index
        self._channel = channel

    def get(self) -> PipelineInstance:
        return self._pipelines.get(self._index, self._channel)

    def drop(self) -> None:
        """Have the next `get` make a new instance."""
        self._pipelines.drop(self._index, self._channel)


def sent_sources(pipelines: Sequence[Pipeline], physical: PhysicalPlan | None = None) -> Sent:
    """The sources of each exchange's rows, by the exchange's number, and of what `physical` keeps, by name."""
    sent: dict[int | str, tuple[str, ...]] = {}
    if physical is not None:
        all_kept: tuple[Kept | KeptIndex, ...] = (*physical.kept, *physical.indexes)
        for kept in all_kept:
            reads = (read.source for node in walk(kept.root) for read in read_from_sources(node))
            sent[kept.name] = tuple(dict.fromkeys(reads))
    for pipeline in pipelines:
        received = (source for number in pipeline.received for source in sent[number])
        sources = tuple(dict.fromkeys((*pipeline.sources, *received)))
        sent.update((exchange.number, sources) for exchange in pipeline.into)
    return sent


def _numbers(physical: PhysicalPlan, memory: Sequence[int]) -> Iterator[int]:
    """For each pipeline, the number of instances of its size that earlier pipelines have."""
    before: dict[int, int] = {}
    for pipeline, size in zip(physical.pipelines, memory, strict=True):
        first = before.get(size, 0)
        yield first
        before[size] = first + pipeline.channels


def without(pipelines: Mapping[K, Pipelines], key: K) -> dict[K, Pipelines]:
    """All pipelines but those of a key."""
    return {kept: of_key for kept, of_key in pipelines.items() if kept != key}
