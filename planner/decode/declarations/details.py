"""The messages that Tidegate reads in an `Any` of a plan, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import Message

from ....proto.tidegate.v1 import relations_pb2

MESSAGES: Final[Mapping[str, type[Message]]] = {
    message.DESCRIPTOR.full_name: message
    for message in (
        relations_pb2.Unnest,
        relations_pb2.PackLists,
        relations_pb2.DeclaredOrder,
        relations_pb2.IndexLookupJoin,
        relations_pb2.IterationRelation,
        relations_pb2.IterationReferenceReadRelation,
        relations_pb2.UserOperator,
        relations_pb2.WindowAggregate,
        relations_pb2.LateRows,
        relations_pb2.IntervalJoin,
        relations_pb2.AsOfJoin,
        relations_pb2.Watermark,
    )
}

_OF_ANY_PACKAGE: Final[Mapping[str, type[Message]]] = {
    message.DESCRIPTOR.name: message
    for message in (relations_pb2.IterationRelation, relations_pb2.IterationReferenceReadRelation)
}
"""The messages that other producers write too, each producer in its own package."""


def message_named(type_url: str) -> type[Any] | None:
    """The message class of a type URL, of whatever prefix; None if the message is not known here."""
    name = type_url.rpartition("/")[2]
    return MESSAGES.get(name) or _OF_ANY_PACKAGE.get(name.rpartition(".")[2])


def is_ours(type_url: str) -> bool:
    """Tests whether a URL names one of our messages in full: another producer's message may have fields that ours
    lacks.
    """
    return type_url.rpartition("/")[2] in MESSAGES
