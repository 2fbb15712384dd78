"""Plans that the tests of the client run for real, written with substrait-python's DataFrame."""

from __future__ import annotations

import substrait.dataframe as sub


def rows() -> sub.DataFrame:
    return sub.read_named_table("rows", {"k": sub.i64, "v": sub.i64})


def doubled() -> bytes:
    """Of `rows(k, v)`: k and twice v, where v is above 10, row by row."""
    return _plan(rows().filter(sub.col("v") > 10).select("k", (sub.col("v") * 2).alias("doubled")))


def totals() -> bytes:
    """Of `rows(k, v)`: the sum of v by k, in the order of k."""
    return _plan(rows().group_by("k").agg(sub.f.sum(sub.col("v")).alias("total")).sort("k"))


def _plan(frame: sub.DataFrame) -> bytes:
    return bytes(frame.to_plan().SerializeToString())
