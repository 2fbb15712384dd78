"""Plans on several channels whose instances would have too little memory for what DuckDB needs at least."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tidegate.planner import ir
from tidegate.planner.physical.instance_memory import instance_memory, least
from tidegate.planner.physical.pipelines import Feed, PhysicalPlan, SourceShape
from tidegate.planner.prepare import Prepared, prepare
from tidegate.proto.values import ExecutorKind, TaskOptions

from ...on_channels import on_channels
from ..build import I64, aggregate, col, eq, join, measure, plan, read

ROWS: Final = {"a": 1 << 23, "b": 1 << 12}
MIB: Final = 1 << 20
A, B = read("a", k=I64, v=I64), read("b", k=I64, w=I64)
JOIN = join(A, B, ir.JoinType.INNER, eq(col(0), col(2)))
SUM = aggregate(JOIN, [col(1)], measure("sum", col(3)))


def prepared(channels: int, memory_limit: int, **options: Any) -> Prepared:
    return prepare(plan(SUM), TaskOptions(**on_channels(channels), memory_limit=memory_limit, **options), ())


def physical(channels: int, memory_limit: int, **options: Any) -> PhysicalPlan:
    shape = {name: SourceShape(feed=Feed.FILES, size_class=rows) for name, rows in ROWS.items()}
    return prepared(channels, memory_limit, **options).physical(shape)


def most_channels(physical_plan: PhysicalPlan) -> int:
    return max(pipeline.channels for pipeline in physical_plan.pipelines)


@pytest.mark.parametrize("channels", [2, 3, 64])
def test_a_plan_has_its_channels_from_the_memory_on_that_is_named(channels: int) -> None:
    short = physical(channels, 32 * MIB).shortage
    assert short is not None
    assert short.instance_memory < short.least
    physical_plan = physical(channels, short.memory_limit)
    assert (most_channels(physical_plan), physical_plan.shortage) == (channels, None)
    memory = instance_memory(physical_plan, TaskOptions(channels=channels, memory_limit=short.memory_limit))
    assert all(has >= least(pipeline) for pipeline, has in zip(physical_plan.pipelines, memory, strict=True))
    assert most_channels(physical(channels, short.memory_limit - 1)) == channels // 2


def test_with_too_little_for_any_channels_one_instance_has_all_memory() -> None:
    physical_plan = physical(64, 32 * MIB)
    assert not physical_plan.parallel
    assert instance_memory(physical_plan, TaskOptions(channels=64, memory_limit=32 * MIB)) == [32 * MIB]
    assert physical_plan.shortage is not None
    assert physical_plan.shortage.channels == 64


def test_the_memory_that_the_default_limit_gives_is_enough() -> None:
    assert physical(8, TaskOptions().memory_limit).shortage is None


def test_an_explanation_says_what_memory_the_channels_take() -> None:
    explained = prepared(2, 64 * MIB).explain(ROWS)
    short = json.loads(explained.json)["spread_short_of_memory"]
    has, wanted, limit = (-(-short[name] // MIB) for name in ("instance_memory", "least", "memory_limit"))
    reason = f"  fewer channels, as an instance of 2 would have {has} MiB and needs {wanted}: 2 take a memory_limit of "
    assert f"{reason}{limit} MiB\n" in explained.text
    enough = prepared(2, short["memory_limit"]).explain(ROWS)
    assert json.loads(enough.json)["spread_short_of_memory"] is None
    assert "fewer channels" not in enough.text


def test_instances_with_the_memory_of_a_slot_have_it_whole() -> None:
    """On Spark whatever their number, in a service's process as long as `memory_limit` has all of them."""
    slot = 40 * MIB
    there = physical(1024, slot, slot_memory=slot, executor=ExecutorKind.SPARK)
    assert (most_channels(there), there.shortage) == (1024, None)
    here = physical(8, slot, slot_memory=slot)
    assert here.shortage is not None
    assert here.shortage.channels == 8
    enough = physical(8, here.shortage.memory_limit, slot_memory=slot)
    assert (most_channels(enough), enough.shortage) == (8, None)
    assert most_channels(physical(8, here.shortage.memory_limit - 1, slot_memory=slot)) < 8
    options = TaskOptions(channels=8, memory_limit=8 * slot, slot_memory=slot)
    assert instance_memory(there, options) == [slot] * len(there.pipelines)
    assert instance_memory(enough, options) == [slot] * len(enough.pipelines)
