"""Reads files that were damaged at random, in a process of its own: `python -m tests.operators.damaged FOLDER FORMAT
FIRST COUNT`. It must come to its end, and no row may have what the file does not have.

The process's memory is full of a text that is in no file. Text of the rows must be a part of the file, and where all
pages have checksums, rows must be those that were written.
"""

from __future__ import annotations

import contextlib
import json
import random
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
from pyarrow import orc

from tidegate.operators.core.column import Column
from tidegate.operators.core.piece import Piece
from tidegate.operators.duckdb.fragment import Fragment
from tidegate.operators.duckdb.instances import InstancePool, InstanceSettings
from tidegate.operators.sources.file_relations import FileSource, native_obstacle
from tidegate.operators.sources.formats import arrow
from tidegate.operators.sources.formats.ipc import arrow_parts
from tidegate.operators.sources.scan import Scan
from tidegate.operators.sources.split_pieces import expand, open_pieces
from tidegate.proto.errors import TidegateError
from tidegate.proto.values import FileFormat, FileSplit

from .damaged_tables import TABLES, asked_type, narrow

ELSEWHERE: Final = "another principal's rows"
MEMORY: Final = 6 << 30
TIMES: Final = 14
"""With so many times the rows, a row group is large enough to be read as dictionaries."""


