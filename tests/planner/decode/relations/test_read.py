"""`ReadRel`: named tables, virtual tables, local files; filter, projection."""

from __future__ import annotations

import base64

import pytest

from tidegate.planner import ir
from tidegate.planner.ir import types as t

from ..plans import (
    I64,
    I64_NULL,
    TEXT,
    Node,
    call,
    decode,
    decode_binary,
    field,
    number,
    only,
    plan,
    problem,
    table,
    text,
)


def read(kind: str, body: Node, *types: Node, **more: Node) -> Node:
    names = ["a", "b", "c"][: len(types)]
    return {"read": {"baseSchema": {"names": names, "struct": {"types": [*types]}}, kind: body, **more}}


def mask(*fields: int) -> Node:
    return {"select": {"structItems": [{"field": index} for index in fields]}}


def test_a_named_table_is_a_source_by_its_parts() -> None:
    decoded_read = only(
        decode(plan(read("namedTable", {"names": ["lake", "t"]}, I64, TEXT), ["x", "y"])).plan.root, ir.Read
    )
    assert (decoded_read.source, decoded_read.names) == ("lake.t", ("a", "b"))
    assert decoded_read.schema == (t.Integer(bits=64, nullable=False), t.String(nullable=False))


def test_the_filter_sees_all_columns_and_the_projection_comes_after_it() -> None:
    relation = table(I64, TEXT, I64, filter=call("equal", field(2), number(1)), projection=mask(1, 0))
    project = only(decode(plan(relation, ["x", "y"])).plan.root, ir.Project)
    assert [expression.index for expression in project.expressions] == [1, 0]
    assert len(only(project.input, ir.Filter).schema) == 3


def test_a_projection_gives_columns_in_the_order_listed() -> None:
    root = decode(plan(table(I64, TEXT, I64_NULL, projection=mask(2, 1)), ["x", "y"])).plan.root
    assert root.schema == (t.Integer(bits=64), t.String(nullable=False))


PAIR: Node = {"struct": {"types": [I64, TEXT], "nullability": "NULLABILITY_NULLABLE"}}
LIST: Node = {"list": {"type": I64, "nullability": "NULLABILITY_NULLABLE"}}
MAP: Node = {"map": {"key": TEXT, "value": I64, "nullability": "NULLABILITY_NULLABLE"}}
ONE: Node = {"structItems": [{"field": 0}]}


@pytest.mark.parametrize(
    ("type_", "child", "reason", "end"),
    [
        (LIST, {"list": {"child": {"struct": ONE}}}, "UNSUPPORTED_MASK", ""),
        (MAP, {"map": {"key": {"mapKey": "a"}}}, "UNSUPPORTED_MASK", ""),
        (PAIR, {"struct": {}}, "UNSUPPORTED_MASK", ""),
        (PAIR, {}, "MISSING", ""),
        (I64, {"struct": ONE}, "BAD_REFERENCE", ""),
        (PAIR, {"struct": {"structItems": [{"field": 2}]}}, "OUT_OF_RANGE", ".struct.struct_items[0].field"),
        (PAIR, {"struct": {"structItems": [{"field": 0, "child": {"struct": ONE}}]}}, "BAD_REFERENCE", None),
    ],
)
def test_a_mask_inside_a_column_that_cannot_be_run_is_refused_by_name(
    type_: Node, child: Node, reason: str, end: str | None
) -> None:
    names = ["s", "x", "y"] if type_ is PAIR else ["s"]
    body = {"names": names, "struct": {"types": [type_]}}
    inner = {"select": {"structItems": [{"field": 0, "child": child}]}}
    relation = {"read": {"baseSchema": body, "namedTable": {"names": ["t"]}, "projection": inner}}
    reported = problem(plan(relation, ["s"]))
    deeper = ".struct.struct_items[0].child" if end is None else end
    assert (reported.reason, reported.place.partition("struct_items[0].child")[2]) == (reason, deeper)


def test_a_best_effort_filter_is_left_out_and_said_to_be() -> None:
    decoded = decode(plan(table(I64, bestEffortFilter=call("equal", field(0), number(1))), ["x"]))
    assert isinstance(decoded.plan.root, ir.Read)
    assert "best-effort" in decoded.warnings[0]


@pytest.mark.parametrize("kind", ["extensionTable", "icebergTable"])
def test_other_tables_are_refused_by_name(kind: str) -> None:
    assert problem(plan(read(kind, {}, I64), ["x"])).reason == "UNSUPPORTED_READ"


# ---------------------------------------------------------------------------------------------- virtual tables


def test_rows_may_be_expressions() -> None:
    rows = {"expressions": [{"fields": [number(1), call("add", number(1), number(2))]}]}
    decoded_values = only(decode(plan(read("virtualTable", rows, I64, I64), ["x", "y"])).plan.root, ir.Values)
    ((one, two),) = decoded_values.rows
    assert (one.value, type(two)) == (1, ir.Call)


def test_rows_may_be_literals_as_they_once_were() -> None:
    rows = {"values": [{"fields": [{"i64": "1"}]}, {"fields": [{"i64": "2"}]}]}
    decoded_values = only(decode_binary(plan(read("virtualTable", rows, I64), ["x"])).plan.root, ir.Values)
    assert [row[0].value for row in decoded_values.rows] == [1, 2]


def test_a_table_may_have_no_rows() -> None:
    assert only(decode(plan(read("virtualTable", {}, I64), ["x"])).plan.root, ir.Values).rows == ()


