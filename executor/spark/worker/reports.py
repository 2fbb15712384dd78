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
    "text_bytes",
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
    return json.dumps([asdict(report) for report in reports]).encode()


def read(payload: bytes) -> list[Report]:
    return [_report(document) for document in json.loads(payload)]


def _report(document: dict[str, Any]) -> Report:
    loops = tuple(LoopStatistics(**{**loop, "last_rows": tuple(loop["last_rows"])}) for loop in document["loops"])
    bodies = tuple(OperatorStatistics(**body) for body in document["bodies"])
    return Report(**{**document, "loops": loops, "bodies": bodies, "meters": tuple(document["meters"])})


def taken(meters: Meters) -> tuple[dict[str, Any], ...]:
    """The counts since the last call."""
    reports = []
    for meter in meters.all():
        reports.append(
            {
                "operator": meter.operator,
                "place": meter.plan_path,
                "at_least": meter.at_least,
                "failed": meter.failed,
                **{name: getattr(meter, name) for name in _COUNTED},
            }
        )
        _clear(meter)
    return tuple(reports)


def add(report: Report, meters: Meters, to: Read) -> None:
    for counts in report.meters:
        meter = meters.of(counts["operator"], counts["place"], report.channel)
        for name in _COUNTED:
            setattr(meter, name, getattr(meter, name) + counts[name])
        meter.at_least |= counts["at_least"]
        meter.failed = counts["failed"]
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
    meter.at_least = meter.failed = False
