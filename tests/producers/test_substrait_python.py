"""Frames of substrait-python whose relations have layouts of their own, against their rows written out."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
import substrait.dataframe as sub

import tidegate

SCHEMA = {"city": sub.string, "open": sub.boolean, "spring": sub.i64, "autumn": sub.i64}
SALES = pa.table(
    {"city": ["Cork", None], "open": [True, False], "spring": [1, None], "autumn": [3, 4]},
    schema=pa.schema(
        [("city", pa.string()), ("open", pa.bool_()), ("spring", pa.int64()), ("autumn", pa.int64())],
    ),
)


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as local:
        yield local


def sales() -> sub.DataFrame:
    return sub.read_named_table("sales", SCHEMA)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (
            sales().unpivot(["spring", "autumn"], ["city"]),
            [("Cork", "spring", 1), ("Cork", "autumn", 3), (None, "spring", None), (None, "autumn", 4)],
        ),
        (sales().unpivot("autumn"), [("autumn", 3), ("autumn", 4)]),
        (
            sales().unpivot(["spring", "autumn"]).group_by("variable").agg(sub.f.sum(sub.col("value")).alias("all")),
            [("spring", 1), ("autumn", 7)],
        ),
    ],
)
def test_columns_become_rows(frame: sub.DataFrame, expected: list[tuple[object, ...]], client: tidegate.Client) -> None:
    rows = client.query(frame.to_plan(), {"sales": SALES}).to_pylist()
    assert sorted(map(repr, (tuple(row.values()) for row in rows))) == sorted(map(repr, expected))
