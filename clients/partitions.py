"""Partitions of a stream over the channels of a node, in the forms that a user may give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from .proto.errors import InvalidRequest
from .proto.graph import Broadcast, ByFunction, ByKey, Choose, Partition, Spread

SPREAD: Final = Spread()
"""A partition that lets any channel have any row.

>>> graph = tidegate.TaskGraph()
>>> graph.blocking("count", Count, graph.read_arrow(monday), channels=2, partition=tidegate.SPREAD)
<tidegate.graph.Result 'count'>
"""

PartitionLike: TypeAlias = str | Sequence[str] | Choose | Partition | None


class Unsaid:
    """The absence of a partition, which is not the same as None."""


UNSAID: Final = Unsaid()


def partition_of(node: str, stream: str, partition: Any, channels: int) -> Partition:
    """The partition of one form: None is broadcast, names are keys, a function gives the channels' numbers."""
    match partition:
        case Unsaid() if channels == 1:
            return SPREAD
        case Unsaid():
            raise InvalidRequest(
                f"node {node!r} has {channels} channels, so `partition` must say which channels get the rows of "
                f"stream {stream!r}: a column's name, several names, None (all rows to all channels), a function, or "
                "tidegate.SPREAD (any channel)",
                reason="PARTITION_MISSING",
            )
        case None:
            return Broadcast()
        case str():
            return ByKey((partition,))
        case Spread() | Broadcast() | ByKey() | ByFunction():
            return partition
        case Sequence() if all(isinstance(column, str) for column in partition):
            return ByKey(tuple(partition))
        case _ if callable(partition):
            return ByFunction(partition)
        case _:
            raise InvalidRequest(
                f"node {node!r}: the partition of stream {stream!r} must be a column's name, several names, None, a "
                f"function or tidegate.SPREAD, not {partition!r}",
                reason="NOT_A_PARTITION",
            )


def partitions_of(node: str, streams: Sequence[str], partitions: Any, channels: int) -> Mapping[str, Partition]:
    """The partition of each stream. `partitions` has one for each by name, or is one for all."""
    if not isinstance(partitions, Mapping):
        return {stream: partition_of(node, stream, partitions, channels) for stream in streams}
    check_streams(node, "partition", partitions, streams)
    return {stream: partition_of(node, stream, partitions.get(stream, UNSAID), channels) for stream in streams}


def check_streams(node: str, what: str, named: Mapping[str, object], streams: Sequence[str]) -> None:
    """Refuse entries for streams that the node does not have."""
    if unknown := sorted(set(named) - set(streams)):
        raise InvalidRequest(
            f"node {node!r}: {what} names {', '.join(map(repr, unknown))}; its streams are: {', '.join(streams)}",
            reason="UNKNOWN_STREAM",
        )
