"""Unnest in plans, end to end, against DuckDB."""

from __future__ import annotations

import json

import duckdb
import pyarrow as pa
import pytest
from google.protobuf import json_format
from google.protobuf.wrappers_pb2 import Int64Value
from substrait import plan_pb2

import tidegate
from tidegate.relations import Unnest

from .operated_plans import I64, list_of, operated, picked, plan, read

ROWS = pa.table(
    {
        "k": pa.array([1, 2, 3, 4], pa.int64()),
        "items": pa.array([[1, 2, 3], [], None, [4, None]], pa.list_(pa.int64())),
        "more": pa.array([[7], [8, 9], [], None], pa.list_(pa.int64())),
    }
)
SOURCE = read("rows", {"k": I64, "items": list_of(I64), "more": list_of(I64)})


def answer(relation: object, *names: str, **options: object) -> list[tuple[object, ...]]:
    with tidegate.local() as client, client.create_task(plan(relation, names), **options) as task:
        result = task.run_epoch({"rows": ROWS}).table()
    return list(zip(*(column.to_pylist() for column in result.columns), strict=True))


def test_a_list_becomes_rows_in_its_order() -> None:
    unnested = picked(operated(Unnest(columns=[1]), SOURCE), 4, [0, 3])
    rows = ROWS  # noqa: F841 (DuckDB finds it by name)
    assert answer(unnested, "k", "item") == duckdb.sql("SELECT k, unnest(items) FROM rows").fetchall()


def test_lists_side_by_side_are_zipped() -> None:
    unnested = picked(operated(Unnest(columns=[1, 2]), SOURCE), 5, [0, 3, 4])
    rows = ROWS  # noqa: F841
    expected = duckdb.sql("SELECT k, unnest(items), unnest(more) FROM rows").fetchall()
    assert answer(unnested, "k", "item", "other") == expected


def test_outer_keeps_rows_without_items_and_ordinality_counts_the_others() -> None:
    unnested = picked(operated(Unnest(columns=[1], outer=True, ordinality=True), SOURCE), 5, [0, 3, 4])
    assert answer(unnested, "k", "item", "n") == [
        (1, 1, 1),
        (1, 2, 2),
        (1, 3, 3),
        (2, None, None),
        (3, None, None),
        (4, 4, 1),
        (4, None, 2),
    ]


def test_the_items_of_items_are_unnested_again() -> None:
    source = read("rows", {"k": I64, "items": list_of(list_of(I64))})
    inner = operated(Unnest(columns=[2]), operated(Unnest(columns=[1]), source))
    nested = pa.table({"k": [1], "items": pa.array([[[1, 2], [3]]], pa.list_(pa.list_(pa.int64())))})
    with tidegate.local() as client, client.create_task(plan(picked(inner, 4, [0, 3]), ["k", "item"])) as task:
        assert task.run_epoch({"rows": nested}).table().column(1).to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("prefix", ["", "some.company/", "type.googleapis.com/"])
def test_the_message_is_known_under_any_prefix(prefix: str) -> None:
    unnested = picked(operated(Unnest(columns=[1]), SOURCE, prefix=prefix), 4, [3])
    assert answer(unnested, "item") == [(1,), (2,), (3,), (4,), (None,)]


def test_a_plan_in_json_has_the_message_in_protobuf_s_own_form() -> None:
    message = plan_pb2.Plan.FromString(plan(picked(operated(Unnest(columns=[1]), SOURCE), 4, [3]), ["item"]))
    text = json_format.MessageToJson(message)
    assert json.loads(text)["relations"][0]["root"]["input"]["project"]["input"]["extensionSingle"]["detail"][
        "@type"
    ].endswith("tidegate.v1.Unnest")
    with tidegate.local() as client, client.create_task(text) as task:
        assert task.run_epoch({"rows": ROWS}).table().column(0).to_pylist() == [1, 2, 3, 4, None]


def test_rows_come_before_the_seal() -> None:
    unnested = picked(operated(Unnest(columns=[1]), SOURCE), 4, [3])
    with tidegate.local() as client, client.create_task(plan(unnested, ["item"])) as task:
        task.add_split("rows", ROWS)
        (frame,) = task.next(wait=30)
        assert isinstance(frame, tidegate.Data)
        assert frame.rows == 5


def test_what_is_no_list_is_refused_with_its_place() -> None:
    with tidegate.local() as client:
        (problem,) = client.validate(plan(operated(Unnest(columns=[0]), SOURCE), ["k", "items", "more", "item"]))
    assert (problem.reason, problem.place) == ("NOT_A_LIST", "relations[0].root.input.extension_single.detail.columns")


def test_another_message_is_refused_by_its_name() -> None:
    with tidegate.local() as client:
        (problem,) = client.validate(plan(operated(Int64Value(value=1), SOURCE), ["k", "items", "more"]))
    assert "google.protobuf.Int64Value is not a known type URL; there are: tidegate.v1.Unnest" in problem.message
