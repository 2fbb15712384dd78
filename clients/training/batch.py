"""A batch of training data, and the position after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A position in the order of a loader: batch `batch` of epoch `epoch` is next, and all numbers begin with 0.

    The batch begins at row `row` of window `window`. With shards both are 0, since each shard has windows of its own.

    >>> tidegate.training.Position()
    Position(epoch=0, batch=0, window=0, row=0)
    """

    epoch: int = 0
    batch: int = 0
    window: int = 0
    row: int = 0


BEGINNING: Final = Position()


class Batch(dict[str, Any]):
    """The columns of a batch by name: this rank's share of global batch `number` of `epoch`.

    The last `padding` rows repeat others, only with `pad=True`. `after` is the position after the batch. `source` is
    the name of its loader in a mixture.

    >>> batch = tidegate.training.Batch({"n": [1, 2]}, epoch=0, number=3, rows=2)
    >>> batch["n"], batch.number
    ([1, 2], 3)
    """

    epoch: int
    number: int
    rows: int
    padding: int
    after: Position = BEGINNING
    source: str = ""

    def __init__(
        self,
        columns: Mapping[str, Any] | None = None,
        *,
        epoch: int = 0,
        number: int = 0,
        rows: int = 0,
        padding: int = 0,
    ) -> None:
        if columns is not None:
            super().__init__(columns)
        self.epoch = epoch
        self.number = number
        self.rows = rows
        self.padding = padding
