"""Decodes `tidegate.v1.IndexLookupJoin`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .....operators.indexes import IndexKind, WantedIndex, kind_named
from .....operators.indexes.kind import check_options
from .....proto.errors import InvalidRequest
from .... import ir
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...scope import Scope
from .inputs_and_keys import keys_of, sides_of
from .join_schema import join_schema

_TYPES: Final = {1: ir.JoinType.INNER, 2: ir.JoinType.LEFT}
_MOST: Final = 1_024
"""The most look-ups that may be on their way, and the most attempts at one look-up."""


def convert_index_lookup_join(
    decoder: Decoder, join: Any, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    sides = yield from sides_of(decoder, message, plan_path, outer)
    detail = plan_path / "detail"
    type_ = _TYPES.get(join.type)
    if type_ is None:
        decoder.problems.add(detail / "type", "MISSING", "the join type is missing or unknown: give inner or left")
    if max(join.prefetch, join.retries) > _MOST:
        decoder.problems.add(detail, "OUT_OF_RANGE", f"prefetch and retries must be at most {_MOST}")
    if type_ is None or sides is None:
        return poison.RELATION
    left, right = sides
    keys = keys_of(decoder, join.keys, left.schema, right.schema, detail / "keys")
    if keys == ():
        decoder.problems.add(detail / "keys", "MISSING", "an index look-up join must have at least one key")
        return poison.RELATION
    indexed = _indexed(decoder, join, right, detail)
    if keys is None or indexed is None:
        return poison.RELATION
    table, options = indexed
    return ir.IndexLookup(
        left=left,
        right=table,
        keys=keys,
        type=type_,
        index=ir.IndexUse(
            kind=join.index or ir.KEPT_KIND, options=options, prefetch=join.prefetch, retries=join.retries
        ),
        schema=join_schema(left.schema, right.schema, type_),
        plan_path=str(plan_path),
    )


def _indexed(
    decoder: Decoder, join: Any, right: ir.Relation, plan_path: PlanPath
) -> tuple[ir.Relation, Mapping[str, str]] | None:
    """The table of the index, and the options of its kind; None, once reported, if there can be no such index."""
    options = dict(join.options)
    try:
        kind = kind_named(join.index or ir.KEPT_KIND)
        if kind.name == ir.KEPT_KIND:
            if options:
                raise InvalidRequest(f"an index of the kind {ir.KEPT_KIND!r} has no options: leave the options out")
            return right, {}
        table = _table(kind, right, options)
        check_options(kind, WantedIndex(name=right.plan_path, keys=(), columns=(), options=options))
    except InvalidRequest as error:
        decoder.problems.add(plan_path, "BAD_INDEX", error.message)
        return None
    return table, options


def _table(kind: IndexKind, right: ir.Relation, options: dict[str, str]) -> ir.Relation:
    """The right side of the look-up, by the kind of index: the source that the index reads, or a table that it knows.

    The name of the source or table goes into the options.
    """
    if kind.reads_source and isinstance(right, ir.Read | ir.LocalFiles):
        options["table"] = right.source
        return right
    if not kind.reads_source and isinstance(right, ir.Read):
        options.setdefault("table", right.source)
        return ir.IndexTable(names=right.names, schema=right.schema, plan_path=right.plan_path)
    raise InvalidRequest(
        f"the second input of a look-up in an index of the kind {kind.name!r} must be a plain read of a "
        f"{'table or of local files' if kind.reads_source else 'named table'}"
    )
