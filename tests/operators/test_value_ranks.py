"""Ranks of values that begin alike, against Python's own order of them."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.arrays import value_ranks
from tidegate.operators.arrays.value_ranks import ValueRanks
from tidegate.operators.duckdb.held import limited_room
from tidegate.operators.duckdb.value_store import ValueStore
from tidegate.proto.arrow.spill_buffer import SpillBuffer, SpillRoom
from tidegate.proto.errors import Exhausted

BEGINNING = 2
VALUES = st.lists(st.binary(max_size=40).map(lambda value: bytes(byte % 2 for byte in value)), unique=True, max_size=30)


class Reads:
    """Values side by side, and the number of times that some of them were read."""

    def __init__(self, values: list[bytes]) -> None:
        self.data = b"".join(values)
        self.offsets = [0, *accumulate(map(len, values))][:-1]
        self.count = 0

    def __call__(self, offsets: np.ndarray, lengths: np.ndarray) -> pa.Array:
        self.count += 1
        return pa.array([self.data[at : at + size] for at, size in zip(offsets, lengths, strict=True)], pa.binary())


def ranks(values: list[bytes], reads: Reads, room: SpillRoom | None = None) -> list[int]:
    of = ValueRanks(reads, lambda: None, SpillBuffer(room or SpillRoom(None), 0 if room else 1 << 20))
    beginnings = [hash(value[:BEGINNING]) for value in values]
    for part in (slice(0, 7), slice(7, None), slice(3, 9)):  # some are added twice
        of.add(*(np.array(column[part], np.int64) for column in (beginnings, reads.offsets, [len(v) for v in values])))
    ranked = of.of(np.array(reads.offsets, np.int64)).tolist()
    of.close()
    return ranked


def expected(values: list[bytes]) -> list[int]:
    alike = defaultdict(list)
    for value in sorted(values):
        alike[value[:BEGINNING]].append(value)
    return [alike[value[:BEGINNING]].index(value) for value in values]


@given(VALUES)
def test_the_rank_of_a_value_is_its_position_among_those_that_begin_alike(values: list[bytes]) -> None:
    values = [value for value in values if len(value) > BEGINNING]
    assert ranks(values, Reads(values)) == expected(values)


@given(values=VALUES, at_once=st.integers(1, 200), first=st.integers(1, 8), least=st.integers(1, 5))
def test_ranks_do_not_depend_on_the_bytes_that_are_read_at_once(
    values: list[bytes], at_once: int, first: int, least: int
) -> None:
    values = [value for value in values if len(value) > BEGINNING]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(value_ranks, "_BYTES_AT_ONCE", max(at_once, 2 * first))
        patch.setattr(value_ranks, "_FIRST_BYTES", first)
        patch.setattr(value_ranks, "_MOST_BYTES", 2 * first)
        patch.setattr(value_ranks, "_LEAST_BYTES", least)
        assert ranks(values, Reads(values)) == expected(values)


@pytest.mark.parametrize("rows_of_a_pass", [1, 3, 100])
def test_values_wait_on_disk_and_are_looked_through_in_passes(
    tmp_path: Path, rows_of_a_pass: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_ranks, "_ROWS_AT_ONCE", 4)
    monkeypatch.setattr(value_ranks, "_ROWS_OF_A_PASS", rows_of_a_pass)
    values = [b"%02d%d" % (number % 5, number * 7919 % 100) for number in range(40)]
    taken: list[int] = []
    room = SpillRoom(tmp_path, take=lambda size: taken.append(size) is None, give=lambda size: taken.append(-size))
    assert ranks(values, Reads(values), room) == expected(values)
    assert max(taken) > 0
    assert sum(taken) == 0
    assert not list(tmp_path.iterdir())


def test_values_that_begin_alike_are_read_together() -> None:
    values = [b"%s%05d" % (b"x" * 900, (row * 7919) % 1_000) for row in range(1_000)]
    reads = Reads(values)
    assert ranks(values, reads) == expected(values)
    assert reads.count < 5


@pytest.mark.parametrize("most", [0, 25, 1 << 20])
def test_values_come_from_memory_or_all_from_the_file_in_the_order_asked_for(tmp_path: Path, most: int) -> None:
    values = [b"a" * 10, b"b" * 20, b"", b"c", b"d" * 30, b"e" * 7]
    store = ValueStore(most, limited_room(str(tmp_path), None, lambda: Exhausted("full")))
    offsets = [store.add(memoryview(value)) for value in values]
    total = sum(map(len, values))
    assert [file.stat().st_size for file in tmp_path.iterdir()] == ([] if total <= most else [total])
    for asked in ([0, 1, 3, 4, 5], [5, 3, 1], [4, 4, 0, 4], [1], []):
        read = store.values(
            np.array([offsets[at] for at in asked], np.int64), np.array([len(values[at]) for at in asked]), pa.binary()
        )
        read.validate(full=True)
        assert read.to_pylist() == [values[at] for at in asked]
    assert store.values(np.array([offsets[4] + 3]), np.array([5]), pa.binary()).to_pylist() == [b"d" * 5]
    store.close()
    assert not list(tmp_path.iterdir())
