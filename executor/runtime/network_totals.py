"""Statistics of networks: of loops that run round by round, and of each operator on changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...operators.changes.network import network_statistics as network
from ...proto.statistics import LoopStatistics, OperatorStatistics


def combined(loops: Iterable[network.LoopStatistics]) -> tuple[network.LoopStatistics, ...]:
    """Statistics joined by plan path: a loop is made more than once, for sources of other sizes."""
    found: dict[str, network.LoopStatistics] = {}
    for loop in loops:
        earlier = found.get(loop.place)
        found[loop.place] = loop if earlier is None else _together(loop, earlier)
    return tuple(found.values())


def combined_operators(operators: Iterable[network.OperatorStatistics]) -> tuple[network.OperatorStatistics, ...]:
    """Statistics joined by kind and plan path, as operators outside of networks are counted."""
    found: dict[tuple[str, str], network.OperatorStatistics] = {}
    for operator in operators:
        key = operator.operator, operator.place
        found[key] = operator if key not in found else operator.beside(found[key])
    return tuple(found.values())


def _together(loop: network.LoopStatistics, other: network.LoopStatistics) -> network.LoopStatistics:
    """The sums of both loops, with the gauges of the one that ran last."""
    now = max(loop, other, key=lambda each: each.begun)
    return replace(loop.after(other), begun=now.begun, busy=now.busy, backpressure=now.backpressure, health=now.health)


def loop_statistics(loops: Iterable[network.LoopStatistics]) -> tuple[LoopStatistics, ...]:
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


def operator_statistics(operators: Iterable[network.OperatorStatistics]) -> tuple[OperatorStatistics, ...]:
    return tuple(
        OperatorStatistics(
            operator=each.operator,
            place=each.place,
            rows_in=each.rows_in,
            rows_out=each.rows_out,
            rows_touched=each.touched,
            state_bytes=each.nbytes,
            busy=each.busy,
            backpressure=each.backpressure,
            health=each.health,
        )
        for each in operators
    )
