"""Network: runs a graph of operators on changes, on any number of channels of one process.

In an epoch the caller feeds entries, by port and channel, and ends them. `run` works until no more work can be done,
and `take` returns the change of the result. Changes that are fed behind an entry's end belong to the next epoch and
wait for it. Messages are delivered in order of arrival, and no result depends on the order, so the order of work can be
exchanged: it is the `schedule`. The protocol of the loops, `locking`, can be exchanged, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, time

import numpy as np
import pyarrow as pa

from ....proto.errors import ExecutionError
from ...core.operator import UNBOUNDED, Part, StateReader, StateWriter, least_watermark
from ...core.room import answering
from ..change_operator import ChangeOperator
from ..kept.held_state import HeldState, SettledRuns
from ..values.change import Change
from ..values.epoch_result import EpochResult
from ..values.rows import Rows
from .build import MakeLocking, Nodes, build
from .channel_nodes import Counters, OperatorNode, Source
from .locking import Locking
from .network_graph import Graph, Loop
from .network_loop import LoopNode
from .network_statistics import LoopStatistics, NetworkStatistics, OperatorStatistics
from .rounds_and_limits import LoopRounds
from .schedule import InOrder, Schedule


class Network:
    """A network. It lives as long as its task. After an error only `reset` and `statistics` may be called. A network
    with loops whose rounds are not counted takes one epoch at a time, and has to be `reset` before the next.
    """

    def __init__(
        self, graph: Graph, channels: int = 1, *, schedule: Schedule | None = None, locking: MakeLocking = Locking
    ) -> None:
        self.schema: pa.Schema = graph.vertices[graph.result].schema
        self.beside = tuple(graph.vertices[at].schema for at in graph.beside)
        """The schemas of the further results."""
        self._nothing = [
            EpochResult(Rows.empty(schema.types), np.empty(0, dtype=np.int64)) for schema in (self.schema, *self.beside)
        ]
        """The results of an epoch that changes nothing."""
        self.channels = channels
        self.watermark: int | None = None
        """The result's watermark, for the epoch last taken; None if it has none."""
        self._graph = graph
        self._schedule: Schedule = schedule or InOrder()
        self._locking = locking
        self._nodes = self._build()
        self._once = any(isinstance(vertex, Loop) and not vertex.counted for vertex in graph.vertices)
        self._spent = False
        self._earlier: tuple[LoopStatistics, ...] = ()
        """The loops' statistics from before the last reset."""
        self._begun = 0
        self._taken = 0
        self._seconds = 0.0
        self._ran = 0.0
        self.fresh = True
        """True while there is no state."""
        self._mark: _Mark | None = None

    def feed(self, port: int, channel: int, change: Change) -> None:
        """Hand in rows of an entry. Where no link routes the rows to the channel they belong to, the caller must feed
        them to that channel.
        """
        self._check_reset()
        for source in self._sources(port, channel):
            source.emit(change)

    def end(self, port: int | None = None, channel: int | None = None, watermark: int | None = None) -> None:
        """End an entry's epoch on a channel; on all of them, or all entries', where none is named."""
        self._check_reset()
        ports = tuple(self._nodes.sources) if port is None else (port,)
        for one in ports:
            for source in self._sources(one, channel):
                source.end(watermark)
                self._begin(source.epoch)
        if not ports:
            self._begin(self._begun + 1)

    def end_all(self, watermarks: Mapping[int, int | None]) -> None:
        """End all entries' epoch, each with the watermark of its port."""
        if not self._nodes.sources:
            self.end()
        for port in self._nodes.sources:
            self.end(port, watermark=watermarks.get(port))

    def run(self) -> bool:
        """Work until there is no more work. True where an epoch is complete; False where an end is still awaited."""
        started, self._ran = perf_counter(), time()
        schedule = self._schedule
        try:
            with answering(schedule):
                while (work := schedule.next()) is not None:
                    work.work()
        finally:
            self._seconds += perf_counter() - started
        return self._is_complete

    def take(self) -> Change:
        """The change of the result in the complete epoch: consolidated, over all channels, in canonical order."""
        return self.result().change()

    def result(self) -> EpochResult:
        """`take` without a copy of wide rows, which are taken later."""
        return self.results()[0]

    def results(self) -> Sequence[EpochResult]:
        """`result`, and then the further results of the epoch."""
        if not self._is_complete:
            raise RuntimeError("there is no complete epoch to take")
        outputs = [[part for sink in sinks for part in sink.take_parts()] for sinks in self._nodes.sinks]
        watermarks = [[sink.release() for sink in sinks] for sinks in self._nodes.sinks]
        self._spent = self._once
        self.fresh = False
        self._taken += 1
        self.watermark = least_watermark(watermarks[0])
        return [_consolidated(parts) if parts else self._nothing[at] for at, parts in enumerate(outputs)]

    def reset(self) -> None:
        """Forget state, fed changes and gauges. Counters go on."""
        counted = {at: node.counters().ungauged() for at, node in self._nodes.operators.items()}
        self._begin_anew(tuple(self._loop_statistics()), 0.0)
        self._count_from(counted)

    def mark(self) -> None:
        """Keep the state for `roll_back`. Between two epochs, where `save` may be called."""
        self._check_between_epochs()
        state = HeldState()
        if not self.fresh:
            self._save(state.under)
        counters = {at: node.counters() for at, node in self._nodes.operators.items()}
        self._mark = _Mark(state, self.fresh, counters, tuple(self._loop_statistics()), self._seconds)

    def unmark(self) -> None:
        """Drop the state that `mark` kept. The epoch ended well, so everything is healthy."""
        self._mark = None
        for part in self._having_health().values():
            part.healthy = True

    def roll_back(self) -> None:
        """Forget all state, messages and counts since `mark`, but not who has failed."""
        mark, self._mark = self._mark, None
        if mark is None:
            raise RuntimeError("the network was not marked")
        health = {at: part.healthy for at, part in self._having_health().items()}
        self._begin_anew(mark.loops, mark.seconds)
        for at, part in self._having_health().items():
            part.healthy = health[at]
        if not mark.fresh:
            self._load(mark.state.under)
        self._count_from(mark.counters)

    def _begin_anew(self, earlier: tuple[LoopStatistics, ...], seconds: float) -> None:
        self._earlier = earlier
        self._schedule.clear()
        self._nodes = self._build()
        self.fresh = True
        self._spent = False
        self._begun = 0
        self._taken = 0
        self._seconds = seconds

    def _having_health(self) -> dict[object, OperatorNode | LoopRounds]:
        parts: dict[object, OperatorNode | LoopRounds] = {at: loop.progress for at, loop in self._nodes.loops.items()}
        parts.update(self._nodes.operators.items())
        return parts

    def _count_from(self, counted: Mapping[tuple[str, int], Counters]) -> None:
        for at, node in self._nodes.operators.items():
            node.count_from(counted[at])

    def save(self, state: StateWriter) -> None:
        """Write the state of all operators and loops, each under its path. It is the state that each had when the
        barrier of the epoch last taken passed it. Raises RuntimeError if anything was fed or ended since.
        """
        self._check_between_epochs()
        self._save(lambda name: _Under(state, name))

    def load(self, state: StateReader) -> None:
        """Take state back, in a network of the same graph and channels that was not fed yet."""
        self._load(lambda name: _From(state, name))

    def _save(self, under: Callable[[str], StateWriter]) -> None:
        for (path, channel), node in self._nodes.operators.items():
            node.operator.save(under(_name(path, node, channel)))
        for path, loop in self._nodes.loops.items():
            loop.progress.save(under(f"{path}/loop"))

    def _load(self, under: Callable[[str], StateReader]) -> None:
        for (path, channel), node in self._nodes.operators.items():
            node.operator.load(under(_name(path, node, channel)))
        for path, loop in self._nodes.loops.items():
            loop.progress.load(under(f"{path}/loop"))
        self.fresh = False

    def _check_between_epochs(self) -> None:
        sources = [source for entries in self._nodes.sources.values() for entry in entries for source in entry]
        if self._begun > self._taken or any(source.begun or source.epoch != self._taken for source in sources):
            raise RuntimeError(
                "state can be saved only between two epochs: after an epoch has been taken, and before the next has "
                "input"
            )

    def statistics(self) -> NetworkStatistics:
        return NetworkStatistics(tuple(self._operator_statistics()), tuple(self._loop_statistics()))

    def operators(self) -> Iterator[ChangeOperator]:
        """Every channel's instances of all operators, also in loops."""
        for node in self._nodes.operators.values():
            yield node.operator

    @property
    def nbytes(self) -> int:
        """The bytes of all state, of messages under way, of the result as far as it is known, and of the state that a
        roll-back would bring back.
        """
        nodes = self._nodes
        state = sum([node.operator.nbytes for node in nodes.operators.values()])
        state += sum([loop.progress.nbytes for loop in nodes.loops.values()])
        under_way = sum([queue.nbytes for queue in nodes.queues])
        results = sum([sink.nbytes for sinks in nodes.sinks for sink in sinks])
        return state + under_way + results + self._marked_bytes()

    def _marked_bytes(self) -> int:
        """The bytes of the runs of marked state that the current state does not have any more."""
        if self._mark is None or self._mark.fresh:
            return 0
        now = SettledRuns()
        self._save(lambda _: now)
        return sum(run.nbytes for run in self._mark.state.all_runs() if id(run) not in now.identities)

    @property
    def _is_complete(self) -> bool:
        return all(sink.complete for sinks in self._nodes.sinks for sink in sinks)

    def _build(self) -> Nodes:
        return build(self._graph, self.channels, self._schedule, self._locking)

    def _sources(self, port: int, channel: int | None) -> Iterator[Source]:
        if port not in self._nodes.sources:
            raise ValueError(f"there is no entry {port}; there are {sorted(self._nodes.sources)}")
        for entry in self._nodes.sources[port]:
            yield from entry if channel is None else (entry[channel],)

    def _check_reset(self) -> None:
        """Check that a network without counted rounds was reset: its state does not have the rounds of rows, so a later
        epoch would be wrong.
        """
        if self._spent:
            raise RuntimeError("a network with a loop that does not count its rounds must be reset between epochs")

    def _begin(self, epoch: int) -> None:
        """Begin the end of an epoch: at its first end, dummy reads supply theirs."""
        if epoch > self._begun:
            self._begun = epoch
            for dummy in self._nodes.dummies:
                dummy.end(UNBOUNDED)

    def _operator_statistics(self) -> Iterator[OperatorStatistics]:
        paths: dict[str, list[OperatorNode]] = {}
        for (path, _), node in self._nodes.operators.items():
            paths.setdefault(path, []).append(node)
        for path, nodes in paths.items():
            yield OperatorStatistics(
                path=path,
                operator=type(nodes[0].operator).__name__,
                plan_path=nodes[0].plan_path,
                rows_in=sum(node.rows_in for node in nodes),
                rows_out=sum(node.rows_out for node in nodes),
                touched=sum(node.touched for node in nodes),
                nbytes=sum(node.operator.nbytes for node in nodes),
                busy=self._share(max(node.busy_seconds for node in nodes)),
                backpressure=self._share(max(node.pressed_seconds for node in nodes)),
                health=float(all(node.healthy for node in nodes)),
                keeps=nodes[0].state.keeps,
                bound=nodes[0].state.bound,
                begun=self._ran,
            )

    def _loop_statistics(self) -> Iterator[LoopStatistics]:
        earlier = {loop_statistics.path: loop_statistics for loop_statistics in self._earlier}
        for path, loop in self._nodes.loops.items():
            counts = loop.progress.counts
            now = LoopStatistics(
                path=path,
                name=loop.progress.name,
                plan_path=loop.plan_path,
                rounds=counts.rounds,
                rows=counts.rows,
                most_rows_a_round=counts.most_rows,
                last_rows=tuple(counts.last_rows),
                prepares_sent=loop.locking.sent,
                prepares_resent=loop.locking.resent,
                quiesce_seconds=loop.quiesce_seconds,
                **self._loop_gauges(path, loop),
                begun=loop.progress.begun,
            )
            yield now.after(earlier[path]) if path in earlier else now

    def _loop_gauges(self, path: str, loop: LoopNode) -> dict[str, float]:
        inside = f"{path}/"
        busy = [0.0] * self.channels
        pressed = max(end.pressed_seconds for end in loop.ends)
        healthy = all(other.progress.healthy for at, other in self._nodes.loops.items() if f"{at}/".startswith(inside))
        for (at, channel), node in self._nodes.operators.items():
            if at.startswith(inside):
                busy[channel] += node.busy_seconds
                pressed = max(pressed, node.pressed_seconds)
                healthy &= node.healthy
        return {"busy": self._share(max(busy)), "backpressure": self._share(pressed), "health": float(healthy)}

    def _share(self, seconds: float) -> float:
        return min(seconds / self._seconds, 1.0) if self._seconds else 0.0


