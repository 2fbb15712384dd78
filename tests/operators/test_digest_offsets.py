"""Offsets by digests: found whatever the order and the runs, and told from digests that begin alike."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tidegate.operators.arrays.digest_offsets import DigestOffsets, Digests, different, digests_of


def digests(*halves: tuple[int, int]) -> Digests:
    return digests_of(np.array(halves, np.uint64).tobytes())


@pytest.mark.parametrize("seed", range(5))
def test_each_digest_has_its_offset_in_any_number_of_runs(seed: int) -> None:
    """There are few halves, so that many digests have the same ones."""
    chance = random.Random(seed)
    expected: dict[tuple[int, int], int] = {}
    offsets = DigestOffsets()
    for _ in range(20):
        pairs = {(chance.randrange(6) << 61, chance.randrange(60)) for _ in range(chance.randrange(9))}
        new = [pair for pair in pairs if pair not in expected]
        at = [chance.randrange(1 << 40) for _ in new]
        offsets.add(digests(*new), np.array(at, np.int64))
        expected.update(zip(new, at, strict=True))
        asked = [(first << 61, second) for first in range(7) for second in range(61)]
        assert offsets.of(digests(*asked)).tolist() == [expected.get(pair, -1) for pair in asked]
    assert bool(offsets)


def test_the_first_row_of_each_digest_is_found() -> None:
    rows = digests((5, 1), (1, 5), (5, 1), (5, 2), (1, 5), (0, 0))
    assert different(rows).tolist() == [0, 1, 3, 5]
    assert different(digests_of(b"")).tolist() == []


def test_without_digests_nothing_is_found() -> None:
    offsets = DigestOffsets()
    assert not offsets
    assert offsets.of(digests((1, 2))).tolist() == [-1]
    offsets.add(digests_of(b""), np.zeros(0, np.int64))
    assert not offsets