def _arrow(path: Path, rows: pa.Table, compression: str | None = None) -> None:
    with pa.ipc.new_file(path, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(rows, max_chunksize=100)


def _arrow_stream(path: Path, rows: pa.Table) -> None:
    with pa.ipc.new_stream(path, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=100)


def _dictionaries(path: Path, rows: pa.Table) -> None:
    _arrow(path, pa.table({"n": rows["n"], "s": rows["s"].dictionary_encode(), "l": rows["l"], "o": rows["o"]}))


def _parquet(path: Path, rows: pa.Table, *, checksums: bool = False) -> None:
    pq.write_table(
        rows, path, row_group_size=100, compression="none", use_dictionary=False, write_page_checksum=checksums
    )


def _coded(path: Path, rows: pa.Table) -> None:
    """Texts that stand in many rows, so that the columns are read as dictionaries."""
    pq.write_table(pa.concat_tables([rows] * TIMES), path, compression="none", data_page_size=1_024)


def _as_spark_writes(path: Path, rows: pa.Table) -> None:
    """Small pages, compressed, in their second form, with checksums."""
    pq.write_table(
        rows, path, row_group_size=100, compression="snappy", data_page_version="2.0", data_page_size=256,
        write_page_checksum=True, write_page_index=True, store_schema=False,
    )  # fmt: skip


def _flat(rows: pa.Table) -> pa.Table:
    return rows.select(["n", "s"])


def _shared(path: Path, rows: pa.Table) -> None:
    """Texts without the beginnings that they share, and texts whose lengths are packed."""
    sharing = dict.fromkeys(("s", "l.list.element"), "DELTA_BYTE_ARRAY")
    pq.write_table(
        rows, path, use_dictionary=False, column_encoding={**sharing, "o.t": "DELTA_LENGTH_BYTE_ARRAY"},
        row_group_size=100, data_page_size=256, compression="none", store_schema=False, write_statistics=False,
    )  # fmt: skip


def _compressed(path: Path, data: bytes) -> None:
    """By the name's ending, gzip or zstd."""
    with pa.output_stream(path, compression="detect") as sink:
        sink.write(data)


def _csv(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pa.csv.write_csv(_flat(rows), sink)
    return sink.getvalue().to_pybytes()


#: How each kind of file is written, and whether all text of its rows is in the file (unpacked) as it is.
WRITERS: Final[dict[str, tuple[str, bool, Callable[[Path, pa.Table], object]]]] = {
    "arrow": ("f.arrow", True, _arrow),
    "arrow-lz4": ("f.arrow", False, lambda path, rows: _arrow(path, rows, "lz4")),
    "arrow-stream": ("f.arrows", True, _arrow_stream),
    "arrow-dictionary": ("f.arrow", True, _dictionaries),
    "parquet": ("f.parquet", True, _parquet),
    "parquet-packed": ("f.parquet", False, lambda path, rows: pq.write_table(rows, path, row_group_size=100)),
    "parquet-coded": ("f.parquet", True, _coded),
    "parquet-shared": ("f.parquet", False, _shared),
    "parquet-spark": ("f.parquet", False, _as_spark_writes),
    "parquet-checksums": ("f.parquet", True, lambda path, rows: _parquet(path, rows, checksums=True)),
    "orc": ("f.orc", False, lambda path, rows: orc.write_table(rows, path)),
    "arrow-nested": ("f.arrow", True, _arrow),
    "arrow-nested-stream": ("f.arrows", True, _arrow_stream),
    "arrow-nested-lz4": ("f.arrow", False, lambda path, rows: _arrow(path, rows, "lz4")),
    "parquet-nested": ("f.parquet", True, _parquet),
    "orc-nested": ("f.orc", False, lambda path, rows: orc.write_table(rows, path)),
    "arrow-parts": ("f.arrow", True, _arrow),
    "arrow-parts-lz4": ("f.arrow", False, lambda path, rows: _arrow(path, rows, "lz4")),
    "inline": ("f.rows", True, _arrow),
    "csv": ("f.csv", True, lambda path, rows: path.write_bytes(_csv(rows))),
    "csv-gz": ("f.csv.gz", True, lambda path, rows: _compressed(path, _csv(rows))),
    "csv-zst": ("f.csv.zst", True, lambda path, rows: _compressed(path, _csv(rows))),
    "json": ("f.json", False, lambda path, rows: path.write_bytes(_json(rows))),
    "json-gz": ("f.json.gz", False, lambda path, rows: _compressed(path, _json(rows))),
    "json-zst": ("f.json.zst", False, lambda path, rows: _compressed(path, _json(rows))),
}


def _json(rows: pa.Table) -> bytes:
    sink = duckdb.from_arrow(rows).query("rows", "SELECT to_json(rows)::VARCHAR FROM rows").fetchall()
    return "".join(f"{line}\n" for (line,) in sink).encode()


STREAMS: Final = frozenset({"arrow-stream", "arrow-nested-stream"})
#: The kinds whose record batches are read in parts, as only large ones are otherwise.
IN_PARTS: Final = frozenset({"arrow-parts", "arrow-parts-lz4"})
PART_BYTES: Final = 2_000
#: The kinds whose whole file is compressed.
PACKED: Final = {"csv-gz": "gzip", "csv-zst": "zstd", "json-gz": "gzip", "json-zst": "zstd"}
#: The kinds whose format their names do not tell.
FORMATS: Final[dict[str, FileFormat]] = {"inline": "inline"}
#: The kinds in which every page has a checksum.
SEALED: Final = frozenset({"parquet-checksums", "parquet-spark"})


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, most of them in the middle of numbers; or cut; or a stretch copied over another."""
    changed = bytearray(data)
    match rng.randrange(6):
        case 0:
            return data[: rng.randrange(len(data))]
        case 1:
            start, to, size = (rng.randrange(len(data)) for _ in range(3))
            changed[to : to + size % 64] = changed[start : start + size % 64]
        case _:
            for _ in range(rng.choice([1, 1, 2, 8])):
                at = rng.randrange(len(data)) if rng.random() < 0.7 else max(len(data) - 1 - rng.randrange(2_000), 0)
                changed[at] = rng.choice(
                    [0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256), changed[at] ^ (1 << rng.randrange(8))]
                )
    return bytes(changed)


def texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from texts(part)


def check(rows: list[pa.RecordBatch], data: bytes, *, plain: bool) -> None:
    """No text that is not the file's; kernels and DuckDB may have them all."""
    if not rows:
        return
    table = pa.Table.from_batches(rows)
    table.validate(full=True)
    unquoted = _unquoted(data)  # CSV joins what is before, inside and behind quotes
    shown = table.select([field.name for field in table.schema if not pa.types.is_temporal(field.type)])
    for text in {text for row in shown.to_pylist() for text in texts(row)}:
        assert ELSEWHERE[:12] not in text, f"memory of others: {text!r}"
        assert not plain or _unquoted(text.encode()) in unquoted, f"not of the file: {text!r}"
    if "s" in table.column_names:
        known = table.select([field.name for field in table.schema if not _is_strange(field.type)])
        duckdb.from_arrow(known).query("rows", "SELECT max(s), count(*) FROM rows").fetchall()


def _is_strange(type_: pa.DataType) -> bool:
    """True of types that DuckDB does not have."""
    return bool(pa.types.is_decimal256(type_) or pa.types.is_union(type_))


def _unquoted(data: bytes) -> bytes:
    return data.replace(b'"', b"")


def told_rows(pieces: Sequence[Piece], kind: str, data: bytes, asked: Sequence[Column]) -> int:
    """How many rows the file says that it has: where no format tells, its lines or values."""
    if kind in STREAMS:  # which have no footer; columns that are not asked for may be damaged
        with pa.ipc.open_stream(data) as stream:
            wanted = [stream.schema.get_field_index(column.name) for column in asked]
        with pa.ipc.open_stream(data, options=pa.ipc.IpcReadOptions(included_fields=wanted)) as stream:
            return sum(batch.num_rows for batch in stream)
    counts = [piece.row_count for piece in pieces]
    if None not in counts:
        return sum(count or 0 for count in counts)
    if kind.startswith("json"):
        return _json_values(data)
    return sum(1 for line in data.replace(b"\r", b"\n").split(b"\n") if line.strip()) - 1


def unpacked(kind: str, data: bytes) -> bytes:
    """The data without its compression. It is complete, if anything has read it."""
    if kind not in PACKED:
        return data
    with pa.input_stream(pa.py_buffer(data), compression=PACKED[kind]) as source:
        return bytes(source.read())


def _json_values(data: bytes) -> int:
    """How many values stand one behind the other: one may have a line end between two of its words."""
    decoder, text, at, count = json.JSONDecoder(strict=False), data.decode("utf-8-sig").rstrip(), 0, 0
    while at < len(text):
        _, at = decoder.raw_decode(text, len(text) - len(text[at:].lstrip()))
        count += 1
    return count


def is_sealed(kind: str, whole: bytes, data: bytes) -> bool:
    """Whether a checksum is over all that was changed."""
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    return kind in SEALED and len(data) == len(whole) and data[-footer:] == whole[-footer:]


def main(folder: Path, kind: str, first: int, count: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    name, plain, write = WRITERS[kind]
    path = folder / name
    if kind in IN_PARTS:
        arrow.LARGE, arrow_parts.BATCH_BYTES = 0, PART_BYTES  # type: ignore[misc]
    split = FileSplit(str(path), format=FORMATS.get(kind, ""))
    rows = TABLES.get(kind, narrow)(np.random.default_rng(7))
    write(path, rows)
    whole = path.read_bytes()
    columns = [Column(name=field.name, type=asked_type(field.type), nullable=True) for field in rows.schema]
    flat = [column for column in columns if column.name in "ns"]
    others = [[column] for column in columns[2:]] if kind in TABLES else []
    secrets = [pa.array([ELSEWHERE] * n) for n in (10, 100, 1_000, 10_000, 1_000_000)]
    pool = InstancePool(folder / "spill")
    instance = pool.take(InstanceSettings(memory_limit=1 << 30, roots=(str(folder),)))
    answered = 0
    for seed in range(first, first + count):
        print(seed, flush=True)
        data = damaged(whole, random.Random(seed))
        path.write_bytes(data)
        freed = [pa.array([ELSEWHERE] * 500) for _ in range(4)]
        del freed
        for asked in (columns, flat, columns[1:2], *others):
            with contextlib.suppress(TidegateError):
                pieces = open_pieces(expand(split, [str(folder)], "split 1 of 't'"), asked)
                scan = Scan("t", asked)
                scan.assign("t", pieces)
                read = list(scan.run([]))
                answered += bool(read)
                shown = unpacked(kind, data)
                check(read, shown, plain=plain)
                row_count = sum(batch.num_rows for batch in read)
                promised = told_rows(pieces, kind, shown, asked)
                # A quote that opens where another closed makes one row of two lines of CSV.
                assert row_count == promised or (kind.startswith("csv") and row_count < promised), (
                    f"{row_count} rows of {promised}"
                )
                if is_sealed(kind, whole, data):
                    assert pa.Table.from_batches(read).equals(rows.select([field.name for field in asked]))
                if native_obstacle(pieces, asked) is None:
                    fragment = _fragment(instance, asked)
                    fragment.assign("t", pieces)
                    try:
                        check(list(fragment.run([])), shown, plain=plain)
                    finally:
                        fragment.close()
        if instance.broken:
            instance.close()
            instance = pool.take(InstanceSettings(memory_limit=1 << 30, roots=(str(folder),)))
    assert len(secrets) == 5
    print(f"done {answered}")


def _fragment(instance: object, columns: list[Column]) -> Fragment:
    schema = pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in columns])
    names = ", ".join(f"c{i} AS {c.name}" for i, c in enumerate(columns))
    files = [FileSource(source="t", relation="t", columns=tuple(columns))]
    return Fragment(f"SELECT {names} FROM t", schema=schema, instance=instance, files=files, plan_path="read")  # type: ignore[arg-type]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
