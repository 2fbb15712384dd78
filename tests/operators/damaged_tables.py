"""Tables whose files are damaged: of flat types, of nested types, and of every way in which Arrow stores a type."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidegate.operators.arrays.casts import plain

ROWS: Final = 300
_DAY: Final = 86_400_000_000


def texts(rng: np.random.Generator) -> pa.Array:
    return pa.array([f"value{int(i):x}" for i in rng.integers(0, 1 << 30, ROWS)], mask=rng.random(ROWS) < 0.1)


def numbers(rng: np.random.Generator) -> pa.Array:
    return pa.array(rng.integers(0, 1 << 40, ROWS), mask=rng.random(ROWS) < 0.1)


def flat(rng: np.random.Generator) -> pa.Table:
    return pa.table({"n": numbers(rng), "s": texts(rng)})


def narrow(rng: np.random.Generator) -> pa.Table:
    number, text = numbers(rng), texts(rng)
    lists = pa.array([[f"item{i}"] * (i % 4) for i in range(ROWS)])
    return pa.table({"n": number, "s": text, "l": lists, "o": pa.StructArray.from_arrays([text, number], ["t", "n"])})


def nested(rng: np.random.Generator) -> pa.Table:
    """Types inside of types, and types that are wider than a number, as all formats have them."""
    number, text = numbers(rng), texts(rng)
    few = [None if i % 7 == 0 else [(f"key{j}", i + j) for j in range(i % 4)] for i in range(ROWS)]
    structs = [None if i % 5 == 0 else [{"a": f"deep{i}", "b": [i, None]}] * (i % 3) for i in range(ROWS)]
    return pa.table(
        {
            "n": number,
            "s": text,
            "structs in lists": pa.array(structs, pa.list_(pa.struct({"a": pa.string(), "b": pa.list_(pa.int32())}))),
            "lists in lists": pa.array([[[f"in{i}"] * (i % 3)] * (i % 2) for i in range(ROWS)]),
            "maps": pa.array(few, pa.map_(pa.string(), pa.int64())),
            "structs": pa.StructArray.from_arrays([pa.array(few, pa.map_(pa.string(), pa.int64())), text], ["m", "t"]),
            "decimals": pa.array([Decimal(i - 150) * 10**30 for i in range(ROWS)], pa.decimal128(38, 0)),
            "days": pa.array(range(ROWS), pa.int32()).cast(pa.date32()),
            "times": pa.array([i * 10**9 for i in range(ROWS)], pa.timestamp("us")),
            "bytes": pa.array([f"bytes{i}".encode() for i in range(ROWS)]),
            "truths": pa.array([i % 3 == 0 for i in range(ROWS)]),
        }
    )


def listed(rng: np.random.Generator) -> pa.Table:
    """`nested`, and what ORC does not have."""
    others = {
        "three": pa.array([None if i % 9 == 0 else [i, i + 1, i + 2] for i in range(ROWS)], pa.list_(pa.int32(), 3)),
        "texts in threes": pa.array([[f"one{i}", None, ""] for i in range(ROWS)], pa.list_(pa.string(), 3)),
        "wide decimals": pa.array([Decimal("9" * 57 + f"{i:03}") for i in range(ROWS)], pa.decimal256(60, 0)),
        "hours": pa.array([i * _DAY // ROWS for i in range(ROWS)], pa.time64("us")),
        "sixteen": pa.array([bytes([i % 256] * 16) for i in range(ROWS)], pa.binary(16)),
        "coded": texts(rng).dictionary_encode(),
        "large": pa.array([[f"large{i}"] for i in range(ROWS)], pa.large_list(pa.large_string())),
    }
    return _with(nested(rng), others)


def stored(rng: np.random.Generator) -> pa.Table:
    """Every way in which Arrow files alone store columns: views, run ends, unions, dictionaries of nested types."""
    codes = pa.array([i % 3 for i in range(ROWS)], pa.int8())
    kinds = pa.array([i % 2 for i in range(ROWS)], pa.int8())
    text, number = pa.array([f"either{i}" for i in range(ROWS)]), pa.array(range(ROWS))
    runs = pa.array([ROWS // 3, 2 * ROWS // 3, ROWS], pa.int32())
    lists = pa.array([["a", "bc"], [], ["def"]])
    starts, sizes = (pa.array([i % most for i in range(ROWS)], pa.int32()) for most in (50, 4))
    months = [pa.MonthDayNano([i, i, i]) for i in range(ROWS)]
    others = {
        "text views": pa.array([f"a view that is longer than inline {i}" for i in range(ROWS)], pa.string_view()),
        "byte views": pa.array([b"bytes that are longer than inline %d" % i for i in range(ROWS)], pa.binary_view()),
        "list views": pa.ListViewArray.from_arrays(starts, sizes, text),
        "runs": pa.RunEndEncodedArray.from_arrays(runs, pa.array(["one", None, "three"])),
        "runs of lists": pa.RunEndEncodedArray.from_arrays(runs, lists),
        "coded lists": pa.DictionaryArray.from_arrays(codes, lists),
        "coded structs": pa.DictionaryArray.from_arrays(codes, pa.array([{"a": "x"}, {"a": None}, {"a": "yz"}])),
        "coded inside": pa.StructArray.from_arrays([text.dictionary_encode(), number], ["t", "n"]),
        "dense": pa.UnionArray.from_dense(kinds, pa.array([i // 2 for i in range(ROWS)], pa.int32()), [text, number]),
        "sparse": pa.UnionArray.from_sparse(kinds, [text, number]),
        "months": pa.array(months, pa.month_day_nano_interval()),
        "durations": pa.array(range(ROWS), pa.duration("us")),
        "nothing": pa.nulls(ROWS),
    }
    return _with(listed(rng), others)


def _with(table: pa.Table, columns: dict[str, pa.Array]) -> pa.Table:
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def asked_type(type_: pa.DataType) -> pa.DataType:
    """The type of a plan's column for a file's: without the ways to store it."""
    return plain(type_)


TABLES: Final[dict[str, Callable[[np.random.Generator], Any]]] = {
    "csv": flat,
    "csv-gz": flat,
    "csv-zst": flat,
    "arrow-parts": stored,
    "arrow-parts-lz4": stored,
    "arrow-nested": stored,
    "arrow-nested-stream": stored,
    "arrow-nested-lz4": stored,
    "parquet-nested": listed,
    "orc-nested": nested,
}
"""By the kind of file. The others have `narrow`."""
