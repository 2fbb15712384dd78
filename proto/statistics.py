"""Statistics of an epoch, of a task, and of a task's parts. Times are in microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStatistics:
    """Counters of an epoch, from its barrier. Times are in microseconds. With `at_least`, parts were not counted, and
    rows and bytes may be more. With `on_spark`, a Spark job has computed the rows.

    >>> statistics = task.run_epoch({"sales": monday}).statistics
    >>> statistics.splits, statistics.rows_in, statistics.rows_out
    (1, 3, 2)
    """

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
    on_spark: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitStatistics:
    added: int = 0
    queued: int = 0
    finished: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStatistics:
    """Statistics of an operator over its task's life. Only operators on changes have `rows_touched` and `state_bytes`.
    They say what the operator `keeps`, and which of it stays by its `bound`: without a bound all of it stays for ever.
    The gauges are from 0 to 1. `busy` is the share of the time in which the operator worked. `backpressure` is the
    share in which its reader was not ready for more rows. Both are of the channel where they are largest. `health` is 0
    where the operator has failed.
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
    keeps: str = ""
    bound: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatistics(OperatorStatistics):
    """Statistics of an operator of a graph on one channel. `place` is the name of its node; for an exchange, the names
    of the node and its stream.
    """

    channel: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopStatistics:
    """Statistics of a loop that goes round by round, over its task's life. `last_rows` are the rows of the last rounds,
    the newest last. `prepares_resent` are those of the `prepares_sent` that were sent again because an input was
    awaited. `quiesce_us` is the time from the barrier's arrival at the loop until the loop is quiet. The gauges are
    those of an operator: `health` is 0 where the loop, or an operator in its body, has failed.
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
    """A stage of a Spark job, by its number in Spark: how many `tasks` it has, how many of them are `running` and
    `done`, and how many attempts `failed`. `pipelines` are those with a channel that has ended. Such channels read
    `rows_in` from splits and tables, and handed on `rows_out`. The stage read `bytes_in` from shuffles and wrote
    `bytes_out` to them; Spark wrote `spilled_bytes` as it sorted rows. A number that Spark does not tell, or not yet,
    is 0.
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
    """The progress of an input in the epoch that runs, or ran last: `rows` of `total`, which is None where it is
    unknown before the end. A row that several readers read counts once for each reader. For files that a statement
    reads itself, `rows` is DuckDB's estimate until the statement has ended. CSV and JSON files, which do not tell their
    number of rows, count in bytes: `text_bytes` of `total_text_bytes`.

    >>> rows = task.run_epoch({"sales": "sales.parquet"}).table()
    >>> progress = task.statistics().progress["sales"]
    >>> progress.rows, progress.total, progress.share
    (3, 3, 1.0)
    """

    rows: int = 0
    total: int | None = None
    text_bytes: int = 0
    total_text_bytes: int = 0

    @property
    def share(self) -> float | None:
        """The share that is read, from 0 to 1: of the rows; where their number is unknown, of the bytes of text files.
        None if neither is known. It stays below 1 where the readers wanted no more rows.
        """
        return share_of([self])


def share_of(inputs: Iterable[SourceProgress]) -> float | None:
    """The share of the inputs that is read: of their rows; where no input knows the number of its rows, of the bytes of
    their text files. None if neither is known.
    """
    inputs = tuple(inputs)
    known = [(source.rows, source.total) for source in inputs if source.total is not None]
    if not known:
        known = [(source.text_bytes, source.total_text_bytes) for source in inputs if source.total_text_bytes]
    total = sum(total for _, total in known)
    return (sum(read for read, _ in known) / total if total else 1.0) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """A task's counters. Times are in microseconds; a barrier is never counted as a split. `stages` are those of the
    Spark job that runs for the task, or ran last. `progress` is that of the inputs of the plan or graph.

    >>> rows = task.run_epoch({"sales": monday}).table()
    >>> statistics = task.statistics()
    >>> statistics.barriers_completed, statistics.splits["sales"].finished, statistics.output_rows
    (1, 1, 2)
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
