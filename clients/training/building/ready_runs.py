"""Batches that are ready for their user: those that end in one window."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ..batch import Batch, Position
from .batch_layout import Columns, Layout

Given: TypeAlias = tuple[Batch | None, Position]
"""A batch with the position after it; at the end of an epoch a position alone."""


class Ready(NamedTuple):
    """A batch with the position after it, and those of its columns that are not in it, in the user's form, yet."""

    columns: Columns
    batch: Batch
    after: Position


@dataclass(slots=True, eq=False)
class Run:
    """Batches that end in one window, and maybe the end of their epoch. Their columns are parts of few arrays. A batch
    leaves the run when it is given out: so its user frees each batch, and nobody waits while all are freed. `batches`
    is the number of all of them.

    Arrays that are delivered as they are get into their batches here, on the thread that builds ahead. Then all that
    the user waits for is to take a batch from `_filled`.
    """

    layout: Layout
    ready: Sequence[Ready]
    bytes: int
    end: Position | None
    batches: int = 0
    _filled: deque[Given | None] | None = None

    def __post_init__(self) -> None:
        self.batches = len(self.ready)
        names = self.layout.names_of_arrays()
        for columns, batch, after in self.ready:
            batch.after = after
            if names is not None:
                batch.update(zip(names, columns, strict=True))
        if names is not None:  # else the user would wait while the columns' parts are freed
            self._filled = deque((batch, after) for _, batch, after in self.ready)
            self._filled += [None] if self.end is None else [(None, self.end), None]
            self.ready = ()

    def has_any(self) -> bool:
        """True if it has a batch, or the end of an epoch."""
        return bool(self.batches) or self.end is not None

    def __iter__(self) -> Iterator[Given]:
        """The batches, each with the position after it. An epoch's end is a position without a batch."""
        left, self.ready = deque(self.ready), ()
        return self._converted(left) if self._filled is None else iter(self._filled.popleft, None)

    def _converted(self, left: deque[Ready]) -> Iterator[Given]:
        while left:
            ready = left.popleft()
            ready.batch.update(self.layout.delivered(ready.columns))
            yield ready.batch, ready.after
        if self.end is not None:
            yield None, self.end
