"""The meaning of relations, row at a time in plain Python: an oracle that shares nothing with DuckDB.

Rows are tuples. Null is None. NaN equals itself and stands above all numbers where rows are grouped, compared as
wholes or ordered; in conditions `equal` is null for nulls and true for two NaNs, as DuckDB and Postgres have it.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from tidegate.planner.ir import Direction, JoinType, SetOperation

Row: TypeAlias = tuple[object, ...]
Matches: TypeAlias = Callable[[Row, Row], bool | None]


def key(value: object) -> object:
    """Something that is equal exactly for values that are the same, -0.0 and 0.0 included."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def same(rows: Iterable[Row]) -> Counter[Row]:
    """Rows as a multiset."""
    return Counter(tuple(key(value) for value in row) for row in rows)


def equal(one: object, other: object) -> bool | None:
    return None if one is None or other is None else key(one) == key(other)


def join(
    left: Sequence[Row], right: Sequence[Row], type_: JoinType, matches: Matches, widths: tuple[int, int]
) -> list[Row]:
    """Raises ValueError for a single join with two matches."""
    swapped = type_.value.startswith("right")
    kept, other = (right, left) if swapped else (left, right)
    test: Matches = (lambda mine, theirs: matches(theirs, mine)) if swapped else matches
    nulls = (None,) * widths[0 if swapped else 1]
    joined: list[Row] = []
    for row in kept:
        verdicts = [test(row, other_row) for other_row in other]
        partners = [partner for partner, verdict in zip(other, verdicts, strict=True) if verdict]
        joined.extend(_joined(row, partners, verdicts, type_, nulls, swapped))
    if type_ is JoinType.OUTER:
        unmatched = [right_row for right_row in right if not any(matches(row, right_row) for row in left)]
        joined.extend(((None,) * widths[0]) + unmatched_row for unmatched_row in unmatched)
    return joined


def _joined(
    row: Row, partners: Sequence[Row], verdicts: Sequence[bool | None], type_: JoinType, nulls: Row, swapped: bool
) -> list[Row]:
    pairs = [partner + row if swapped else row + partner for partner in partners]
    match type_:
        case JoinType.INNER:
            return pairs
        case JoinType.LEFT | JoinType.RIGHT | JoinType.OUTER:
            return pairs or [nulls + row if swapped else row + nulls]
        case JoinType.LEFT_SEMI | JoinType.RIGHT_SEMI:
            return [row] if pairs else []
        case JoinType.LEFT_ANTI | JoinType.RIGHT_ANTI:
            return [] if pairs else [row]
        case JoinType.LEFT_MARK | JoinType.RIGHT_MARK:
            return [(*row, True if pairs else None if None in verdicts else False)]
        case JoinType.LEFT_SINGLE | JoinType.RIGHT_SINGLE:
            if len(pairs) > 1:
                raise ValueError("more than one match")
            return pairs or [nulls + row if swapped else row + nulls]


def combine(operation: SetOperation, inputs: Sequence[Sequence[Row]]) -> Counter[Row]:
    first, *others = map(same, inputs)
    copies: Counter[Row] = Counter()
    for row in set().union(*(rows.keys() for rows in (first, *others))):
        counts = [other[row] for other in others]
        copies[row] = _copies(operation, first[row], counts)
    return +copies


def _copies(operation: SetOperation, m: int, n: Sequence[int]) -> int:
    match operation:
        case SetOperation.MINUS_PRIMARY:
            return int(m > 0 and not any(n))
        case SetOperation.MINUS_PRIMARY_ALL:
            return max(0, m - sum(n))
        case SetOperation.MINUS_MULTISET:
            return 0 if all(n) else m
        case SetOperation.INTERSECTION_PRIMARY:
            return int(m > 0 and any(n))
        case SetOperation.INTERSECTION_MULTISET:
            return int(m > 0 and all(n))
        case SetOperation.INTERSECTION_MULTISET_ALL:
            return min(m, *n)
        case SetOperation.UNION_DISTINCT:
            return 1
        case SetOperation.UNION_ALL:
            return m + sum(n)


def compare(one: object, other: object, direction: Direction) -> int:
    """Below, with or above, for a sort in this direction."""
    nulls_first = direction in (Direction.ASC_NULLS_FIRST, Direction.DESC_NULLS_FIRST)
    if one is None or other is None:
        order = (one is None) - (other is None)
        return -order if nulls_first else order
    order = _above(one, other) - _above(other, one)
    return -order if direction in (Direction.DESC_NULLS_FIRST, Direction.DESC_NULLS_LAST) else order


def _above(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isnan(one) and not math.isnan(other) if math.isnan(one) or math.isnan(other) else one > other
    return one > other  # type: ignore[operator]


def ordered(rows: Sequence[Row], keys: Sequence[tuple[int, Direction]]) -> list[Row]:
    """Sorted; ties in the order of their places."""

    def order(one: Row, other: Row) -> int:
        return next((ordering for at, how in keys if (ordering := compare(one[at], other[at], how))), 0)

    return sorted(rows, key=functools.cmp_to_key(order))


def groups(rows: Iterable[Row], keys: Sequence[int]) -> dict[Row, list[Row]]:
    by_key: dict[Row, list[Row]] = {} if keys else {(): []}
    for row in rows:
        by_key.setdefault(tuple(key(row[at]) for at in keys), []).append(row)
    return by_key
