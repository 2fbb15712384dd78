"""The planner's exchanges as routings of rows, and their plan paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from ...planner.ir import Routing
from ...planner.physical import pipelines as planned
from ...planner.physical.pipelines import Pipeline
from ...proto.errors import InternalError
from . import routing


def plan_paths_of(chosen: Sequence[Pipeline]) -> Mapping[int, str]:
    """The plan path of each exchange, by its number."""
    nodes = (node for pipeline in chosen for node in pipeline.nodes)
    return {node.exchange: node.plan_path for node in nodes if isinstance(node, planned.ReceiveNode)}


def routing_of(exchange: planned.Exchange) -> routing.Routing:
    match exchange.routing:
        case Routing.HASH:
            return routing.HashRouting(exchange.schema, exchange.keys, exchange.consumers)
        case Routing.BROADCAST | Routing.GATHER:
            return routing.Broadcast(exchange.consumers)
        case Routing.ROUND_ROBIN:
            return routing.RoundRobinBlocks(exchange.consumers)
        case Routing.FORWARD:
            return routing.Forward(exchange.consumers)
        case Routing.FUNCTION:
            assert exchange.choose is not None
            return routing.FunctionRouting(exchange.schema, exchange.choose, exchange.consumers, exchange.plan_path)
        case Routing.RANGE:
            raise InternalError("rows are cut into ranges by Spark's tasks alone")
        case _:
            assert_never(exchange.routing)
