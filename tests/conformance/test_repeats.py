"""Statements of several source pipelines give one digest, run after run; `make repeats` runs all of them for hours."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import tidegate
from tidegate.planner import ir
from tidegate.planner.decode import decode_plan
from tidegate.planner.prepare import prepare
from tidegate.proto.values import PlanBytes, TaskOptions

from ..searching import in_search
from .plan_relations import plan_bytes, relations
from .repeats import SHAPES, Repeated, busy, digests, fed, repeated

ROWS: Final = 200_000
RUNS: Final = 6
FEW_ROWS: Final = 1_500
ALL: Final = repeated(FEW_ROWS)
WITHOUT_A_QUERY: Final[dict[type[ir.Relation], str]] = {
    ir.Values: "reads nothing",
    ir.LocalFiles: "is read as a fed source is",
    ir.FinalAggregate: "is made of aggregates on several channels",
    ir.FinalSlidingAggregate: "is made of sliding windows on several channels",
    ir.FinalDenseSlices: "is made of tumbling windows on several channels",
    ir.Exchange: "is made on several channels",
    ir.IndexTable: "is read by an operator of its own, row after row",
    ir.IndexLookup: "is an operator of its own, row after row",
    ir.LoopInput: "is the engine's name for what a loop reads",
    ir.Iterate: "becomes one recursive statement, or rounds",
    ir.User: "is the owner's operator",
    ir.PackLists: "is an operator of its own, window after window",
    ir.TimeWindows: "becomes aggregates, or an operator of continuous tasks",
    ir.LateRows: "is an operator of continuous tasks",
    ir.AsOfJoin: "becomes a merge of sorted rows, or joins and windows, or an operator of continuous tasks",
    ir.IntervalJoin: "becomes a join, or operators of continuous tasks",
}
"""Relations that no query here has, and why."""


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as opened:
        yield opened


@pytest.mark.parametrize(
    ("query", "shape"),
    [
        ("union", "two shares"),
        ("few groups", "whole files"),
        ("groups of one source", "parts of files"),
        ("window", "files of two schemas"),
        *in_search(("union", "whole files"), ("groups", "three shares of parts")),
    ],
)
def test_a_busy_machine_does_not_show_in_the_rows(
    query: str, shape: str, client: tidegate.Client, tmp_path: Path
) -> None:
    asked, how, folder = repeated(ROWS)[query], SHAPES[shape], tmp_path / "splits"
    fed(asked, how, folder)
    with busy(tmp_path):
        digest_counts = digests(client, asked, how, folder, runs=RUNS)
    assert len(digest_counts) == 1


@pytest.mark.parametrize("query", ["window below a join", *in_search("INTERSECTION_MULTISET_ALL")])
def test_a_window_that_many_pipelines_feed_leaves_its_join_one_order(
    query: str, client: tidegate.Client, tmp_path: Path
) -> None:
    """With fewer rows the join has room enough."""
    shape = SHAPES["files of two schemas"]
    assert len(digests(client, repeated(1_000_000)[query], shape, tmp_path, runs=3)) == 1


@pytest.mark.parametrize("query", ALL)
def test_every_query_runs_on_shares(query: str, client: tidegate.Client, tmp_path: Path) -> None:
    assert len(digests(client, ALL[query], SHAPES["three shares of parts"], tmp_path, runs=2)) == 1


def test_every_kind_of_relation_has_a_query() -> None:
    kinds = set(typing.get_args(ir.Relation))
    assert kinds - {kind for query in ALL.values() for kind in relations(prepared(query))} == WITHOUT_A_QUERY.keys()


def prepared(query: Repeated) -> ir.Plan:
    plan = query.plan if isinstance(query.plan, PlanBytes) else plan_bytes(query.plan)
    return prepare(decode_plan(plan), TaskOptions()).plan