def test_a_number_of_another_width_is_cast_to_its_column() -> None:
    rows = {"values": [{"fields": [{"i32": 1}]}]}
    decoded_values = only(decode(plan(read("virtualTable", rows, I64), ["x"])).plan.root, ir.Values)
    assert isinstance(decoded_values.rows[0][0], ir.Cast)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([{"i64": 1}, {"i64": 2}], "WRONG_WIDTH"),
        ([{"date": 3}], "MIXED_TYPES"),
        ([{"null": I64_NULL}], "NULL_IN_REQUIRED"),
    ],
)
def test_a_row_that_does_not_fit_is_a_problem(fields: list[Node], reason: str) -> None:
    reported = problem(plan(read("virtualTable", {"values": [{"fields": fields}]}, I64), ["x"]))
    assert reported.reason == reason
    assert "virtual_table.values[0]" in reported.place


@pytest.mark.parametrize(
    "rows", [{"values": [{"fields": [{"null": {}}]}]}, {"expressions": [{"fields": [{"literal": {"null": {}}}]}]}]
)
def test_a_null_without_a_type_has_its_column_s(rows: Node) -> None:
    ((null,),) = only(decode(plan(read("virtualTable", rows, I64_NULL), ["x"])).plan.root, ir.Values).rows
    assert (null.value, null.type) == (None, t.Integer(bits=64))


def test_the_release_that_wrote_rows_otherwise_is_refused() -> None:
    rows = {"expressions": [{"fields": [number(1)]}]}
    version = {"minorNumber": 58}
    assert problem(plan(read("virtualTable", rows, I64), ["x"], version=version)).reason == "UNSUPPORTED_READ"


# ------------------------------------------------------------------------------------------------- local files


@pytest.mark.parametrize(
    ("item", "path"),
    [
        ({"uriFile": "file:///data/a%20b.parquet"}, "/data/a b.parquet"),
        ({"uriPath": "relative/x.parquet"}, "relative/x.parquet"),
        ({"uriFolder": "file:/data/lake"}, "/data/lake"),
        ({"uriPathGlob": "file:///data/*.parquet"}, "/data/*.parquet"),
        ({"uriFile": "s3://bucket/a.parquet"}, "s3://bucket/a.parquet"),
    ],
)
def test_paths_are_taken_out_of_file_uris(item: Node, path: str) -> None:
    body = {"items": [{**item, "parquet": {}}]}
    decoded_files = only(decode(plan(read("localFiles", body, I64), ["x"])).plan.root, ir.LocalFiles)
    assert decoded_files.items == (ir.FileItem(path=path, format="parquet"),)


@pytest.mark.parametrize(
    ("kind", "name"), [("parquet", "parquet"), ("arrow", "arrow"), ("orc", "orc"), ("text", "csv"), (None, "")]
)
def test_formats_are_named(kind: str | None, name: str) -> None:
    options: Node = {} if kind is None else {kind: {"headerLinesToSkip": "1"} if kind == "text" else {}}
    body = {"items": [{"uriFile": "/x", **options}]}
    assert only(decode(plan(read("localFiles", body, I64), ["x"])).plan.root, ir.LocalFiles).items[0].format == name


@pytest.mark.parametrize("options", [{"dwrf": {}}, {"extension": {"@type": "x"}}])
def test_other_formats_are_refused_by_name(options: Node) -> None:
    body = {"items": [{"uriFile": "/x", **options}]}
    assert problem(plan(read("localFiles", body, I64), ["x"])).reason == "UNSUPPORTED_FORMAT"


@pytest.mark.parametrize(
    "option", [{"fieldDelimiter": "|"}, {"quote": "'"}, {"headerLinesToSkip": "0"}, {"valueTreatedAsNull": "NULL"}]
)
def test_text_options_that_would_be_read_otherwise_are_refused(option: Node) -> None:
    body = {"items": [{"uriFile": "/x", "text": {"headerLinesToSkip": "1", **option}}]}
    assert problem(plan(read("localFiles", body, I64), ["x"])).reason == "UNSUPPORTED_FORMAT"


def test_what_is_no_file_uri_is_refused() -> None:
    body = {"items": [{"uriFile": "file://[", "parquet": {}}]}
    refused = problem(plan(read("localFiles", body, I64), ["x"]))
    assert (refused.reason, "is no file URI" in refused.message) == ("BAD_PATH", True)


def test_a_file_on_another_host_is_refused() -> None:
    body = {"items": [{"uriFile": "file://elsewhere/x"}]}
    assert problem(plan(read("localFiles", body, I64), ["x"])).reason == "BAD_PATH"


def test_a_decimal_row_keeps_every_digit() -> None:
    value = base64.b64encode((10**37 + 1).to_bytes(16, "little")).decode()
    size = {"precision": 38, "scale": 2}
    rows = {"values": [{"fields": [{"decimal": {"value": value, **size}}]}]}
    decoded_values = only(decode(plan(read("virtualTable", rows, {"decimal": size}), ["x"])).plan.root, ir.Values)
    assert str(decoded_values.rows[0][0].value) == "1" + "0" * 35 + ".01"


def test_text_stays_text() -> None:
    rows = {"expressions": [{"fields": [text("a'b")]}]}
    assert only(decode(plan(read("virtualTable", rows, TEXT), ["x"])).plan.root, ir.Values).rows[0][0].value == "a'b"
