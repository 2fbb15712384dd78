"""Resident memory by the system's count, for small files whose rows take gigabytes.

As in `resident`, a task may take its `memory_limit` and 256 MiB. Each file is made in one child process and read in
another, whose address space is bounded. A file is either read, or refused by name: a peak beyond the bound is broken,
and so is an error that does not name the file's fault. Run as a program it prints a table of all of them.
"""

from __future__ import annotations

import argparse
import base64
import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datafusion.substrait import Serde

from .resident import ELSE, MIB, READERS, SECONDS, Taken

ADDRESSES: Final = 6 << 30
REFUSED: Final = ("ROW_TOO_LARGE", "PART_TOO_LARGE", "FILE_UNREADABLE")
SIZE: Final = 600_000_000
"""Bytes that a file unfolds to."""
TEXT: Final = pa.schema([("t", pa.string())])
NUMBER: Final = pa.schema([("n", pa.int64())])
LISTS: Final = pa.schema([("l", pa.list_(pa.int32()))])
READ: Final = "SELECT * FROM l"


@dataclass(frozen=True, kw_only=True)
class Bomb:
    """A file that `make` writes, and a statement over it. `read` says whether its rows can be read within the limit."""

    make: Callable[[Path], None]
    schema: pa.Schema
    name: str
    read: bool = True
    statement: str = READ


# --- columns -----------------------------------------------------------------------------------------------------


def texts(width: int, size: int = SIZE) -> pa.Array:
    """Equal texts, each written out."""
    rows = size // width
    offsets = np.arange(rows + 1, dtype=np.int32) * width
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(b"x" * (rows * width)))


def repeated(width: int, rows: int) -> pa.DictionaryArray:
    """A text that is written once and stands in all rows."""
    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array(["x" * width]))


def distinct(width: int, size: int = SIZE) -> pa.DictionaryArray:
    """A dictionary of many texts for three rows."""
    data = bytearray(b"x" * (size // width * width))
    rows = size // width
    for row in range(rows):
        data[row * width : row * width + 8] = b"%08d" % row
    offsets = np.arange(rows + 1, dtype=np.int32) * width
    values = pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(data))
    return pa.DictionaryArray.from_arrays(pa.array([0, rows - 1, 1], pa.int32()), values)


def numbers(rows: int = SIZE // 8) -> pa.Array:
    return pa.array(np.zeros(rows, np.int64))


def list_rows(counts: Sequence[int]) -> pa.ListArray:
    offsets = np.cumsum([0, *counts]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(np.zeros(int(offsets[-1]), np.int32)))


# --- files -------------------------------------------------------------------------------------------------------


def arrow(column: Callable[[], pa.Array], codec: str | None, *, stream: bool = False) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        batch = pa.record_batch({_letter(values): values for values in [column()]})
        options = pa.ipc.IpcWriteOptions(compression=codec)
        with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, batch.schema, options=options) as sink:
            sink.write_batch(batch)

    return make


def deltas(*, stream: bool) -> Callable[[Path], None]:
    """A dictionary that grows by 30 MB with each batch."""

    def make(path: Path) -> None:
        schema = pa.schema([("t", pa.dictionary(pa.int32(), pa.string()))])
        options = pa.ipc.IpcWriteOptions(compression="zstd", emit_dictionary_deltas=True)
        values: list[str] = []
        with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, schema, options=options) as sink:
            for number in range(20):
                values.append(f"{number:08}" + "x" * 30_000_000)
                column = pa.DictionaryArray.from_arrays(pa.array([number], pa.int32()), pa.array(values))
                sink.write_batch(pa.record_batch([column], schema=schema))

    return make


def parquet(column: Callable[[], pa.Array], **options: Any) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        values = column()
        asked = {"compression": "zstd", "store_schema": False, "row_group_size": 1 << 30, **options}
        pq.write_table(pa.table({_letter(values): values}), path, **asked)

    return make


def uneven(path: Path) -> None:
    """Many short texts, then many long ones, in one row group."""
    short, long = ["a"] * 2_000_000, texts(100_000, 300_000_000)
    column = pa.concat_arrays([pa.array(short), long])
    pq.write_table(
        pa.table({"t": column}), path, compression="zstd", use_dictionary=False, row_group_size=1 << 30,
        write_batch_size=10, data_page_size=MIB,
    )  # fmt: skip


