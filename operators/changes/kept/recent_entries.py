"""Recent entries: few at a time, kept as they came, until a run is worth making of them."""

from __future__ import annotations

from typing import Final

from ...arrays.hashing import Hashes
from ..values.consolidate import Entries

RECENT_ROWS: Final = 2_048
AT_ONCE: Final = 16 << 20
"""The bytes of rows that are put in order at once."""


class RecentEntries:
    """Parts in the order in which they came, found by the hashes of their keys. They are full when they have
    `RECENT_ROWS` rows, or `AT_ONCE` bytes of long values.
    """

    def __init__(self) -> None:
        self.parts: list[Entries] = []
        self.rows = 0
        self._by_key: dict[int, list[tuple[int, int]]] = {}
        """The parts and their entries that have a key, by the key's hash."""
        self._long_bytes = 0
        self._measured = 0
        self._measured_bytes = 0

    def add(self, run: Entries) -> None:
        part, by_key = len(self.parts), self._by_key
        for at, key in enumerate(run.key_hashes.tolist()):
            if key in by_key:
                by_key[key].append((part, at))
            else:
                by_key[key] = [(part, at)]
        self.parts.append(run)
        self.rows += len(run)
        self._long_bytes += run.rows.quick_long_bytes

    @property
    def is_full(self) -> bool:
        return self.rows >= RECENT_ROWS or self._long_bytes >= AT_ONCE

    @property
    def nbytes(self) -> int:
        for part in self.parts[self._measured :]:
            self._measured_bytes += part.nbytes
        self._measured = len(self.parts)
        return self._measured_bytes

    def find(self, hashes: Hashes) -> dict[int, tuple[list[int], list[int]]]:
        """The parts that have some of these hashes: for each one the numbers of the hashes, and the entries."""
        wanted = hashes.tolist()
        by_part: dict[int, tuple[list[int], list[int]]] = {}
        if self._by_key.keys().isdisjoint(wanted):
            return by_part
        for number, key in enumerate(wanted):
            for part, at in self._by_key.get(key, ()):
                asked, positions = by_part.setdefault(part, ([], []))
                asked.append(number)
                positions.append(at)
        return by_part

    def taken(self) -> list[Entries]:
        """All parts, which are here no more."""
        parts = self.parts
        self.clear()
        return parts

    def clear(self) -> None:
        self.parts, self.rows = [], 0
        self._by_key.clear()
        self._long_bytes = self._measured = self._measured_bytes = 0
