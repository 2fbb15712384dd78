"""The report of a benchmark: a table, targets reached or missed, who was left out; as Markdown and as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Literal

from .measure import Spread

ENGINES = ("tidegate", "duckdb", "pyarrow", "datafusion", "grpcio")


@dataclass(frozen=True)
class Target:
    """`value` is None where the contenders did not run; that is a miss too."""

    text: str
    value: Spread | None
    bound: float
    sense: Literal["at most", "at least"] = "at most"

    @property
    def reached(self) -> bool:
        if self.value is None:
            return False
        return self.value.median <= self.bound if self.sense == "at most" else self.value.median >= self.bound

    def __str__(self) -> str:
        verdict = "ok" if self.reached else "MISSED"
        got = "did not run" if self.value is None else spread_text(self.value)
        return f"| {self.text} | {self.sense} {self.bound:g} | {got} | {verdict} |"


@dataclass(frozen=True)
class Report:
    """One case's outcome. Cells are text as shown; `figures` are the numbers behind them."""

    case: str
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    targets: Sequence[Target] = ()
    notes: Sequence[str] = ()
    figures: dict[str, object] = field(default_factory=dict)

    def markdown(self) -> str:
        lines = [f"## {self.title}", ""]
        lines += [_line(self.header), _line(["---"] + ["---:"] * (len(self.header) - 1)), *map(_line, self.rows)]
        if self.targets:
            lines += ["", "| target | bound | median (low-high) | |", "|---|---|---|---|", *map(str, self.targets)]
        if self.notes:
            lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines) + "\n"


def spread_text(spread: Spread) -> str:
    return f"{spread.median:.3g} ({spread.low:.3g}-{spread.high:.3g})"


def environment() -> dict[str, object]:
    """What the figures depend on."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        **{name: version(name) for name in ENGINES},
    }


def to_json(reports: Sequence[Report]) -> str:
    cases = [
        {
            **dataclasses.asdict(report),
            "targets": [dataclasses.asdict(t) | {"reached": t.reached} for t in report.targets],
        }
        for report in reports
    ]
    return json.dumps({"environment": environment(), "cases": cases}, indent=2, default=str)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
