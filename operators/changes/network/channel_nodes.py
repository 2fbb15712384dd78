"""Nodes: one channel's instances of the vertices that are no loops, each a merge point of the queues that end in it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import ParamSpec, Protocol, assert_never

from ....proto.errors import ExecutionError
from ...core.operator import least_watermark
from ..change_operator import ChangeOperator
from ..values.change import Change
from .link_messages import Barrier, Gathering, Message, Prepare, Watermark
from .link_queues import Emitter, LinkQueue
from .network_graph import NO_STATE, KeptState
from .schedule import Schedule

Arguments = ParamSpec("Arguments")


class NodeContext(Protocol):
    """The context of a node: a loop, or none."""

    def overflow(self, error: OverflowError) -> ExecutionError: ...

    def check_time(self) -> None:
        """Raise if no time is left."""


class Node(Emitter):
    """A node. It takes changes as they come. A prepare or a barrier goes on once it has come on every queue; a queue
    on which the barrier has come is held until then.
    """

    def __init__(self) -> None:
        super().__init__()
        self.queues: list[LinkQueue] = []
        self._gathering: Gathering | None = None
        self._barriers = 0

    def take(self, queue: LinkQueue, message: Message) -> None:
        match message:
            case Change():
                self.receive(queue.port, message)
            case Prepare():
                if self._gathering is None:
                    self._gathering = Gathering(
                        len(self.queues), sum(not link_queue.quiet for link_queue in self.queues)
                    )
                gathered = self._gathering.add(message)
                if gathered is not None:
                    self.prepared(gathered)
            case Watermark(value):
                queue.watermark = value
            case Barrier():
                queue.held = True
                self._barriers += 1
                if self._barriers == len(self.queues):
                    self._barriers = 0
                    self.at_barrier(message)
            case _:
                assert_never(message)

    @abstractmethod
    def receive(self, port: int, change: Change) -> None:
        """Take a change that has come."""

    @abstractmethod
    def prepared(self, prepare: Prepare) -> None:
        """Act on a prepare that has come on all queues."""

    @abstractmethod
    def at_barrier(self, barrier: Barrier) -> None:
        """Act on the barrier, which has come on all queues; they are held."""

    def release(self) -> int | None:
        """Let the queues go on, and return the watermark of the epoch they have ended, if all have one."""
        watermark = take_watermark(self.queues)
        for queue in self.queues:
            queue.release()
        return watermark


def take_watermark(queues: Iterable[LinkQueue]) -> int | None:
    """Take the queues' watermarks, and return the least, if all have one."""
    watermarks = []
    for queue in queues:
        watermarks.append(queue.watermark)
        queue.watermark = None
    return least_watermark(watermarks)


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of an operator's node."""

    rows_in: int
    rows_out: int
    touched: int
    busy_seconds: float
    pressed_seconds: float

    def ungauged(self) -> Counters:
        """The counters without the times that gauges are made of."""
        return replace(self, busy_seconds=0.0, pressed_seconds=0.0)


