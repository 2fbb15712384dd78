"""Portions of keys: as many as are answered together, so that not all rows are in memory several times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ...core.room import need_room
from .change import Numbers
from .value_columns import Index

TOGETHER: Final = 8 << 20
"""About the most bytes of the rows of the keys that are answered together. One key may have more."""


def portions_with_room(sizes: Numbers, copies: int) -> Iterator[Index]:
    """`portions`, each if there is room for so many copies of its rows."""
    for numbers in portions(sizes):
        need_room(copies * int(sizes[numbers].sum()))
        yield numbers


def portions(sizes: Numbers) -> list[Index]:
    """The numbers of keys of these sizes, in order and in portions."""
    ends = np.cumsum(sizes) // TOGETHER
    return np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(ends)) + 1)
