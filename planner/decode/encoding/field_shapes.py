"""Rules for the fields of each message, for readers of binary and JSON plans."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from .message_classes import ANY, RECURSIVE, pool
from .restored import RETYPED

AGGREGATE: Final = "substrait.AggregateRel"
"""The message that our messages have as plain bytes."""


@dataclass(frozen=True, slots=True)
class Hoist:
    """Holds a recursive message. The message goes to the table; the field keeps the message's number there."""

    message: str


@dataclass(frozen=True, slots=True)
class Descend:
    """Holds a message that has fields with rules."""

    shape: Shape


@dataclass(frozen=True, slots=True)
class Retype:
    """Holds a message today and held a number once; the number moves to another field."""

    number: int
    json_name: str


@dataclass(frozen=True, slots=True)
class AnyField:
    """Holds an `Any`, which JSON spells in its own way."""


Rule: TypeAlias = Hoist | Descend | Retype | AnyField


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """The rules of one message's fields. A field without a rule is taken as it is.

    `by_number` is for binary plans, in which an `Any` needs no rule; `by_name` is for JSON, with both spellings of a
    name.
    """

    by_number: dict[int, Rule] = field(default_factory=dict)
    by_name: dict[str, Rule] = field(default_factory=dict)


@functools.cache
def shapes() -> Mapping[str, Shape]:
    """The shapes of the messages that a table may start from, and of every recursive message."""
    return {name: _shape(name) for name in ("substrait.Plan", AGGREGATE, *sorted(RECURSIVE))}


@functools.cache
def _shape(name: str) -> Shape:
    # recurses as deep as the schema nests once its recursion is cut: eight levels
    shape = Shape()
    descriptor: Descriptor = pool().descriptor(name)
    for field_ in descriptor.fields:
        rule = _rule(name, field_)
        if rule is not None:
            shape.by_name[field_.name] = shape.by_name[field_.json_name] = rule
            if not _only_json(rule):
                shape.by_number[field_.number] = rule
    return shape


def _rule(message: str, field_: FieldDescriptor) -> Rule | None:
    target = pool().hoisted.get((message, field_.number))
    if target is not None:
        return Hoist(target)
    if (message, field_.number) in RETYPED:
        return Retype(*RETYPED[message, field_.number])
    if field_.message_type is None:
        return None
    if field_.message_type.full_name == ANY:
        return AnyField()
    below = _shape(field_.message_type.full_name)
    return Descend(below) if below.by_name else None


def _only_json(rule: Rule) -> bool:
    return isinstance(rule, AnyField) or (isinstance(rule, Descend) and not rule.shape.by_number)
