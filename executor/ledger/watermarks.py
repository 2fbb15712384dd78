"""Watermarks that splits say: what each source says in an epoch, and what a barrier tells of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...operators.core.operator import UNBOUNDED
from ..api.computation import Watermarks
from .split_book import AcceptedSplit


def said_by(splits: Mapping[str, Sequence[AcceptedSplit]], ended: Iterable[str]) -> Watermarks:
    """The least of each source's splits that say one. A source that has ended holds nobody back."""
    found: dict[str, int | None] = dict.fromkeys(ended, UNBOUNDED)
    for name, some in splits.items():
        if some:
            said = [split.watermark for split in some if split.watermark is not None]
            found[name] = min(said, default=found.get(name))
    return found


def barrier_watermark(watermark: int | None) -> int | None:
    """As a BARRIER has it: where nobody is held back there is nothing to tell."""
    return None if watermark == UNBOUNDED else watermark
