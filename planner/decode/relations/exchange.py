"""Decodes `ExchangeRel`: an exchange is decoded as its input, because the executor decides how rows are distributed."""

from __future__ import annotations

from ... import ir
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..scope import Scope


def convert_exchange(
    decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    return (yield from decoder.relation(message.input, plan_path / "input", outer))
