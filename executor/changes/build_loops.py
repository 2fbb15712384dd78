"""The operator of a loop that runs round by round in every epoch."""

from __future__ import annotations

from ...operators.changes.network.network import Network
from ...operators.changes.values.evaluator import Evaluators, numbered
from ...operators.duckdb.instances import Instance
from ...operators.loop import ChangingRounds, Loop
from ...operators.recomputed_rounds import BACK, RecomputedBody, RecomputedRounds
from ...planner.changes.change_nodes import ChangeNode, LoopNode, RecomputeNode, SourceNode
from ...planner.changes.lower_changes import input_name
from ...planner.physical.pipelines import RoundsNode
from .build_graph import EntrySource, graph_of

_COPIES = 3
"""The copies of kept rows that may exist for a moment: a merge makes new rows beside them, and statements copy them."""


def loop_of(node: RoundsNode, instance: Instance, channels: int) -> Loop:
    """The loop's operator, on `channels` channels of its own; a loop that is recomputed in every round has one channel.

    No epoch goes back to an earlier round, so rounds are not counted.
    """
    evaluators = Evaluators(lambda: instance)
    memory = instance.settings.memory_limit * channels // _COPIES
    match node.root:
        case LoopNode(whole=True, body=RecomputeNode() as body) as loop:
            inputs = [(numbered(child.schema), child.size_class) for child in node.inputs]
            recomputed = _body(loop, body, len(inputs))
            return Loop(
                node.schema,
                lambda check: RecomputedRounds(node.schema, recomputed, inputs, evaluators, check, memory=memory),
                evaluators,
            )
        case root:
            sources = {
                input_name(port): EntrySource(port=port, schema=numbered(child.schema), checked=False)
                for port, child in enumerate(node.inputs)
            }
            graph = graph_of(root, sources, evaluators, counted=False)
            return Loop(
                node.schema,
                lambda check: ChangingRounds(
                    node.schema, lambda schedule: Network(graph, channels, schedule=schedule), check, memory=memory
                ),
                evaluators,
            )


def _body(loop: LoopNode, body: RecomputeNode, inputs: int) -> RecomputedBody:
    ports = {input_name(port): port for port in range(inputs)}

    def port(node: ChangeNode) -> int:
        return ports[node.source] if isinstance(node, SourceNode) else BACK

    return RecomputedBody(
        name=loop.name,
        sql=body.sql,
        reads=tuple(map(port, body.inputs)),
        entering=None if loop.entering is None else port(loop.entering),
        limits=loop.limits,
        plan_path=loop.plan_path,
    )
