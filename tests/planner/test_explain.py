"""Explanations of real plans, held to files. `UPDATE_GOLDEN=1` writes them again, for review."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tidegate.planner import ir
from tidegate.planner.decode import decode_plan
from tidegate.planner.prepare import Prepared, prepare
from tidegate.proto.values import ExecutorKind, PlanBytes, TaskOptions

from ..on_channels import on_channels
from .build import I64, call, col, filtered, lit, plan, project, read, sort

PLANS = Path(__file__).parents[1] / "conformance" / "plans"
GOLDEN = Path(__file__).parent / "explained"


def real(path: str, *static: str) -> Prepared:
    return prepare(decode_plan(PlanBytes(binary=(PLANS / path).read_bytes())), TaskOptions(), static)


@pytest.mark.parametrize(
    ("name", "path", "static"),
    [
        ("join_with_a_static_table", "substrait_python/q05.bin", ("nation", "region")),
        ("aggregate_and_sort", "datafusion/q01.bin", ()),
        ("subqueries", "substrait_python/q04.bin", ()),
    ],
)
def test_a_plan_is_explained_as_it_was(name: str, path: str, static: tuple[str, ...]) -> None:
    text = real(path, *static).explain().text
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("path", ["substrait_python/q05.bin", "datafusion/q21.bin"])
def test_the_json_has_the_relations_of_the_text(path: str) -> None:
    explained = real(path, "nation").explain()
    content = json.loads(explained.json)
    parts = [*content["indexes"], *content["kept"], *content["pipelines"]]
    plan_paths = [
        relation_entry["place"]
        for part in parts
        for fragment in part["fragments"]
        for relation_entry in fragment["relations"]
    ]
    assert plan_paths
    assert plan_paths == re.findall(r"\[(relations.*)\]$", explained.text, re.MULTILINE)


def test_a_cut_says_why_and_where() -> None:
    relation = project(read("a", k=I64), col(0))
    for at in range(150):
        relation = filtered(relation, call("gt", col(0), lit(at)))  # type: ignore[assignment]
    text = prepare(plan(relation), TaskOptions()).explain().text
    assert "fragment 2, row-wise, cut off, being 100 relations deep" in text
    assert "fragment 1, row-wise" in text


def test_a_plan_thousands_of_levels_deep_is_explained_on_a_line_each() -> None:
    relation = project(read("a", k=I64), col(0))
    for _ in range(3_000):
        relation = project(relation, col(0))
    explained = prepare(plan(relation), TaskOptions()).explain()
    assert len(explained.text) < 500_000
    assert json.loads(explained.json)["pipelines"]


def test_every_pipeline_has_one_operator_that_ends_it_and_halves_are_named() -> None:
    decoded = decode_plan(PlanBytes(binary=(PLANS / "datafusion/q10.bin").read_bytes()))
    for executor in ExecutorKind:
        explained = prepare(decoded, TaskOptions(**on_channels(3), executor=executor)).explain()
        content = json.loads(explained.json)
        pipelines = [stage["operators"] for stage in content["spread"]]
        assert [[operator_entry["ends_pipeline"] for operator_entry in of].count(True) for of in pipelines] == [1] * 6
        assert all(of[0]["ends_pipeline"] for of in pipelines)
        ends = [of[0]["operator"] for of in pipelines]
        assert ends[3:] == ["partial aggregate, 7 keys: sum", "partial fetch", "final fetch"]
        assert "final aggregate, 7 keys: sum" in [pipeline["operator"] for pipeline in pipelines[4]]
        assert "sort, 1 keys" in [pipeline["operator"] for pipeline in pipelines[4] if pipeline["blocks"]]
        for of in pipelines:
            assert f"{of[0]['operator']}{', blocks' if of[0]['blocks'] else ''}, ends the pipeline  [" in explained.text
        if executor is ExecutorKind.SPARK:
            members = [member for stage in content["spark"]["stages"] for member in stage["pipelines"]]
            assert [member["operators"][0]["operator"] for member in members] == ends
            assert explained.text[explained.text.index("on Spark") :].count("ends the pipeline") == 6


def test_a_sort_that_an_exchange_merges_is_a_partial_one() -> None:
    root = sort(read("a", k=I64), ir.SortKey(expression=col(0), direction=ir.Direction.ASC_NULLS_LAST))
    spread = json.loads(prepare(plan(root), TaskOptions(**on_channels(2))).explain({"a": 10**9}).json)["spread"]
    assert spread[0]["operators"][0]["operator"] == "partial sort, 1 keys"
    assert spread[0]["sends"][0]["ordered"]


def test_on_one_channel_the_roots_operator_ends_the_pipeline() -> None:
    content = json.loads(real("datafusion/q01.bin").explain().json)
    (pipeline,) = content["pipelines"]
    relations = [relation_entry for fragment in pipeline["fragments"] for relation_entry in fragment["relations"]]
    assert [relation["relation"] for relation in relations if relation["ends_pipeline"]] == ["sort, 2 keys"]
    assert [relation["relation"].partition(",")[0] for relation in relations if relation["blocks"]] == [
        "sort",
        "aggregate",
    ]
