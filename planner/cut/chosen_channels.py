"""The number of channels of an epoch, where the service chooses it: by the cores and the bytes of the epoch's input."""

from __future__ import annotations

from typing import Final

from ...proto.values import TaskOptions
from ..physical.pipelines import Shape

LEAST_BYTES: Final = 16 << 20
"""Input for which another channel pays, as long as a core is left for it."""
MOST_BYTES: Final = 256 << 20
"""Input of a channel, however few the cores: so much that its rows have room in its memory."""


def wanted_channels(options: TaskOptions, shape: Shape) -> int:
    """The channels that a task runs an epoch of this shape on, if they are worth it."""
    if not options.auto_cores:
        return options.channels
    size = sum(source.byte_class for source in shape.values())
    wanted = max(min(options.auto_cores, size // LEAST_BYTES), -(-size // MOST_BYTES))
    return max(1, min(options.channels, wanted))
