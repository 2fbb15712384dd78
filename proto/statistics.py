"""What was counted: of an epoch, of a task, and of its parts. Times are in microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStatistics:
    splits: int = 0
    rows_in: int = 0
    rows_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    barrier_us: int = 0
    run_us: int = 0
    at_least: bool = False
    rows_written: int = 0
    bytes_written: int = 0
    files_written: int = 0
    checkpoint_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitStatistics:
    added: int = 0
    queued: int = 0
    finished: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStatistics:
    """What an operator did over its task's life. `rows_touched` and `state_bytes` are of operators on changes. The
    gauges, from 0 to 1: `busy` is the share of the time in which it worked, `backpressure` the share in which what
    reads it was not ready for more, each of the channel where it is largest; `health` is 0 where it has failed.
    """

    operator: str
    place: str
    rows_in: int = 0
    rows_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    runs: int = 0
    run_us: int = 0
    at_least: bool = False
    spilled_bytes: int = 0
    rows_touched: int = 0
    state_bytes: int = 0
    busy: float = 0.0
    backpressure: float = 0.0
    health: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatistics(OperatorStatistics):
    """What an operator of a graph did on one of its channels. `place` is the name of its node, for an exchange that of
    the node and its stream.
    """

    channel: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopStatistics:
    """What a loop did that goes round by round, over its task's life. `last_rows` are those of the last rounds, the
    newest last; of the `prepares_sent` those in `prepares_resent` were sent again because an input was awaited;
    `quiesce_us` is from the barrier's reaching the loop to its being quiet. The gauges are those of an operator:
    `health` is 0 where the loop, or something in its body, has failed.
    """

    name: str
    place: str
    rounds: int = 0
    rows: int = 0
    most_rows_a_round: int = 0
    last_rows: tuple[int, ...] = ()
    prepares_sent: int = 0
    prepares_resent: int = 0
    quiesce_us: int = 0
    busy: float = 0.0
    backpressure: float = 0.0
    health: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStatistics:
    """A stage of a Spark job, by its number in Spark: its `tasks`, of them those that are `running` and `done`, and the
    attempts that `failed`. `pipelines` are those of which a channel has ended; `rows_in` were read from splits and
    tables by such channels, `rows_out` handed on. `bytes_in` and `bytes_out` have come from and gone to shuffles,
    `spilled_bytes` were written by Spark as it sorted them. What Spark does not tell, or not yet, is 0.
    """

    stage: int
    pipelines: tuple[str, ...] = ()
    tasks: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    rows_in: int = 0
    rows_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    spilled_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgress:
    """How far an input is read in the epoch that runs, or ran last: `rows` of `total`, which is None where nothing
    tells it before the end. What several readers have of it, each for itself, counts as often. Of files that a
    statement reads itself `rows` are what DuckDB estimates, until the statement has ended.
    """

    rows: int = 0
    total: int | None = None

    @property
    def share(self) -> float | None:
        """From 0 to 1. One that its readers had enough of stays below 1."""
        if self.total is None:
            return None
        return self.rows / self.total if self.total else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """A task's counters. Times are in microseconds; barriers never count among splits. `stages` are those of the Spark
    job that runs for the task, or ran last. `progress` is that of the inputs of a plan or a graph.
    """

    barriers_requested: int = 0
    barriers_completed: int = 0
    barrier_us: int = 0
    splits: Mapping[str, SplitStatistics] = field(default_factory=dict)
    operators: tuple[OperatorStatistics, ...] = ()
    plans: int = 0
    output_rows: int = 0
    output_bytes: int = 0
    output_bytes_held: int = 0
    spilled_bytes: int = 0
    loops: tuple[LoopStatistics, ...] = ()
    stages: tuple[StageStatistics, ...] = ()
    progress: Mapping[str, SourceProgress] = field(default_factory=dict)
