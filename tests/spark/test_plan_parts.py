"""Parts of a plan's result: some of its columns and rows."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
import substrait.dataframe as sub
from google.protobuf.json_format import MessageToDict, MessageToJson

import tidegate
from tidegate.plans import plan_bytes
from tidegate.proto.values import PlanBytes
from tidegate.spark.data_source.plan_parts import _names, part_of

from ..clients.plans import rows as frame_of_rows


@pytest.mark.parametrize("encoding", ["json", "binary"])
@pytest.mark.parametrize(("columns", "limit"), [(("v", "k"), None), (("v",), 1), (None, 2)])
def test_a_part_of_a_plan_has_the_columns_and_rows_asked_for(
    encoding: str, columns: tuple[str, ...] | None, limit: int | None
) -> None:
    plan = frame_of_rows().to_plan()
    whole = plan_bytes(plan) if encoding == "binary" else PlanBytes(json=MessageToJson(plan))
    rows = pa.table({"k": [1, 2, 3], "v": [4, 5, 6]})
    part = part_of(whole, rows.schema, columns, limit)
    with tidegate.local() as client, client.create_task(part) as task:
        got = task.run_epoch({"rows": rows}).table()
    assert got.to_pylist() == rows.select(columns or ["k", "v"]).slice(0, limit or 3).to_pylist()


@pytest.mark.parametrize("snake_case", [False, True])
def test_a_part_of_a_plan_of_an_old_release_has_the_plans_functions_and_all_rows(snake_case: bool) -> None:
    """Its functions have numbers, and a fetch without a count has no rows there. JSON may spell fields in two ways."""
    rows = pa.table({"k": pa.array([-1, 2, 3], pa.int32()), "s": ["a", "b", None]})
    frame = sub.read_named_table("rows", {"k": sub.i32, "s": sub.string})
    message = frame.filter(sub.col("k") > sub.lit(0, sub.i32)).to_plan()
    document = MessageToDict(message, preserving_proto_field_name=snake_case)
    urns, anchor, reference = (
        ("extension_urns", "extension_urn_anchor", "extension_urn_reference")
        if snake_case
        else ("extensionUrns", "extensionUrnAnchor", "extensionUrnReference")
    )
    document[urns.replace("rn", "ri")] = [
        {anchor.replace("rn", "ri"): urn[anchor], "uri": "/functions_comparison.yaml"} for urn in document.pop(urns)
    ]
    for extension in document["extensions"]:
        for body in extension.values():
            body[reference.replace("rn", "ri")] = body.pop(reference)
    part = part_of(PlanBytes(json=json.dumps(document)), rows.schema, ["s"], None)
    with tidegate.local() as client:
        assert client.query(part.json, {"rows": rows}).to_pylist() == [{"s": "b"}, {"s": None}]


def test_structs_keep_their_names_where_columns_are_chosen() -> None:
    inner = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.struct([("z", pa.int64())])))])
    types = (pa.int64(), inner, pa.list_(inner), pa.map_(pa.string(), inner))
    assert [_names(type_) for type_ in types] == [1, 4, 4, 4]
