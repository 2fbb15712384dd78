"""Watermarks of sources in an epoch, from what their splits say, and the watermark of a barrier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...operators.core.operator import UNBOUNDED
from ..api.computation import Watermarks
from .split_book import AcceptedSplit


def said_by(splits: Mapping[str, Sequence[AcceptedSplit]], ended: Iterable[str]) -> Watermarks:
    """The least watermark of each source's splits that say one. A source that has ended holds no watermark back."""
    watermarks: dict[str, int | None] = dict.fromkeys(ended, UNBOUNDED)
    for name, some in splits.items():
        if some:
            said = [split.watermark for split in some if split.watermark is not None]
            watermarks[name] = min(said, default=watermarks.get(name))
    return watermarks


def barrier_watermark(watermark: int | None) -> int | None:
    """The watermark as a BARRIER has it: none if no source holds it back."""
    return None if watermark == UNBOUNDED else watermark
