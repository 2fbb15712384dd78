"""Counts steps of work, so that its growth can be tested without a clock."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from types import FrameType
from typing import Any

import pyarrow as pa

from tidegate.planner import ir
from tidegate.planner.prepare import prepare
from tidegate.proto.values import TaskOptions

from ..on_channels import on_channels
from .running import shape_of

_OURS = "tidegate."


def of(work: Callable[[], object]) -> int:
    """How many lines of our own are executed, each round of a loop or a comprehension being one more."""
    count = 0

    def line(_: FrameType, event: str, __: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def call(frame: FrameType, _: str, __: object) -> Any:
        return line if frame.f_globals.get("__name__", "").startswith(_OURS) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def of_planning(
    plan: ir.Plan, tables: Mapping[str, pa.Table], *, channels: int = 1, static: Collection[str] = ()
) -> int:
    """From preparing a plan to its pipelines, and to their description."""

    def work() -> None:
        prepared = prepare(plan, TaskOptions(**on_channels(channels)), static)
        prepared.physical(shape_of(prepared, tables))
        prepared.explain()

    return of(work)
