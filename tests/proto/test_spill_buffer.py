"""Rows come out of a buffer as they went in, wherever the bound of its memory falls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.proto.arrow.spill_buffer import SpillBuffer, SpillRoom
from tidegate.proto.errors import Exhausted

MODES = [{"together": together, "mapped": mapped} for together in (False, True) for mapped in (False, True)]


def batch(first: int, rows: int) -> pa.RecordBatch:
    """Rows with a dictionary of the batch's own."""
    texts = pa.array([f"t{first}"] * rows, pa.string()).dictionary_encode()
    return pa.record_batch([pa.array(range(first, first + rows), pa.int64()), texts], ["n", "t"])


def batches(sizes: list[int]) -> list[pa.RecordBatch]:
    return [batch(sum(sizes[:at]), size) for at, size in enumerate(sizes)]


def numbers(read: object) -> list[tuple[int, str]]:
    return [(row["n"], row["t"]) for part in read for row in part.to_pylist()]


@given(
    sizes=st.lists(st.integers(0, 5), max_size=8),
    most=st.sampled_from([0, 500, 1_200, 1 << 30]),
    mode=st.sampled_from(MODES),
)
def test_rows_are_read_in_order_any_number_of_times(
    sizes: list[int], most: int, mode: dict[str, bool], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("held")
    buffer = SpillBuffer(SpillRoom(folder), most, **mode)
    added = batches(sizes)
    for rows in added:
        buffer.add(rows)
    buffer.seal()
    assert buffer.rows == sum(sizes)
    assert buffer.bytes <= most
    assert not (mode["together"] and buffer.spilled and buffer.in_memory)
    for _ in range(2):
        assert numbers(buffer.batches()) == numbers(added)
    one, other = buffer.batches(), buffer.batches()
    if sizes:
        next(one)
    assert numbers(other) == numbers(added)
    one.close()
    buffer.close()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("most", [0, 700, 1 << 30])
def test_rows_are_popped_while_others_are_added(most: int, tmp_path: Path) -> None:
    buffer = SpillBuffer(SpillRoom(tmp_path), most, mapped=True)
    first, second, third = batches([2, 3, 1])
    buffer.add(first)
    popped = [rows for rows in (buffer.pop(),) if rows is not None]
    buffer.add(second)
    buffer.add(third)
    buffer.seal()
    while (rows := buffer.pop()) is not None:
        popped.append(rows)
    assert numbers(popped) == numbers([first, second, third])
    assert list(tmp_path.iterdir()) == []


def test_a_mapped_file_has_no_name_once_it_is_sealed(tmp_path: Path) -> None:
    buffer = SpillBuffer(SpillRoom(tmp_path), 0, mapped=True)
    buffer.add(batch(0, 3))
    assert len(list(tmp_path.iterdir())) == 1
    buffer.seal()
    assert list(tmp_path.iterdir()) == []
    read = list(buffer.batches())
    buffer.close()
    assert numbers(read) == numbers([batch(0, 3)])


def test_bytes_on_disk_are_asked_for_and_given_back(tmp_path: Path) -> None:
    left = [2_000]

    def take(size: int) -> bool:
        left[0] -= size
        return left[0] >= 0

    def give(size: int) -> None:
        left[0] += size

    buffer = SpillBuffer(SpillRoom(tmp_path, take, give), 0)
    buffer.add(batch(0, 10))
    assert left[0] == 2_000 - buffer.on_disk < 2_000
    buffer.close()
    assert left[0] == 2_000


@pytest.mark.parametrize(
    ("room", "reason"),
    [
        (lambda folder: SpillRoom(folder, lambda _: False), "SPILL_QUOTA"),
        (lambda folder: SpillRoom(folder / "file" / "held", rows="rows of one key"), "SPILL_FAILED"),
    ],
    ids=["no room", "no folder"],
)
def test_rows_that_cannot_be_stored_are_an_error(
    room: Callable[[Path], SpillRoom], reason: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    buffer = SpillBuffer(room(tmp_path), 0)
    with pytest.raises(Exhausted) as error:
        buffer.add(batch(0, 1))
    assert error.value.reason == reason
    buffer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
