"""The phases of aggregate and window functions."""

from __future__ import annotations

from typing import Final

from .decoder import Decoder
from .encoding.message_nodes import Message
from .plan_path import PlanPath

_UNSPECIFIED: Final = 0
_INITIAL_TO_RESULT: Final = 3
_DISTINCT: Final = 2


def is_whole(decoder: Decoder, message: Message, plan_path: PlanPath) -> bool:
    """Tests whether a function goes from its input to its result; other phases are refused.

    Producers leave the phase out and mean a whole aggregation, though Substrait lets that imply intermediate input.
    """
    if message.phase in (_UNSPECIFIED, _INITIAL_TO_RESULT):
        return True
    decoder.problems.add(
        plan_path / "phase",
        "UNSUPPORTED_PHASE",
        "intermediate phases of aggregation are not supported; aggregate from the input to the result in one step",
    )
    return False


def is_distinct(decoder: Decoder, message: Message, plan_path: PlanPath) -> bool:
    """Tests whether only distinct arguments count. Without arguments there is nothing to be distinct."""
    distinct = bool(message.invocation == _DISTINCT)
    if distinct and not message.arguments and not getattr(message, "args", ()):
        decoder.problems.add(
            plan_path / "invocation", "UNSUPPORTED_FUNCTION", "a function without arguments cannot be DISTINCT"
        )
    return distinct
