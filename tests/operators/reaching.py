"""Loops over two inputs, round by round: the nodes that edges lead to from some, and how often they are reached."""

from __future__ import annotations

import pyarrow as pa

from tidegate.operators.changes.distinct_or_set_op import DistinctOrSetOp, Weighing
from tidegate.operators.changes.join import Join, JoinKey
from tidegate.operators.changes.network.network import Network
from tidegate.operators.changes.network.network_graph import Back, ByKey, Entry, Graph, Limits, Link, Operate
from tidegate.operators.changes.network.network_graph import Loop as LoopVertex
from tidegate.operators.changes.select import Select
from tidegate.operators.changes.values.evaluator import PLANNED_ROWS, Evaluators, numbered
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.loop import ChangingRounds, Loop
from tidegate.operators.recomputed_rounds import BACK, RecomputedBody, RecomputedRounds

EDGE = pa.schema([("k", pa.int64()), ("v", pa.int64())])
NODE = pa.schema([("node", pa.int64())])
BY_NODE = ByKey((0,))


def reached(instance: Instance, channels: int) -> Loop:
    """From the first input's keys, along the second one's edges."""
    body = Graph(
        vertices=(
            Entry(port=0, schema=NODE),
            Entry(port=1, schema=EDGE),
            Back(schema=NODE),
            Operate(
                make=lambda _: Join(NODE, EDGE, [JoinKey(0, 0)], [2]),
                inputs=(Link(2, BY_NODE), Link(1, BY_NODE)),
                schema=NODE,
                plan_path="step",
            ),
            Operate(
                make=lambda _: DistinctOrSetOp(NODE, Weighing.DISTINCT, inputs=2),
                inputs=(Link(0, BY_NODE), Link(3, BY_NODE)),
                schema=NODE,
                plan_path="distinct",
            ),
        ),
        result=4,
    )
    loop = LoopVertex(
        name="reached",
        body=body,
        inputs=(Link(2), Link(1)),
        entering=None,
        limits=Limits(),
        counted=False,
        schema=NODE,
        plan_path="loop",
    )
    select = Operate(make=lambda _: Select(NODE, [0]), inputs=(Link(0),), schema=NODE, plan_path="start")
    graph = Graph(
        vertices=(Entry(port=0, schema=EDGE), Entry(port=1, schema=EDGE), select, loop),
        result=3,
    )
    memory = instance.settings.memory_limit
    return Loop(
        NODE,
        lambda check: ChangingRounds(
            NODE, lambda schedule: Network(graph, channels, schedule=schedule), check, memory=memory
        ),
        Evaluators(lambda: instance),
    )


def counted(instance: Instance) -> Loop:
    """In how many ways a node is reached in three steps from the first input's keys, along the second one's edges."""
    body = RecomputedBody(
        name="counted",
        sql="SELECT c0, sum(c1)::BIGINT FROM (SELECT c0, 1 AS c1 FROM in0 UNION ALL"
        " SELECT in1.c1, in2.c1 FROM in1 JOIN in2 ON in2.c0 = in1.c0) GROUP BY c0",
        reads=(0, 1, BACK),
        entering=None,
        limits=Limits(rounds=3),
        plan_path="loop",
    )
    inputs = [(numbered(EDGE), PLANNED_ROWS)] * 2
    evaluators, memory = Evaluators(lambda: instance), instance.settings.memory_limit
    return Loop(EDGE, lambda check: RecomputedRounds(EDGE, body, inputs, evaluators, check, memory=memory), evaluators)
