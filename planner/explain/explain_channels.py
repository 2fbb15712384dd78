"""A plan on several channels, explained.

The sizes of an epoch's sealed splits decide the exchanges. The explanation is of the plan for sources with the given
numbers of rows, or `ROWS`, of which nothing else is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Final

from ..ir import Relation
from ..physical.pipelines import Exchange, FileInput, PhysicalPlan, Pipeline, ScanNode, read_from_sources
from .explain_operators import operators_of

_MS: Final = 1e6


@dataclass(frozen=True, kw_only=True, eq=False)
class Spread:
    """The plan on several channels for sources of so many rows. They are used if they save `threshold_seconds`."""

    physical: PhysicalPlan
    rows: Mapping[str, int]
    threshold_seconds: float
    kept: Mapping[Relation, str] = field(default_factory=dict)
    """The names of relations whose rows are computed once for the task."""

    @cached_property
    def operators(self) -> list[list[dict[str, Any]]]:
        """The operators of each pipeline."""
        return operators_of(self.physical.computes, self.physical.shared, self.kept)


def spread_json(spread: Spread) -> list[dict[str, Any]]:
    """The pipelines in the order in which they feed each other."""
    physical = spread.physical
    readers = {number: at for at, pipeline in enumerate(physical.pipelines, 1) for number in pipeline.received}
    return [
        {
            "number": at,
            "channels": pipeline.channels,
            "reads": list(_read(pipeline)),
            "receives": sorted(pipeline.received),
            "operators": spread.operators[at - 1],
            "sends": [_sent(exchange, readers) for exchange in pipeline.into],
        }
        for at, pipeline in enumerate(physical.pipelines, 1)
    ]


def choice_json(spread: Spread) -> dict[str, Any]:
    """The numbers behind the choice of the channels: the rows of sources; the milliseconds that several channels save
    by the estimates, used or not, None if there was nothing to decide, and those that they have to save; the memory
    that is lacking for the requested channels, None if memory did not decide.
    """
    saved, short = spread.physical.saved, spread.physical.shortage
    return {
        "spread_for": dict(spread.rows),
        "spread_saves_ms": None if saved is None else round(saved / _MS, 1),
        "spread_threshold_ms": spread.threshold_seconds * 1e3,
        "spread_short_of_memory": None if short is None else asdict(short),
    }


def _read(pipeline: Pipeline) -> Iterator[dict[str, Any]]:
    for node in pipeline.nodes:
        for read in read_from_sources(node):
            yield {"source": read.source, "rows": _rows(read)}


def _rows(read: FileInput | ScanNode) -> str:
    if read.whole:
        return "all rows"
    if read.cut is not None:
        return f"a range of {read.cut.key}{'' if read.cut.slices is None else ', in whole slices'}"
    return "a share"


def _sent(exchange: Exchange, readers: Mapping[int, int]) -> dict[str, Any]:
    return {
        "exchange": exchange.number,
        "to": readers[exchange.number],
        "routing": exchange.routing.value.replace("_", " "),
        "keys": list(exchange.keys),
        "ordered": bool(exchange.order),
    }
