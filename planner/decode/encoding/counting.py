"""Counts the parts of an encoded plan, before anything is made of it, and refuses a plan beyond a limit.

A count ends at the first limit that is passed, so it takes no longer for a larger plan. A count also ends at a broken
part: the decoder reports where that part is.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.descriptor import FieldDescriptor

from . import limits
from .json_text import Json, deepest, without_texts
from .message_classes import pool
from .message_nodes import Malformed
from .protobuf_nodes import FIXED, LENGTH_DELIMITED, VARINT, read_varint

_RELATION: Final = "substrait.Rel"
_EXPRESSION: Final = "substrait.Expression"
_LITERAL: Final = "substrait.Expression.Literal"
_LITERAL_TAG: Final = 1 << 3 | LENGTH_DELIMITED
"""Of the literal in an expression."""
_TEXTS: Final = b"|".join(re.escape(bytes([length])) + b".{%d}" % length for length in range(64))
_PLAIN_LITERAL: Final = re.compile(
    rb"\n.(?:(?:[\x08\x10\x18\x28\x38]|\x80\x01)[\x80-\xff]{0,9}[\x00-\x7f]|Q.{8}|b(?:%b))(\x90\x03[\x00\x01])?"
    % _TEXTS,
    re.DOTALL,
)
"""An expression that is a boolean, a number, a date or a short text, and may say whether it may be null."""
_ROW: Final = "substrait.Type.Struct"
_COMPARISONS: Final = ("substrait.Expression.SwitchExpression.IfValue", "substrait.Expression.MultiOrList.Record")
"""A branch of a switch and a row of a list of several columns: DuckDB gets a comparison for each, which takes as long
to plan as an expression, also where they have literals alone.
"""

_WINDOW: Final = 1 << 18
"""The characters of JSON that a regular expression looks at in one call."""
_NOT_LAST: Final = bytes(range(0x80, 0x100))
"""The bytes of a varint that are not its last byte."""


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """The fields of a message that hold messages, by number and by both names, and the fields that hold many
    numbers.
    """

    message: str
    numbers: set[int] = field(default_factory=set)
    by_number: dict[int, Shape] = field(default_factory=dict)
    by_name: dict[str, Shape] = field(default_factory=dict)


@functools.cache
def shapes_in_plans() -> Mapping[str, Shape]:
    """The shapes of a plan and of all messages in it, by name. Relations and expressions hold themselves further
    down.
    """
    shapes = {"substrait.Plan": Shape("substrait.Plan")}
    pending = [*shapes.values()]
    while pending:
        shape = pending.pop()
        for field_ in pool().descriptor(shape.message).fields:
            below = _below(shape.message, field_)
            if below is not None:
                if below not in shapes:
                    pending.append(shapes.setdefault(below, Shape(below)))
                shape.by_number[field_.number] = shapes[below]
                shape.by_name[field_.name] = shape.by_name[field_.json_name] = shapes[below]
            elif field_.is_packed:
                shape.numbers.add(field_.number)
    return shapes


def _below(message: str, field_: FieldDescriptor) -> str | None:
    """The message that a field holds, None if it holds no message."""
    hoisted = pool().hoisted.get((message, field_.number))
    return hoisted or (None if field_.message_type is None else str(field_.message_type.full_name))


class Counted:
    """The relations, expressions, literals and parts counted so far. Raises `PlanError` once there are too many."""

    def __init__(self, literals: int = 0) -> None:
        self.literals = literals
        self.nodes = self.relations = self.parts = 0

    def literal(self) -> None:
        self.literals += 1
        if self.literals > limits.LITERALS.most:
            raise limits.LITERALS.refuse()

    def node(self, message: str, depth: int) -> None:
        """Counts a relation, an expression or a comparison inside `depth` others."""
        self.nodes += 1
        if message == _RELATION:
            self.relations += 1
            if self.relations > limits.RELATIONS.most:
                raise limits.RELATIONS.refuse()
        if self.nodes > limits.NODES.most:
            raise limits.NODES.refuse()
        if depth >= limits.DEPTH.most:
            raise limits.DEPTH.refuse()

    def enter(self, message: str, depth: int, data: bytes, start: int, end: int) -> int:
        """Counts the message in a part of `data`, at a depth of nodes. Returns the depth of the message's contents."""
        if message == _LITERAL:
            self.literal()
        elif message == _RELATION or (message == _EXPRESSION and not _is_literal(data, start, end)):
            self.node(message, depth)
            return depth + 1
        elif message in _COMPARISONS:
            self.node(message, depth)
        return depth


# ------------------------------------------------------------------------------------------------------- binary plans


def count_wire(data: bytes, name: str = "substrait.Plan", counted: Counted | None = None) -> None:
    """Counts an encoded plan, or another message on top of what `counted` has counted. Raises `PlanError`."""
    try:
        _count_wire(data, shapes_in_plans()[name], counted or Counted())
    except Malformed:
        return


