"""Statistics of networks: of loops that run round by round, and of each operator on changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...operators.changes.network import network_statistics as network
from ...proto.statistics import LoopStatistics, OperatorStatistics


def combined(loops: Iterable[network.LoopStatistics]) -> tuple[network.LoopStatistics, ...]:
    """Statistics joined by plan path: a loop is made more than once, for sources of other sizes."""
    totals: dict[str, network.LoopStatistics] = {}
    for loop in loops:
        earlier = totals.get(loop.plan_path)
        totals[loop.plan_path] = loop if earlier is None else _together(loop, earlier)
    return tuple(totals.values())


def combined_operators(operators: Iterable[network.OperatorStatistics]) -> tuple[network.OperatorStatistics, ...]:
    """Statistics joined by kind and plan path, as operators outside of networks are counted."""
    totals: dict[tuple[str, str], network.OperatorStatistics] = {}
    for operator in operators:
        key = operator.operator, operator.plan_path
        totals[key] = operator if key not in totals else operator.beside(totals[key])
    return tuple(totals.values())


def _together(loop: network.LoopStatistics, other: network.LoopStatistics) -> network.LoopStatistics:
    """The sums of both loops, with the gauges of the one that ran last."""
    now = max(loop, other, key=lambda statistics: statistics.begun)
    return replace(loop.after(other), begun=now.begun, busy=now.busy, backpressure=now.backpressure, health=now.health)


def loop_statistics(loops: Iterable[network.LoopStatistics]) -> tuple[LoopStatistics, ...]:
    return tuple(
        LoopStatistics(
            name=loop.name,
            place=loop.plan_path,
            rounds=loop.rounds,
            rows=loop.rows,
            most_rows_a_round=loop.most_rows_a_round,
            last_rows=loop.last_rows,
            prepares_sent=loop.prepares_sent,
            prepares_resent=loop.prepares_resent,
            quiesce_us=int(loop.quiesce_seconds * 1_000_000),
            busy=loop.busy,
            backpressure=loop.backpressure,
            health=loop.health,
        )
        for loop in combined(loops)
    )


def operator_statistics(operators: Iterable[network.OperatorStatistics]) -> tuple[OperatorStatistics, ...]:
    return tuple(
        OperatorStatistics(
            operator=operator.operator,
            place=operator.plan_path,
            rows_in=operator.rows_in,
            rows_out=operator.rows_out,
            rows_touched=operator.touched,
            state_bytes=operator.nbytes,
            busy=operator.busy,
            backpressure=operator.backpressure,
            health=operator.health,
            keeps=operator.keeps,
            bound=operator.bound or "",
        )
        for operator in operators
    )
