"""Watermarks: what each source says in an epoch, and what becomes of that in its pipelines.

An operator's watermark is the least of its inputs', a pipeline's that of what it reads, the result's that of its
pipelines. It follows from what was fed and sealed alone: not from which channel has ended, or from who stopped reading
early, nor from where pipelines run. So it is known before they run, and the same for threads and for Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...operators.core.operator import UNBOUNDED, least_watermark
from ...planner.physical.pipelines import Pipeline, received_by
from ..api.computation import Watermarks


@dataclass(frozen=True, slots=True)
class Passed:
    """An epoch's watermarks: of the result, of its `sources` and, by number, of what its `exchanges` move."""

    result: int | None = None
    sources: Watermarks = field(default_factory=dict)
    exchanges: Mapping[int, int | None] = field(default_factory=dict)


def passed_on(pipelines: Sequence[Pipeline], sources: Watermarks) -> Passed:
    """Through pipelines, each after those it receives from. A source that is not named was not fed in the epoch: what
    it gives is complete, and holds nobody back.
    """
    exchanges: dict[int, int | None] = {}
    results = []
    for pipeline in pipelines:
        watermark = least_watermark(
            [
                *(sources.get(name, UNBOUNDED) for name in pipeline.sources),
                *(exchanges[number] for number in received_by(pipeline.root)),
            ]
        )
        exchanges.update((each.number, watermark) for each in pipeline.into)
        if not pipeline.into:
            results.append(watermark)
    return Passed(least_watermark(results), sources, exchanges)
