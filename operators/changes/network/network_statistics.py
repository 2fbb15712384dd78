"""Statistics of a network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

LAST_ROUNDS: Final = 16
"""The number of last rounds whose rows are reported."""


@dataclass(frozen=True, slots=True)
class OperatorStatistics:
    """Statistics of one operator, all channels together. The gauges are between 0 and 1, and are those of the worst
    channel.
    """

    path: str
    operator: str
    plan_path: str
    rows_in: int
    rows_out: int
    touched: int
    """The rows of state that the operator has looked at."""
    nbytes: int
    busy: float
    """The share of the network's time in which the operator worked."""
    backpressure: float
    """The share of the network's time in which more rows waited behind the operator than a queue should have."""
    health: float
    """0 once the operator has failed."""
    keeps: str = ""
    """What its state is; empty if it has none."""
    bound: str | None = None
    """What stays of its state; None if all of it stays for ever."""
    begun: float = 0.0
    """The clock's time when the network worked last."""

    def beside(self, other: OperatorStatistics) -> OperatorStatistics:
        """The sum of these statistics and those of another instance of the operator. The gauges are those of the
        instance that ran last.
        """
        now = max(self, other, key=lambda statistics: statistics.begun)
        return replace(
            now,
            rows_in=self.rows_in + other.rows_in,
            rows_out=self.rows_out + other.rows_out,
            touched=self.touched + other.touched,
            nbytes=self.nbytes + other.nbytes,
        )


@dataclass(frozen=True, slots=True)
class LoopStatistics:
    """Statistics of one loop, over all epochs."""

    path: str
    name: str
    plan_path: str
    rounds: int
    rows: int
    most_rows_a_round: int
    last_rows: tuple[int, ...]
    """Rows of the last rounds, the newest last."""
    prepares_sent: int
    prepares_resent: int
    """The prepares that were sent again only because an input was awaited."""
    quiesce_seconds: float
    """The total time from an event's arrival at the loop until the loop is quiet."""
    busy: float = 0.0
    """The share of the network's time in which the body's operators worked, on the busiest channel."""
    backpressure: float = 0.0
    """The largest backpressure in the loop's body and at its ends."""
    health: float = 1.0
    """0 once the loop, or an operator in its body, has failed."""
    begun: float = 0.0
    """The clock's time when the loop began last."""

    def after(self, earlier: LoopStatistics) -> LoopStatistics:
        """The sum of these statistics and those of the same loop from before."""
        return replace(
            self,
            rounds=earlier.rounds + self.rounds,
            rows=earlier.rows + self.rows,
            most_rows_a_round=max(earlier.most_rows_a_round, self.most_rows_a_round),
            last_rows=(*earlier.last_rows, *self.last_rows)[-LAST_ROUNDS:],
            prepares_sent=earlier.prepares_sent + self.prepares_sent,
            prepares_resent=earlier.prepares_resent + self.prepares_resent,
            quiesce_seconds=earlier.quiesce_seconds + self.quiesce_seconds,
        )


@dataclass(frozen=True, slots=True)
class NetworkStatistics:
    operators: tuple[OperatorStatistics, ...]
    loops: tuple[LoopStatistics, ...]
