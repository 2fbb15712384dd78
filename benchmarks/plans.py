"""Plans that the cases run, written with substrait-python's DataFrame."""

from __future__ import annotations

import substrait.dataframe as sub


def filter_project_group() -> bytes:
    """Of `rows(k, v)`: keep v > 100, double v, and sum and count it by k."""
    plan = (
        sub.read_named_table("rows", {"k": sub.i64, "v": sub.i64})
        .filter(sub.col("v") > 100)
        .select("k", (sub.col("v") * 2).alias("doubled"))
        .group_by("k")
        .agg(sub.f.sum(sub.col("doubled")).alias("total"), sub.f.count(sub.col("doubled")).alias("rows"))
        .to_plan()
    )
    return bytes(plan.SerializeToString())


def read_all(columns: int) -> bytes:
    """Of `wide(c0, c1, ...)`: every row as it is."""
    schema = {f"c{i}": sub.fp64 for i in range(columns)}
    return bytes(sub.read_named_table("wide", schema).to_plan().SerializeToString())


def static_join() -> bytes:
    """Of `given(n, k)` and `kept(int64, v, w)`: the rows where k is int64, as n, k, v, w."""
    given = sub.read_named_table("given", {"n": sub.i64, "k": sub.i64})
    kept = sub.read_named_table("kept", {"int64": sub.i64, "v": sub.fp64, "w": sub.i64})
    joined = given.join(kept, sub.col("k") == sub.col("int64")).select("n", "k", "v", "w")
    return bytes(joined.to_plan().SerializeToString())
