"""The Levenshtein distance of texts, in characters. DuckDB's own counts bytes, and nothing can stop it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

EDIT_DISTANCE: Final = "edit_distance"
"""The function in SQL: `edit_distance(text, text)` gives a number."""

EDIT_DISTANCE_STEPS: Final = 100_000_000
"""The most pairs of characters for one pair of texts: some tenths of a second."""


def edit_distance(lefts: Sequence[str | None], rights: Sequence[str | None], check: Callable[[], None]) -> pa.Array:
    """The least number of characters to insert, delete and replace, for each row. `check` is called before each row, to
    end what has been interrupted. Raises `ValueError` for texts that are too long.
    """
    return pa.array([_distance(*pair, check) for pair in zip(lefts, rights, strict=True)], pa.int64())


def _distance(left: str | None, right: str | None, check: Callable[[], None]) -> int | None:
    check()
    if left is None or right is None:
        return None
    if len(left) * len(right) > EDIT_DISTANCE_STEPS:
        raise ValueError(
            f"texts of {len(left):,} and {len(right):,} characters are too long for levenshtein: the product of their "
            f"lengths may be {EDIT_DISTANCE_STEPS:,} at most"
        )
    few, many = sorted((left, right), key=len)
    return _distance_of(_characters(few), _characters(many))


def _distance_of(few: npt.NDArray[np.uint32], many: npt.NDArray[np.uint32]) -> int:
    """The last cell of the table of distances. A row of it is computed at once: an insertion costs one, so that the
    least over all insertions is a running least of the distances, with the cost of these insertions taken off.
    """
    insertions = np.arange(len(many) + 1)
    above = insertions
    for row, character in enumerate(few.tolist(), start=1):
        here = np.empty_like(above)
        here[0] = row
        np.minimum(above[1:] + 1, above[:-1] + (many != character), out=here[1:])
        above = np.minimum.accumulate(here - insertions) + insertions
    return int(above[-1])


def _characters(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)
