"""The keys of a stretch of rows of two sorted inputs as one int64 each, in the order of the keys.

Equal keys have equal codes, on both sides. A single integer key is its own code; other keys get codes that have a
meaning within the stretch alone.
"""

from __future__ import annotations

from ..arrays.layout import Words
from ..arrays.stretches import Stretch, code_of


def codes(one: Stretch, two: Stretch) -> tuple[Words, Words]:
    if one.keys.code is not None and two.keys.code is not None:
        return one.keys.code[one.start : one.stop], two.keys.code[two.start : two.stop]
    together = code_of([one, two])
    return together[: len(one)], together[len(one) :]
