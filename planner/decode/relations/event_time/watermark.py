"""Decodes `tidegate.v1.Watermark`: the watermark of a source, which goes to the source's read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .... import ir
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...scope import Scope
from ..reads.declared_read import with_declared
from .time_spans import length, span_from, timed_rows


def convert_watermark(
    decoder: Decoder, declared: Any, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    rows = yield from timed_rows(decoder, declared, message, plan_path, outer)
    if rows is None:
        return poison.RELATION
    below, time = rows
    detail = plan_path / "detail"
    delay = span_from(decoder, declared, "delay", time.type, detail)
    ahead = length(decoder, declared.ahead, time.type, detail / "ahead") if declared.HasField("ahead") else None
    if delay is None or (ahead is None and declared.HasField("ahead")):
        return poison.RELATION
    watermark = ir.RowWatermark(column=declared.time, delay=delay, ahead=ahead, idle=declared.idle_epochs or None)

    def marked(read: ir.Read | ir.LocalFiles, columns: Sequence[int]) -> ir.Read | ir.LocalFiles:
        return replace(read, watermark=replace(watermark, column=columns[0]))

    rebuilt = with_declared(below, [declared.time], marked)
    if rebuilt is None:
        problem = "a watermark can be declared only for a read, or for filters and column selections of a read;"
        decoder.problems.add(
            detail, "MISPLACED_WATERMARK", f"{problem} other rows have the least watermark of their sources"
        )
        return poison.RELATION
    return rebuilt
