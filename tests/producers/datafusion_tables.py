"""The tables of the queries: every type with nulls, and the values at which functions differ."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import datafusion
import pyarrow as pa
from datafusion.substrait import Serde

_DECIMALS: Final = ("1.50", "-2.75", "3.25", "0.99", "-0.01", None, None, "12345.67")
_TEXTS: Final = ("hello World", "a,b,c", "", None, "ÄÖ straße", "foo bar-baz_qux", "aaa", "a_b%c\\d")
_DATES: Final = ("2024-02-29", "1969-12-31", None, "2000-01-01", *("2023-11-23",) * 4)
_MOMENTS: Final = ("2024-02-29 23:59:59.999999", "1969-12-31 01:02:03", None, *("2023-11-23 04:47:30.120",) * 5)

_FLAT: Final = pa.table(
    {
        "id": pa.array(range(8), pa.int64()),
        "g": pa.array([1, 1, 2, 2, 3, None, 1, None], pa.int64()),
        "i": pa.array([1, -2, 3, None, 12, 0, 7, 7], pa.int64()),
        "j": pa.array([4, 2, None, -6, 18, 5, 1, 0], pa.int64()),
        "n": pa.array([1, 2, -3, None, 5, 6, 0, 6], pa.int32()),
        "f": pa.array([0.5, -1.25, 2.0, None, 0.0, 100.5, 0.75, 2.5], pa.float64()),
        "x": pa.array([0.1, 0.9, 0.5, 0.25, None, 0.75, 0.6, 0.3], pa.float64()),
        "d": pa.array([text and Decimal(text) for text in _DECIMALS], pa.decimal128(10, 2)),
        "s": pa.array(_TEXTS, pa.string()),
        "q": pa.array(["l", "b", "", "x", None, "baz", "a", "_"], pa.string()),
        "b": pa.array([True, False, None, True, True, None, False, True], pa.bool_()),
        "dt": pa.array([text and dt.date.fromisoformat(text) for text in _DATES], pa.date32()),
        "ts": pa.array([text and dt.datetime.fromisoformat(text) for text in _MOMENTS], pa.timestamp("us")),
        "day": pa.array(["01.02.2024", "31.12.1969", *["05.06.2023"] * 5, None], pa.string()),
        "clock": pa.array(["01:02:03", "23:59:59", *["04:05:06"] * 5, None], pa.string()),
        "y": pa.array([b"abc", b"", None, b"\xff\x00", b"a", b"b", b"c", b"d"], pa.binary()),
    }
)
_SPELLINGS: Final = (
    *(
        "1",
        "-7",
        " 5",
        "5 ",
        "+3",
        "1.5",
        "1e3",
        "0x10",
        "1_000",
        "",
        "abc",
        "true",
        "on",
        "of",
        "1.",
        ".5",
        "inf",
        "NaN",
    ),
    *("2024-01-02", "2024-1-2", "2024-01-02 03:04:05", "2024-01-02T03:04:05Z", "2024-01-02 03:04:05+02:00", "20240102"),
    *("03:04:05", "3:4:5", "03:04", "24:00:00", "2024-02-30", "1e400", "-0"),
)
_ZONED: Final = ("2024-01-31 12:34:56.789123", "1969-12-31 23:59:59.500000", None, "2024-10-27 01:30:00", "2030-01-01")
_WIDE: Final = pa.table(
    {
        "id": pa.array(range(5), pa.int64()),
        "e": pa.array(
            [Decimal("1.123456789012345678"), None, Decimal(-5), Decimal("0.000000000000000007"), Decimal(3)]
        ).cast(pa.decimal128(38, 18)),
        "d": pa.array([Decimal("1.50"), Decimal("-0.50"), Decimal("7.49"), None, Decimal("99999.99")]).cast(
            pa.decimal128(12, 2)
        ),
        "r": pa.array([1.5, float("nan"), 1e14, -3e-6, None], pa.float32()),
        "f": pa.array([float("inf"), -0.0, 1e20, 5e-324, float("nan")], pa.float64()),
        "b": pa.array([True, False, None, True, False], pa.bool_()),
        "u": pa.array([0, 1, 255, None, 7], pa.uint8()),
        "ts": pa.array([text and dt.datetime.fromisoformat(text) for text in _ZONED], pa.timestamp("us")),
        "tz": pa.array(
            [text and dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC) for text in _ZONED],
            pa.timestamp("us", "UTC"),
        ),
        "tm": pa.array([dt.time(1, 2, 3, 4), dt.time(0), None, dt.time(23, 59, 59, 999_999), dt.time(12)]),
        "s": pa.array(["äöü ß", "ὈΔΥΣΣΕΎΣ ﬁ", "", None, "naïve café 1٣"], pa.string()),
    }
)
_LISTS: Final = pa.table(
    {
        "id": pa.array(range(5), pa.int64()),
        "k": pa.array([1, 2, None, 4, 5], pa.int64()),
        "l": pa.array([[1, 2, 3, 2], [], None, [None, 2], [5]], pa.list_(pa.int64())),
        "m": pa.array([[2, 3], [1], [4], None, [5, 6, None]], pa.list_(pa.int64())),
        "w": pa.array([["a", "b"], [], ["x", None, "z"], None, [""]], pa.list_(pa.string())),
        "u": pa.array([[1.0, 2.0], [3.0, 4.0], [0.5, 0.5], None, [1.0, 0.0]], pa.list_(pa.float64())),
        "v": pa.array([[2.0, 1.0], [1.0, 1.0], [0.5, 4.0], [1.0, 1.0], [0.0, 2.0]], pa.list_(pa.float64())),
        "ll": pa.array([[[1], [2, 3]], [], None, [[4], None], [[]]], pa.list_(pa.list_(pa.int64()))),
    }
)
_STRUCT: Final = pa.StructArray.from_arrays(  # the fields below a null are null: DataFusion reads them
    [pa.array([1, None, None], pa.int64()), pa.array(["x", "y", None], pa.string())],
    ["a", "b"],
    mask=pa.array([False, False, True]),
)
_MAP: Final = pa.array([[("a", 1), ("b", 2)], [("b", None)], None], pa.map_(pa.string(), pa.int64()))
_UNION: Final = pa.UnionArray.from_sparse(
    pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["x", "y", "z"])], ["a", "b"]
)
_THREE: Final = pa.array(range(3), pa.int64())

TABLES: Final[Mapping[str, pa.Table]] = {
    "t": _FLAT,
    "n": _LISTS,
    "st": pa.table({"id": _THREE, "st": _STRUCT}),
    "mp": pa.table({"id": _THREE, "mp": _MAP}),
    "w": _WIDE,
    "sp": pa.table({"id": pa.array(range(len(_SPELLINGS)), pa.int64()), "s": pa.array(_SPELLINGS, pa.string())}),
    "un": pa.table({"id": _THREE, "un": _UNION}),
}


def session() -> datafusion.SessionContext:
    """DataFusion with the tables, on one thread, so that rows come in the order of the tables."""
    context: Any = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    for name, table in TABLES.items():
        context.register_record_batches(name, [table.to_batches()])
    return context


def planned(sql: str, context: datafusion.SessionContext) -> bytes:
    return bytes(Serde.serialize_bytes(sql, context))
