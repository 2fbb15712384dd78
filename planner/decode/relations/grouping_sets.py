"""Grouping sets as producers write them: their keys, and the column that tells the sets apart."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from ... import ir
from ...ir import types as t
from ...ir.building import columns, project
from ..declarations.habits import SetIndex
from ..decoder import Decoder
from ..encoding.message_nodes import Malformed, Message

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


def note_columns(decoder: Decoder, projection: Message) -> None:
    """Notes the columns that a projection counts on, for the aggregate below it. DataFusion's projections emit their
    expressions alone, and so tell where these begin. It writes `GROUPING SETS ((x))` as `GROUP BY x`, but has a column
    for the set.
    """
    emitted, count = [*projection.common.emit.output_mapping], len(projection.expressions)
    if not emitted or emitted != [*range(emitted[0], emitted[0] + count)]:
        return
    with suppress(Malformed):
        number = projection.input
        while number:
            below = decoder.nodes.peek(number)
            match below.WhichOneof("rel_type"):
                case "filter":
                    number = below.filter.input
                case "aggregate":
                    passed = frozenset(_passed(decoder, projection))
                    decoder.columns_above[below.aggregate.input] = emitted[0], passed
                    return
                case _:
                    return


def _passed(decoder: Decoder, projection: Message) -> Iterator[int]:
    """The columns that a projection passes on as they are."""
    for number in projection.expressions:
        expression = decoder.nodes.peek(number)
        if expression.WhichOneof("rex_type") != "selection":
            continue
        reference = expression.selection
        if reference.WhichOneof("reference_type") == "direct_reference" and reference.direct_reference:
            segment = decoder.nodes.peek(reference.direct_reference)
            if segment.WhichOneof("reference_type") == "struct_field":
                yield segment.struct_field.field


def one_set(decoder: Decoder, message: Message, aggregate: ir.Aggregate) -> ir.Relation:
    """The aggregate of one grouping set, with DataFusion's column for it if the projection above counts on a column
    more. A projection that passes this column on lacks a measure.
    """
    width, passed = decoder.columns_above.get(message.input, (0, frozenset()))
    has_column = width == len(aggregate.schema) + 1 and len(aggregate.keys) not in passed
    return _with_only_mask(aggregate) if has_column else aggregate


def _with_only_mask(aggregate: ir.Aggregate) -> ir.Relation:
    """The aggregate with a column in which no key's bit is set."""
    own, width = columns(aggregate.schema), len(aggregate.keys)
    type_ = t.Integer(bits=_width(width), signed=False, nullable=False)
    return project(aggregate, [*own[:width], ir.Literal(value=0, type=type_), *own[width:]])


def _width(bits: int) -> int:
    return next((width for width in _WIDTHS if width >= bits), _WIDTHS[-1])


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
    type_ = t.Integer(bits=_width(width + copied.bit_length()), signed=False, nullable=False)
    numbered = [
        (ir.Literal(value=at, type=number.type), ir.Literal(value=mask, type=type_)) for at, mask in enumerate(masks)
    ]
    return ir.Switch(match=number, clauses=tuple(numbered[:-1]), otherwise=numbered[-1][1], type=type_)
