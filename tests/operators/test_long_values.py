"""Long values beside a statement: names in, the same values out, from memory and from a file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidegate.operators.core.sizes import BATCH_BYTES
from tidegate.operators.duckdb.held import limited_room
from tidegate.operators.duckdb.long_values import LEAST_LONG, LONG, LongColumn, LongValues
from tidegate.proto.errors import Exhausted

PASSED = LongColumn(compared=False, kept=True)
COMPARED = LongColumn(compared=True, kept=True)
TEXTS = ["", None, "a", "é" * LONG, "x" * (LONG - 1), "y" * LONG, "z" * (LONG + 1), "0" * (LONG + 1), "q" * 70_000]


ORDERED = LongColumn(compared=True, kept=True, ordered=True)


def values(folder: Path, most: int, limit: int | None = None, long: int = LONG) -> LongValues:
    return LongValues(most, limited_room(str(folder), limit, lambda: Exhausted("full")), long=long)


def rows(type_: pa.DataType) -> pa.RecordBatch:
    encoded = [None if text is None else text.encode() for text in TEXTS]
    return pa.record_batch({"k": range(len(TEXTS)), "t": pa.array(encoded, pa.binary()).cast(type_)})


def reversed_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.take(pa.array(range(batch.num_rows - 1, -1, -1)))


@pytest.mark.parametrize("type_", [pa.string(), pa.binary()], ids=str)
@pytest.mark.parametrize("column", [PASSED, COMPARED], ids=["passed", "compared"])
@pytest.mark.parametrize("most", [0, 8_000, 1 << 20])
def test_values_come_back_in_any_order(tmp_path: Path, type_: pa.DataType, column: LongColumn, most: int) -> None:
    beside = values(tmp_path, most)
    batch = rows(type_)
    for part in (batch, batch.slice(2), batch.slice(7)):
        named = beside.named(part, {1: column})
        assert max(len(text) for text in named["t"].to_pylist() if text is not None) == LONG + 1
        named.validate(full=True)
        [long_part] = beside.restored(reversed_rows(named), (1,))
        assert long_part.equals(reversed_rows(part))
    assert (len(list(tmp_path.iterdir())) == 0) == (most == 1 << 20)
    beside.close()
    assert not list(tmp_path.iterdir())


def test_no_other_column_keeps_the_long_values(tmp_path: Path) -> None:
    """The columns of a batch that was written and read lie in one buffer."""
    before = pa.total_allocated_bytes()
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"k": range(1_000), "t": ["x" * 10_000] * 1_000})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        batch = reader.read_next_batch()
    named = values(tmp_path, 0).named(batch, {1: COMPARED})
    del sink, writer, reader, batch
    assert named["k"].to_pylist() == list(range(1_000))
    assert pa.total_allocated_bytes() - before < 1_000_000


def test_equal_values_have_equal_names_and_are_kept_once(tmp_path: Path) -> None:
    beside = values(tmp_path, 0, limit=2 * 5_000)
    texts = pa.array([letter * 5_000 for letter in "abab"])
    for _ in range(3):
        names = beside.named(pa.record_batch({"t": texts}), {0: COMPARED})["t"].to_pylist()
        assert names[:2] == names[2:]
        assert names[0] != names[1]


def test_names_of_compared_values_are_the_same_in_every_run(tmp_path: Path) -> None:
    batch = pa.record_batch({"t": ["b" * 5_000]})
    one, other = values(tmp_path, 0), values(tmp_path, 0)
    other.named(pa.record_batch({"t": ["a" * 9_000]}), {0: COMPARED})
    assert one.named(batch, {0: COMPARED}).equals(other.named(batch, {0: COMPARED}))
    for namer in (one, other):
        namer.close()


@pytest.mark.parametrize("column", [PASSED, COMPARED, ORDERED], ids=["passed", "compared", "ordered"])
def test_nulls_above_long_bytes_stay_nulls(tmp_path: Path, column: LongColumn) -> None:
    hidden = pa.array(["x" * 5_000, "y" * 5_000]).buffers()
    texts = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\0"), *hidden[1:]])
    for expected in (texts, pa.concat_arrays([texts, pa.array(["z" * 5_000])])):
        beside = values(tmp_path, 0)
        named = beside.named(pa.record_batch({"t": expected}), {0: column})
        [restored] = beside.restored(beside.ordered(named, {0: column}), (0,))
        assert restored["t"].to_pylist() == expected.to_pylist()
        beside.close()


def test_values_that_do_not_come_out_are_not_kept(tmp_path: Path) -> None:
    beside = values(tmp_path, 0, limit=0)
    for compared in (True, False):
        beside.named(rows(pa.string()), {1: LongColumn(compared=compared, kept=False)})
    assert not list(tmp_path.iterdir())


def test_values_beyond_the_spill_limit_are_refused(tmp_path: Path) -> None:
    beside = values(tmp_path, 0, limit=20_000)
    with pytest.raises(Exhausted, match="full"):
        beside.named(rows(pa.string()), {1: PASSED})
    beside.close()


def test_rows_come_back_some_megabytes_at_a_time(tmp_path: Path) -> None:
    beside = values(tmp_path, 0)
    batch = pa.record_batch({"t": [f"{row:04}" * 25_000 for row in range(200)], "u": ["x" * 9_000] * 200})
    named = beside.named(batch, {0: PASSED, 1: COMPARED})
    parts = list(beside.restored(named, (0, 1)))
    assert [part.nbytes <= BATCH_BYTES + 100_000 for part in parts] == [True] * 6
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([batch]))
    beside.close()


LIKE = "é" * (LONG // 2)
ALIKE = [None, "", LIKE, LIKE[:-1], *(f"{LIKE}{end}" for end in ("b" * 9_000, "b" * 9_000 + "a", "a", "ü", "úx", "0"))]
OTHERS = ["z", "x" * (LONG - 1) + "é", "x" * (LONG - 1) + "éa", "x" * (LONG - 1) + "ê", "x" * LONG, "x" * 70_000]


@pytest.mark.parametrize("type_", [pa.string(), pa.binary()], ids=str)
@pytest.mark.parametrize(("most", "long"), [(0, LONG), (1 << 20, LONG), (1 << 20, LEAST_LONG), (0, LONG // 2 + 1)])
def test_names_of_ordered_values_have_the_order_of_the_values(
    tmp_path: Path, type_: pa.DataType, most: int, long: int
) -> None:
    beside = values(tmp_path, most, long=long)
    texts = [*ALIKE, *OTHERS, *ALIKE]
    array = pa.array([None if text is None else text.encode() for text in texts], pa.binary()).cast(type_)
    parts = [pa.record_batch({"t": part}) for part in (array.slice(0, 5), array.slice(5))]
    named = [beside.named(part, {0: ORDERED}) for part in parts]
    ordered = [beside.ordered(part, {0: ORDERED}) for part in named]
    names = pa.chunked_array([part["t"] for part in ordered])
    for part in ordered:
        part.validate(full=True)
    assert pc.rank(names.combine_chunks(), tiebreaker="dense").equals(pc.rank(array, tiebreaker="dense"))
    restored_texts = [
        row for part in ordered for piece in beside.restored(part, (0,)) for row in piece["t"].to_pylist()
    ]
    assert restored_texts == array.to_pylist()
    beside.close()


def test_ranks_wait_for_the_rows_of_all_inputs(tmp_path: Path) -> None:
    beside = values(tmp_path, 0)
    one, other = (pa.record_batch({"t": [LIKE + end]}) for end in ("b", "a"))
    first = beside.named(one, {0: ORDERED})
    second: list[pa.RecordBatch] = []
    beside.before_ranks(lambda _: second.append(beside.named(other, {0: ORDERED})))
    [name] = beside.ordered(first, {0: ORDERED})["t"].to_pylist()
    [other_name] = beside.ordered(second[0], {0: ORDERED})["t"].to_pylist()
    assert name > other_name
    beside.close()


NESTED = {
    "list": pa.array([TEXTS, None, [], TEXTS[3:], [None]]),
    "struct": pa.array([{"k": row, "t": text} if row % 4 else None for row, text in enumerate(TEXTS)]),
    "map": pa.array([[("y" * 9_000, "z" * 5_000), ("a", None)], None, [("b", "c")]], pa.map_("string", "string")),
    "list of structs": pa.array([[{"t": text, "b": b"b" * 4_000} for text in TEXTS], [], [None]]),
}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("column", [PASSED, COMPARED, ORDERED], ids=["passed", "compared", "ordered"])
def test_long_values_inside_of_others_come_back(tmp_path: Path, name: str, column: LongColumn) -> None:
    batch = pa.record_batch({"v": NESTED[name]})
    beside = values(tmp_path, 10_000)
    named = beside.named(batch, {0: column})
    assert named.nbytes < batch.nbytes
    ordered = beside.ordered(reversed_rows(named), {0: column})
    ordered.validate(full=True)
    assert pa.Table.from_batches(beside.restored(ordered, (0,))).equals(pa.Table.from_batches([reversed_rows(batch)]))
    beside.close()


def test_rows_of_lists_come_back_some_megabytes_at_a_time(tmp_path: Path) -> None:
    beside = values(tmp_path, 0)
    batch = pa.record_batch({"v": [[f"{row:04}" * 25_000] * (row % 5) for row in range(100)]})
    parts = list(beside.restored(beside.named(batch, {0: PASSED}), (0,)))
    assert len(parts) > 3
    assert all(part.nbytes <= BATCH_BYTES + 500_000 for part in parts)
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([batch]))
    beside.close()
