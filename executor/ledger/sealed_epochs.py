"""The epoch of every split that a source ever had, stored compactly: most sources get equally many splits per epoch."""

from __future__ import annotations

from array import array
from bisect import bisect_left


class SealedEpochs:
    """Runs of epochs that follow one another and have equally many splits each.

    A run takes three numbers. Epochs without a split of the source take nothing.
    """

    def __init__(self) -> None:
        self._epochs = array("q")
        self._lasts = array("q")
        self._firsts = array("q")

    def add(self, epoch: int, last: int) -> None:
        """Record an epoch: its splits are those behind the previous epoch, up to number `last`."""
        before = self._lasts[-1] if self._lasts else 0
        if last <= before:
            return
        if self._goes_on(epoch, last - before):
            self._epochs[-1], self._lasts[-1] = epoch, last
            return
        self._epochs.append(epoch)
        self._lasts.append(last)
        self._firsts.append(epoch)

    def _goes_on(self, epoch: int, splits: int) -> bool:
        """True if the epoch extends the last run: it is the run's next epoch, with as many splits."""
        return bool(self._lasts) and epoch == self._epochs[-1] + 1 and splits == self._step(len(self._lasts) - 1)

    def _step(self, run: int) -> int:
        """The number of splits in each epoch of a run."""
        before = self._lasts[run - 1] if run else 0
        return (self._lasts[run] - before) // (self._epochs[run] - self._firsts[run] + 1)

    def of(self, number: int) -> int:
        """The epoch of a sealed split. A split from before the task's start has the start's epoch."""
        run = bisect_left(self._lasts, number)
        before = self._lasts[run - 1] if run else 0
        return self._firsts[run] + (number - before - 1) // self._step(run)
