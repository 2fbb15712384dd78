"""The levels of types: Arrow's format carries 63 of them, and says "Max recursion depth reached" beyond that."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from ..errors import InvalidRequest
from .last_schema import of_last_schema

MOST_LEVELS: Final = 63


@of_last_schema
def check_levels(schema: pa.Schema) -> None:
    """Raise `InvalidRequest` for a column whose type has more levels than can be sent."""
    for at, type_ in enumerate(schema.types):
        if not pa.types.is_primitive(type_) and _too_deep(type_):
            raise InvalidRequest(
                f"the type of column {schema.names[at]!r:.80} nests deeper than {MOST_LEVELS} levels, of which a map "
                "counts as two: put fewer lists, structs and maps into one another",
                reason="TOO_DEEP",
            )


def _too_deep(type_: pa.DataType) -> bool:
    """Goes level by level, because a type may have more levels than Python can recurse."""
    level = [type_]
    for _ in range(MOST_LEVELS + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(type_: pa.DataType) -> list[pa.DataType]:
    if isinstance(type_, pa.BaseExtensionType):
        return _inside(type_.storage_type)
    if pa.types.is_dictionary(type_):
        return _inside(type_.value_type)
    return [type_.field(at).type for at in range(type_.num_fields)]