def _count_wire(data: bytes, shape: Shape, counted: Counted) -> None:
    """Counts the messages in the order of their bytes."""
    position, end, depth, columns, parts = 0, len(data), 0, 0, counted.parts
    most_parts = limits.PARTS.most
    around: list[tuple[int, Shape, int, int]] = []
    while parts <= most_parts:
        while position >= end:
            if not around:
                counted.parts = parts
                return
            end, shape, depth, columns = around.pop()
        tag = data[position]  # most tags, lengths and numbers are one byte: they are read without a call
        position += 1
        if tag >= 0x80:
            tag, position = read_varint(data, position - 1, end)
        parts += 1
        wire_type = tag & 7
        if wire_type == LENGTH_DELIMITED:
            if position >= end:
                raise Malformed("cut off")
            length = data[position]
            position += 1
            if length >= 0x80:
                length, position = read_varint(data, position - 1, end)
            if position + length > end:
                raise Malformed("longer than the message around it")
            below = shape.by_number.get(tag >> 3)
            if below is None:
                parts += tag >> 3 in shape.numbers and len(
                    data[position : position + length].translate(None, _NOT_LAST)
                )
                position += length
            elif below.message == _EXPRESSION and (fields := _plain_literal(data, position, position + length)):
                counted.literal()
                parts += fields
                position += length
            else:
                around.append((end, shape, depth, columns + 1))
                depth = counted.enter(below.message, depth, data, position, position + length)
                if columns >= limits.COLUMNS.most and shape.message == _ROW:
                    raise limits.COLUMNS.refuse()
                end, shape, columns = position + length, below, 0
        else:
            position = _skip(data, position, end, wire_type)
    raise limits.PARTS.refuse()


def _plain_literal(data: bytes, start: int, end: int) -> int:
    """The fields of an expression that is one plain literal; 0 of any other. Lists have thousands of plain literals."""
    literal = _PLAIN_LITERAL.fullmatch(data, start, end)
    return 2 + (literal.lastindex or 0) if literal is not None and data[start + 1] == end - start - 2 else 0


def _is_literal(data: bytes, start: int, end: int) -> bool:
    """Whether an expression is one literal, and nothing else: the last of several kinds is the one that counts."""
    if start == end or data[start] != _LITERAL_TAG:
        return False
    length, position = read_varint(data, start + 1, end)
    return position + length == end


def _skip(data: bytes, position: int, end: int, wire_type: int) -> int:
    """The end of a number in the encoding."""
    if wire_type == VARINT:
        return read_varint(data, position, end)[1]
    if wire_type in FIXED:
        return position + FIXED[wire_type]
    raise Malformed("no such wire type")


# --------------------------------------------------------------------------------------------------------------- JSON


def count_text(text: str) -> None:
    """Counts a plan in JSON text before it is parsed. Raises `PlanError`.

    Regular expressions count the keys that stand for one literal, relation or expression each. They do not count
    literals of types that JSON writes as objects inside of others: `count_json` counts those.
    """
    openings = text.count("{") + text.count("[")
    if openings + text.count(",") > min(limits.BRACKETS.most, limits.PARTS.most):
        _count_parts(text)
        for limit, keys in ((limits.LITERALS, _literals()), (limits.NODES, _nodes())):
            for pattern in keys:
                _count_keys(text, pattern, limit)


def _count_keys(text: str, pattern: re.Pattern[str], limit: limits.Limit) -> None:
    """Counts the keys window by window: other threads get no turn while a regular expression runs. A window ends at a
    comma, which no key has in it. Where there is none, a key across the end is left to `count_json`.
    """
    keys = start = 0
    while start < len(text):
        end = text.rfind(",", start, start + _WINDOW) + 1 or start + _WINDOW
        keys += len(pattern.findall(text, start, end))
        if keys > limit.most:
            raise limit.refuse()
        start = end


def _count_parts(text: str) -> None:
    parts, bare = 0, []
    for piece in without_texts(text):
        parts += sum(map(piece.count, "{[,"))
        if parts > limits.PARTS.most:
            raise limits.PARTS.refuse()
        bare.append(piece)
    levels = deepest("".join(bare))
    if levels > limits.BRACKETS.most:
        raise limits.BRACKETS.refuse(levels)


@functools.cache
def _literals() -> tuple[re.Pattern[str], ...]:
    """Patterns for keys of literals: of an expression that is a literal, and of kinds whose value is no JSON object."""
    plain = (field_ for field_ in pool().descriptor(_LITERAL).oneofs_by_name["literal_type"].fields)
    scalar = [
        field_ for field_ in plain if field_.message_type is None and (_LITERAL, field_.number) not in pool().hoisted
    ]
    names = {name for field_ in scalar for name in (field_.name, field_.json_name)}
    return _keys(["literal"], r"\{"), _keys(names, r"[^{\s]")


@functools.cache
def _nodes() -> tuple[re.Pattern[str], ...]:
    """Patterns for keys of relations, and of expressions that are no literals."""
    oneofs = ((_RELATION, "rel_type"), (_EXPRESSION, "rex_type"))
    node_fields = [
        field_ for message, oneof in oneofs for field_ in pool().descriptor(message).oneofs_by_name[oneof].fields
    ]
    names = {name for field_ in node_fields for name in (field_.name, field_.json_name)}
    return (_keys(names - {"literal"}, r"\{"),)


def _keys(names: Iterable[str], value: str) -> re.Pattern[str]:
    return re.compile(rf'"(?:{"|".join(sorted(names))})"\s*+:\s*+{value}')


def count_json(plan: Json, counted: Counted | None = None) -> None:
    """Counts a plan in parsed JSON. Raises `PlanError`."""
    counted = counted or Counted()
    pending: list[tuple[Json, Shape, int]] = [(plan, shapes_in_plans()["substrait.Plan"], 0)]
    while pending:
        value, shape, depth = pending.pop()
        if isinstance(value, list):
            pending += [(element, shape, depth) for element in value]
            continue
        if not isinstance(value, dict):
            continue
        if shape.message == _LITERAL:
            counted.literal()
        elif shape.message in (_RELATION, _EXPRESSION) and value.keys() != {"literal"}:
            counted.node(shape.message, depth)
            depth += 1
        elif shape.message in _COMPARISONS:
            counted.node(shape.message, depth)
        for key, member in value.items():
            below = shape.by_name.get(key)
            if below is None:
                continue
            if shape.message == _ROW and isinstance(member, list) and len(member) > limits.COLUMNS.most:
                raise limits.COLUMNS.refuse(len(member))
            pending.append((member, below, depth))
