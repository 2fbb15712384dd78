"""Explanations of real plans, held to files. `UPDATE_GOLDEN=1` writes them again, for review."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tidegate.planner.decode import decode_plan
from tidegate.planner.prepare import Prepared, prepare
from tidegate.proto.values import PlanBytes, TaskOptions

from .build import I64, call, col, filtered, lit, plan, project, read

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
    found = real(path, *static).explain().text
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(found)
    assert found == file.read_text()


@pytest.mark.parametrize("path", ["substrait_python/q05.bin", "datafusion/q21.bin"])
def test_the_json_has_the_relations_of_the_text(path: str) -> None:
    found = real(path, "nation").explain()
    content = json.loads(found.json)
    parts = [*content["indexes"], *content["kept"], *content["pipelines"]]
    places = [each["place"] for part in parts for fragment in part["fragments"] for each in fragment["relations"]]
    assert places
    assert places == re.findall(r"\[(relations.*)\]$", found.text, re.MULTILINE)


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
    found = prepare(plan(relation), TaskOptions()).explain()
    assert len(found.text) < 500_000
    assert json.loads(found.json)["pipelines"]
