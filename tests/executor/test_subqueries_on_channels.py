"""Subqueries that read the row around them, on several channels: every channel has all rows of the subquery."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tidegate.executor.service.manager import TaskManager

from ..on_channels import on_channels
from . import plans
from .test_dataflow import create, inline, run, service

__all__ = ["service"]

ROWS: Final = 1_000
SUMS: Final = plans.summed(plans.read("u", "k", "w"))


def of_the_row(column: int) -> dict[str, Any]:
    """Tests for a group of `u` whose key is this column of the row around the subquery."""
    around = {"selection": {"directReference": {"structField": {"field": column}}, "outerReference": {"stepsOut": 1}}}
    equal = plans.scalar("equal:any_any", plans.column(0), around, type_={"bool": {}})
    groups = {"filter": {"input": SUMS, "condition": equal}}
    return {"subquery": {"setPredicate": {"predicateOp": "PREDICATE_OP_EXISTS", "tuples": groups}}}


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_groups_that_two_subqueries_share_are_groups_of_all_rows(service: TaskManager, channels: int) -> None:
    relation: object = plans.read("t", "k", "v")
    for column in (0, 1):
        relation = {"filter": {"input": relation, "condition": of_the_row(column)}}
    task = create(service, plans.plan(relation, "k", "v"), **on_channels(channels))
    left = [("t", inline(k=range(start, ROWS, 2), v=range(start, ROWS, 2))) for start in (0, 1)]
    right = [("u", inline(k=range(start, ROWS, 3), w=range(start, ROWS, 3))) for start in (0, 1)]
    answer = sorted(run(service, task, *left, *right))
    assert answer == [(at, at) for at in range(ROWS) if at % 3 != 2]
