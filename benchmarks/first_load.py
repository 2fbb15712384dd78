"""Case `first-load`: connected components of a random graph, a least label going round, loaded at once.

A continuous task gets all edges in its first epoch, and keeps what later changes need. Beside it a per-epoch task gets
the same edges, goes through the same rounds, and keeps nothing. Each run is a task of its own. The answers have to be
the same. State is what the task's statistics say after the load.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

import tidegate
from tidegate.proto.values import Mode

from . import loop_plans
from .measure import Runs, Spread, interleave
from .report import Report, Target, spread_text
from .settings import Settings

CONTINUOUS = "continuous task, first epoch"
PER_EPOCH = "per-epoch task"
_SLOWER = 4
_BYTES = 500


def run(settings: Settings) -> Report:
    plan = loop_plans.components()
    edges = loop_plans.random_graph(settings.view_nodes, 3 * settings.view_nodes)
    with tidegate.local() as client:
        tasks: dict[str, Mode] = {CONTINUOUS: Mode.CONTINUOUS, PER_EPOCH: Mode.PER_EPOCH}
        answers = {name: loaded(client, plan, edges, mode)[0] for name, mode in tasks.items()}
        if not answers[CONTINUOUS].drop_columns("_weight").equals(answers[PER_EPOCH]):
            raise AssertionError("the two tasks' components differ")
        state = loaded(client, plan, edges, Mode.CONTINUOUS)[1]
        runs = interleave(
            {name: partial(loaded, client, plan, edges, mode) for name, mode in tasks.items()}, settings.rounds
        )
    return report(edges.num_rows, runs, state)


def loaded(client: tidegate.Client, plan: bytes, edges: pa.Table, mode: Mode) -> tuple[pa.Table, dict[str, int]]:
    """The components that a fresh task finds, and the bytes of state that each kind of operator has then."""
    with client.create_task(plan, mode=mode, channels=1, loops="general") as task:
        answer = task.run_epoch({"edges": edges}).table()
        state: dict[str, int] = {}
        for operator in task.statistics().operators:
            state[operator.operator] = state.get(operator.operator, 0) + operator.state_bytes
    return answer, {name: size for name, size in state.items() if size}


def report(edges: int, runs: Runs, state: dict[str, int]) -> Report:
    rows = [[name, spread_text(runs.spread(name).scaled(1e3)), "-"] for name in runs.seconds]
    rows += [[f"state of {name}", "-", f"{size / edges:.0f}"] for name, size in state.items()]
    whole = sum(state.values()) / edges
    return Report(
        case="first-load",
        title=f"Connected components of {edges:,} edges, loaded at once",
        header=["", "ms", "bytes an edge"],
        rows=[*rows, ["all state", "-", f"{whole:.0f}"]],
        targets=[
            Target(f"{CONTINUOUS} over {PER_EPOCH}", runs.ratio(CONTINUOUS, PER_EPOCH), _SLOWER),
            Target("bytes of state an edge", Spread(whole, whole, whole), _BYTES),
        ],
        notes=[f"{contender}: {why}" for contender, why in runs.left_out.items()],
        figures={"seconds": runs.seconds, "state": state, "edges": edges},
    )
