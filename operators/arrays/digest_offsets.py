"""The offsets of values by their digests, which are pairs of 64-bit numbers: NumPy searches numbers, several times
faster than strings.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

DIGEST_BYTES: Final = 16

_Numbers: TypeAlias = npt.NDArray[np.int64]
_Halves: TypeAlias = npt.NDArray[np.uint64]
Digests: TypeAlias = _Halves
"""A row of two halves for each digest."""


def digests_of(data: bytes) -> Digests:
    """The digests that lie side by side in `data`."""
    return np.frombuffer(data, np.uint64).reshape(-1, 2)


def different(digests: Digests) -> _Numbers:
    """The first row of each digest, ascending."""
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    in_order = digests[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (in_order[1:] != in_order[:-1]).any(axis=1)
    return np.sort(order[is_first])


class _Run(NamedTuple):
    """Digests in order of their first halves, and their offsets."""

    first: _Halves
    second: _Halves
    offsets: _Numbers

    def find(self, digests: Digests, into: _Numbers) -> None:
        """Write the offsets of the digests that the run has."""
        at, rows = np.searchsorted(self.first, digests[:, 0]), np.arange(len(digests))
        last = len(self.first) - 1
        while rows.size:  # a second time only where two digests have one first half
            here = np.minimum(at, last)
            begins_alike = self.first[here] == digests[rows, 0]
            is_same = begins_alike & (self.second[here] == digests[rows, 1])
            into[rows[is_same]] = self.offsets[here[is_same]]
            goes_on = begins_alike & ~is_same & (here < last)
            at, rows = here[goes_on] + 1, rows[goes_on]


class DigestOffsets:
    """Sorted runs, merged as they grow."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def __bool__(self) -> bool:
        return bool(self._runs)

    def of(self, digests: Digests) -> _Numbers:
        """The offset of each digest, -1 where there is none."""
        offsets = np.full(len(digests), -1, np.int64)
        for run in self._runs:
            run.find(digests, offsets)
        return offsets

    def add(self, digests: Digests, offsets: _Numbers) -> None:
        """Add digests that are new, each once."""
        if not len(digests):
            return
        run = _sorted(digests[:, 0], digests[:, 1], offsets)
        while self._runs and len(self._runs[-1].first) <= 2 * len(run.first):
            run = _sorted(*(np.concatenate(parts) for parts in zip(self._runs.pop(), run, strict=True)))
        self._runs.append(run)


def _sorted(first: _Halves, second: _Halves, offsets: _Numbers) -> _Run:
    order = np.argsort(first, kind="stable")
    return _Run(first[order], second[order], offsets[order])
