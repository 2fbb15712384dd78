"""A join as its definition says it, row by row, to compare with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any, TypeAlias

from tidegate.operators.merge_join import JoinKey
from tidegate.operators.merging.kinds import Comparison, MergeJoinType

Row: TypeAlias = tuple[Any, ...]
Condition: TypeAlias = Callable[[Row, Row], bool | None]

LEFT_ALONE = {MergeJoinType.OUTER, MergeJoinType.LEFT, MergeJoinType.LEFT_SINGLE}
RIGHT_ALONE = {MergeJoinType.OUTER, MergeJoinType.RIGHT, MergeJoinType.RIGHT_SINGLE}


class TwoMatches(Exception):
    """A single join met a second match."""


def compare(one: Any, two: Any, key: JoinKey) -> int:
    """Which of two key values comes first: -1, 0 or 1."""
    if one is None or two is None:
        placed = (one is None) - (two is None)
        return -placed if key.nulls_first else placed
    one_nan, two_nan = (isinstance(value, float) and math.isnan(value) for value in (one, two))
    order = one_nan - two_nan if one_nan or two_nan else (one > two) - (one < two)
    return -order if key.descending else order


def sorted_rows(rows: Sequence[Row], keys: Sequence[JoinKey], side: str) -> list[Row]:
    sides = [getattr(key, side) for key in keys]

    def by_keys(one: Row, two: Row) -> int:
        orders = (compare(one[i], two[i], key) for i, key in zip(sides, keys, strict=True))
        return next((order for order in orders if order), 0)

    return sorted(rows, key=cmp_to_key(by_keys))


def equal(left: Row, right: Row, keys: Sequence[JoinKey]) -> bool:
    for key in keys:
        one, two = left[key.left], right[key.right]
        if key.comparison is Comparison.EQUAL and (one is None or two is None):
            return False
        if compare(one, two, key):
            return False
    return True


def naive_join(
    left: Sequence[Row],
    right: Sequence[Row],
    keys: Sequence[JoinKey],
    type_: MergeJoinType,
    widths: tuple[int, int],
    condition: Condition = lambda left, right: True,
) -> list[Row]:
    """The rows of sorted inputs, in the order that the merge join promises."""
    matches = [
        [j for j, other in enumerate(right) if equal(row, other, keys) and condition(row, other)] for row in left
    ]
    back = [[i for i, js in enumerate(matches) if j in js] for j in range(len(right))]
    match type_:
        case MergeJoinType.LEFT_SEMI:
            return [row for row, js in zip(left, matches, strict=True) if js]
        case MergeJoinType.LEFT_ANTI:
            return [row for row, js in zip(left, matches, strict=True) if not js]
        case MergeJoinType.RIGHT_SEMI:
            return [row for row, partners in zip(right, back, strict=True) if partners]
        case MergeJoinType.RIGHT_ANTI:
            return [row for row, partners in zip(right, back, strict=True) if not partners]
        case MergeJoinType.RIGHT_SINGLE:
            if any(len(partners) > 1 for partners in back):
                raise TwoMatches
            return [
                (*(left[partners[0]] if partners else [None] * widths[0]), *right[j]) for j, partners in enumerate(back)
            ]
        case MergeJoinType.LEFT_SINGLE if any(len(js) > 1 for js in matches):
            raise TwoMatches
    return _pairs(left, right, keys, type_, widths, matches)


def _pairs(
    left: Sequence[Row],
    right: Sequence[Row],
    keys: Sequence[JoinKey],
    type_: MergeJoinType,
    widths: tuple[int, int],
    matches: Sequence[Sequence[int]],
) -> list[Row]:
    pairs: list[Row] = []
    lost = [j for j in range(len(right)) if not any(j in js for js in matches)] if type_ in RIGHT_ALONE else []
    for row, js in zip(left, matches, strict=True):
        while lost and _key_order(row, right[lost[0]], keys) > 0:
            pairs.append((*[None] * widths[0], *right[lost.pop(0)]))
        pairs += [(*row, *right[j]) for j in js]
        if not js and type_ in LEFT_ALONE:
            pairs.append((*row, *[None] * widths[1]))
    return [*pairs, *((*[None] * widths[0], *right[j]) for j in lost)]


def _key_order(left: Row, right: Row, keys: Sequence[JoinKey]) -> int:
    orders = (compare(left[key.left], right[key.right], key) for key in keys)
    return next((order for order in orders if order), 0)
