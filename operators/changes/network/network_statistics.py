"""What a network says about its work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

LAST_ROUNDS: Final = 16
"""Of so many rounds it is told how many rows each had."""


@dataclass(frozen=True, slots=True)
class OperatorStatistics:
    """One operator, all channels together; the gauges are between 0 and 1, that of the worst channel."""

    path: str
    operator: str
    place: str
    rows_in: int
    rows_out: int
    touched: int
    """Rows of state it has looked at."""
    nbytes: int
    busy: float
    """The share of the network's time in which it worked."""
    backpressure: float
    """The share of it in which more rows waited behind it than a queue should have."""
    health: float
    """0 once it has failed."""
    begun: float = 0.0
    """By the clock, when its network worked last."""

    def beside(self, other: OperatorStatistics) -> OperatorStatistics:
        """These and those of the same operator, made once more, as one; the gauges are of the one that ran last."""
        now = max(self, other, key=lambda each: each.begun)
        return replace(
            now,
            rows_in=self.rows_in + other.rows_in,
            rows_out=self.rows_out + other.rows_out,
            touched=self.touched + other.touched,
            nbytes=self.nbytes + other.nbytes,
        )


@dataclass(frozen=True, slots=True)
class LoopStatistics:
    """One loop, over all epochs."""

    path: str
    name: str
    place: str
    rounds: int
    rows: int
    most_rows_a_round: int
    last_rows: tuple[int, ...]
    """Rows of the last rounds, the newest last."""
    prepares_sent: int
    prepares_resent: int
    """Of those sent, the ones sent again only because an input was awaited."""
    quiesce_seconds: float
    """From an event's reaching the loop to its being quiet, all together."""
    busy: float = 0.0
    """The share of the network's time in which its body's operators worked, on the busiest channel."""
    backpressure: float = 0.0
    """The largest one in its body and at its ends."""
    health: float = 1.0
    """0 once it, or something in its body, has failed."""
    begun: float = 0.0
    """By the clock, when it began last."""

    def after(self, earlier: LoopStatistics) -> LoopStatistics:
        """These and what the same loop did before, as one."""
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
