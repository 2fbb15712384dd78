"""The kinds of index by their names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.operators import indexes
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.indexes import IndexHost, WantedIndex, kind_named, known, open_index, register
from tidegate.proto.errors import InternalError, InvalidRequest
from tidegate.proto.values import MissingColumns

from ..data import column, pieces_of, write
from ..lookups import Squares
from .joining import wanted

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


class SquaresKind:
    name = "squares"
    needed: frozenset[str] = frozenset()
    possible = frozenset({"sign"})

    def open(self, wanted: WantedIndex, host: IndexHost) -> Squares:
        return Squares()


def test_the_kinds_that_are_always_there() -> None:
    assert known() == ("arrow", "file", "sql")


def test_a_kind_can_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "_KINDS", dict(indexes._KINDS))
    register(SquaresKind())
    opened = open_index("squares", wanted(SCHEMA, ["k"], [], sign="+"), IndexHost())
    assert (type(opened), known()) == (Squares, ("arrow", "file", "sql", "squares"))


def test_an_unknown_kind_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidRequest, match="unknown kind of index 'tree'; known are arrow, file, sql") as caught:
        kind_named("tree")
    assert caught.value.reason == "UNKNOWN_INDEX_KIND"


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("arrow", {}, "kind 'arrow' needs the option 'table'; its options are: table"),
        ("sql", {"database": "d"}, "kind 'sql' needs the option 'table'; its options are: database, schema, table"),
        ("file", {"table": "t", "path": "/"}, "kind 'file' has no option 'path'; its options are: table"),
        ("arrow", {"table": "u"}, "there is no table 'u'; there are: 't'"),
        ("sql", {"database": "u", "table": "t"}, "there is no database 'u'; there are: none"),
    ],
)
def test_options_that_do_not_fit_are_named(kind: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidRequest, match=f"index 'of tests': {message}"):
        open_index(kind, wanted(SCHEMA, ["k"], ["v"], **options), IndexHost(tables={"t": ()}))


def test_files_are_looked_up_by_an_instance() -> None:
    with pytest.raises(InternalError, match="there is no DuckDB instance"):
        open_index("file", wanted(SCHEMA, ["k"], ["v"], table="t"), IndexHost(tables={"t": ()}))


@pytest.mark.parametrize("kind", ["arrow", "file"])
def test_a_tables_columns_are_matched_and_cast_as_a_sources_are(kind: str, root: Path, instance: Instance) -> None:
    file = write(root / "year=2024" / "t.parquet", pa.table({"K": pa.array([1, 2], pa.int32())}))
    keys = (column("k", pa.int64()),)
    columns = (column("year", pa.int64()), column("none", pa.string()))
    host = IndexHost(tables={"t": pieces_of(file, root, missing_columns=MissingColumns.NULL)}, instance=instance)
    opened = open_index(kind, WantedIndex(name="t", keys=keys, columns=columns, options={"table": "t"}), host)
    matches = opened.lookup(pa.record_batch({"k0": pa.array([2], pa.int64())}))
    assert matches.columns.to_pylist() == [{"year": 2024, "none": None}]
