"""Plans that the tests of the client run for real, written with substrait-python's DataFrame."""

from __future__ import annotations

import substrait.dataframe as sub
from google.protobuf import json_format

from tidegate.proto.encoding.wire_format import varint


def rows() -> sub.DataFrame:
    return sub.read_named_table("rows", {"k": sub.i64, "v": sub.i64})


def doubled() -> bytes:
    """Of `rows(k, v)`: k and twice v, where v is above 10, row by row."""
    return _plan(rows().filter(sub.col("v") > 10).select("k", (sub.col("v") * 2).alias("doubled")))


def totals() -> bytes:
    """Of `rows(k, v)`: the sum of v by k, in the order of k."""
    return _plan(_totals())


def totals_written(*table: str, mode: str = "error") -> bytes:
    """`totals` into a table."""
    return _plan(_totals().write_named_table(table, mode=mode))


def totals_json() -> str:
    """`totals` as JSON."""
    return json_format.MessageToJson(_totals().to_plan())


def _totals() -> sub.DataFrame:
    return rows().group_by("k").agg(sub.f.sum(sub.col("v")).alias("total")).sort("k")


def deep(levels: int, count: int) -> bytes:
    """The first `count` of `rows(k, v)`, so many times one in another: more than protobuf's own classes can nest."""
    plan = rows().to_plan()
    (relation,) = plan.relations
    encoded = relation.root.input.SerializeToString()
    names = b"".join(_field(2, name.encode()) for name in relation.root.names)
    for _ in range(levels):
        encoded = _field(3, _field(2, encoded) + b"\x18\x00\x20" + varint(count))  # FetchRel: input, offset, count
    del plan.relations[:]
    return bytes(plan.SerializeToString()) + _field(3, _field(2, _field(1, encoded) + names))


def _field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def _plan(frame: sub.DataFrame) -> bytes:
    return bytes(frame.to_plan().SerializeToString())