def _consolidated(parts: list[Change]) -> EpochResult:
    try:
        return EpochResult.of(parts)
    except OverflowError as error:
        raise ExecutionError(f"the result: {error}", reason="WEIGHT_OVERFLOW") from error


def _name(path: str, node: OperatorNode, channel: int) -> str:
    return f"{path}/{node.operator.state_name()}/{channel}"


@dataclass(frozen=True, slots=True)
class _Mark:
    """The state of a network between two epochs."""

    state: HeldState
    fresh: bool
    counters: Mapping[tuple[str, int], Counters]
    loops: tuple[LoopStatistics, ...]
    seconds: float


class _Under:
    """A writer that puts a path in the network in front of its names."""

    def __init__(self, writer: StateWriter, name: str) -> None:
        self._writer = writer
        self._name = name

    def write(self, name: str, version: int, table: pa.Table) -> None:
        self._writer.write(f"{self._name}/{name}", version, table)

    def write_parts(self, name: str, version: int, parts: Sequence[Part], table: Callable[[Part], pa.Table]) -> None:
        self._writer.write_parts(f"{self._name}/{name}", version, parts, table)


class _From:
    def __init__(self, reader: StateReader, name: str) -> None:
        self._reader = reader
        self._name = name

    def read(self, name: str) -> tuple[int, pa.Table]:
        return self._reader.read(f"{self._name}/{name}")

    def read_parts(self, name: str) -> tuple[int, Sequence[pa.Table]]:
        return self._reader.read_parts(f"{self._name}/{name}")