def _letter(values: pa.Array) -> str:
    return "l" if pa.types.is_list(values.type) else "n" if pa.types.is_integer(values.type) else "t"


def many_columns(ending: str, columns: int) -> Callable[[Path], None]:
    names = [f"c{at}" for at in range(columns)]

    def make(path: Path) -> None:
        match ending:
            case "csv":
                # Names are empty but for the first one: a header line has at most a mebibyte.
                lines = ["c0" + "," * (columns - 1), *[",".join("1" * columns)] * 10]
                path.write_text("\n".join(lines) + "\n")
            case "json":
                path.write_text((json.dumps(dict.fromkeys(names, 1)) + "\n") * 10)
            case _:
                rows = pa.table(dict.fromkeys(names, pa.array(np.zeros(131_072, np.int64))))
                pq.write_table(rows, path, compression="zstd", store_schema=False)

    return make


ONE_PAGE: Final = {"use_dictionary": False, "data_page_size": 1 << 30, "write_batch_size": 1 << 30}
C0: Final = pa.schema([("c0", pa.int64())])


def _arrow_cases() -> dict[str, Bomb]:
    cases: dict[str, Bomb] = {}
    for codec in ("zstd", "lz4"):
        for stream in (False, True):
            kind = f"arrow{' stream' if stream else ''} {codec}"
            name = "f.arrows" if stream else "f.arrow"
            for what, column, schema, is_read in (
                ("texts", lambda: texts(100_000), TEXT, True),
                ("numbers", numbers, NUMBER, True),
                ("one text", lambda: texts(SIZE), TEXT, False),
                ("texts of 10 MB", lambda: texts(10_000_000), TEXT, True),
                ("one list", lambda: list_rows([1, SIZE // 4, 1]), LISTS, False),
                ("dictionary", lambda: distinct(100_000), TEXT, False),
                ("indices", lambda: repeated(10, SIZE // 4), TEXT, True),
            ):
                cases[f"{kind}: {what}"] = Bomb(
                    make=arrow(column, codec, stream=stream), schema=schema, name=name, read=is_read
                )
    for stream in (False, True):
        name = "f.arrows" if stream else "f.arrow"
        kind = f"arrow{' stream' if stream else ''}"
        cases[f"{kind}: delta dictionaries"] = Bomb(make=deltas(stream=stream), schema=TEXT, name=name, read=False)
        cases[f"{kind}: one text"] = Bomb(
            make=arrow(lambda: texts(SIZE), None, stream=stream), schema=TEXT, name=name, read=False
        )
        cases[f"{kind}: a text of 10 MB in 60 rows"] = Bomb(
            make=arrow(lambda: repeated(10_000_000, 60), None, stream=stream), schema=TEXT, name=name
        )
        cases[f"{kind}: dictionary"] = Bomb(
            make=arrow(lambda: distinct(100_000), None, stream=stream), schema=TEXT, name=name, read=False
        )
    return cases


def _parquet_cases() -> dict[str, Bomb]:
    lists = pa.schema([("l", pa.list_(pa.int32()))])
    cases = {
        "a page": Bomb(make=parquet(lambda: texts(100_000), **ONE_PAGE), schema=TEXT, name="f.parquet", read=False),
        "numbers": Bomb(make=parquet(numbers, use_dictionary=False), schema=NUMBER, name="f.parquet"),
        "a second page": Bomb(
            make=parquet(lambda: texts(100_000), **ONE_PAGE, data_page_version="2.0"),
            schema=TEXT,
            name="f.parquet",
            read=False,
        ),
        "numbers of a dictionary": Bomb(make=parquet(numbers), schema=NUMBER, name="f.parquet"),
        "one row of 60M items": Bomb(
            make=parquet(lambda: list_rows([1, 60_000_000, 1])), schema=lists, name="f.parquet", read=False
        ),
        "100 rows of 1M items": Bomb(
            make=parquet(lambda: list_rows([1] * 100_000 + [1_000_000] * 100)), schema=lists, name="f.parquet"
        ),
        "10,000 rows of 10,000 items": Bomb(
            make=parquet(lambda: list_rows([10_000] * 10_000)), schema=lists, name="f.parquet"
        ),
        "a text of 8,000 bytes": Bomb(
            make=parquet(lambda: repeated(8_000, SIZE // 8_000)), schema=TEXT, name="f.parquet"
        ),
        "a text of 8,000 bytes, filtered": Bomb(
            make=parquet(lambda: repeated(8_000, SIZE // 8_000)),
            schema=TEXT,
            name="f.parquet",
            statement="SELECT t FROM l WHERE t <> 'y'",
        ),
        "a text of 10 MB": Bomb(make=parquet(lambda: repeated(10_000_000, 60)), schema=TEXT, name="f.parquet"),
        "a large dictionary": Bomb(
            make=parquet(lambda: distinct(100_000), dictionary_pagesize_limit=1 << 30),
            schema=TEXT,
            name="f.parquet",
            read=False,
        ),
        "texts that share their beginnings": Bomb(
            make=parquet(lambda: texts(100_000), use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY"),
            schema=TEXT,
            name="f.parquet",
        ),
        "short texts, then long ones": Bomb(make=uneven, schema=TEXT, name="f.parquet"),
        "2,000 columns": Bomb(
            make=many_columns("parquet", 2_000),
            schema=pa.schema([(f"c{at}", pa.int64()) for at in range(2_000)]),
            name="f.parquet",
        ),
    }
    return {f"parquet: {what}": bomb for what, bomb in cases.items()}


BOMBS: Final[Mapping[str, Bomb]] = {
    **_arrow_cases(),
    **_parquet_cases(),
    "csv: 393,000 columns": Bomb(make=many_columns("csv", 393_000), schema=C0, name="f.csv", read=False),
    "json: 393,000 columns": Bomb(make=many_columns("json", 393_000), schema=C0, name="f.json", read=False),
}


# --- runs --------------------------------------------------------------------------------------------------------


def planned(statement: str, schema: pa.Schema) -> bytes:
    session = datafusion.SessionContext()
    session.register_record_batches("l", [[pa.RecordBatch.from_pylist([], schema)]])
    return bytes(Serde.serialize_bytes(statement, session))


def read(bomb: Bomb, folder: Path, limit: int) -> Taken:
    """A run over the bomb's file, in a child process."""
    path = folder / bomb.name
    maker = multiprocessing.get_context("fork").Process(target=bomb.make, args=(path,))
    maker.start()
    maker.join()
    epoch = {
        "plan": base64.b64encode(planned(bomb.statement, bomb.schema)).decode(),
        "is_text": False,
        "is_node": False,
        "files": {"l": str(path)},
        "bound": "",
        "reader": READERS["fast"],
        "options": {"memory_limit": limit, "output_bytes": 8 * MIB, "queue_bytes": 8 * MIB},
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("resident_epoch.py"))],
        input=json.dumps(epoch), capture_output=True, text=True, timeout=SECONDS, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES)),
    )  # fmt: skip
    if done.returncode:
        return Taken(1 << 40, 0, 0, f"ended with {done.returncode}: {done.stderr[-300:]}")
    return Taken(*json.loads(done.stdout))


def is_broken(bomb: Bomb, taken: Taken, limit: int) -> bool:
    """True where the run took more than it may, or ended in another way than it must."""
    right = not taken.error if bomb.read else taken.error.startswith(REFUSED)
    return taken.peak > limit + ELSE or not right


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="cases with this in their names", default="")
    parser.add_argument("--limit", type=int, default=64, help="MiB")
    asked = parser.parse_args(arguments)
    broken = 0
    for name, bomb in BOMBS.items():
        if asked.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            taken = read(bomb, Path(folder), asked.limit * MIB)
            size = (Path(folder) / bomb.name).stat().st_size
        wrong = is_broken(bomb, taken, asked.limit * MIB)
        broken += wrong
        shown = f"{name:50}{size:12,} B {taken.peak >> 20:6} MiB{taken.rows:10} rows "
        print(f"{shown}{'BROKEN ' * wrong}{taken.error[:200]}", flush=True)
    return min(broken, 1)


if __name__ == "__main__":
    sys.exit(main())
