"""A digest of a plan's meaning: equal for every encoding of the plan and for every numbering of its functions."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Generator, Mapping
from dataclasses import fields, is_dataclass
from typing import TypeAlias

from . import ir
from .ir.walk import unroll

_Walk: TypeAlias = Generator[object, str, str]


def meaning(plan: ir.Plan) -> str:
    """The digest of a decoded plan. Another version of Tidegate may give another digest."""
    known: dict[int, str] = {}

    def step(value: object) -> _Walk:
        if not is_dataclass(value):
            return (yield from _plain(value))
        if id(value) not in known:
            parts = [type(value).__name__]
            for field in fields(value):
                if field.name != "plan_path" and field.compare:
                    parts += (field.name, (yield getattr(value, field.name)))
            known[id(value)] = _digest(*parts)
        return known[id(value)]

    whole: object = (plan.root, plan.names, plan.shared, plan.write, *plan.side_tables)
    return unroll(step, whole)


def _plain(value: object) -> _Walk:
    match value:
        case tuple() | list():
            parts = ["list"]
            for element in value:
                parts.append((yield element))  # noqa: PERF401 (a comprehension cannot yield)
        case Mapping():
            parts = ["map"]
            for key in sorted(value):
                parts += (repr(key), (yield value[key]))
        case enum.Enum():
            parts = [type(value).__name__, value.name]
        case _:
            parts = [type(value).__name__, repr(value)]
    return _digest(*parts)


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()
