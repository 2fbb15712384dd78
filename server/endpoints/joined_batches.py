"""Joins small batches before they travel: sending a batch costs the wire and its reader a fixed price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from ...operators.core.sizes import batch_bytes
from ...proto.values import Data, Frame

SMALL_BYTES: Final = 32_768


def joined(frames: Sequence[Frame]) -> list[Frame]:
    """The same rows, in one batch if the batches are small on average."""
    return [_joined(frame) if isinstance(frame, Data) else frame for frame in frames]


def _joined(data: Data) -> Data:
    count = len(data.batches)
    if count < 2 or sum(map(batch_bytes, data.batches)) >= count * SMALL_BYTES:
        return data
    return replace(data, batches=(pa.concat_batches(data.batches),))
