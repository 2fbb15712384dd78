"""A plan on several channels, explained to people and programs.

The sizes of an epoch's sealed splits decide the exchanges. The explanation is of the plan for sources with the given
numbers of rows, or `ROWS`, of which nothing else is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Final

from ..ir import Relation
from ..physical.pipelines import (
    Exchange,
    FileInput,
    PhysicalPlan,
    Pipeline,
    ScanNode,
    Shortage,
    read_from_sources,
    walk,
)
from .explain_operators import Operator, operators_of

ROWS: Final = 10_000_000
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
    def operators(self) -> tuple[tuple[Operator, ...], ...]:
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
            "operators": [operator.json for operator in spread.operators[at - 1]],
            "sends": [_sent(exchange, readers) for exchange in pipeline.into],
        }
        for at, pipeline in enumerate(physical.pipelines, 1)
    ]


def saved_ms(spread: Spread) -> float | None:
    """The milliseconds that several channels save by the estimates, used or not; None if there was nothing to
    decide.
    """
    saved = spread.physical.saved
    return None if saved is None else round(saved / _MS, 1)


def shortage_json(spread: Spread) -> dict[str, int] | None:
    """The reason for fewer channels than requested; None if memory did not decide."""
    short = spread.physical.shortage
    return None if short is None else asdict(short)


def spread_text(spread: Spread) -> Iterator[str]:
    pipelines, rows, saved = spread_json(spread), spread.rows, saved_ms(spread)
    yield f"spread over channels, for {sizes_text(rows)} (the sizes of sealed splits decide):"
    if spread.physical.shortage is not None:
        yield f"  {_short(spread.physical.shortage)}"
    if saved is not None and len(pipelines) == 1 and pipelines[0]["channels"] == 1:
        least = spread.threshold_seconds * 1e3
        yield f"  one channel, as several are estimated to save {max(saved, 0.0):.0f} ms; {least:.0f} are worth it"
    for pipeline in pipelines:
        reads = "; ".join(f"{read['source']}, {read['rows']}" for read in pipeline["reads"])
        received = ", ".join(f"exchange {number}" for number in pipeline["receives"])
        inputs = "; ".join(text for text in (reads, received) if text) or "nothing"
        channels = "one channel" if pipeline["channels"] == 1 else f"{pipeline['channels']} channels"
        yield f"  pipeline {pipeline['number']} on {channels} reads {inputs}"
        yield from (f"    {operator.text}" for operator in spread.operators[pipeline["number"] - 1])
        for sent in pipeline["sends"]:
            by = f" of columns {', '.join(map(str, sent['keys']))}" if sent["keys"] else ""
            order = ", merged in order" if sent["ordered"] else ""
            yield f"    exchange {sent['exchange']} to pipeline {sent['to']}: {sent['routing']}{by}{order}"
        if not pipeline["sends"]:
            yield "    gives the result"


def _short(short: Shortage) -> str:
    has, least, limit = (-(-size >> 20) for size in (short.instance_memory, short.least, short.memory_limit))
    return (
        f"fewer channels, as an instance of {short.channels} would have {has} MiB and needs {least}: "
        f"{short.channels} take a memory_limit of {limit} MiB"
    )


def sizes_text(rows: Mapping[str, int]) -> str:
    if all(number == ROWS for number in rows.values()):
        return f"sources of {ROWS:,} rows each"
    return ", ".join(f"{number:,} rows of {name}" for name, number in rows.items())


def _read(pipeline: Pipeline) -> Iterator[dict[str, Any]]:
    for node in walk(pipeline.root):
        for read in read_from_sources(node):
            yield {"source": read.source, "rows": _rows(read)}


def _rows(read: FileInput | ScanNode) -> str:
    if read.whole:
        return "all rows"
    if read.cut is not None:
        return f"a range of {read.cut[0]}"
    return "a share"


def _sent(exchange: Exchange, readers: Mapping[int, int]) -> dict[str, Any]:
    return {
        "exchange": exchange.number,
        "to": readers[exchange.number],
        "routing": exchange.routing.value.replace("_", " "),
        "keys": list(exchange.keys),
        "ordered": bool(exchange.order),
    }
