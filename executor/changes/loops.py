"""The operator of a loop that goes round by round in every epoch."""

from __future__ import annotations

from ...operators.changes.evaluator import Evaluators, numbered
from ...operators.changes.network.network import Network
from ...operators.instances import Instance
from ...operators.loop import Loop
from ...planner.changes.lower import input_name
from ...planner.pipelines import RoundsNode
from .making import EntrySource, graph_of


def loop_of(node: RoundsNode, instance: Instance, channels: int) -> Loop:
    """On so many channels of its own. No epoch goes back to an earlier round, so that rounds are not counted."""
    sources = {
        input_name(port): EntrySource(port=port, schema=numbered(each.schema), checked=False)
        for port, each in enumerate(node.inputs)
    }
    evaluators = Evaluators(instance)
    graph = graph_of(node.root, sources, evaluators, counted=False)
    memory = instance.settings.memory_limit * channels
    return Loop(node.schema, lambda schedule: Network(graph, channels, schedule=schedule), evaluators, memory=memory)
