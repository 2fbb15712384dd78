"""Writes plans with ibis-substrait. It runs in the producers' own environment, where Tidegate is not installed.

Standard input has a JSON list of queries in Python, or null for `QUERIES`. Writes one JSON object: for each query its
plan (base64) and, for an oracle, its SQL in DuckDB's dialect. A query that the producer does not write has the error
instead.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import ibis
from ibis_substrait.compiler.core import SubstraitCompiler

T = ibis.table(
    [("k", "int64"), ("a", "int64"), ("f", "float64"), ("s", "string"), ("d", "date"), ("b", "boolean")], "t"
)
U = ibis.table([("k", "int64"), ("name", "string")], "u")

QUERIES: dict[str, Any] = {
    "filter": T.filter(T.a > 1),
    "filters": T.filter([T.a > 1, T.f < 5.0]),
    "select": T.select(T.k, x=T.a + T.k, y=T.f * 2),
    "mutate": T.mutate(z=T.a - T.k),
    "negated": T.filter(~T.b),
    "is null": T.filter(T.s.isnull()),
    "is not null": T.filter(T.s.notnull()),
    "between": T.filter(T.a.between(0, 2)),
    "in a list": T.filter(T.a.isin([1, 2, 5])),
    "or": T.filter((T.a == 1) | (T.a == 2)),
    "case": T.select(x=ibis.case().when(T.a > 1, "many").when(T.a == 1, "one").else_("none").end()),
    "if": T.select(x=ibis.ifelse(T.b, T.a, T.k)),
    "coalesce": T.select(x=ibis.coalesce(T.a, T.k, 0)),
    "cast to a float": T.select(x=T.a.cast("float64")),
    "cast to a text": T.select(x=T.a.cast("string")),
    "upper": T.select(x=T.s.upper()),
    "lower": T.select(x=T.s.lower()),
    "length": T.select(x=T.s.length()),
    "like": T.filter(T.s.like("%a%")),
    "starts with": T.filter(T.s.startswith("a")),
    "ends with": T.filter(T.s.endswith("a")),
    "substring": T.select(x=T.s.substr(0, 2)),
    "replace": T.select(x=T.s.replace("a", "o")),
    "concat": T.select(x=T.s + "!"),
    "strip": T.select(x=T.s.strip()),
    "year": T.select(x=T.d.year()),
    "month": T.select(x=T.d.month()),
    "abs": T.select(x=T.a.abs()),
    "floor": T.select(x=T.f.floor()),
    "ceil": T.select(x=T.f.ceil()),
    "round": T.select(x=T.f.round(1)),
    "sqrt": T.select(x=T.f.abs().sqrt()),
    "divide": T.select(x=T.f / 3.0),
    "divide integers": T.select(x=T.a / T.k),
    "modulo": T.select(x=T.a % 3),
    "power": T.select(x=T.f**2),
    "count": T.aggregate(n=T.count()),
    "sum by": T.group_by(T.a).aggregate(n=T.f.sum()),
    "mean by": T.group_by(T.a).aggregate(n=T.f.mean()),
    "min and max by": T.group_by(T.s).aggregate(low=T.f.min(), high=T.f.max()),
    "count of a column": T.group_by(T.a).aggregate(n=T.s.count()),
    "count distinct": T.aggregate(n=T.s.nunique()),
    "std": T.aggregate(n=T.f.std()),
    "var of a population": T.aggregate(n=T.f.var(how="pop")),
    "filtered sum": T.aggregate(n=T.f.sum(where=T.a > 1)),
    "having": T.group_by(T.a).aggregate(n=T.count()).filter(lambda t: t.n > 1),
    "distinct": T.select(T.a).distinct(),
    "sort": T.order_by([T.a.desc(), T.k]),
    "limit": T.order_by(T.k).limit(3),
    "limit with an offset": T.order_by(T.k).limit(3, offset=2),
    "inner join": T.join(U, T.k == U.k).select(T.k, U.name),
    "left join": T.join(U, T.k == U.k, how="left").select(T.k, U.name),
    "semi join": T.semi_join(U, T.k == U.k),
    "anti join": T.anti_join(U, T.k == U.k),
    "union": T.select(T.k).union(U.select(U.k)),
    "union distinct": T.select(T.k).union(U.select(U.k), distinct=True),
    "intersect": T.select(T.k).intersect(U.select(U.k)),
    "difference": T.select(T.k).difference(U.select(U.k)),
    "row number": T.mutate(n=ibis.row_number().over(order_by=T.k)),
    "running sum": T.mutate(n=T.f.sum().over(ibis.window(group_by=T.a, order_by=T.k, preceding=None, following=0))),
    "lag": T.mutate(n=T.k.lag().over(ibis.window(order_by=T.k))),
}


def written(query: Any) -> dict[str, str]:
    try:
        query = eval(query, {"ibis": ibis, "T": T, "U": U}) if isinstance(query, str) else query
        plan = SubstraitCompiler().compile(query)
        return {
            "plan": base64.b64encode(plan.SerializeToString()).decode(),
            "sql": str(ibis.to_sql(query, dialect="duckdb")),
        }
    except Exception as error:  # noqa: BLE001 (what the producer does not write, it says in many ways)
        return {"error": f"{type(error).__name__}: {error}"[:200]}


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    queries = dict(zip(asked, asked, strict=True)) if asked else QUERIES
    print(json.dumps({name: written(query) for name, query in queries.items()}))
