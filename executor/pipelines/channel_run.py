"""One channel of one pipeline in an epoch: its rows, and its new start where it failed of something transient.

A channel that is made anew reads its inputs again from the start, and computes the same rows again. Those that it had
handed on are compared with what comes now, by their digests, and dropped. So its readers see one stream, and other
channels see nothing: they keep working.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias

import pyarrow as pa

from ...operators.arrays.digest import digest
from ...operators.core.blocks import blocks
from ...planner.physical.pipelines import KeptNode, PhysicalNode, walk
from ...planner.physical.user_nodes import UserNode
from ...proto.errors import ExecutionError, NodeError, TidegateError, TransientError
from .pipeline import EpochInput, Pieces, PipelineInstance

_log = logging.getLogger("tidegate.server")

Rows: TypeAlias = Generator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Retries:
    """The number of new starts of a channel in an epoch. `transient` says which errors of its user code may pass."""

    count: int
    transient: Callable[[NodeError], bool]


def retries_of(root: PhysicalNode, count: int) -> Retries:
    """The retries of the channels of a pipeline, whose code raises `TransientError` itself."""
    if not count:
        return NO_RETRIES
    names = names_of(root)
    return Retries(count, lambda error: error.node in names and isinstance(error.__cause__, TransientError))


def names_of(root: PhysicalNode) -> frozenset[str]:
    """What errors call a pipeline's operators: plan paths, or the names of registered operators and nodes of graphs."""
    nodes = (node for node in walk(root) if not isinstance(node, KeptNode))
    return frozenset(node.name if isinstance(node, UserNode) else node.plan_path for node in nodes)


NO_RETRIES: Final = Retries(0, lambda _: False)


class Instances(Protocol):
    """The instances of a channel, one at a time."""

    def get(self) -> PipelineInstance: ...

    def drop(self) -> None:
        """Have the next `get` make a new instance."""
        ...


class ReadAgain(Protocol):
    """An input of a channel that can be read again from its start."""

    @property
    def replayable(self) -> bool: ...

    def begin_again(self) -> None: ...


class ChannelRun:
    """A channel's run over `epoch_input`, or over one part of its pieces after the other."""

    def __init__(
        self,
        number: int,
        epoch_input: EpochInput,
        *,
        instances: Instances,
        run: Callable[[PipelineInstance, EpochInput], Rows],
        retries: Retries = NO_RETRIES,
        inputs: Sequence[ReadAgain] = (),
    ) -> None:
        self.number = number
        self._instances = instances
        self._epoch_input = epoch_input
        self._run = run
        self._retries = retries
        self._left = retries.count
        self._inputs = tuple(inputs)
        self._instance: PipelineInstance | None = None

    def rows(self, pieces: Pieces) -> Rows:
        """The rows of these pieces."""
        epoch_input = self._epoch_input
        if pieces is not epoch_input.pieces:
            epoch_input = replace(epoch_input, pieces=pieces)
        return self._tried(epoch_input) if self._retries.count else self._once(epoch_input)

    def interrupt(self) -> None:
        if self._instance is not None:
            self._instance.interrupt()

    def _once(self, epoch_input: EpochInput) -> Rows:
        self._instance = self._instances.get()
        return self._run(self._instance, epoch_input)

    def _tried(self, epoch_input: EpochInput) -> Rows:
        handed: list[str] = []
        read = epoch_input.read
        before = replace(read)
        while True:
            try:
                with closing(self._once(epoch_input)) as rows:
                    yield from _behind(handed, blocks(rows))
            except TidegateError as error:
                if not self._begin_again(error):
                    raise
                read.rows_in, read.bytes_in, read.at_least = before.rows_in, before.bytes_in, before.at_least
            else:
                return

    def _begin_again(self, error: TidegateError) -> bool:
        """Have the channel made anew, with its inputs at their starts. False if the error stands."""
        instance = self._instance
        if instance is None or instance.lasting or not self._left:
            return False
        if not instance.broken and not (isinstance(error, NodeError) and self._retries.transient(error)):
            return False
        if not all(read.replayable for read in self._inputs):
            _log.warning("channel %d cannot be made anew: spill_quota has no room for its inputs", self.number)
            return False
        self._left -= 1
        _log.warning("channel %d is made anew (%d more times at most): %s", self.number, self._left, error)
        self._instances.drop()
        for read in self._inputs:
            read.begin_again()
        return True


def _behind(handed: list[str], rows: Iterator[pa.RecordBatch]) -> Rows:
    """The blocks behind those that were handed on before. Raises `ExecutionError` where those come out differently."""
    number = 0
    for number, block in enumerate(rows, 1):
        seen = digest(block.schema, (block,))
        if number > len(handed):
            handed.append(seen)
            yield block
        elif seen != handed[number - 1]:
            raise _differs()
    if number < len(handed):
        raise _differs()


def _differs() -> ExecutionError:
    return ExecutionError(
        "a channel was made anew, and gave other rows than before, some of which were read already: retries need code "
        "that gives the same rows for the same input",
        reason="RETRY_DIFFERS",
    )
