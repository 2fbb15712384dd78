"""Grouping sets as producers write them: their keys, and the column that tells the sets apart."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, TypeAlias

from ... import ir
from ...ir import types as t
from ...ir.building import columns, project
from ..declarations.habits import SetIndex

Sets: TypeAlias = tuple[tuple[int, ...], ...]

_WIDTHS: Final = (8, 16, 32, 64)


def once(
    keys: Sequence[ir.Expression], sets: Sets, contents: Sequence[Hashable]
) -> tuple[tuple[ir.Expression, ...], Sets]:
    """The keys and grouping sets with one key for all expressions of the same content. DataFusion writes the key of
    each set, and counts the column once.
    """
    first: dict[Hashable, int] = {}
    for content in contents:
        first.setdefault(content, len(first))
    kept = {first[content]: key for content, key in zip(reversed(contents), reversed(keys), strict=True)}
    position = [first[content] for content in contents]
    merged = tuple(tuple(dict.fromkeys(position[key] for key in grouping_set)) for grouping_set in sets)
    return tuple(kept[at] for at in range(len(first))), merged


def arranged(aggregate: ir.Aggregate, index: SetIndex) -> ir.Relation:
    """The aggregate with its columns in the order in which the producer refers to them."""
    *own, number = columns(aggregate.schema)
    keys, measures = own[: len(aggregate.keys)], own[len(aggregate.keys) :]
    match index:
        case SetIndex.LAST:
            return aggregate
        case SetIndex.ABSENT:
            return project(aggregate, own)
        case SetIndex.MASK:
            return project(aggregate, [*keys, _mask(aggregate, number), *measures])


def _mask(aggregate: ir.Aggregate, number: ir.Field) -> ir.Expression:
    """A bit for each key, the first key's the highest: set where the grouping set lacks the key. The bits above tell
    how often the same set stands before this one.
    """
    width = len(aggregate.keys)
    seen: dict[frozenset[int], int] = {}
    masks = []
    for grouping_set in map(frozenset, aggregate.grouping_sets):
        copies = seen.get(grouping_set, 0)
        seen[grouping_set] = copies + 1
        lacking = sum(1 << (width - 1 - key) for key in range(width) if key not in grouping_set)
        masks.append(copies << width | lacking)
    copied = max(seen.values()) - 1
    bits = next((bits for bits in _WIDTHS if bits >= width + copied.bit_length()), _WIDTHS[-1])
    type_ = t.Integer(bits=bits, signed=False, nullable=False)
    numbered = [
        (ir.Literal(value=at, type=number.type), ir.Literal(value=mask, type=type_)) for at, mask in enumerate(masks)
    ]
    return ir.Switch(match=number, clauses=tuple(numbered[:-1]), otherwise=numbered[-1][1], type=type_)
