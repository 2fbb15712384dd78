"""The meanings of the types of a merge join, for one procedure that runs all types.

One side is *probed*: its rows stream through. Of the other side, the rows of one key at a time are *held*. The left
side is probed, except for types that keep only rows of the right side.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class MergeJoinType(enum.Enum):
    """The type of a merge join. `single` types give each row of one side with its only match, or with nulls; a second
    match is an error.
    """

    INNER = "inner"
    OUTER = "outer"
    LEFT = "left"
    RIGHT = "right"
    LEFT_SEMI = "left_semi"
    RIGHT_SEMI = "right_semi"
    LEFT_ANTI = "left_anti"
    RIGHT_ANTI = "right_anti"
    LEFT_SINGLE = "left_single"
    RIGHT_SINGLE = "right_single"


class Comparison(enum.Enum):
    """The comparison of keys: a null equals nothing, or another null."""

    EQUAL = "equal"
    NOT_DISTINCT = "is_not_distinct_from"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """The rows that a type gives. `pairs`: rows of both sides that match, side by side. `matched`: rows of the probed
    side that match, once each. `probe_alone` and `held_alone`: a side's rows without a match, beside nulls where there
    are pairs.
    """

    pairs: bool
    matched: bool = False
    probe_alone: bool = False
    held_alone: bool = False
    single: bool = False
    probe_right: bool = False

    @property
    def asks_whether(self) -> bool:
        """True where the join needs no values of held rows, but only their existence."""
        return not self.pairs and not self.held_alone


MEANINGS: Final = {
    MergeJoinType.INNER: Meaning(pairs=True),
    MergeJoinType.OUTER: Meaning(pairs=True, probe_alone=True, held_alone=True),
    MergeJoinType.LEFT: Meaning(pairs=True, probe_alone=True),
    MergeJoinType.RIGHT: Meaning(pairs=True, held_alone=True),
    MergeJoinType.LEFT_SEMI: Meaning(pairs=False, matched=True),
    MergeJoinType.RIGHT_SEMI: Meaning(pairs=False, matched=True, probe_right=True),
    MergeJoinType.LEFT_ANTI: Meaning(pairs=False, probe_alone=True),
    MergeJoinType.RIGHT_ANTI: Meaning(pairs=False, probe_alone=True, probe_right=True),
    MergeJoinType.LEFT_SINGLE: Meaning(pairs=True, probe_alone=True, single=True),
    MergeJoinType.RIGHT_SINGLE: Meaning(pairs=True, probe_alone=True, single=True, probe_right=True),
}
