"""Plans that the cases run, written with substrait-python's DataFrame."""

from __future__ import annotations

from collections.abc import Iterator

import substrait.dataframe as sub
from google.protobuf.message import Message
from substrait.algebra_pb2 import Rel
from substrait.builders import type as type_

from tidegate.proto.tidegate.v1.relations_pb2 import DeclaredOrder


def filter_project_group(*, has_kernels: bool = True) -> bytes:
    """Of `rows(k, v)`: keep v > 100, double v, and sum and count it by k. A shift in place of a product has no kernel,
    so that the same rows come from a statement.
    """
    doubled = sub.col("v") * 2 if has_kernels else sub.f.shift_left(sub.col("v"), sub.lit(1, sub.i32))
    plan = (
        sub.read_named_table("rows", {"k": sub.i64, "v": sub.i64})
        .filter(sub.col("v") > 100)
        .select("k", doubled.alias("doubled"))
        .group_by("k")
        .agg(sub.f.sum(sub.col("doubled")).alias("total"), sub.f.count(sub.col("doubled")).alias("rows"))
        .to_plan()
    )
    return bytes(plan.SerializeToString())


def read_all(columns: int) -> bytes:
    """Of `wide(c0, c1, ...)`: every row as it is."""
    schema = {f"c{i}": sub.fp64 for i in range(columns)}
    return bytes(sub.read_named_table("wide", schema).to_plan().SerializeToString())


def samples() -> bytes:
    """Of `samples(id, image, features)`: every row as it is."""
    schema = {"id": sub.i64, "image": sub.binary, "features": type_.list(type_.fp32())}
    return bytes(sub.read_named_table("samples", schema).to_plan().SerializeToString())


def static_join() -> bytes:
    """Of `given(n, k)` and `kept(int64, v, w)`: the rows where k is int64, as n, k, v, w."""
    fed = sub.read_named_table("given", {"n": sub.i64, "k": sub.i64})
    kept = sub.read_named_table("kept", {"int64": sub.i64, "v": sub.fp64, "w": sub.i64})
    joined = fed.join(kept, sub.col("k") == sub.col("int64")).select("n", "k", "v", "w")
    return bytes(joined.to_plan().SerializeToString())


def grouped_join() -> bytes:
    """Of `rows(k, v)` and `groups(j, g)`, where k is j: the sum of v and how many rows, for each g."""
    rows = sub.read_named_table("rows", {"k": sub.i64, "v": sub.i64})
    groups = sub.read_named_table("groups", {"j": sub.i64, "g": sub.i64})
    joined = rows.join(groups, sub.col("k") == sub.col("j"))
    measures = sub.f.sum(sub.col("v")).alias("total"), sub.f.count(sub.col("v")).alias("rows")
    return bytes(joined.group_by("g").agg(*measures).to_plan().SerializeToString())


def triples() -> bytes:
    """Of `numbers(n)`: how many triples of rows there are whose sum is odd."""
    one, two, three = (sub.read_named_table("numbers", {"n": sub.i64}).select(sub.col("n").alias(x)) for x in "abc")
    joined = one.cross_join(two).cross_join(three)
    odd = joined.filter((sub.col("a") + sub.col("b") + sub.col("c")) % 2 == 1)
    return bytes(odd.group_by().agg(sub.f.count(sub.col("a")).alias("triples")).to_plan().SerializeToString())


def sorted_groups() -> bytes:
    """Of `rows(k, a, b)`, sorted by k: the sum of a, the number of rows and the least b of each k."""
    columns = {"k": sub.i64, "a": sub.i64, "b": sub.fp64}
    grouped = sub.read_named_table("rows", columns).group_by("k")
    measures = (sub.f.sum(sub.col("a")), sub.f.count(sub.col("k")), sub.f.min(sub.col("b")))
    return _sorted_by_first(grouped.agg(*(measure.alias(name) for measure, name in zip(measures, "snm", strict=True))))


def sorted_sides() -> bytes:
    """Of `l(k, a, b, c)` and `r(j, d, e, f)`, sorted by k and j: the rows where k is j."""
    types = (sub.i64, sub.i64, sub.fp64, sub.i32)
    left, right = (sub.read_named_table(name, dict(zip(names, types, strict=True))) for name, names in SIDES.items())
    return _sorted_by_first(left.join(right, sub.col("k") == sub.col("j")))


SIDES = {"l": "kabc", "r": "jdef"}


def _sorted_by_first(frame: sub.DataFrame) -> bytes:
    """The plan, with each of its sources declared to be sorted by its first column."""
    plan = frame.to_plan()
    key = DeclaredOrder.Key(column=0, direction=DeclaredOrder.DIRECTION_ASC_NULLS_LAST)
    for read in list(_reads(plan)):
        declared = Rel()
        declared.extension_single.input.CopyFrom(read)
        declared.extension_single.detail.Pack(DeclaredOrder(keys=[key]))
        read.CopyFrom(declared)
    return bytes(plan.SerializeToString())


def _reads(message: Message) -> Iterator[Rel]:
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in value if field.is_repeated else (value,):
            if isinstance(part, Rel) and part.WhichOneof("rel_type") == "read":
                yield part
            else:
                yield from _reads(part)
