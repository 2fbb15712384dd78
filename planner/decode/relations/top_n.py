"""Decodes `TopNRel`."""

from __future__ import annotations

from typing import Final

from ... import ir
from .. import poison
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..scope import Scope
from ..sorting import convert_sorts
from .fetch import rows_skipped, rows_wanted

_ROWS_ONLY: Final = 1
_WITH_TIES: Final = 2


def convert_top_n(decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None) -> Steps[ir.Relation]:
    below = yield from decoder.relation(message.input, plan_path / "input", outer)
    keys = yield from convert_sorts(decoder, message.sorts, plan_path, decoder.scope([below], message, outer))
    counts = Scope(schema=(), outer=outer)
    offset: ir.Expression | None = None
    count: ir.Expression | None = None
    if message.offset:
        offset = yield from rows_skipped(decoder, message.offset, plan_path / "offset", counts)
    if message.count:
        count = yield from rows_wanted(decoder, message.count, plan_path / "count", counts)
    if not keys:
        decoder.problems.add(plan_path / "sorts", "MISSING", "a top-n must have at least one sort field")
    if message.mode not in (_ROWS_ONLY, _WITH_TIES):
        decoder.problems.add(plan_path / "mode", "MISSING", "the mode must be ROWS_ONLY or WITH_TIES")
    if below is poison.RELATION:
        return below
    return ir.TopN(
        input=below,
        keys=keys,
        offset=offset,
        count=count,
        ties=message.mode == _WITH_TIES,
        schema=below.schema,
        plan_path=str(plan_path),
    )
