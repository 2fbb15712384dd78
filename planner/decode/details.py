"""The messages that Tidegate reads in an `Any` of a plan, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from google.protobuf.message import Message

from ...proto.tidegate.v1 import relations_pb2

MESSAGES: Final[Mapping[str, type[Message]]] = {
    message.DESCRIPTOR.full_name: message
    for message in (relations_pb2.Unnest, relations_pb2.DeclaredOrder, relations_pb2.IndexLookupJoin)
}
