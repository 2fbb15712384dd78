"""Columns of more bytes than the offsets of Arrow's plain types count: 2 GiB of texts, or so many items of lists.

Their rows have large types while a loader shuffles them. A batch has the plain type again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from ...proto.arrow.nested_types import with_types
from .shuffle import Positions

MOST_BYTES: Final = 2**31 - 1
"""The most bytes of a column that surely has a plain type."""


def as_one(parts: Sequence[pa.Array]) -> pa.Array:
    """The rows of all parts: of a large type if they are too many bytes for the plain one, or if a part has it."""
    if sum(part.nbytes for part in parts) > MOST_BYTES or any(part.type != parts[0].type for part in parts):
        parts = [part.cast(_large(part.type)) for part in parts]
    return pa.concat_arrays(parts)


def taken_of(values: pa.Array, positions: Positions) -> pa.Array:
    """The rows at these positions, which may repeat. They have a large type if they may be too many bytes for the plain
    one.
    """
    if _most_bytes(values.nbytes, positions) > MOST_BYTES:  # Arrow does not see all offsets that are too large
        values = values.cast(_large(values.type))
    return values.take(pa.array(positions))


def plain(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """The rows in their plain type, unless they are too many bytes for it."""
    if values.type == type_ or values.nbytes > MOST_BYTES:
        return values
    return values.take(pa.array(np.arange(len(values)))).cast(type_)  # a part may begin behind 2 GiB of others


def _most_bytes(size: int, positions: Positions) -> int:
    """A bound of the bytes of these rows of a column of so many bytes."""
    if size * len(positions) <= MOST_BYTES:
        return size
    return size * int(np.bincount(positions).max())


def _large(type_: pa.DataType) -> pa.DataType:
    """The type with offsets of 64 bits, and so those inside of it. Maps have none of their own."""
    if kinds.is_string(type_):
        return pa.large_string()
    if kinds.is_binary(type_):
        return pa.large_binary()
    if kinds.is_list(type_):
        return pa.large_list(type_.value_field.with_type(_large(type_.value_type)))
    return with_types(type_, _large)
