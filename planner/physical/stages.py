"""The pipelines of an epoch as the stages of one job, which exchanges its rows between stages and nowhere else.

The pipelines that feed a pipeline are one stage, whose tasks are the channels of them all; the pipelines that give the
result are the last stage. A pipeline that feeds several pipelines is in the stage of each: the first such stage keeps
its rows on disk for the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..ir import Routing
from .pipelines import Exchange, Pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStage:
    """A stage. `pipelines` are its pipelines' positions in the plan, `to` is the position of the pipeline that they
    feed; None: the result. A stage that `cuts` has no pipelines: its tasks cut the rows of this exchange into ranges.
    """

    pipelines: tuple[int, ...]
    tasks: int
    to: int | None
    cuts: int | None = None


def stages_of(pipelines: Sequence[Pipeline]) -> tuple[JobStage, ...]:
    return tuple(_stages(pipelines))


def _stages(pipelines: Sequence[Pipeline]) -> Iterator[JobStage]:
    for to, pipeline in enumerate(pipelines):
        received = pipeline.received
        if received:
            members = [at for at, other in enumerate(pipelines) if _feeds(other, received)]
            yield _stage(pipelines, members, to)
            for at in members:
                for exchange in pipelines[at].into:
                    if exchange.number in received and exchange.routing is Routing.RANGE:
                        tasks = pipelines[at].channels
                        yield JobStage(pipelines=(), tasks=tasks, to=to, cuts=exchange.number)
    yield _stage(pipelines, [at for at, other in enumerate(pipelines) if not other.into], None)


def _stage(pipelines: Sequence[Pipeline], members: Sequence[int], to: int | None) -> JobStage:
    return JobStage(pipelines=tuple(members), tasks=sum(pipelines[at].channels for at in members), to=to)


def _feeds(pipeline: Pipeline, received: Sequence[int]) -> bool:
    return any(exchange.number in received for exchange in pipeline.into)


def is_shared(exchange: Exchange) -> bool:
    """Tests whether every consumer reads all rows: such rows are written once."""
    return exchange.consumers > 1 and exchange.routing in (Routing.BROADCAST, Routing.GATHER)
