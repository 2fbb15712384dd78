"""Decodes relations: one converter for each kind in `Rel.rel_type`, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..decoder import RelationConverter
from .aggregate import convert_aggregate
from .exchange import convert_exchange
from .expand import convert_expand
from .extension import convert_extension_leaf, convert_extension_multi, convert_extension_single
from .fetch import convert_fetch
from .filter import convert_filter
from .joins.cross import convert_cross
from .joins.join import convert_join
from .joins.lateral_join import convert_lateral_join
from .joins.nested_loop_join import convert_nested_loop_join
from .joins.physical_join import convert_hash_join, convert_merge_join
from .project import convert_project
from .reads.read import convert_read
from .reference import convert_reference
from .set import convert_set
from .sort import convert_sort
from .top_n import convert_top_n
from .window import convert_window
from .write import convert_write

CONVERTERS: Final[Mapping[str, RelationConverter]] = {
    "read": convert_read,
    "filter": convert_filter,
    "fetch": convert_fetch,
    "aggregate": convert_aggregate,
    "sort": convert_sort,
    "join": convert_join,
    "lateral_join": convert_lateral_join,
    "project": convert_project,
    "set": convert_set,
    "cross": convert_cross,
    "reference": convert_reference,
    "hash_join": convert_hash_join,
    "merge_join": convert_merge_join,
    "nested_loop_join": convert_nested_loop_join,
    "window": convert_window,
    "exchange": convert_exchange,
    "expand": convert_expand,
    "top_n": convert_top_n,
    "write": convert_write,
    "extension_single": convert_extension_single,
    "extension_multi": convert_extension_multi,
    "extension_leaf": convert_extension_leaf,
}

REFUSED: Final[Mapping[str, str]] = {
    "ddl": "tables cannot be declared or dropped; a write with WRITE_OP_CTAS makes a table",
    "update": "rows of tables cannot be changed; write a table of the changed rows",
}
