"""The progress of a loader, as its user sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

from ..proto.errors import TidegateError
from .batch import BEGINNING, Position
from .sources.training_splits import TrainingSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedSplit:
    """A split that could not be read, with `on_error="skip"`: it has no rows in its epoch.

    >>> tidegate.training.SkippedSplit(epoch=0, split="part-3.parquet", error="it is no Parquet file").split
    'part-3.parquet'
    """

    epoch: int
    split: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderStatistics:
    """A loader's counters since it was made. As text they are a line for a log.

    `seconds` counts from the first batch that was asked for, `waited_seconds` while the user waited for a batch.

    >>> print(tidegate.training.LoaderStatistics(batches=2, rows=2048, seconds=0.5, waited_seconds=0.01))
    epoch 0, batch 0: 2,048 rows, 4,096 rows/s, 2.0 % waiting
    """

    position: Position = BEGINNING
    batches: int = 0
    rows: int = 0
    seconds: float = 0.0
    waited_seconds: float = 0.0
    skipped: tuple[SkippedSplit, ...] = ()

    @property
    def rows_per_second(self) -> float:
        """Rows that were handed out, by the time since the first was asked for."""
        return self.rows / self.seconds if self.seconds else 0.0

    @property
    def waiting(self) -> float:
        """The part of the time that the user waited for batches, from 0 to 1."""
        return self.waited_seconds / self.seconds if self.seconds else 0.0

    @property
    def waited_a_batch(self) -> float:
        """The seconds that the user waited for a batch, on average."""
        return self.waited_seconds / self.batches if self.batches else 0.0

    def __str__(self) -> str:
        skipped = f", {len(self.skipped)} splits skipped" if self.skipped else ""
        return (
            f"epoch {self.position.epoch}, batch {self.position.batch}: {self.rows:,} rows, "
            f"{self.rows_per_second:,.0f} rows/s, {self.waiting:.1%} waiting{skipped}"
        ).replace("%", " %")


@dataclass(slots=True)
class Meter:
    """Counts what a loader does."""

    batches: int = 0
    rows: int = 0
    waited_seconds: float = 0.0
    started: float | None = None
    skipped: list[tuple[int, SkippedSplit]] = field(default_factory=list)

    def skip(self, epoch: int, window: int, split: TrainingSplit, error: TidegateError) -> None:
        """Count a split of a window. The windows come in any order, and the splits of each in theirs."""
        self.skipped.append((window, SkippedSplit(epoch=epoch, split=split.name, error=str(error))))

    def statistics(self, position: Position) -> LoaderStatistics:
        return LoaderStatistics(
            position=position,
            batches=self.batches,
            rows=self.rows,
            seconds=0.0 if self.started is None else perf_counter() - self.started,
            waited_seconds=self.waited_seconds,
            skipped=tuple(split for _, split in sorted(self.skipped, key=_place)),
        )


def _place(skipped: tuple[int, SkippedSplit]) -> tuple[int, int]:
    window, split = skipped
    return split.epoch, window