class OperatorNode(Node):
    """The node of an operator. It decides the changes that are due at the time a prepare releases, and at a barrier
    all changes.
    """

    def __init__(
        self,
        operator: ChangeOperator,
        plan_path: str,
        around: NodeContext | None,
        schedule: Schedule,
        sources: tuple[str, ...] | None = None,
        state: KeptState = NO_STATE,
    ) -> None:
        super().__init__()
        self.operator = operator
        self.state = state
        self.plan_path = plan_path
        self._sources = sources
        self.rows_in = 0
        self.rows_out = 0
        self.busy_seconds = 0.0
        self.healthy = True
        self._touched_before = 0
        self._around = around
        self._schedule = schedule

    @property
    def touched(self) -> int:
        """The rows of state that were looked at."""
        return self._touched_before + self.operator.touched

    def counters(self) -> Counters:
        return Counters(self.rows_in, self.rows_out, self.touched, self.busy_seconds, self.pressed_seconds)

    def count_from(self, counters: Counters) -> None:
        """Go on from the counters of another node."""
        self.rows_in, self.rows_out = counters.rows_in, counters.rows_out
        self.busy_seconds, self.pressed_seconds = counters.busy_seconds, counters.pressed_seconds
        self._touched_before = counters.touched - self.operator.touched

    def receive(self, port: int, change: Change) -> None:
        if port in self.operator.watermark_inputs:
            return
        self.rows_in += change.rows.count
        self._run(self.operator.receive, port, change)

    def prepared(self, prepare: Prepare) -> None:
        operator = self.operator
        due = operator.due()
        if due is not None and prepare.rounds is not None:
            while due is not None and due <= prepare.rounds:
                self._run(self.operator.decide, due)
                due = operator.due()
        if due is not None:
            prepare = prepare.with_due(due)
        self.tell(prepare)

    def at_barrier(self, barrier: Barrier) -> None:
        while (due := self.operator.due()) is not None:
            self._run(self.operator.decide, due)
        watermark = self.release()
        self._run(self._ended, watermark)
        watermark = self.operator.watermark(watermark)
        if watermark is not None:
            self.tell(Watermark(watermark))
        self.tell(barrier)

    def _run(
        self, step: Callable[Arguments, Iterable[Change]], *arguments: Arguments.args, **more: Arguments.kwargs
    ) -> None:
        started = perf_counter()
        try:
            for number, change in enumerate(step(*arguments, **more)):
                if number:
                    self._check()
                self.rows_out += change.rows.count
                self.emit(change)
        except OverflowError as error:
            overflow = self._overflow(error)
            self._note(overflow)
            raise overflow from error
        except Exception as error:
            self._note(error)
            raise
        finally:
            self.busy_seconds += perf_counter() - started

    def _note(self, error: Exception) -> None:
        """Note that the operator has failed, and with which sources' rows; an interrupted operator has not failed."""
        if getattr(error, "reason", None) == "INTERRUPTED":
            return
        self.healthy = False
        if isinstance(error, ExecutionError) and error.sources is None:
            error.sources = self._sources

    def _ended(self, watermark: int | None) -> Iterable[Change]:
        self.operator.settle()
        return self.operator.advance(watermark)

    def _check(self) -> None:
        """Check, between the parts of a long step, whether to stop."""
        self._schedule.check()
        if self._around is not None:
            self._around.check_time()

    def _overflow(self, error: OverflowError) -> ExecutionError:
        if self._around is not None:
            return self._around.overflow(error)
        return ExecutionError(f"{self.plan_path}: {error}", reason="WEIGHT_OVERFLOW")


class Source(Emitter):
    """A source: rows from outside the network, or a dummy read that never has a row and only supplies events."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0
        self.begun = False
        """True where the source has emitted something since the last barrier."""

    def emit(self, change: Change) -> None:
        self.begun = True
        super().emit(change)

    def end(self, watermark: int | None) -> None:
        """Emit the barrier: later changes belong to the next epoch."""
        self.epoch += 1
        self.begun = False
        if watermark is not None:
            self.tell(Watermark(watermark))
        self.tell(Barrier(self.epoch))


class Sink(Node):
    """The sink for the result. Behind the barrier all changes wait until the epoch has been taken."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Change] = []
        self.nbytes = 0
        self.complete = False

    def receive(self, _port: int, change: Change) -> None:
        self.parts.append(change)
        self.nbytes += change.nbytes

    def take_parts(self) -> list[Change]:
        """Take the changes of the result."""
        parts, self.parts, self.nbytes, self.complete = self.parts, [], 0, False
        return parts

    def prepared(self, _prepare: Prepare) -> None:
        raise AssertionError("a prepare has left its loop")

    def at_barrier(self, _barrier: Barrier) -> None:
        self.complete = True
