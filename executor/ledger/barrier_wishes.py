"""The wishes of barriers: checkpoints, and the word about sources: their watermarks, and which of them are idle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ...operators.changes.event_time.window_closing import IDLE
from ...operators.core.operator import UNBOUNDED
from ...proto.errors import InvalidRequest, Refused
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The wishes of the barrier of one epoch: the name of its checkpoint, and its word about sources."""

    checkpoint: str | None = None
    said: Said = field(default_factory=dict)


NO_WISHES: Final = Wishes()


class BarrierWishes:
    """The wishes of the barriers of sealed epochs that are not acknowledged, and of the last acknowledged one: its
    request may come again, because its answer was lost. A ledger that starts behind an epoch is given its wishes.
    """

    def __init__(self, acknowledged: int, of_acknowledged: Wishes) -> None:
        self.checkpoints: dict[int, str] = {}
        """Of epochs that are not acknowledged."""
        self._said: dict[int, Said] = {}
        self._acknowledged = acknowledged
        self._of_acknowledged = of_acknowledged

    def note(self, epoch: int, checkpoint: str | None, said: Said) -> None:
        """Note the wishes of the barrier that seals this epoch."""
        if said:
            self._said[epoch] = said
        self.wish(epoch, checkpoint)

    def wish(self, epoch: int, checkpoint: str | None) -> None:
        """Note the wish for a checkpoint, which has a name made of the epoch if it has no other one."""
        if checkpoint is not None and epoch > self._acknowledged:
            self.checkpoints.setdefault(epoch, checkpoint or f"epoch-{epoch}")

    def checkpoint(self, epoch: int) -> str | None:
        """The name of the checkpoint that the barrier of this epoch takes."""
        return self._of_acknowledged.checkpoint if epoch == self._acknowledged else self.checkpoints.get(epoch)

    def said(self, epoch: int) -> Said:
        return self._of_acknowledged.said if epoch == self._acknowledged else self._said.get(epoch, NOTHING)

    def has_said(self, epoch: int, said: Said) -> bool:
        """True if the barrier of this epoch has said all this of sources."""
        before = self.said(epoch)
        return all(before.get(name) == word for name, word in said.items())

    def check_said(self, epoch: int, said: Said) -> None:
        if not self.has_said(epoch, said):
            raise Refused(
                f"epoch {epoch} is sealed, and its barrier named other watermarks or idle sources: name these with a "
                "later barrier",
                reason="SAID_TOO_LATE",
            )

    def forget(self, epoch: int) -> None:
        """Note that this epoch is acknowledged: the one behind the last that was."""
        self._acknowledged = epoch
        checkpoint, said = self.checkpoints.pop(epoch, None), self._said.pop(epoch, NOTHING)
        self._of_acknowledged = (
            NO_WISHES if checkpoint is None and not said else Wishes(checkpoint=checkpoint, said=said)
        )


def checkpoint_too_late(epoch: int) -> Refused:
    return Refused(
        f"the checkpoint cannot be taken at the barrier of epoch {epoch}: the epoch has reached its barrier, or takes "
        "a checkpoint of another name; request the checkpoint with a later barrier",
        reason="CHECKPOINT_TOO_LATE",
    )
