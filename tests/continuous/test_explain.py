"""Explanations of continuous plans, and everything that may be wrong with one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate import windows
from tidegate.executor.changes.change_routes import routes_to
from tidegate.planner import ir
from tidegate.planner.decode import decode_plan
from tidegate.planner.explain.explain_changes import nodes_of, takes_by_key
from tidegate.planner.prepare_changes import prepare_changes
from tidegate.proto.values import Mode, PlanBytes, TaskOptions

from ..executor.plans import limited, plan, read, summed
from ..planner.build import combine
from ..planner.build import plan as hand_made
from .histories import planned
from .network import prepared
from .relations import LEFT, RECOMPUTED, RIGHT

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


@pytest.fixture(scope="module")
def local() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


def test_the_text_shows_each_operator_above_what_it_reads(local: tidegate.Client) -> None:
    text = local.explain(plan(summed(read("a", "k", "v")), "k", "s").json, mode="continuous").text
    assert text.splitlines()[1:] == [
        "columns: k int64, s int64, _weight int64 not null",
        "source a (fed): k int64, v int64",
        "operators",
        "  1 group by 1 keys: sum, blocks, ends the pipeline  [relations[0].root.input.aggregate]",
        "  2 source a (k, v)  [relations[0].root.input.aggregate.input.read.named_table]",
    ]


def test_on_several_channels_what_goes_to_where_its_key_is_ends_a_pipeline(local: tidegate.Client) -> None:
    query = planned("SELECT a.k, sum(b.v) AS s FROM a JOIN b ON a.k = b.k GROUP BY a.k", {"a": SCHEMA, "b": SCHEMA})
    for channels, ended in ((1, 1), (2, 4)):
        explained = local.explain(query, mode="continuous", channels=channels)
        operators = json.loads(explained.json)["operators"]
        ends = [operator["operator"].split()[0] for operator in operators if operator["ends_pipeline"]]
        assert len(ends) == ended == explained.text.count("ends the pipeline")
        assert [operator["operator"].split()[0] for operator in operators if operator["blocks"]] == ["group"]


def test_operators_that_are_said_to_take_rows_by_key_do() -> None:
    tables = {"a": SCHEMA, "b": SCHEMA}
    queries = [
        "SELECT k, sum(v) AS s FROM a GROUP BY k",
        "SELECT a.k FROM a JOIN b ON a.k = b.k",
        "SELECT k FROM a UNION SELECT k FROM b",
        "SELECT k, v FROM a ORDER BY v, k LIMIT 3",
        "SELECT k, row_number() OVER (PARTITION BY k ORDER BY v) AS w FROM a",
        "SELECT k, v + 1 AS w FROM a WHERE v > 1",
    ]
    for query in queries:
        _check_routes(planned(query, tables))


def test_final_windows_and_joins_that_are_said_to_take_rows_by_key_do() -> None:
    marked, other = (
        windows.watermark(sub.read_named_table(name, {"t": sub.i64, "k": sub.i64}), "t") for name in ("a", "b")
    )
    how: dict[str, Any] = {"keys": ["k"], "final": True}
    count, different = sub.f.count().alias("n"), sub.f.count(sub.col("t")).distinct().alias("n")
    for frame in (
        windows.tumbling(marked, "t", 10, measures=[count], **how),
        windows.tumbling(marked, "t", 10, measures=[different], **how),
        windows.sliding(marked, "t", 10, 5, measures=[count], **how),
        windows.sliding(marked, "t", 10, 5, measures=[different], **how),
        windows.session(marked, "t", 10, measures=[count], **how),
        windows.count(marked, "t", 10, measures=[count], **how),
        windows.distinct(marked, "t", 10, keys=["k"]),
        windows.interval_join(marked, other, "t", after=3, how="outer", **how),
        windows.as_of_join(marked, other, "t", **how),
    ):
        _check_routes(frame.to_plan().SerializeToString())


def _check_routes(query: bytes) -> None:
    for node in nodes_of(prepare_changes(decode_plan(PlanBytes(binary=query)), TaskOptions(mode=Mode.CONTINUOUS)).root):
        assert takes_by_key(node) == any(route is not None for route in routes_to(node)), node


def test_what_is_not_incremental_says_why_where_it_stands_and_below() -> None:
    explained = prepared(hand_made(RECOMPUTED["limit of as many rows as are counted"])).explain()
    (entry,) = (operator for operator in json.loads(explained.json)["operators"] if not operator["incremental"])
    assert entry["why"] == "the number of rows to keep is computed"
    assert "computed again from all rows: the number of rows to keep is computed" in explained.text
    assert f"not incremental: {entry['number']}" in explained.text


@pytest.mark.parametrize(
    ("call", "work"), [("row_number()", "change"), ("lag(v)", "change"), ("ntile(4)", "touched keys")]
)
def test_windows_say_whether_they_look_at_whole_partitions(local: tidegate.Client, call: str, work: str) -> None:
    query = planned(f"SELECT k, v, {call} OVER (PARTITION BY k ORDER BY v) AS w FROM a", {"a": SCHEMA})
    operators = json.loads(local.explain(query, mode="continuous").json)["operators"]
    assert [operator["work"] for operator in operators if "windows" in operator["operator"]] == [work]


def test_groups_that_are_computed_again_say_so(local: tidegate.Client) -> None:
    schema = pa.schema([("k", pa.int64()), ("f", pa.float64())])
    operators = json.loads(
        local.explain(planned("SELECT k, sum(f) AS s FROM a GROUP BY k", {"a": schema}), mode="continuous").json
    )["operators"]
    assert "touched keys" in {operator["work"] for operator in operators}
    assert all(operator["incremental"] for operator in operators)


def test_an_operator_that_several_read_is_shown_once(local: tidegate.Client) -> None:
    twice = planned("SELECT a.k, b.v FROM a JOIN a AS b ON a.k = b.v UNION ALL SELECT k, v FROM a", {"a": SCHEMA})
    content = json.loads(local.explain(twice, mode="continuous").json)
    numbers = [operator["number"] for operator in content["operators"]]
    assert numbers == sorted(set(numbers))
    assert all(below in numbers for operator in content["operators"] for below in operator["inputs"])


def test_a_plan_thousands_of_levels_deep_is_explained() -> None:
    relation: ir.Relation = LEFT
    for _ in range(2000):
        relation = combine(ir.SetOperation.UNION_DISTINCT, relation, RIGHT)
    explained = prepared(hand_made(relation)).explain()
    assert len(json.loads(explained.json)["operators"]) == 2000 + 2001  # a source for each read
    assert explained.text.count("distinct, 2 inputs") == 2000


def test_all_that_is_refused_is_listed_with_its_place(local: tidegate.Client) -> None:
    document = plan(limited(read("a", "_weight"), 3), "_weight").json
    problems = local.validate(document, mode="continuous")
    assert {problem.reason for problem in problems} == {"RESERVED_COLUMN", "LIMIT_WITHOUT_SORT"}
    assert all(problem.place.startswith("relations[0].root") for problem in problems)


def test_the_sources_that_would_be_static_are_named(local: tidegate.Client) -> None:
    explained = local.explain(plan(read("a", "k"), "k").json, mode="continuous", static_sources=["a"])
    assert json.loads(explained.json)["sources"][0]["kind"] == "static"
