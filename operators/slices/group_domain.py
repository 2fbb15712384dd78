"""The places of groups in arrays: one for each possible combination of keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from ..arrays.layout import Words
from .columns_of_numbers import ascending_numbers, column_of_numbers, repeated
from .wide_sums import WORD

Bounds: TypeAlias = tuple[int, int]
"""The least and the greatest value."""

_FIRST_PLACES: Final = 1 << 16
"""Arrays begin with so many places, and double: unused places would have to be cleared as well."""
_AHEAD: Final = 8
"""Arrays of more keys have room for so many times the slices of the first rows: the system clears the pages of such
large arrays when they are first used, and to move to a larger array costs a copy.
"""
_SLACK: Final = 64
"""There are places for keys beyond the first ones, of one part in so many of their range on each side."""


class Axis(NamedTuple):
    """The codes of a key, of which there are `size`: 0 is null, 1 is `least`, 2 is `least` + 1, ..."""

    least: int
    size: int


class GroupDomain:
    """The possible combinations of keys: each key is at least `least`, and less than `least` + its size - 1."""

    def __init__(self, least: Sequence[int], sizes: Sequence[int]) -> None:
        self._least = least
        self._sizes = sizes
        self.size = _product(sizes)

    @classmethod
    def over(cls, bounds: Sequence[tuple[int, int]], room: int) -> GroupDomain | None:
        """A domain that has all values within these bounds, and, if there is room, as many more of the first key."""
        least = [bound[0] for bound in bounds]
        sizes = [most - first + 2 for first, most in bounds]
        others = _product(sizes[1:])
        farthest = max(abs(number) for bound in bounds for number in bound)
        if sizes[0] * others > room or farthest > WORD:
            return None
        ahead = _AHEAD if others > _FIRST_PLACES else 2
        first = min(room // others, max(ahead * sizes[0], _FIRST_PLACES // others))
        return cls(least, [first, *sizes[1:]])

    @classmethod
    def first(cls, bounds: Sequence[Bounds], room: int) -> GroupDomain | None:
        """A domain for the first rows. Later ones often have keys somewhat beyond theirs, except for the first key."""
        ample = [(low - (high - low) // _SLACK, high + (high - low) // _SLACK) for low, high in bounds[1:]]
        return cls.over([bounds[0], *ample], room) or cls.over(bounds, room)

    def with_room(self, seen: Sequence[Bounds], room: int) -> GroupDomain | None:
        """A domain that has the values within these bounds. Where there is room, it also has all values of this domain,
        and more of those keys that go beyond it, so that they rarely do so again.
        """
        known = [(least, least + size - 2) for least, size in zip(self._least, self._sizes, strict=True)]
        both = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, seen, strict=True)]
        ample = [
            (low - (high - low if low < before[0] else 0), high + (high - low if high > before[1] else 0))
            for (low, high), before in zip(both[1:], known[1:], strict=True)
        ]
        choices = ([seen[0], *ample], [seen[0], *both[1:]], seen)
        return next((domain for bounds in choices if (domain := GroupDomain.over(bounds, room)) is not None), None)

    def moved(self, before: GroupDomain, totals: Words, used: int, empty: int) -> Words:
        """An array of this domain with the first `used` numbers of an earlier one, which has other keys only where it
        is empty.
        """
        sizes = [used // (before.size // before._sizes[0]), *before._sizes[1:]]
        moved = filled(self.size, empty)
        target, source = moved.reshape(self._sizes), totals[:used].reshape(sizes)
        axes = zip(self._least, self._sizes, before._least, sizes, strict=True)
        for parts in product(*(_common_codes(*axis) for axis in axes)):
            target[tuple(mine for mine, _ in parts)] = source[tuple(other for _, other in parts)]
        return moved

    def has(self, bounds: Sequence[tuple[int, int]]) -> bool:
        """Tests whether all values within these bounds are in the domain."""
        return all(
            first >= least and most - least < size - 1
            for (first, most), least, size in zip(bounds, self._least, self._sizes, strict=True)
        )

    @property
    def axes(self) -> list[Axis]:
        return list(map(Axis, self._least, self._sizes))

    def end(self, most: int) -> int:
        """The first position behind those of this number of the first key."""
        return (most - self._least[0] + 2) * (self.size // self._sizes[0])

    def keys(self, at: Words, types: Sequence[pa.DataType]) -> list[pa.Array]:
        """The keys of these places, of which there is at least one, and which ascend."""
        columns: list[pa.Array] = []
        stride, before = self.size, 0
        for least, size, type_ in zip(self._least[:-1], self._sizes[:-1], types[:-1], strict=True):
            stride //= size
            code = (int(at[0]) - before) // stride
            if (int(at[-1]) - before) // stride != code:
                return columns + self._several_keys(at - before, types, len(columns))
            before += code * stride
            columns.append(repeated(code + (least - 1) if code else None, len(at), type_))
        return [*columns, ascending_numbers(at, self._least[-1] - 1 - before, at[0] == before, types[-1])]

    def _several_keys(self, at: Words, types: Sequence[pa.DataType], first: int) -> list[pa.Array]:
        """The keys from number `first` on, of places among those of one combination of the keys before it."""
        columns = []
        for number in range(len(self._sizes) - 1, first - 1, -1):
            codes = at
            if number > first:
                at = codes // self._sizes[number]
                codes = codes - at * self._sizes[number]
            columns.append(column_of_numbers(codes + (self._least[number] - 1), codes == 0, types[number]))
        return columns[::-1]


def _product(sizes: Sequence[int]) -> int:
    return int(np.prod(np.array(sizes, dtype=object)))


def filled(size: int, number: int) -> Words:
    """An array of this number. Zeros take memory only where they are written to."""
    return np.full(size, number) if number else np.zeros(size, np.int64)


def _common_codes(least: int, size: int, other_least: int, other_size: int) -> list[tuple[slice, slice]]:
    """The codes of the keys that two domains have, in one and in the other: runs of neighbours. Code 0 is null."""
    if least == other_least:
        both = slice(min(size, other_size))
        return [(both, both)]
    ahead = other_least - least
    first, end = max(1, 1 + ahead), min(size, other_size + ahead)
    null, known = slice(1), slice(first, max(first, end))
    return [(null, null), (known, slice(known.start - ahead, known.stop - ahead))]
