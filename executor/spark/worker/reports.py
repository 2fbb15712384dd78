"""A channel's counts, on their way to the task's statistics.

A report travels with the rows that it counts. Of several attempts of a Spark task, the attempt whose rows Spark uses is
therefore counted, once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from ....operators.changes.network.network_statistics import LoopStatistics, OperatorStatistics
from ...pipelines.pipeline import Read
from ...runtime.meters import Meter, Meters

_COUNTED = (
    "rows_in",
    "rows_out",
    "bytes_in",
    "bytes_out",
    "runs",
    "run_ns",
    "own_ns",
    "pressed_ns",
    "open_ns",
    "spilled_bytes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The counts of one channel of one stage.

    - `spark_stage`: the number of the stage in Spark
    - `moved`: bytes of its parcels
    - `rows_out`: rows in its parcels or its result
    - `statements`: rows of each source's files that statements have read
    """

    stage: str
    channel: int
    spark_stage: int
    meters: tuple[dict[str, Any], ...]
    rows_in: int
    bytes_in: int
    rows_out: int
    at_least: bool
    plans: int
    moved: int
    statements: dict[str, int]
    loops: tuple[LoopStatistics, ...] = field(default=())
    bodies: tuple[OperatorStatistics, ...] = field(default=())


def written(reports: Iterable[Report]) -> bytes:
    return json.dumps([asdict(each) for each in reports]).encode()


def read(payload: bytes) -> list[Report]:
    return [_report(each) for each in json.loads(payload)]


def _report(told: dict[str, Any]) -> Report:
    loops = tuple(LoopStatistics(**{**each, "last_rows": tuple(each["last_rows"])}) for each in told["loops"])
    bodies = tuple(OperatorStatistics(**each) for each in told["bodies"])
    return Report(**{**told, "loops": loops, "bodies": bodies, "meters": tuple(told["meters"])})


def taken(meters: Meters) -> tuple[dict[str, Any], ...]:
    """The counts since the last call."""
    found = []
    for meter in meters.all():
        found.append(
            {
                "operator": meter.operator,
                "place": meter.place,
                "at_least": meter.at_least,
                **{name: getattr(meter, name) for name in _COUNTED},
            }
        )
        _clear(meter)
    return tuple(found)


def add(report: Report, meters: Meters, to: Read) -> None:
    for told in report.meters:
        meter = meters.of(told["operator"], told["place"], report.channel)
        for name in _COUNTED:
            setattr(meter, name, getattr(meter, name) + told[name])
        meter.at_least |= told["at_least"]
    task = meters.of("Stage", report.stage, report.channel)
    task.runs += 1
    task.rows_in += report.rows_in
    task.rows_out += report.rows_out
    task.bytes_in += report.bytes_in
    task.bytes_out += report.moved
    to.add(Read(report.rows_in, report.bytes_in, report.at_least))


def _clear(meter: Meter) -> None:
    for name in _COUNTED:
        setattr(meter, name, 0)
    meter.at_least = False
