"""The stages of a Spark job, explained to people and programs: their pipelines, and the exchanges between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ..physical.pipelines import PhysicalPlan, Pipeline
from ..physical.stages import is_shared, stages_of
from .explain_channels import Spread, sizes_text, spread_json
from .explain_operators import Operator

_WAYS: Final = {"shuffled": "through the shuffle", "file": "a file of each task, unless the rows are few"}


def stages_json(spread: Spread) -> dict[str, Any]:
    """The stages as JSON. `before`: jobs of one task each, before the first epoch that needs them. `stages`: those of
    an epoch's job.
    """
    physical = spread.physical
    stages = stages_of(physical.pipelines)
    in_stages = {at: sum(at in stage.pipelines for stage in stages) for at in range(len(physical.pipelines))}
    spreading = spread_json(spread)
    return {
        "before": list(_before(physical)),
        "stages": [
            {
                "number": number,
                "tasks": stage.tasks,
                "pipelines": [
                    _member(at, physical.pipelines[at], spreading[at], spread.operators[at], stage.to, in_stages[at])
                    for at in stage.pipelines
                ],
                "to": None if stage.to is None else stage.to + 1,
            }
            for number, stage in enumerate(stages, 1)
        ],
    }


def _before(physical: PhysicalPlan) -> Iterator[dict[str, Any]]:
    for index in physical.indexes:
        yield {"name": index.name, "tasks": 1, "kept": "index"}
    for kept in physical.kept:
        yield {"name": kept.name, "tasks": 1, "kept": "rows"}


def _member(
    at: int,
    pipeline: Pipeline,
    described: Mapping[str, Any],
    operators: Sequence[Operator],
    to: int | None,
    in_stages: int,
) -> dict[str, Any]:
    """A pipeline in a stage, with the rows that it sends to the pipeline that the stage feeds."""
    sends = [
        {**sent, "moved": "file" if is_shared(exchange) else "shuffled"}
        for exchange, sent in zip(pipeline.into, described["sends"], strict=True)
        if to is not None and sent["to"] == to + 1
    ]
    return {
        "pipeline": at + 1,
        "tasks": pipeline.channels,
        "kept_on_disk": in_stages > 1,
        "operators": [operator.json for operator in operators],
        "sends": sends,
    }


def stages_text(spread: Spread) -> Iterator[str]:
    content = stages_json(spread)
    stages = content["stages"]
    tasks = sum(job["tasks"] for job in stages)
    job = f"a job of {_count(len(stages), 'stage')}, {_count(tasks, 'task')}"
    yield f"on Spark an epoch is {job}, for {sizes_text(spread.rows)}:"
    for earlier in content["before"]:
        read = "of which every process makes its index" if earlier["kept"] == "index" else "which every task may read"
        yield f"  before the first epoch: {earlier['name']}, a job of one task: rows in a file, {read}"
    for stage in stages:
        yield f"  stage {stage['number']}: {'; '.join(map(_member_text, stage['pipelines']))}"
        for member in stage["pipelines"]:
            yield f"    {spread.operators[member['pipeline'] - 1][0].text}"
        for sent in (sent for member in stage["pipelines"] for sent in member["sends"]):
            yield f"    exchange {sent['exchange']} to pipeline {sent['to']}: {_sent(sent)}"
        if stage["to"] is None:
            yield "    the result: a file of each task, read in order"


def _member_text(member: Mapping[str, Any]) -> str:
    disk = " (feeds several stages: its rows are kept on disk for the epoch)" if member["kept_on_disk"] else ""
    return f"pipeline {member['pipeline']}, {_count(member['tasks'], 'task')}{disk}"


def _sent(sent: Mapping[str, Any]) -> str:
    by = f" of columns {', '.join(map(str, sent['keys']))}" if sent["keys"] else ""
    order = ", merged in order" if sent["ordered"] else ""
    return f"{sent['routing']}{by}{order}, {_WAYS[sent['moved']]}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("s" if number != 1 else "")
