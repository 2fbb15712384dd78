"""What a network says about its work."""

from __future__ import annotations

from dataclasses import dataclass


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
    """The share of it in which more rows waited behind it than a lane should have."""
    health: float
    """0 once it has failed."""


@dataclass(frozen=True, slots=True)
class LoopStatistics:
    """One loop, over all epochs since it was last reset."""

    path: str
    name: str
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


@dataclass(frozen=True, slots=True)
class NetworkStatistics:
    operators: tuple[OperatorStatistics, ...]
    loops: tuple[LoopStatistics, ...]
