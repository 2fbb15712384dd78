"""The stages of a Spark job, explained: their pipelines, and the exchanges between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..physical.pipelines import PhysicalPlan, Pipeline
from ..physical.stages import is_shared, stages_of
from .explain_channels import Spread, spread_json


def stages_json(spread: Spread) -> dict[str, Any]:
    """The stages of a job. `for`: the rows of sources. `before`: jobs of one task each, before the first epoch that
    needs them. `stages`: those of an epoch's job.
    """
    physical = spread.physical
    stages = stages_of(physical.pipelines)
    in_stages = {at: sum(at in stage.pipelines for stage in stages) for at in range(len(physical.pipelines))}
    spreading = spread_json(spread)
    return {
        "for": dict(spread.rows),
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
                "cuts": stage.cuts,
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
    operators: Sequence[Mapping[str, Any]],
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
        "operators": operators,
        "sends": sends,
    }
