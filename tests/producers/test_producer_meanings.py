"""Class of bug: a producer's function is Substrait's by its name, and another one by its meaning.

The producers themselves need an environment of their own (`make producers-venv`); these plans are made by hand, as the
producers write them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pytest

import tidegate

OFFICIAL: Final = "extension:io.substrait:functions_"
ROWS: Final = pa.table({"s": ["apple", None], "a": [2, None], "k": [5, 7], "b": [1, 1]})
Plan = Mapping[str, Any]


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as opened:
        yield opened


def column(number: int) -> Plan:
    return {"selection": {"directReference": {"structField": {"field": number}}, "rootReference": {}}}


def short(value: int) -> Plan:
    """A number as ibis writes it."""
    type_ = {"i32": {"nullability": "NULLABILITY_REQUIRED"}}
    return {"cast": {"type": type_, "input": {"literal": {"i64": value}}}}


def answer(client: tidegate.Client, producer: str, relation: Plan, extensions: Plan | None = None) -> list[object]:
    plan = {
        "version": {"minorNumber": 53, "producer": producer},
        **(extensions or {}),
        "relations": [{"root": {"input": relation, "names": ["x"]}}],
    }
    return client.query(json.dumps(plan), {"t": ROWS}).column(0).to_pylist()


def read() -> Plan:
    text = {"string": {"nullability": "NULLABILITY_NULLABLE"}}
    whole = {"i64": {"nullability": "NULLABILITY_NULLABLE"}}
    struct = {"types": [text, whole, whole, whole], "nullability": "NULLABILITY_REQUIRED"}
    return {"read": {"baseSchema": {"names": ["s", "a", "k", "b"], "struct": struct}, "namedTable": {"names": ["t"]}}}


def named(name: str, extension: str = "") -> Plan:
    function = {"functionAnchor": 1, "name": name}
    if not extension:
        return {"extensions": [{"extensionFunction": function}]}
    return {
        "extensionUrns": [{"extensionUrnAnchor": 1, "urn": f"{OFFICIAL}{extension}"}],
        "extensions": [{"extensionFunction": {**function, "extensionUrnReference": 1}}],
    }


def projected(output: str, arguments: Sequence[Plan], *, replaces: bool) -> Plan:
    """The projection to a call. One of DuckDB has the call alone for its columns."""
    call = {
        "functionReference": 1,
        "outputType": {output: {"nullability": "NULLABILITY_NULLABLE"}},
        "arguments": [{"value": one} for one in arguments],
    }
    emit = {} if replaces else {"common": {"emit": {"outputMapping": [4]}}}
    return {"project": {**emit, "input": read(), "expressions": [{"scalarFunction": call}]}}


@pytest.mark.parametrize(
    ("name", "output", "arguments", "expected"),
    [
        ("concat", "string", [column(0), {"literal": {"string": "!"}}], ["apple!", "!"]),
        ("||", "string", [column(0), {"literal": {"string": "!"}}], ["apple!", None]),
        ("greatest", "i64", [column(1), column(2)], [5, 7]),
        ("least", "i64", [column(1), column(2)], [2, 7]),
        ("subtract", "i64", [column(1)], [-2, None]),
        ("subtract", "i64", [column(2), column(1)], [3, None]),
        ("~", "i64", [column(1)], [-3, None]),
        ("**", "fp64", [column(1), column(1)], [4.0, None]),
        ("^", "fp64", [column(1), column(1)], [4.0, None]),
    ],
)
def test_a_function_of_duckdb_is_duckdb_s(
    client: tidegate.Client, name: str, output: str, arguments: Sequence[Plan], expected: list[object]
) -> None:
    relation = projected(output, arguments, replaces=True)
    assert answer(client, "DuckDB", relation, named(name)) == expected


def test_a_correlation_of_duckdb_is_null_where_it_is_not_defined(client: tidegate.Client) -> None:
    measure = {
        "functionReference": 1,
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
        "outputType": {"fp64": {"nullability": "NULLABILITY_NULLABLE"}},
        "arguments": [{"value": column(2)}, {"value": column(3)}],
    }
    relation = {"aggregate": {"input": read(), "measures": [{"measure": measure}]}}
    correlation = named("corr:fp64_fp64", "arithmetic")
    assert answer(client, "DuckDB", relation, correlation) == [None]


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [(0, 2, "ap"), (1, 2, "pp"), (4, 9, "e"), (5, 1, ""), (-1, 1, "e"), (-3, 2, "pl"), (0, 0, "")],
)
def test_a_substring_of_ibis_counts_from_zero(client: tidegate.Client, start: int, count: int, expected: str) -> None:
    relation = projected("string", [column(0), short(start), short(count)], replaces=False)
    substring = named("substring:str_i32_i32", "string")
    assert answer(client, "ibis-substrait", relation, substring) == [expected, None]
    assert [expected, None] == [value and value[start:][:count] for value in ROWS["s"].to_pylist()]


def test_a_substring_of_another_producer_counts_from_one(client: tidegate.Client) -> None:
    relation = projected("string", [column(0), short(1), short(2)], replaces=False)
    assert answer(client, "another", relation, named("substring:str_i32_i32", "string")) == ["ap", None]


def skipping(**fetch: int) -> Plan:
    emit = {"common": {"emit": {"outputMapping": [2]}}}
    return {"project": {**emit, "input": {"fetch": {"input": read(), **fetch}}}}


@pytest.mark.parametrize(
    ("producer", "fetch", "expected"),
    [
        ("ibis-substrait", {"offset": 1}, [7]),
        ("ibis-substrait", {"offset": 1, "count": 1}, [7]),
        ("ibis-substrait", {}, []),
        ("another", {"offset": 1}, []),
    ],
)
def test_an_offset_of_ibis_alone_has_no_limit(
    client: tidegate.Client, producer: str, fetch: Mapping[str, int], expected: list[int]
) -> None:
    assert answer(client, producer, skipping(**fetch)) == expected


def test_an_offset_of_ibis_alone_comes_with_a_warning(client: tidegate.Client) -> None:
    plan = {
        "version": {"minorNumber": 50, "producer": "ibis-substrait"},
        "relations": [{"root": {"input": skipping(offset=1), "names": ["x"]}}],
    }
    (warning,) = client.warnings(json.dumps(plan))
    assert "without a limit" in warning
