"""What is told of loops that go round by round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..operators.changes.network import statistics as network
from ..proto.statistics import LoopStatistics


def combined(loops: Iterable[network.LoopStatistics]) -> tuple[network.LoopStatistics, ...]:
    """By their places in the plan: the same loop is made more than once, for sources of other sizes."""
    found: dict[str, network.LoopStatistics] = {}
    for loop in loops:
        earlier = found.get(loop.place)
        found[loop.place] = loop if earlier is None else _together(loop, earlier)
    return tuple(found.values())


def _together(loop: network.LoopStatistics, other: network.LoopStatistics) -> network.LoopStatistics:
    """The gauges are those of the one that ran last."""
    now = max(loop, other, key=lambda each: each.begun)
    return replace(loop.after(other), begun=now.begun, busy=now.busy, backpressure=now.backpressure, health=now.health)


def told(loops: Iterable[network.LoopStatistics]) -> tuple[LoopStatistics, ...]:
    return tuple(
        LoopStatistics(
            name=each.name,
            place=each.place,
            rounds=each.rounds,
            rows=each.rows,
            most_rows_a_round=each.most_rows_a_round,
            last_rows=each.last_rows,
            prepares_sent=each.prepares_sent,
            prepares_resent=each.prepares_resent,
            quiesce_us=int(each.quiesce_seconds * 1_000_000),
            busy=each.busy,
            backpressure=each.backpressure,
            health=each.health,
        )
        for each in combined(loops)
    )
