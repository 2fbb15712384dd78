"""Watermarks through pipelines: from the sources of an epoch to its result.

An operator's watermark is the least of its inputs', a pipeline's the least of what it reads, and the result's the least
of its pipelines'. Watermarks follow from what was fed and sealed alone. They do not depend on which channel has ended,
on which operator stopped reading early, or on where pipelines run. They are therefore known before the pipelines run,
and are the same for threads and for Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...operators.core.operator import UNBOUNDED, least_watermark
from ...planner.physical.pipelines import Pipeline
from ..api.computation import Watermarks


@dataclass(frozen=True, slots=True)
class Passed:
    """An epoch's watermarks: of the result, of its `sources` and, by number, of its `exchanges`."""

    result: int | None = None
    sources: Watermarks = field(default_factory=dict)
    exchanges: Mapping[int, int | None] = field(default_factory=dict)


def passed_on(pipelines: Sequence[Pipeline], sources: Watermarks) -> Passed:
    """Watermarks passed through pipelines, each after the pipelines that it receives from.

    A source that is not in `sources` was not fed in the epoch: its rows are complete, and it holds no watermark back.
    """
    exchanges: dict[int, int | None] = {}
    results = []
    for pipeline in pipelines:
        watermark = least_watermark(
            [
                *(sources.get(name, UNBOUNDED) for name in pipeline.sources),
                *(exchanges[number] for number in pipeline.received),
            ]
        )
        exchanges.update((exchange.number, watermark) for exchange in pipeline.into)
        if not pipeline.into:
            results.append(watermark)
    return Passed(least_watermark(results), sources, exchanges)
