"""The fields of structs come out under the plan's names, whatever these names are. Fields go by position."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pytest

import tidegate

Relation: TypeAlias = dict[str, Any]

NAMES: Final = {
    "empty": ("", "b"),
    "equal": ("a", "a"),
    "equal but for case": ("a", "A"),
    "quotes": ('a"; --', "'b'"),
    "those of a statement": ("f2", "f1"),
}
I64: Final = {"i64": {"nullability": "NULLABILITY_NULLABLE"}}
STRUCT: Final = {"struct": {"types": [I64, I64], "nullability": "NULLABILITY_NULLABLE"}}
LIST: Final = {"list": {"type": STRUCT, "nullability": "NULLABILITY_NULLABLE"}}
VALUES: Final = [(1, 2), (3, None), None, (None, 4)]


def read(source: str, names: tuple[str, str]) -> Relation:
    columns = {"types": [I64, STRUCT, LIST], "nullability": "NULLABILITY_REQUIRED"}
    named = {"names": ["k", "s", *names, "l", *names], "struct": columns}
    return {"read": {"baseSchema": named, "namedTable": {"names": [source]}}}


def column(index: int) -> Relation:
    return {"selection": {"directReference": {"structField": {"field": index}}, "rootReference": {}}}


def sorted_by_key(names: tuple[str, str]) -> Relation:
    by = {"expr": column(0), "direction": "SORT_DIRECTION_ASC_NULLS_FIRST"}
    return {"sort": {"input": read("t", names), "sorts": [by]}}


def united(names: tuple[str, str]) -> Relation:
    return {"set": {"inputs": [read("t", names), read("u", names[::-1])], "op": "SET_OP_UNION_ALL"}}


def projected(names: tuple[str, str]) -> Relation:
    emit = {"emit": {"outputMapping": [3, 4, 5]}}
    return {"project": {"common": emit, "input": read("t", names), "expressions": [column(at) for at in range(3)]}}


def table(names: tuple[str, str], start: int) -> pa.Table:
    struct = pa.struct([pa.field(name, pa.int64()) for name in names])
    structs = _structs(struct, VALUES)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3, 3, 4], pa.int32()), structs)
    return pa.table({"k": range(start, start + len(VALUES)), "s": structs, "l": lists})


def _structs(type_: pa.StructType, values: list[tuple[int | None, int | None] | None]) -> pa.Array:
    fields = [pa.array([None if value is None else value[at] for value in values], pa.int64()) for at in range(2)]
    mask = pa.array([value is None for value in values])
    return pa.StructArray.from_arrays(fields, fields=list(type_), mask=mask)


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("relation", [sorted_by_key, united, projected])
def test_fields_come_out_under_the_plans_names_whatever_they_are(
    relation: Callable[[tuple[str, str]], Relation], names: tuple[str, str], mode: str
) -> None:
    root = {"input": relation(names), "names": ["k", "s", *names, "l", *names]}
    plan = json.dumps({"version": {"minorNumber": 106}, "relations": [{"root": root}]})
    fed = {"t": table(names, 0)}
    if relation is united:
        fed["u"] = table(names[::-1], len(VALUES))
    with tidegate.local() as client, client.create_task(plan, mode=mode) as task:
        result = task.run_epoch(fed).table().select(range(3)).sort_by("k")
    rows = pa.concat_tables([table(names, 0), table(names, len(VALUES))][: len(fed)])
    assert result.schema.types == rows.schema.types
    assert result.combine_chunks().equals(rows.combine_chunks())


@pytest.mark.parametrize("options", [{}, {"determinism": "relaxed"}, {"mode": "continuous"}], ids=str)
@pytest.mark.parametrize("grouped", [False, True])
def test_a_struct_without_fields_is_a_value(options: dict[str, Any], grouped: bool) -> None:
    nothing = {"nested": {"struct": {"fields": []}}}
    structs: Relation = {
        "project": {
            "common": {"emit": {"outputMapping": [3]}},
            "input": read("t", ("a", "b")),
            "expressions": [nothing],
        }
    }
    groups = {"groupings": [{"expressionReferences": [0]}], "groupingExpressions": [column(0)]}
    root = {"input": {"aggregate": {"input": structs, **groups}} if grouped else structs, "names": ["x"]}
    plan = json.dumps({"version": {"minorNumber": 85}, "relations": [{"root": root}]})
    with tidegate.local() as client, client.create_task(plan, **options) as task:
        answer = task.run_epoch({"t": table(("a", "b"), 0)}).table()
    assert answer["x"].type == pa.struct([])
    if "mode" in options:
        assert answer["_weight"].to_pylist() == ([1] if grouped else [len(VALUES)])
    else:
        assert answer["x"].to_pylist() == ([{}] if grouped else [{}] * len(VALUES))
