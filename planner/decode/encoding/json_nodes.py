"""Reads the JSON form of a plan into a table of messages."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

from google.protobuf import json_format

from ..declarations.details import is_ours, message_named
from .field_shapes import AnyField, Descend, Hoist, Retype, Rule, Shape, shapes
from .json_text import Json, JsonError, parse_json
from .message_classes import pool
from .message_nodes import Malformed, Message, Nodes
from .plain_json import fill_plain
from .protobuf_nodes import WireMessage

_END: Final = ("end",)
_LITERAL: Final = "substrait.Expression.Literal"
_LONGEST: Final = 500
"""The most characters of one of protobuf's error sentences, which may quote a whole value."""


class JsonNodes(Nodes):
    """The table of a plan in JSON. Until a message is taken, the table holds its type and its part of the JSON."""

    def __init__(self, value: Json) -> None:
        super().__init__()
        self._table: list[tuple[str, Json] | WireMessage] = [("substrait.Plan", value)]

    def content(self, number: int) -> tuple[object, ...]:
        """Every key and value in the order written, with the ends of objects and lists between them."""
        part = self._table[number]
        if isinstance(part, WireMessage):
            return (part.content,)
        flat: list[object] = []
        pending: list[object] = [part[1]]
        while pending:
            value = pending.pop()
            if isinstance(value, dict):
                flat.append("{")
                pending.append(_END)
                for key, member in value.items():
                    pending += (member, (key,))
            elif isinstance(value, list):
                flat.append("[")
                pending.append(_END)
                pending += value
            else:
                flat.append(value)
        return tuple(flat)

    def graft(self, name: str, data: bytes) -> int:
        return self._put(WireMessage(name, data, 0, len(data)))

    def _put(self, part: tuple[str, Json] | WireMessage) -> int:
        self._table.append(part)
        return len(self._table) - 1

    def _read(self, number: int) -> Message:
        part = self._table[number]
        if isinstance(part, WireMessage):
            return part.read(self._put)
        name, value = part
        message = pool().message_class(name)()
        if not isinstance(value, dict):
            raise Malformed(f"expected an object for {name}, found {_kind(value)}")
        try:
            rewritten = self._rewrite(value, shapes()[name])
            if not fill_plain(message, rewritten):
                message.Clear()
                json_format.ParseDict(rewritten, message)
        except (json_format.ParseError, ValueError, TypeError, ArithmeticError) as error:
            sentence = str(error).partition("\n")[0]  # all known names follow, a page of them
            raise Malformed(f"not a valid {name}: {sentence[:_LONGEST]}") from error
        except RecursionError:  # protobuf's reader and its messages recurse into a value that belongs nowhere
            raise Malformed(f"not a valid {name}: objects and lists are nested where they do not belong") from None
        return message

    def _read_literals(self, numbers: Sequence[int]) -> Sequence[Message] | None:
        """The literals, if each expression is a literal that holds no message of the table and needs no conversion."""
        make, rules = pool().message_class(_LITERAL), shapes()[_LITERAL].by_name
        literals: list[Message] = []
        for number in numbers:
            part = self._table[number]
            value = None if isinstance(part, WireMessage) else part[1]
            inside = value.get("literal") if isinstance(value, dict) and len(value) == 1 else None
            if not isinstance(inside, dict) or not rules.keys().isdisjoint(inside):
                return None
            literal = make()
            if not fill_plain(literal, inside) or literal.WhichOneof("literal_type") is None:
                return None
            literals.append(literal)
        return literals

    def _rewrite(self, value: dict[str, Json], shape: Shape) -> dict[str, Json]:
        """The object with every recursive message replaced by its number in the table."""
        out: dict[str, Json] = {}
        for key, member in value.items():
            rule = shape.by_name.get(key)
            if rule is None or member is None:
                out[key] = member
            elif isinstance(rule, Retype) and not isinstance(member, dict):
                out[rule.json_name] = member
            elif isinstance(member, list):
                out[key] = [self._apply(rule, item) for item in member]
            else:
                out[key] = self._apply(rule, member)
        return out

    def _apply(self, rule: Rule, value: Json) -> Json:
        match rule:
            case Hoist(name):
                if not isinstance(value, dict):
                    raise TypeError(f"expected an object for {name}, found {_kind(value)}")
                return self._put((name, value))
            case Descend(below):
                # ParseDict reports a value that is no object
                return self._rewrite(value, below) if isinstance(value, dict) else value
            case AnyField():
                return _plain_any(value)
            case Retype():
                return value


def read_json(text: str) -> Json:
    """The JSON of a plan. Raises `Malformed`."""
    try:
        return parse_json(text)
    except JsonError as error:
        raise Malformed(f"not JSON: {error}") from error


def _kind(value: Json) -> str:
    """A value in a few words, whatever its depth."""
    match value:
        case dict() | list():
            return "an object" if isinstance(value, dict) else "a list"
        case _:
            return repr(value)[:40]


def _plain_any(value: Json) -> Json:
    """An `Any` as a plain message. The contents stay unread unless Tidegate knows their type."""
    if not isinstance(value, dict) or "@type" not in value:
        return value
    url = value["@type"]
    known = message_named(str(url))
    if known is None:
        return {"typeUrl": url}
    fields = {key: member for key, member in value.items() if key != "@type"}
    inside = json_format.ParseDict(fields, known(), ignore_unknown_fields=not is_ours(str(url)))
    return {"typeUrl": url, "value": base64.b64encode(inside.SerializeToString()).decode()}
