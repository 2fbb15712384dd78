"""Turns errors of a graph's SQL statements into errors that name the node and the channel."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ...planner.physical.pipelines import FragmentNode
from ...proto.errors import ExecutionError, NodeError
from ..pipelines.build_operators import RunNode


def with_node_named(node: RunNode, channel: int, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a node's operator, wherever it runs, with the node and channel added to its errors."""
    return _named(node.plan_path, channel, rows) if isinstance(node, FragmentNode) else rows


def _named(node: str, channel: int, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield from rows
    except NodeError:
        raise
    except ExecutionError as error:
        if error.reason == "INTERRUPTED":
            raise
        what = error.message.removeprefix(f"{node}: ")
        raise NodeError(what, node=node, channel=channel, reason=error.reason) from error
