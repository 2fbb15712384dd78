"""The word of a barrier about sources: their watermarks, and which of them are idle in its epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ...operators.changes.event_time.window_closing import IDLE
from ...operators.core.operator import UNBOUNDED
from ...proto.errors import InvalidRequest
from ...proto.values import Seal

Said: TypeAlias = Mapping[str, int]
"""For each source that a barrier speaks of, its watermark, or `IDLE`."""

NOTHING: Final[Said] = {}


def said_by_barrier(seal: Seal, name_of: Callable[[str], str]) -> Said:
    """The word of a barrier. `name_of` gives the source that a request means by a name."""
    said: dict[str, int] = {}
    for name, watermark in seal.watermarks.items():
        if watermark == UNBOUNDED:
            raise InvalidRequest(
                f"watermarks[{name!r}] is {UNBOUNDED}, which stands for a source that has ended: end it with "
                "no_more_splits"
            )
        said[name_of(name)] = min(watermark, IDLE - 1)
    for name in seal.idle:
        source = name_of(name)
        if said.get(source, IDLE) != IDLE:
            raise InvalidRequest(f"source {name!r} has a watermark and is idle: leave one of the two out")
        said[source] = IDLE
    return said
