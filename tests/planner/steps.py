"""Counts steps of planning, so that its growth can be tested without a clock."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType

import pyarrow as pa

from tidegate.planner import ir
from tidegate.planner.prepare import prepare
from tidegate.proto.values import TaskOptions

from .running import shape_of


def of_planning(plan: ir.Plan, tables: Mapping[str, pa.Table]) -> int:
    """How many Python functions are called (generators: resumed) from preparing a plan to its pipelines."""
    count = 0

    def profile(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        prepared = prepare(plan, TaskOptions())
        prepared.physical(shape_of(prepared, tables))
    finally:
        sys.setprofile(None)
    return count
