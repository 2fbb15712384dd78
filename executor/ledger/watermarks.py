"""Watermarks of sources in an epoch, from what their splits say, and the watermark of a barrier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...operators.changes.event_time.window_closing import IDLE
from ...operators.core.operator import UNBOUNDED
from ..api.computation import Watermarks
from .barrier_wishes import NOTHING, Said
from .split_book import AcceptedSplit


def said_by(splits: Mapping[str, Sequence[AcceptedSplit]], ended: Iterable[str], barrier: Said = NOTHING) -> Watermarks:
    """The least watermark of each source's splits that say one, or the barrier's if that is later. A source that has
    ended, or is idle, holds no watermark back: what its last splits say does not matter any more.
    """
    watermarks: dict[str, int | None] = {}
    for name, some in splits.items():
        if some:
            said = [split.watermark for split in some if split.watermark is not None]
            watermarks[name] = min(*said, IDLE - 1) if said else watermarks.get(name)
    for name, word in barrier.items():
        so_far = watermarks.get(name)
        watermarks[name] = word if so_far is None else max(word, so_far)
    return watermarks | dict.fromkeys(ended, UNBOUNDED)


def barrier_watermark(watermark: int | None) -> int | None:
    """The watermark as a BARRIER has it: none if no source holds it back."""
    return None if watermark == UNBOUNDED else watermark
