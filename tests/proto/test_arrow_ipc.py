"""Inline data comes from strangers: plain batches out, or a refusal that says why."""

import contextlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.proto.arrow import arrow_ipc
from tidegate.proto.errors import Exhausted, InvalidRequest


def stream(table: pa.Table, **options: object) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def read(data: bytes) -> pa.Table:
    schema, batches = arrow_ipc.read_untrusted_stream(data)
    return pa.Table.from_batches(batches, schema)


def test_plain_data_comes_out_as_it_went_in() -> None:
    table = pa.table({"n": [1, None, 3], "s": ["a", None, "ü"], "l": [[1], [], None]})
    assert read(stream(table)).equals(table)


def test_a_stream_without_batches_has_its_schema() -> None:
    schema, batches = arrow_ipc.read_untrusted_stream(stream(pa.schema([("n", pa.int64())]).empty_table()))
    assert (schema.names, sum(batch.num_rows for batch in batches)) == (["n"], 0)


def test_dictionaries_and_views_are_unpacked() -> None:
    words = pa.array(["x", "y", "x", None])
    table = pa.table({"d": words.dictionary_encode(), "v": words.cast(pa.string_view())})
    assert read(stream(table)).equals(pa.table({"d": words, "v": words}))


def test_reading_takes_no_copy() -> None:
    data = stream(pa.table({"n": range(1000)}))
    address = read(data)["n"].chunk(0).buffers()[1].address
    start = pa.py_buffer(data).address
    assert start <= address < start + len(data)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("packed", [False, True], ids=["batch", "dictionary"])
def test_compressed_data_is_refused(codec: str, packed: bool) -> None:
    words = pa.array(["x"] * 100)
    table = pa.table({"s": words.dictionary_encode() if packed else words})
    with pytest.raises(InvalidRequest, match="compressed"):
        read(stream(table, compression=codec))


def test_a_dictionary_that_would_unpack_to_too_much_is_refused() -> None:
    big = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int8()), pa.array(["x" * 1_000_000]))
    with pytest.raises(Exhausted, match="once unpacked"):
        read(stream(pa.table({"s": big})))


def test_rows_that_take_no_space_are_bounded() -> None:
    with pytest.raises(InvalidRequest, match=r"claims 10,000,000 rows"):
        read(stream(pa.table({"n": pa.nulls(10_000_000)})))


@pytest.mark.parametrize(
    "data_type",
    [
        pa.run_end_encoded(pa.int32(), pa.int64()),
        pa.list_view(pa.int64()),
        pa.struct([("d", pa.dictionary(pa.int8(), pa.string()))]),
    ],
    ids=str,
)
def test_encodings_without_a_bound_are_refused_by_name(data_type: pa.DataType) -> None:
    with pytest.raises(InvalidRequest, match=r"inline column 'c' has type .*: send the column unpacked"):
        read(stream(pa.schema([("c", data_type)]).empty_table()))


def test_offsets_outside_the_data_are_refused() -> None:
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 1 << 20, 2)))
    array = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"ab"))
    with pytest.raises(InvalidRequest, match="not a valid Arrow IPC stream"):
        read(stream(pa.table({"s": array})))


def test_text_that_is_not_utf8_is_refused() -> None:
    array = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    with pytest.raises(InvalidRequest, match="UTF8"):
        read(stream(pa.table({"s": array})))


VALID = stream(pa.table({"n": [1, 2], "s": pa.array(["a", "b"]).dictionary_encode()}))


@given(st.integers(0, len(VALID) - 1), st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused_but_never_anything_else(position: int, byte: int) -> None:
    data = VALID[:position] + bytes([byte]) + VALID[position + 1 :]
    with contextlib.suppress(InvalidRequest, Exhausted):
        read(data).validate(full=True)


@given(st.binary(max_size=200) | st.integers(0, len(VALID)).map(lambda end: VALID[:end]))
def test_noise_and_cut_streams_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(InvalidRequest):
        read(data)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1], pa.timestamp("s", "XXXXX")),
        pa.array([1], pa.timestamp("s", "XXXXX")).dictionary_encode(),
        pa.array([[1]], pa.list_(pa.timestamp("s", "XXXXX"))),
        pa.array([{"XXXXX": 1}]),
    ],
    ids=lambda column: str(column.type),
)
def test_names_and_time_zones_in_types_are_utf8(column: pa.Array) -> None:
    batch = pa.record_batch({"a": column})
    sent = arrow_ipc.stream_bytes(batch.schema, (batch,))
    assert arrow_ipc.read_untrusted_stream(sent)[1][0].num_rows == 1
    with pytest.raises(InvalidRequest, match="is not UTF-8") as refused:
        arrow_ipc.read_untrusted_stream(sent.replace(b"XXXXX", b"XX\xffXX"))
    assert refused.value.reason == "MALFORMED_ARROW"


def test_schemas_survive() -> None:
    schema = pa.schema([pa.field("a", pa.decimal128(12, 2), nullable=False)])
    assert arrow_ipc.read_schema(arrow_ipc.schema_bytes(schema)) == schema


def test_a_schema_is_encoded_once_as_long_as_it_lives() -> None:
    schema = pa.schema({"a": pa.int64()})
    assert arrow_ipc.schema_bytes(schema) is arrow_ipc.schema_bytes(schema)
    known = len(arrow_ipc._schema_bytes)
    del schema
    assert len(arrow_ipc._schema_bytes) == known - 1


def test_schemas_that_are_equal_but_for_their_metadata_stay_apart() -> None:
    plain = pa.schema({"a": pa.int64()})
    marked = plain.with_metadata({"made": "by hand"})
    assert plain == marked
    encoded = [arrow_ipc.schema_bytes(schema) for schema in (plain, marked)]
    assert [arrow_ipc.read_schema(data).metadata for data in encoded] == [None, {b"made": b"by hand"}]


def test_a_malformed_schema_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="schema"):
        arrow_ipc.read_schema(b"nonsense")


WHOLE = pa.record_batch(
    {
        "n": pa.array([None, *range(99)], pa.int64()),
        "b": pa.array([i % 3 == 0 for i in range(100)]),
        "s": pa.array([None if i % 5 == 0 else "ü" * (i % 7) for i in range(100)]),
        "l": pa.array([[i] * (i % 4) for i in range(100)]),
        "x": pa.nulls(100),
    }
)


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100), st.booleans()), max_size=4))
def test_pieces_are_those_of_the_serialized_batch(slices: list[tuple[int, int, bool]]) -> None:
    pieces = arrow_ipc.BatchPieces()
    for start, rows, narrow in slices:
        batch = WHOLE.slice(start, rows)
        batch = batch.select(["s", "n"]) if narrow else batch
        assert b"".join(pieces.of(batch)) == batch.serialize().to_pybytes()


def test_pieces_point_into_the_batch() -> None:
    batch = pa.record_batch({"n": pa.array(range(1000), pa.int64())})
    addresses = [piece.address for piece in arrow_ipc.BatchPieces().of(batch) if isinstance(piece, pa.Buffer)]
    assert addresses == [batch.column("n").buffers()[1].address]
