"""The index over a table of a SQL database: SQLite."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidegate.operators.indexes.sql import SqlIndex, sqlite
from tidegate.proto.errors import ExecutionError, SplitError
from tidegate.proto.values import MissingColumns

from ..data import column
from .joining import connected, tuples, write_sqlite


def over(
    path: Path, keys: dict[str, pa.DataType], columns: dict[str, pa.DataType], table: str = "t", **how: Any
) -> SqlIndex:
    read = {name: column(name, type_) for name, type_ in {**keys, **columns}.items()}
    wanted = {"keys": [read[key] for key in keys], "columns": [read[name] for name in columns]}
    return SqlIndex("s", sqlite(str(path)), [table], **wanted, **how)


def look_up(index: SqlIndex, keys: pa.Array) -> list[tuple[Any, ...]]:
    """The columns of all matches. Closes the index."""
    with closing(index):
        return tuples([index.lookup(pa.record_batch({"k0": keys})).columns])


@pytest.mark.parametrize("name", ['a "quoted" one', "x; DROP TABLE t", "select", "a.b", "ü"])
def test_names_are_names_whatever_is_in_them(name: str, tmp_path: Path) -> None:
    file = write_sqlite(tmp_path / "d.db", pa.table({name: ["k"], f"{name}2": [1]}), name=name)
    index = over(file, {name: pa.string()}, {f"{name}2": pa.int64()}, table=name)
    assert look_up(index, pa.array(["k"])) == [(1,)]


@pytest.mark.parametrize("key", ["' OR 1 = 1 --", '"', "?", "x' UNION SELECT 1"])
def test_keys_are_values_whatever_is_in_them(key: str, tmp_path: Path) -> None:
    file = write_sqlite(tmp_path / "d.db", pa.table({"k": ["a", key], "v": [1, 2]}), name="t")
    assert look_up(over(file, {"k": pa.string()}, {"v": pa.int64()}), pa.array([key])) == [(2,)]


def test_a_collation_does_not_make_other_keys_equal(tmp_path: Path) -> None:
    table = pa.table({"k": ["a", "A"], "v": [1, 2]})
    file = write_sqlite(tmp_path / "d.db", table, name="t", kinds="k TEXT COLLATE NOCASE, v")
    assert look_up(over(file, {"k": pa.string()}, {"v": pa.int64()}), pa.array(["A"])) == [(2,)]


def test_values_become_what_the_plan_says(tmp_path: Path) -> None:
    file = write_sqlite(
        tmp_path / "d.db", pa.table({"k": [1], "small": [7], "none": pa.nulls(1), "real": [1.5]}), name="t"
    )
    columns = {"small": pa.int8(), "none": pa.string(), "real": pa.float32()}
    with closing(over(file, {"k": pa.int64()}, columns)) as index:
        matched = index.lookup(pa.record_batch({"k0": [1]})).columns
    assert (matched.schema.types, tuples([matched])) == (list(columns.values()), [(7, None, 1.5)])


@pytest.mark.parametrize(
    ("value", "type_", "message"),
    [
        (300, pa.int8(), "column 'v': 300 is not a value of type int8"),
        ("2024-01-01", pa.date32(), "column 'v' is string in the database, and date32"),
    ],
)
def test_values_that_do_not_fit_are_named(value: object, type_: pa.DataType, message: str, tmp_path: Path) -> None:
    file = write_sqlite(tmp_path / "d.db", pa.table({"k": [1], "v": [value]}), name="t")
    with pytest.raises(ExecutionError, match=message):
        look_up(over(file, {"k": pa.int64()}, {"v": type_}), pa.array([1]))


def test_a_database_that_is_locked_may_be_tried_again(tmp_path: Path) -> None:
    file = write_sqlite(tmp_path / "d.db", pa.table({"k": [1], "v": [2]}), name="t")
    keys = pa.record_batch({"k0": [1]})
    with (
        closing(over(file, {"k": pa.int64()}, {"v": pa.int64()})) as index,
        connected(file) as writer,
        writer.cursor() as cursor,
    ):
        cursor.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Exception, match="locked") as caught:
            index.lookup(keys)
        cursor.execute("COMMIT")
        assert index.retryable(caught.value)
        assert index.lookup(keys).rows.tolist() == [0]


def test_a_wrong_statement_is_not_tried_again(tmp_path: Path) -> None:
    file = write_sqlite(tmp_path / "d.db", pa.table({"k": [1]}), name="t")
    index = over(file, {"k": pa.int64()}, {}, table="elsewhere")
    with pytest.raises(Exception, match="no such table") as caught:
        look_up(index, pa.array([1]))
    assert not index.retryable(caught.value)


def test_a_look_up_writes_nothing(tmp_path: Path) -> None:
    file = write_sqlite(tmp_path / "d.db", pa.table({"k": [1]}), name="t")
    with (
        sqlite(str(file)).connect() as connection,
        connection.cursor() as cursor,
        pytest.raises(Exception, match="readonly"),
    ):
        cursor.execute("DELETE FROM t")


def test_a_name_that_sql_cannot_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="cannot be written as a name"):
        over(tmp_path / "d.db", {"a\0b": pa.int64()}, {})


def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    file = write_sqlite(tmp_path / "d.db", pa.table({"k": [1], "V": [2]}), name="t")
    with pytest.raises(SplitError, match=r"column 'nope' of table 't' is missing; there are: 'k', 'V'") as refused:
        look_up(over(file, {"k": pa.int64()}, {"v": pa.int64(), "nope": pa.string()}), pa.array([1]))
    assert refused.value.reason == "MISSING_COLUMN"


@pytest.mark.parametrize("keys", [{"k": pa.int64()}, {"nokey": pa.int64()}], ids=["a column", "a key"])
def test_a_column_that_is_not_there_is_null_where_the_task_says_so(
    keys: dict[str, pa.DataType], tmp_path: Path
) -> None:
    file = write_sqlite(tmp_path / "d.db", pa.table({"k": [1, 2], "v": [2, 3]}), name="t")
    columns = {"nope": pa.string(), "v": pa.int64()}
    index = over(file, keys, columns, missing=MissingColumns.NULL)
    if "nokey" in keys:
        with pytest.raises(SplitError, match="required column 'nokey' of table 't' is missing"):
            look_up(index, pa.array([2]))
        return
    assert look_up(index, pa.array([2])) == [(None, 3)]
