"""Class of bug: a plan of substrait-python's data frames that loses a part on its way to Tidegate.

Each random chain of a data frame's methods is also written as SQL, which DuckDB runs over the same rows. The plan goes
in as protobuf and as JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pytest
import substrait.dataframe as sub
from google.protobuf import json_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidegate

from ..duckdb_oracle import oracle
from ..searching import tries

SCHEMA: Final = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
TYPES: Final = {"k": sub.i64, "v": sub.i64, "s": sub.string}
ORDER: Final = "ORDER BY k DESC NULLS LAST, v ASC NULLS LAST, s ASC NULLS LAST"
ROWS: Final = st.lists(
    st.tuples(
        st.none() | st.integers(0, 4), st.none() | st.integers(-9, 9), st.none() | st.sampled_from(["", "a", "b'"])
    ),
    max_size=12,
)


@dataclass(frozen=True)
class Query:
    """A data frame and SQL of one meaning, both with the columns k, v, s."""

    frame: sub.DataFrame
    sql: str


@dataclass(frozen=True)
class Step:
    """A call of a method of data frames, and its SQL over `t`."""

    frame: Callable[[sub.DataFrame], sub.DataFrame]
    sql: str

    def __call__(self, of: Query) -> Query:
        return Query(self.frame(of.frame), self.sql.format(f"({of.sql}) AS t"))


def named(name: str) -> Query:
    return Query(sub.read_named_table(name, TYPES), f"SELECT k, v, s FROM {name}")


STEPS: Final = (
    Step(lambda t: t.filter(sub.col("v") > 0), "SELECT * FROM {} WHERE v > 0"),
    Step(
        lambda t: t.filter((sub.col("k") == 1) | (sub.col("s") == "b'")),
        "SELECT * FROM {} WHERE k = 1 OR s = 'b'''",
    ),
    Step(lambda t: t.filter(~(sub.col("v") <= sub.col("k"))), "SELECT * FROM {} WHERE NOT (v <= k)"),
    Step(
        lambda t: t.select((sub.col("k") + 1).alias("k"), (sub.col("v") * 2 - sub.col("k")).alias("v"), "s"),
        "SELECT k + 1 AS k, v * 2 - k AS v, s FROM {}",
    ),
    Step(
        lambda t: t.select("k", sub.coalesce(sub.col("v"), 7).alias("v"), "s"),
        "SELECT k, coalesce(v, 7) AS v, s FROM {}",
    ),
    Step(
        lambda t: t.group_by("k", "s").agg(sub.f.sum(sub.col("v")).alias("v")).select("k", "v", "s"),
        "SELECT k, CAST(sum(v) AS BIGINT) AS v, s FROM {} GROUP BY k, s",
    ),
    Step(
        lambda t: t.group_by("k", "s").agg(sub.f.max(sub.col("v")).alias("v")).select("k", "v", "s"),
        "SELECT k, max(v) AS v, s FROM {} GROUP BY k, s",
    ),
    Step(
        lambda t: t.sort("k", "v", "s", descending=[True, False, False], nulls_last=True).limit(3, 1),
        f"SELECT * FROM {{}} {ORDER} LIMIT 3 OFFSET 1",
    ),
    Step(
        lambda t: t.rename({"k": "v", "v": "k"}).select("k", "v", "s"),
        "SELECT v AS k, k AS v, s FROM {}",
    ),
)


SQL_JOINS: Final = {"inner": "INNER", "left": "LEFT", "right": "RIGHT", "outer": "FULL"}


def joined(left: Query, right: Query, how: str) -> Query:
    other = right.frame.rename({"k": "k2", "v": "v2", "s": "s2"})
    frame = left.frame.join(other, sub.col("k") == sub.col("k2"), how=how)
    sql = f"SELECT a.k, b.v, a.s FROM ({left.sql}) AS a {SQL_JOINS[how]} JOIN ({right.sql}) AS b ON a.k = b.k"
    return Query(frame.select("k", sub.col("v2").alias("v"), "s"), sql)


def together(one: Query, other: Query, how: str) -> Query:
    frames = {
        "UNION ALL": lambda: one.frame.union(other.frame),
        "UNION": lambda: one.frame.union(other.frame, distinct=True),
        "INTERSECT": lambda: one.frame.intersect(other.frame),
        "EXCEPT": lambda: one.frame.except_(other.frame),
    }
    return Query(frames[how](), f"SELECT * FROM ({one.sql}) AS a {how} SELECT * FROM ({other.sql}) AS b")


def any_way(inside: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
    return st.one_of(
        st.builds(lambda step, of: step(of), st.sampled_from(STEPS), inside),
        st.builds(joined, inside, inside, st.sampled_from(sorted(SQL_JOINS))),
        st.builds(together, inside, inside, st.sampled_from(["UNION ALL", "UNION", "INTERSECT", "EXCEPT"])),
    )


QUERIES: Final = st.recursive(st.sampled_from([named("l"), named("r")]), any_way, max_leaves=4)


def table(rows: list[tuple[int | None, int | None, str | None]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


@settings(max_examples=tries(40), suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
@given(QUERIES, ROWS, ROWS)
def test_a_chain_of_methods_has_the_rows_of_its_sql(
    client: tidegate.Client,
    query: Query,
    left: list[tuple[int | None, int | None, str | None]],
    right: list[tuple[int | None, int | None, str | None]],
) -> None:
    tables = {"l": table(left), "r": table(right)}
    message = query.frame.to_plan()
    binary, text = message.SerializeToString(), json_format.MessageToJson(message)
    with oracle(tables) as connection:
        expected = Counter(connection.sql(query.sql).fetchall())
    for plan in (binary, text):
        with client.create_task(plan) as task:
            result = task.run_epoch({name: [tables[name]] for name in task.sources}).table()
        assert result.column_names == ["k", "v", "s"]
        assert Counter(zip(*(column.to_pylist() for column in result.columns), strict=True)) == expected
    assert client.explain(binary).json == client.explain(text).json
