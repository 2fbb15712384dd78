"""The stages of a Spark job, and their pipelines."""

from __future__ import annotations

import json
import re

import pyarrow as pa

from tests.conformance import tpch
from tidegate.planner import ir
from tidegate.planner.decode import decode_plan
from tidegate.planner.physical.pipelines import (
    Exchange,
    FragmentNode,
    PhysicalNode,
    Pipeline,
    ReceiveNode,
    Start,
    StreamInput,
)
from tidegate.planner.physical.stages import JobStage, stages_of
from tidegate.planner.prepare import prepare
from tidegate.proto.values import ExecutorKind, Explanation, PlanBytes, TaskOptions

from ..on_channels import on_channels
from .build import I64, aggregate, call, col, eq, fetch, filtered, join, lit, measure, plan, project, read, sort

SCHEMA = pa.schema([("c0", pa.int64())])
A, B = read("a", k=I64, v=I64), read("b", k=I64, w=I64)


def reading(*exchanges: int) -> PhysicalNode:
    nodes = [
        ReceiveNode(exchange=exchange, schema=SCHEMA, size_class=0, rows=0, plan_path="") for exchange in exchanges
    ]
    streams = tuple(StreamInput(node=node, relation="r", replayed=False) for node in nodes)
    return FragmentNode(
        sql="",
        streams=streams,
        files=(),
        context=(),
        schema=SCHEMA,
        size_class=0,
        row_wise=False,
        plan_path="",
        relations=1,
    )


def pipeline(channels: int, receives: tuple[int, ...] = (), sends: tuple[int, ...] = ()) -> Pipeline:
    into = tuple(Exchange(number=send, routing=ir.Routing.HASH, schema=SCHEMA, consumers=2) for send in sends)
    return Pipeline(root=reading(*receives), sources=(), start=Start.SEAL, channels=channels, into=into)


def explained(root: ir.Relation, **options: object) -> Explanation:
    return prepare(plan(root), TaskOptions(executor=ExecutorKind.SPARK, **options)).explain()


def test_what_feeds_one_pipeline_is_one_stage() -> None:
    stages = stages_of([pipeline(2, sends=(0,)), pipeline(3, sends=(1,)), pipeline(4, receives=(0, 1))])
    assert stages == (JobStage(pipelines=(0, 1), tasks=5, to=2), JobStage(pipelines=(2,), tasks=4, to=None))


def test_what_feeds_several_is_in_the_stage_of_each() -> None:
    fed = (pipeline(2, sends=(0, 1)), pipeline(3, receives=(0,), sends=(2,)), pipeline(1, receives=(1, 2)))
    assert [(stage.pipelines, stage.tasks, stage.to) for stage in stages_of(fed)] == [
        ((0,), 2, 1),
        ((0, 1), 5, 2),
        ((2,), 1, None),
    ]


def test_all_that_gives_rows_of_the_result_is_the_last_stage() -> None:
    assert stages_of([pipeline(2), pipeline(1)]) == (JobStage(pipelines=(0, 1), tasks=3, to=None),)


def test_the_text_shows_stages_tasks_and_what_goes_between_them() -> None:
    text = explained(aggregate(A, [col(0)], measure("sum", col(1))), **on_channels(3)).text
    assert re.sub(r"  \[relations.*\]", "", text[text.index("on Spark") :]).splitlines() == [
        "on Spark an epoch is a job of 2 stages, 6 tasks, for sources of 10,000,000 rows each:",
        "  stage 1: pipeline 1, 3 tasks",
        "    partial aggregate, 1 keys: sum, blocks, ends the pipeline",
        "    exchange 0 to pipeline 2: hash of columns 0, through the shuffle",
        "  stage 2: pipeline 2, 3 tasks",
        "    final aggregate, 1 keys: sum, blocks, ends the pipeline",
        "    the result: a file of each task, read in order",
        "  no job for an epoch whose inputs have less than 1,048,576 bytes: the service runs it",
    ]


def test_one_channel_is_a_stage_of_one_task() -> None:
    text = explained(filtered(A, call("gt", col(0), lit(1)))).text
    assert "a job of 1 stage, 1 task" in text
    assert "spread over channels" not in text


def test_the_json_has_what_the_text_has() -> None:
    prepared_plan = prepare(
        decode_plan(PlanBytes(binary=tpch.plan_bytes("datafusion", "q15"))),
        TaskOptions(executor=ExecutorKind.SPARK, **on_channels(2)),
    )
    stages = json.loads(prepared_plan.explain().json)["spark"]["stages"]
    members = [member for stage in stages for member in stage["pipelines"]]
    sent = [send for member in members for send in member["sends"]]
    assert [(stage["number"], stage["tasks"], stage["to"]) for stage in stages] == [
        (1, 2, 2),
        (2, 2, 3),
        (3, 2, 4),
        (4, 2, 4),
        (5, 2, None),
    ]
    assert [stage["cuts"] for stage in stages] == [None, None, None, 0, None]
    assert [(member["pipeline"], member["kept_on_disk"]) for member in members] == [(at, False) for at in (1, 2, 3, 4)]
    assert [(send["routing"], send["moved"]) for send in sent] == [
        ("hash", "shuffled"),
        ("broadcast", "file"),
        ("range", "shuffled"),
    ]


def last_exchange(root: ir.Relation, **options: object) -> tuple[str, int]:
    """The routing of the exchange below the result, and the channels of the result."""
    exchanges = json.loads(explained(root, **options).json)["spark"]["stages"]
    last = exchanges[-1]["tasks"]
    sent = [send for stage in exchanges for member in stage["pipelines"] for send in member["sends"]]
    return (sent[-1]["routing"] if sent else "", last)


def test_large_sorted_rows_end_in_ranges_on_spark_alone() -> None:
    ordered = sort(A, ir.SortKey(expression=col(1), direction=ir.Direction.ASC_NULLS_LAST))
    above = project(filtered(ordered, call("gt", col(0), lit(1))), col(0))
    for root in (ordered, above):
        assert last_exchange(root, channels=8) == ("range", 8)
    assert last_exchange(fetch(ordered, 5), channels=8) == ("gather", 1)
    assert last_exchange(aggregate(above, [], measure("sum", col(0))), channels=8)[1] == 1
    few = filtered(filtered(A, eq(col(0), lit(1))), eq(col(1), lit(1)))
    assert last_exchange(sort(few, *ordered.keys), channels=8) == ("gather", 1)
    here = json.loads(prepare(plan(ordered), TaskOptions(channels=8)).explain().json)["spread"]
    assert [send["routing"] for pipeline in here for send in pipeline["sends"]] == ["gather"]


def test_what_static_sources_feed_is_a_job_before() -> None:
    root = join(A, aggregate(B, [col(0)]), ir.JoinType.INNER, eq(col(0), col(2)))
    options = TaskOptions(executor=ExecutorKind.SPARK, **on_channels(2))
    document = json.loads(prepare(plan(root), options, ("b",)).explain().json)
    assert [(stage["tasks"], stage["kept"]) for stage in document["spark"]["before"]] == [(1, "rows")]


def test_a_plan_of_this_process_has_no_stages() -> None:
    explained = prepare(plan(A), TaskOptions(**on_channels(2))).explain()
    assert "spark" not in json.loads(explained.json)
    assert "on Spark" not in explained.text
