"""What is told of networks: of loops that go round by round, and of operators on changes, one by one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...operators.changes.network import network_statistics as network
from ...proto.statistics import LoopStatistics, OperatorStatistics


def combined(loops: Iterable[network.LoopStatistics]) -> tuple[network.LoopStatistics, ...]:
    """By their places in the plan: the same loop is made more than once, for sources of other sizes."""
    found: dict[str, network.LoopStatistics] = {}
    for loop in loops:
        earlier = found.get(loop.place)
        found[loop.place] = loop if earlier is None else _together(loop, earlier)
    return tuple(found.values())


def combined_operators(operators: Iterable[network.OperatorStatistics]) -> tuple[network.OperatorStatistics, ...]:
    """By their kinds and places in the plan, as one that is no network's is counted."""
    found: dict[tuple[str, str], network.OperatorStatistics] = {}
    for operator in operators:
        key = operator.operator, operator.place
        found[key] = operator if key not in found else operator.beside(found[key])
    return tuple(found.values())


def _together(loop: network.LoopStatistics, other: network.LoopStatistics) -> network.LoopStatistics:
    """The gauges are those of the one that ran last."""
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
