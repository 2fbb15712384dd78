"""Epochs whose rows become Datasets: the channels write the files, and the service takes them over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...planner.ir import Routing
from ...planner.physical.pipelines import Exchange, Pipeline, ReceiveNode, Start
from ...proto.dataset import Ranged
from ..datasets.sink import AdoptingSink
from .worker.stage import KeptAs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Datasets:
    """Makes a Dataset of each epoch's rows, below `parent` or in the sink's place."""

    sink: AdoptingSink
    parent: Path | None

    @property
    def kept_as(self) -> KeptAs:
        return KeptAs(self.sink.keyed)

    def pipelines(self, planned: Sequence[Pipeline]) -> list[Pipeline]:
        """The planned pipelines; rows that must be sorted go on to one channel."""
        if not isinstance(self.sink.keyed, Ranged):
            return list(planned)
        return [part for pipeline in planned for part in ([pipeline] if pipeline.into else _to_one(pipeline, planned))]


def _to_one(pipeline: Pipeline, planned: Sequence[Pipeline]) -> list[Pipeline]:
    if pipeline.channels == 1:
        return [pipeline]
    root = pipeline.root
    gathered = Exchange(
        number=1 + max((exchange.number for other in planned for exchange in other.into), default=0),
        routing=Routing.GATHER,
        schema=root.schema,
        consumers=1,
    )
    received = ReceiveNode(
        exchange=gathered.number,
        schema=root.schema,
        size_class=root.size_class,
        rows=root.size_class,
        plan_path=_PLACE,
    )
    return [replace(pipeline, into=(gathered,)), Pipeline(root=received, sources=(), start=Start.SEAL)]


_PLACE = "result.rows"
